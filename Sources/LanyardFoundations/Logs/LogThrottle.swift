import Synchronization

/// Limits log lines: so many in an interval, and the others are counted. An interval begins with its first line. Belongs to one
/// queue, which its owner checks.
///
/// `SharedLogThrottle` does the same for several queues.
package struct LogThrottle {
    private let linesMax: Int
    private let interval: Duration
    private var logged = 0
    private var suppressed = 0
    /// The end of the interval: further lines are admitted from then on.
    package private(set) var end = Instant.past

    package init(linesMax: Int, per interval: Duration) {
        self.linesMax = linesMax
        self.interval = interval
    }

    /// - Returns: how many lines were left out since the last report; nil if this one is left out, too.
    package mutating func admitLine(at now: Instant) -> Int? {
        if now >= end { (end, logged) = (now + interval, 0) }
        guard logged < linesMax else {
            suppressed += 1
            return nil
        }
        logged += 1
        return takeSuppressedCount()
    }

    /// Whether lines were left out since the last report.
    package var hasSuppressedLines: Bool { suppressed > 0 }

    /// Returns how many lines were left out since the last report and resets the count.
    package mutating func takeSuppressedCount() -> Int {
        defer { suppressed = 0 }
        return suppressed
    }
}

/// Limits log lines as `LogThrottle` does. From any thread, without a lock.
package final class SharedLogThrottle: Sendable {
    private let linesMax: UInt64
    /// Milliseconds.
    private let interval: UInt64
    /// The start of the interval in milliseconds. The last 16 bits are the lines in it.
    private let window = Atomic<UInt64>(0)
    private let suppressed = Atomic<Int>(0)

    /// - Parameters:
    ///   - linesMax: fewer than 65,536.
    ///   - interval: whole milliseconds.
    package init(linesMax: Int, per interval: Duration) {
        self.linesMax = UInt64(linesMax)
        self.interval = UInt64(interval / .milliseconds(1))
    }

    /// The end of the interval: further lines are admitted from then on.
    package var end: Instant {
        Instant(nanoseconds: Int64((window.load(ordering: .relaxed) >> 16 + interval) * 1_000_000))
    }

    /// - Returns: how many lines were left out since the last report; nil if this one is left out, too.
    package func admitLine(at now: Instant) -> Int? {
        let present = UInt64(now.nanoseconds / 1_000_000)
        var seen = window.load(ordering: .relaxed)
        while true {
            let isSame = present < seen >> 16 + interval
            guard !isSame || seen & 0xffff < linesMax else {
                suppressed.add(1, ordering: .relaxed)
                return nil
            }
            let next = isSame ? seen + 1 : present << 16 | 1
            let exchange = window.compareExchange(expected: seen, desired: next, ordering: .relaxed)
            if exchange.exchanged { return takeSuppressedCount() }
            seen = exchange.original
        }
    }

    /// Returns how many lines were left out since the last report and resets the count.
    @discardableResult
    package func takeSuppressedCount() -> Int { suppressed.exchange(0, ordering: .relaxed) }
}

/// Throttles by name: a flood of one kind of line does not keep out lines of another kind.
package struct LogThrottles: Sendable {
    private let throttles: [String: SharedLogThrottle]
    /// Of all other names.
    private let others: SharedLogThrottle

    package init(of names: [String], linesMax: Int, per interval: Duration) {
        throttles = Dictionary(
            uniqueKeysWithValues: names.map { ($0, SharedLogThrottle(linesMax: linesMax, per: interval)) })
        others = SharedLogThrottle(linesMax: linesMax, per: interval)
    }

    package subscript(name: String) -> SharedLogThrottle { throttles[name] ?? others }
}
