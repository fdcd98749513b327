import LanyardFoundations
import LanyardSessionInterface

/// A run of failures of a session's calls, and the instant of the next attempt.
package struct RetryState: Sendable {
    /// An attempt, or the rest before the next one.
    package enum Phase: Equatable, Sendable {
        case calling(SessionCall)
        /// Until the next attempt.
        case resting(until: Instant)
    }

    /// An attempt, or the rest before the next one.
    package var phase: Phase
    /// The failures since the last success.
    package var failures = 0
    /// The latest error; nil before the first.
    package var error: IdentityError?
    /// The service's own limit (Retry-After, 410): requests do not bring the next attempt before it.
    package var notBefore = Instant.past
    /// A request has wanted a token since the latest attempt began: the back-off is at most 10 s.
    package var hasTokenRequest = false

    /// The logins since the last success whose response could not be used and made a session at the service.
    private var unusableLogins = 0
    /// Since when the credential has been in doubt; a success clears it.
    private var doubtedSince: Instant?

    /// After this time, a second doubtful refusal counts as a refusal.
    private static let doubtConfirmationDelay = Duration.seconds(30)
    /// The shortest delay, whatever the random value: attempts never spin.
    private static let delayMin = Duration.milliseconds(250)
    /// While requests come, the whole jitter lies within 10 s.
    private static let backoffWhileRequested = Backoff(first: .seconds(10), max: .seconds(10), min: delayMin)
    /// Each further login may create another session or account at the service: 15 to 30 s, doubling up to 5 minutes.
    /// Requests do not shorten it. Failures of another kind made nothing there and do not lengthen it.
    private static let backoffAfterUnusableLogin = Backoff(first: .seconds(30), max: .seconds(300), fixedShare: 0.5)

    private static func backoff(max delayMax: Duration) -> Backoff {
        Backoff(first: .seconds(1), max: delayMax, min: delayMin)
    }

    /// - Parameter notBefore: the service's earlier limit. An operator's login or a changed credential need not wait;
    ///   the attempts that follow do.
    package init(calling call: SessionCall, notBefore: Instant = .past) {
        phase = .calling(call)
        self.notBefore = notBefore
    }

    /// The service has asked, by `error`, not to be called before that instant, in any session.
    init(restingUntil instant: Instant, because error: IdentityError?) {
        phase = .resting(until: instant)
        failures = 1
        unusableLogins = error?.hasMadeSession == true ? 1 : 0
        notBefore = instant
        self.error = error
    }

    /// The attempt under way.
    package var call: SessionCall? {
        guard case .calling(let call) = phase else { return nil }
        return call
    }

    /// When the next attempt is made; nil while one is under way.
    package var nextAttemptAt: Instant? {
        guard case .resting(let until) = phase else { return nil }
        return until
    }

    func isDue(at now: Instant) -> Bool { nextAttemptAt.map { $0 <= now } ?? false }

    /// Whether a call may be made now: none is in flight, and the service's limit has passed.
    func mayRetryEarly(at now: Instant) -> Bool { call == nil && notBefore <= now }

    var reason: SessionReason { error?.verdict == .gone ? .identityGone : .identityUnreachable }

    /// The credential was doubted before, long enough ago.
    func confirmsDoubt(at now: Instant) -> Bool {
        doubtedSince.map { now - $0 >= Self.doubtConfirmationDelay } ?? false
    }

    /// Continues with another attempt.
    func calling(_ call: SessionCall) -> RetryState {
        var next = self
        next.phase = .calling(call)
        next.hasTokenRequest = false
        return next
    }

    /// The call has failed: full jitter over a doubling back-off (refresh.md 3, 4, 9, 12; architecture.md 5.3 for
    /// Retry-After and 410).
    ///
    /// - Parameter tokens: the tokens at hand; nil at a first login.
    func failed(_ error: IdentityError, holding tokens: SessionTokens?, at eventContext: EventContext) -> RetryState {
        var next = self
        let now = eventContext.instant
        next.failures += 1
        if error.verdict == .credentialDoubted, doubtedSince == nil { next.doubtedSince = now }
        next.error = error
        let isRelogin = call?.kind == .login && tokens != nil
        let advisoryEnd = tokens?.mandatoryFrom ?? .past
        // The service's limit outlives failures that do not mention one.
        next.notBefore = allowed(notBefore, advisoryEnd: advisoryEnd, now)
        let delayMax = Duration.seconds(isRelogin ? 300 : now < advisoryEnd ? 60 : 30)
        var delay = Self.backoff(max: delayMax).delay(after: next.failures, chance: eventContext.chance)
        if !isRelogin, now < advisoryEnd, now + delay > advisoryEnd { delay = min(delay, .seconds(30)) }
        switch error.verdict {
        case .gone:
            // Some spread keeps processes that saw the 410 together from asking together.
            delay = .seconds(300) * (0.95 + 0.1 * eventContext.chance)
            next.notBefore = now + delay
        case .unknownOutcome:
            // The service may still be processing the first request.
            next.notBefore = max(next.notBefore, now + .seconds(2))
        case .transient(let retryAfter?):
            next.notBefore = allowed(now + retryAfter, advisoryEnd: advisoryEnd, now)
        default: break
        }
        if error.hasMadeSession {
            next.unusableLogins += 1
            delay = Self.backoffAfterUnusableLogin.delay(after: next.unusableLogins, chance: eventContext.chance)
            next.notBefore = max(next.notBefore, now + delay)
        }
        if hasTokenRequest, tokens?.isUsable(at: now) != true, error.verdict != .gone {
            delay = min(delay, Self.backoffWhileRequested.delay(after: 1, chance: eventContext.chance))
        }
        next.phase = .resting(until: max(now + delay, next.notBefore))
        return next
    }

    /// Retry-After is honoured up to the mandatory zone, then for at most 30 s (architecture.md 5.3).
    private func allowed(_ instant: Instant, advisoryEnd: Instant, _ now: Instant) -> Instant {
        instant <= now ? .past : min(instant, now < advisoryEnd ? advisoryEnd : now + .seconds(30))
    }

    /// A request wants a token and there is none. Returns whether the next attempt has moved.
    mutating func requestToken(at eventContext: EventContext) -> Bool {
        hasTokenRequest = true
        guard case .resting(let until) = phase, until > eventContext.instant + .seconds(10) else { return false }
        let delay = Self.backoffWhileRequested.delay(after: 1, chance: eventContext.chance)
        let sooner = max(notBefore, eventContext.instant + delay)
        guard sooner < until else { return false }
        phase = .resting(until: sooner)
        return true
    }

    /// The next attempt is a login whose credential could not be read in time.
    var waitsForCredential: Bool { call == nil && error?.verdict == .credentialDelayed }

    /// The credential can be read again: the next attempt waits only for the service's limit.
    mutating func retryWithReadableCredential(at now: Instant) {
        guard case .resting(let until) = phase else { return }
        phase = .resting(until: min(until, max(now, notBefore)))
    }

    /// The clock jumped or the machine was suspended: what failed before may work now.
    ///
    /// - Parameter tokens: the tokens at hand, with the end that the clocks give them now.
    mutating func retryEarly(to instant: Instant, holding tokens: SessionTokens?, at now: Instant) {
        if error?.verdict != .gone {
            notBefore = allowed(notBefore, advisoryEnd: tokens?.mandatoryFrom ?? .past, now)
        }
        guard case .resting(let until) = phase else { return }
        phase = .resting(until: min(until, max(instant, notBefore)))
    }
}
