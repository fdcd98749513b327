import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// When a session calls its identity service, as one value: each limit once (refresh.md 3, 4, 5, refresh-outcomes.md 9, 12;
/// architecture-control.md 5.3). Instants that were computed by it stay when a reload changes it. What is configured is stored; all else is
/// fixed.
package struct ClockPolicy: Sendable {
    /// The shortest time between two forced refreshes: `refresh.cooldown`.
    package let cooldown: Duration
    /// The forced refreshes in `budgetPeriod`: `refresh.per_hour_max`.
    package let forcedRefreshesMax: Int
    /// The period of the budget of forced refreshes.
    package var budgetPeriod: Duration { .seconds(3600) }
    /// How long a service's Retry-After is honoured without a token that serves.
    package var retryAfterMax: Duration { .seconds(30) }
    /// The wait after a 410, before its spread.
    package var gonePause: Duration { .seconds(300) }
    /// The part of `gonePause` over which processes that saw one 410 are spread, so that they do not ask together.
    package var gonePauseSpread: Double { 0.1 }
    /// From a call whose response was lost to its repetition: the service may still be processing the first request.
    package var unknownOutcomePause: Duration { .seconds(2) }
    /// After this time, a second doubtful refusal of a credential counts as a refusal.
    package var doubtConfirmationDelay: Duration { .seconds(30) }
    /// The longest back-off of a session that asks for no other one, while requests want a token and there is none.
    package var requestedBackoffMax: Duration { .seconds(10) }
    /// While requests want tokens and there is none: from one attempt at an identity to the next, before its jitter.
    var probeInterval: Duration { .seconds(1) }
    /// Of `probeInterval`, so that processes do not ask together.
    private var probeJitter: Double { 0.5 }
    /// The most attempts at an identity that are in progress when another session is to ask, too.
    var probesInFlightMax: Int { 4 }
    /// Between the attempts of two sessions whose service is back.
    var releaseInterval: Duration { .milliseconds(20) }

    /// From one attempt at an identity to the next.
    func probeDelay(chance: Double) -> Duration { probeInterval * (1 - probeJitter / 2 + probeJitter * chance) }
    /// From one second call of an attempt to the next, which takes its place (refresh.md 17): a service that is slow responds in that time.
    /// The first call, which nothing cuts short, is there for one that is slower still.
    ///
    /// - Parameters:
    ///   - delay: `refresh.second_call_after`.
    ///   - responseTime: of recent calls.
    func secondCallInterval(delay: Duration, responseTime: Duration) -> Duration {
        max(delay, .seconds(5), min(responseTime * 4, attemptTimeout / 2))
    }
    /// How long another process may have the user's lock before that counts as a transient failure. It is longer than a
    /// call.
    package var lockTimeout: Duration { max(.seconds(35), attemptTimeout + .seconds(5)) }
    /// The time of a call with all its steps: `refresh.attempt_timeout`.
    package let attemptTimeout: Duration
    /// After a jump of the clocks, what is due by the earlier end happens within this time.
    package var clockJumpSpread: Duration { .seconds(5) }
    /// The part of a lifetime over which the renewals of a restarted fleet are spread (refresh.md 15).
    package var restartSpread: Double { 0.1 }

    /// How soon unsaved changes are tried again that a call or a write in progress has kept from it.
    var unsavedRetryDelay: Duration { .seconds(1) }
    /// A clock that differs from the service's by more is reported (refresh.md 13).
    var reportedSkew: Duration { .seconds(30) }
    /// A larger difference from the skew that was known is no noise of whole seconds and of scheduling.
    var skewNoise: Duration { .seconds(5) }
    /// A refresh token that moves its end and lives less than this is renewed at the end of its access token.
    var movedEndMin: Duration { .seconds(60) }
    /// Between the attempts to store what the store did not take. The random half makes the users of a full disk retry at
    /// different times.
    var unsavedBackoff: Backoff { Backoff(first: .seconds(1), max: .seconds(30), fixedShare: 0.5) }
    /// Of the service's clock: at least the first, at most the second.
    private var allowance: (min: Duration, max: Duration) { (.seconds(5), .seconds(120)) }

    /// The longest back-off of a session's calls.
    private var backoffMax: (advisory: Duration, mandatory: Duration, login: Duration) {
        (.seconds(60), .seconds(30), .seconds(300))
    }
    /// The shortest delay, whatever the random value: attempts never spin.
    private var backoffMin: Duration { .milliseconds(250) }

    package init(_ settings: RefreshSettings) {
        cooldown = settings.cooldown
        forcedRefreshesMax = settings.perHourMax
        attemptTimeout = settings.attemptTimeout ?? .seconds(30)
    }

    /// The back-off after failures.
    ///
    /// - Parameters:
    ///   - isRelogin: a login renews a session.
    ///   - isAdvisory: a token serves, and its mandatory zone has not begun.
    func backoff(isRelogin: Bool, isAdvisory: Bool) -> Backoff {
        let longest = isRelogin ? backoffMax.login : isAdvisory ? backoffMax.advisory : backoffMax.mandatory
        return Backoff(first: .seconds(1), max: longest, min: backoffMin)
    }

    /// What is subtracted from an end that the service has set: min(max(5 s, |skew|), 120 s, lifetime / 10)
    /// (architecture-control.md 5.4).
    ///
    /// - Parameter lifetime: nil: what ends lives much longer than the allowance.
    func allowance(lifetime: Duration?, skew: Duration) -> Duration {
        let wanted = min(max(allowance.min, skew < .zero ? .zero - skew : skew), allowance.max)
        return lifetime.map { min(wanted, $0 / 10) } ?? wanted
    }

    /// The longest delay of a back-off that would end in the mandatory zone.
    var mandatoryBackoffMax: Duration { backoffMax.mandatory }

    /// While requests come, the whole jitter lies within `requestedBackoffMax`.
    var requestedBackoff: Backoff { Backoff(first: requestedBackoffMax, max: requestedBackoffMax, min: backoffMin) }

    /// Each further login may create another session or account at the service: 15 to 30 s, doubling up to 5 minutes.
    /// Requests do not shorten it. Failures of another kind made nothing there and do not lengthen it.
    var unusableLoginBackoff: Backoff { Backoff(first: .seconds(30), max: backoffMax.login, fixedShare: 0.5) }

    /// How long after a login that was refused for its client the next one is made, by the number of those that were (refresh-outcomes.md
    /// 12). nil: none is made any more.
    func clientRetryDelay(after count: Int) -> Duration? {
        let delays: [Duration] = [.seconds(10), .seconds(60), .seconds(300), .seconds(900)]
        return count > 0 && count <= delays.count ? delays[count - 1] : nil
    }

    /// How long after a renewal that was refused for its client, or for what it asks, the next one is made: a service may learn a new
    /// secret late, and is not asked often by one that it never learns.
    func clientRefusalPause(after count: Int, chance: Double) -> Duration {
        count < 3 ? clientRetryDelay(after: count) ?? .zero : gonePause(chance: chance)
    }

    /// How long to wait for the next one; nil: none is made any more. A wall clock that was set back has lost the time that has passed.
    func clientRetryWait(after tries: ClientTries, at wall: WallTime) -> Duration? {
        clientRetryDelay(after: tries.count).map { delay in
            wall < tries.at ? delay : max(delay - (wall - tries.at), .zero)
        }
    }

    /// From one login to the next, if the session of the first has ended without a refresh: 1 to 2 s, doubling up to 5 minutes. A service
    /// that grants each login and refuses each refresh would otherwise have sessions begun and ended without an end.
    var reloginBackoff: Backoff { Backoff(first: .seconds(2), max: backoffMax.login, fixedShare: 0.5) }

    /// The wait after a 410.
    func gonePause(chance: Double) -> Duration {
        gonePause * (1 - gonePauseSpread / 2 + gonePauseSpread * chance)
    }

    /// The service's limit as it is honoured: up to the mandatory zone, then for at most `retryAfterMax`.
    func honoured(_ limit: Instant, advisoryEnd: Instant, at now: Instant) -> Instant {
        limit <= now ? .past : min(limit, now < advisoryEnd ? advisoryEnd : now + retryAfterMax)
    }
}

