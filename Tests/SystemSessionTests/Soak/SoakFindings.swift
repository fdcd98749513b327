import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// What the parts of a soak saw: counts of what happened, and each kind of fault a few times.
///
/// Its answers are the measure of all pauses and of a storm's length: a slow machine gets the same mix of troubles and requests.
final class SoakFindings: Sendable {
    private struct State {
        var counts: [String: Int] = [:]
        var answers = 0
        var faults: [String] = []
    }

    /// More of them say nothing new.
    private static let faultsMax = 40

    private let state = Guarded(State())

    func count(_ what: String) { state.withLock { $0.counts[what, default: 0] += 1 } }

    /// The same for the end of a client's request or of a health probe, whatever it is.
    func countAnswer(_ what: String) {
        state.withLock {
            $0.counts[what, default: 0] += 1
            $0.answers += 1
        }
    }

    /// How many requests and probes have ended. It never stops: the probe gets responses whatever happens to clients.
    var answers: Int { state.withLock { $0.answers } }

    /// Returns when so many more requests and probes have ended.
    func pass(_ count: Int) async throws {
        let end = answers + count
        try await eventually("\(count) more answers") { answers >= end }
    }

    /// The same for a client's thread.
    ///
    /// - Parameter isStopped: ends it early.
    func passBlocking(_ count: Int, unless isStopped: () -> Bool = { false }) throws {
        let end = answers + count
        try blockUntil("\(count) more answers") { answers >= end || isStopped() }
    }

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
