import LanyardFoundations

@testable import SystemTestSupport

/// What the parts of a soak saw: counts of what happened, and each kind of fault a few times.
final class SoakFindings: Sendable {
    private struct State {
        var counts: [String: Int] = [:]
        var faults: [String] = []
    }

    /// More of them say nothing new.
    private static let faultsMax = 40

    private let state = Guarded(State())

    func count(_ what: String) { state.withLock { $0.counts[what, default: 0] += 1 } }

    func fault(_ words: String) {
        state.withLock { if $0.faults.count < Self.faultsMax { $0.faults.append(words) } }
    }

    /// How often something was counted.
    func number(of what: String) -> Int { state.withLock { $0.counts[what] ?? 0 } }

    var faults: [String] { state.withLock { $0.faults } }

    /// All counts on one line, by name.
    var summary: String {
        state.withLock { $0.counts }.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
    }
}
