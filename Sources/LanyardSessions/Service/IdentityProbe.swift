import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// When one of the sessions of an identity asks whether its service is back, while requests want tokens (refresh.md 4).
///
/// It does no I/O: time and chance are arguments. There is one for each identity, from a failed call to the next successful one. A probe is
/// an ordinary attempt of a session, which its own back-off would have made later.
struct IdentityProbe: Sendable {
    /// No probe is made before.
    private(set) var nextAt = Instant.past
    /// A session may want one.
    var isArmed = false

    /// An attempt of any session has failed: the next one at the identity comes a second later, or after the time that the service has
    /// asked for.
    mutating func recordFailure(_ error: IdentityError, by policy: ClockPolicy, at eventContext: EventContext) {
        var delay = policy.probeDelay(chance: eventContext.chance)
        if let pause = error.pause { delay = max(delay, min(pause, policy.retryAfterMax)) }
        nextAt = max(nextAt, eventContext.instant + delay)
    }

    /// The session that asks now; nil: none.
    ///
    /// - Parameters:
    ///   - count: the sessions that want to.
    ///   - inFlight: the attempts at the identity in progress.
    /// - Returns: one of `0 ..< count`, at random.
    mutating func next(of count: Int, inFlight: Int, by policy: ClockPolicy, at eventContext: EventContext) -> Int? {
        guard isArmed, nextAt <= eventContext.instant else { return nil }
        guard count > 0 else {
            isArmed = false
            return nil
        }
        nextAt = eventContext.instant + policy.probeDelay(chance: eventContext.chance)
        guard inFlight < policy.probesInFlightMax else { return nil }
        return Int(eventContext.name % UInt64(count))
    }

    /// When the session at a place makes its attempt, since the service is back.
    static func releaseDelay(_ place: Int, by policy: ClockPolicy, at eventContext: EventContext) -> Duration {
        policy.releaseInterval * (Double(place) + eventContext.chance)
    }
}
