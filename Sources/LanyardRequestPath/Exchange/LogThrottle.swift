import LanyardFoundations
import Synchronization

/// Decides which refusals are logged: a flood of errors leaves a sample and a count (http-rules.md 20.5). Belongs to one queue.
package struct RefusalLogThrottle {
    /// Lines in a second, of one shard.
    package static let linesPerSecondMax = 1000

    private let linesMax: Int
    private let interval: Duration
    private var logged = 0
    private var leftOut = 0
    /// Further lines are logged from then on.
    package private(set) var end = Instant.past

    package init(linesMax: Int = linesPerSecondMax, interval: Duration = .seconds(1)) {
        self.linesMax = linesMax
        self.interval = interval
    }

    /// - Returns: how many lines were left out since the last logged one; nil if this one is left out, too.
    package mutating func admitLine(at now: Instant) -> Int? {
        if now >= end { (end, logged) = (now + interval, 0) }
        guard logged < linesMax else {
            leftOut += 1
            return nil
        }
        logged += 1
        return takeSuppressedCount()
    }

    /// Returns how many lines were left out since the last report and resets the count.
    package mutating func takeSuppressedCount() -> Int {
        defer { leftOut = 0 }
        return leftOut
    }
}

/// At most one log line in an interval; the others are counted. From any thread.
package final class LogThrottle: Sendable {
    private let interval: Duration
    private let quietUntil = Atomic<Int64>(.min)
    private let leftOut = Atomic<Int>(0)

    package init(_ interval: Duration) { self.interval = interval }

    /// - Returns: how many lines were left out since the last one; nil if this one is left out, too.
    package func take(at now: Instant) -> Int? {
        let end = quietUntil.load(ordering: .relaxed)
        let next = (now + interval).nanoseconds
        guard now.nanoseconds >= end,
            quietUntil.compareExchange(expected: end, desired: next, ordering: .relaxed).exchanged
        else {
            leftOut.add(1, ordering: .relaxed)
            return nil
        }
        return leftOut.exchange(0, ordering: .relaxed)
    }
}
