import Synchronization

/// At most one log line in an interval; the others are counted. From any thread.
final class LogThrottle: Sendable {
    private let interval: Duration
    private let quietUntil = Atomic<Int64>(.min)
    private let leftOut = Atomic<Int>(0)

    init(_ interval: Duration) { self.interval = interval }

    /// - Returns: how many lines were left out since the last one; nil if this one is left out, too.
    func take(at now: Instant) -> Int? {
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