extension ClockPolicy {
    /// When a service is told again of a session that has ended (architecture-control.md 5.8). No request waits for that.
    enum Revocations {
        /// How long the call is repeated, from the end of the session.
        static let period = Duration.seconds(86_400)
        /// How long a service's Retry-After is honoured.
        static let retryAfterMax = Duration.seconds(300)
        /// Between two calls.
        static let backoff = Backoff(first: .seconds(1), max: .seconds(300), min: .seconds(1), fixedShare: 0.5)
    }
}

/// How long the service has asked not to be called (Retry-After, 410). It outlives `RetryState`, because a session that is
/// taken over from another process comes from the same service.
struct ServiceLimit: Sendable {
    /// The service must not be called before; `.past`: it may.
    private(set) var notBefore = Instant.past
    /// The error that has set it.
    private(set) var error: IdentityError?

    /// An attempt has failed. The service's latest request applies. A failure without one clears only a 410, because the
    /// attempt may have been an operator's, or one that could not wait.
    mutating func record(_ instant: Instant, _ error: IdentityError) {
        let isNews =
            switch error.verdict {
            case .gone: true
            case .transient, .unknownOutcome, .sessionDead, .credentialRefused, .credentialDoubted, .unknownApp,
                .credentialUnavailable, .credentialDelayed, .accountInUse, .clientRefused, .callRefused:
                error.pause != nil || self.error?.verdict == .gone || instant > notBefore
            }
        guard isNews else { return }
        self.error = error
        notBefore = instant
    }

    /// How long a session without a usable token waits; nil: not at all. A 410 is honoured in full.
    func until(by policy: ClockPolicy, at now: Instant) -> Instant? {
        guard notBefore > now else { return nil }
        return error?.verdict == .gone ? notBefore : policy.honoured(notBefore, advisoryEnd: .past, at: now)
    }
}

/// The forced refreshes of the last `ClockPolicy.budgetPeriod`.
struct ForcedRefreshes: Sendable {
    /// When they began, oldest first.
    private var begun: [Instant] = []

    mutating func begin(at now: Instant) { begun.append(now) }

    /// The limit that forbids another one, cooldown or hourly budget (refresh.md 5); nil if none does.
    mutating func denial(by policy: ClockPolicy, at now: Instant) -> SessionLogEvent.Denial? {
        begun = recent(policy, now)
        if let last = begun.last, now - last < policy.cooldown { return .cooldown }
        return begun.count >= policy.forcedRefreshesMax ? .budget : nil
    }

    /// When cooldown and hourly budget allow another one; `.past`: now.
    func allowedAt(by policy: ClockPolicy, at now: Instant) -> Instant {
        let recent = recent(policy, now)
        guard let last = recent.last else { return .past }
        let used = recent.count - policy.forcedRefreshesMax
        let from = max(last + policy.cooldown, used >= 0 ? recent[used] + policy.budgetPeriod : .past)
        return from <= now ? .past : from
    }

    private func recent(_ policy: ClockPolicy, _ now: Instant) -> [Instant] {
        begun.filter { now - $0 < policy.budgetPeriod }
    }
}
