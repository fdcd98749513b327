import LanyardFoundations
import Synchronization

/// The latest lines of the log in memory, as long as an operator follows it.
///
/// The thread that writes the log copies them. While no operator follows it costs one relaxed load for each piece that is written.
package final class LogTap: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var followedUntil = Instant.past
    }

    /// Bytes that are kept.
    private static let bytesMax = 256 << 10
    /// An operator who has not asked for this long follows no more.
    private static let patience = Duration.seconds(30)

    private let isFollowed = Atomic<Bool>(false)
    private let state = Guarded(State())

    package init() {}

    /// Whole lines that are written.
    func append(_ lines: UnsafeRawBufferPointer) {
        guard isFollowed.load(ordering: .relaxed) else { return }
        nonisolated(unsafe) let lines = lines
        state.withLock { state in
            guard Instant.now < state.followedUntil else {
                state = State()
                return isFollowed.store(false, ordering: .relaxed)
            }
            state.bytes.append(contentsOf: lines.suffix(Self.bytesMax))
            guard state.bytes.count > Self.bytesMax else { return }
            // Not at each line: half of them goes.
            let cut = state.bytes[(state.bytes.count - Self.bytesMax / 2)...].firstIndex(of: UInt8(ascii: "\n"))
            state.bytes.removeFirst((cut ?? state.bytes.endIndex - 1) + 1)
        }
    }

    /// The latest lines that name the route, without their ends, the oldest first. They are collected from the first call on, for 30 s
    /// after each.
    ///
    /// - Parameter route: a valid name: letters, digits, `.`, `_`, `-`.
    package func lines(ofRoute route: String, countMax: Int = 100) -> [String] {
        let bytes = state.withLock { state in
            state.followedUntil = .now + Self.patience
            isFollowed.store(true, ordering: .relaxed)
            return state.bytes
        }
        let (json, text) = ("\"route\":\"\(route)\"", " route=\(route)")
        let lines = bytes.split(separator: UInt8(ascii: "\n")).lazy.map { String(decoding: $0, as: UTF8.self) }
        return lines.filter { $0.contains(json) || $0.contains(text + " ") || $0.hasSuffix(text) }.suffix(countMax)
    }
}
