import LanyardFoundations
import Synchronization

/// Stops forced refreshes for one route after its upstream has refused a fresh token (http-forwarding.md 17.4). Shared by
/// all shards.
package final class RouteBreaker: Sendable {
    /// How long the breaker stays open.
    package static let openInterval = Duration.seconds(30)

    private let end = Atomic<Int64>(0)

    package init() {}

    package func isOpen(at now: Instant) -> Bool { now.nanoseconds < end.load(ordering: .relaxed) }

    /// When it was opened last; nil: never.
    package var latestOpening: Instant? {
        let end = end.load(ordering: .relaxed)
        return end == 0 ? nil : Instant(nanoseconds: end) - Self.openInterval
    }

    /// A fresh token was refused. False if the breaker was already open; then its time is not prolonged.
    package func trip(at now: Instant) -> Bool {
        let known = end.load(ordering: .relaxed)
        guard now.nanoseconds >= known else { return false }
        let until = (now + Self.openInterval).nanoseconds
        return end.compareExchange(expected: known, desired: until, ordering: .relaxed).exchanged
    }
}
