import Synchronization

/// Stops refreshing for one route after its upstream has refused a fresh token, too (http-rules.md 17.4). Shared by all shards.
package final class RouteBreaker: Sendable {
    /// How long a trip lasts.
    package static let openInterval = Duration.seconds(30)

    private let end = Atomic<Int64>(0)

    package init() {}

    package func isOpen(at now: Instant) -> Bool { now.nanoseconds < end.load(ordering: .relaxed) }

    /// A fresh token was refused. False if the breaker was open already: what it holds back does not prolong it.
    package func trip(at now: Instant) -> Bool {
        let known = end.load(ordering: .relaxed)
        guard now.nanoseconds >= known else { return false }
        let until = (now + Self.openInterval).nanoseconds
        return end.compareExchange(expected: known, desired: until, ordering: .relaxed).exchanged
    }
}
