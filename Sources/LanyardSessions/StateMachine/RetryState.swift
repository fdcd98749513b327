import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// A run of failures of a session's calls, and the instant of the next attempt.
package struct RetryState: Sendable {
    /// An attempt, or the wait before the next one.
    package enum Phase: Equatable, Sendable {
        case calling(SessionCall)
        /// Until the next attempt.
        case waiting(until: Instant)
    }

    /// An attempt, or the wait before the next one.
    package var phase: Phase
    /// The failures since the last success.
    package var failures = 0
    /// The latest error; nil before the first.
    package var error: IdentityError?
    /// The service's own limit (Retry-After, 410): requests do not bring the next attempt before it.
    package var notBefore = Instant.past
    /// A request has wanted a token since the latest attempt began: the back-off is at most 10 s.
    package var hasTokenRequest = false

    /// From a request to the attempt that it brings forward.
    private var requestedDelay = Duration.zero
    /// The next attempt is the last try of a refresh token (refresh-outcomes.md 9). Nothing brings it forward.
    var awaitsLastTry = false
    /// The logins since the last success whose response could not be used and made a session at the service.
    private var unusableLogins = 0
    /// The calls in a row that were refused for the client or for what it asks.
    private var clientRefusals = 0
    /// Since when the credential has been in doubt; a success clears it.
    private var doubtedSince: Instant?

    /// - Parameter notBefore: the service's earlier limit. An operator's login or a changed credential need not wait;
    ///   the attempts that follow do.
    package init(calling call: SessionCall, notBefore: Instant = .past) {
        phase = .calling(call)
        self.notBefore = notBefore
    }

    /// The service has asked, by `error`, not to be called before that instant, in any session.
    init(waitingUntil instant: Instant, because error: IdentityError?) {
        phase = .waiting(until: instant)
        failures = 1
        unusableLogins = error?.hasMadeSession == true ? 1 : 0
        notBefore = instant
        self.error = error
    }

    /// The attempt in progress.
    package var call: SessionCall? {
        guard case .calling(let call) = phase else { return nil }
        return call
    }

    /// When the next attempt is made; nil while one is in progress.
    package var nextAttemptAt: Instant? {
        guard case .waiting(let until) = phase else { return nil }
        return until
    }

    /// The session waits for what another program does (`TokenFeed`).
    var makesNoAttempt: Bool { nextAttemptAt == .never }

    func isDue(at now: Instant) -> Bool { nextAttemptAt.map { $0 <= now } ?? false }

    /// Whether a call may be made now: none is in flight, and the service's limit has passed.
    func mayRetryEarly(at now: Instant) -> Bool { call == nil && notBefore <= now }

    var reason: SessionReason {
        if awaitsLastTry { return .outcomeUnknown }
        switch error?.passedOn {
        case .loginRequired: return .loginRequired
        case .credentialRefused: return .credentialRefused
        case nil: break
        }
        return switch error?.verdict {
        case .gone: .identityGone
        case .clientRefused: .credentialRefused
        case .transient, .unknownOutcome, .sessionDead, .credentialRefused, .credentialDoubted, .unknownApp,
            .credentialUnavailable, .credentialDelayed, .accountInUse, .callRefused, nil:
            .identityUnreachable
        }
    }

    /// The credential was doubted before, long enough ago.
    func confirmsDoubt(by policy: ClockPolicy, at now: Instant) -> Bool {
        doubtedSince.map { now - $0 >= policy.doubtConfirmationDelay } ?? false
    }

    /// Continues with another attempt.
    func calling(_ call: SessionCall) -> RetryState {
        var next = self
        next.phase = .calling(call)
        next.hasTokenRequest = false
        next.awaitsLastTry = false
        return next
    }

    /// Waits at least until the service's limit.
    func waiting(notBefore limit: Instant) -> RetryState {
        guard case .waiting(let until) = phase else { return self }
        var next = self
        next.notBefore = max(notBefore, limit)
        next.phase = .waiting(until: max(until, limit))
        return next
    }

    /// Waits as long as `other`, which knows of the same limit.
    func waiting(like other: RetryState) -> RetryState {
        var next = self
        (next.phase, next.notBefore) = (other.phase, other.notBefore)
        return next
    }

    /// The call has failed: full jitter over a doubling back-off (refresh.md 3, 4, refresh-outcomes.md 9, 12; architecture-control.md 5.3
    /// for Retry-After and 410).
    ///
    /// - Parameter tokens: the current tokens; nil at a first login.
    func failed(
        _ error: IdentityError, holding tokens: SessionTokens?, by policy: ClockPolicy, at eventContext: EventContext
    ) -> RetryState {
        var next = self
        let now = eventContext.instant
        next.failures += 1
        next.requestedDelay = policy.requestedBackoff.delay(after: 1, chance: eventContext.chance)
        if error.verdict == .credentialDoubted, doubtedSince == nil { next.doubtedSince = now }
        next.error = error
        let isRelogin = call?.kind == .login && tokens != nil
        let advisoryEnd = tokens?.mandatoryFrom ?? .past
        // The service's limit outlives failures that do not mention one.
        next.notBefore = policy.honoured(notBefore, advisoryEnd: advisoryEnd, at: now)
        var delay = policy.backoff(isRelogin: isRelogin, isAdvisory: now < advisoryEnd)
            .delay(after: next.failures, chance: eventContext.chance)
        if !isRelogin, now < advisoryEnd, now + delay > advisoryEnd {
            delay = min(delay, policy.mandatoryBackoffMax)
        }
        switch error.verdict {
        case .gone:
            delay = policy.gonePause(chance: eventContext.chance)
            next.notBefore = now + delay
        case .clientRefused:
            guard call?.variant == .plain, !error.isDenied else {
                delay = policy.gonePause(chance: eventContext.chance)
                break
            }
            next.clientRefusals += 1
            delay = policy.clientRefusalPause(after: next.clientRefusals, chance: eventContext.chance)
            // Requests need the next token from then on.
            if let end = tokens?.usableUntil, end > now { delay = min(delay, end - now) }
        case .unknownOutcome:
            let limit = error.pause.map { policy.honoured(now + $0, advisoryEnd: advisoryEnd, at: now) }
            next.notBefore = max(limit ?? next.notBefore, now + policy.unknownOutcomePause)
        case .transient, .credentialDoubted:
            if let pause = error.pause {
                next.notBefore = policy.honoured(now + pause, advisoryEnd: advisoryEnd, at: now)
            }
        case .sessionDead, .credentialRefused, .unknownApp, .credentialUnavailable, .credentialDelayed, .accountInUse,
            .callRefused:
            break
        }
        if error.hasMadeSession {
            next.unusableLogins += 1
            delay = policy.unusableLoginBackoff.delay(after: next.unusableLogins, chance: eventContext.chance)
            next.notBefore = max(next.notBefore, now + delay)
        }
        if hasTokenRequest, tokens?.isUsable(at: now) != true, !next.waitsForOperator, !next.mayProbe {
            delay = min(delay, next.requestedDelay)
        }
        if error.verdict != .clientRefused { next.clientRefusals = 0 }
        // In the mandatory zone the store does not hold the call up any more.
        if error.isOfStore, now < advisoryEnd { delay = min(delay, advisoryEnd - now) }
        next.phase = .waiting(until: max(now + delay, next.notBefore))
        return next
    }

    /// A request wants a token and there is none. Returns whether the next attempt has moved: that of a session that may ask for all
    /// sessions of its identity moves when its turn comes (`IdentityProbe`).
    mutating func requestToken(by policy: ClockPolicy, at eventContext: EventContext) -> Bool {
        hasTokenRequest = true
        guard case .waiting(let until) = phase, let requested = requestedAttempt(by: policy) else { return false }
        let sooner = requested.instant(insteadOf: until, at: eventContext.instant)
        guard sooner < until else { return false }
        phase = .waiting(until: sooner)
        return true
    }

    /// How a request brings the next attempt forward; nil: it does not.
    func requestedAttempt(by policy: ClockPolicy) -> AccessToken.RequestedAttempt? {
        guard call == nil, !waitsForOperator, !mayProbe else { return nil }
        return AccessToken.RequestedAttempt(
            after: requestedDelay, notBefore: notBefore, delayMax: policy.requestedBackoffMax)
    }

    /// When a request that comes again has the service asked; nil: by no probe.
    func probeAt(_ now: Instant, by policy: ClockPolicy) -> Instant? {
        call == nil && mayProbe ? max(notBefore, now + policy.probeInterval) : nil
    }

    /// The next attempt reads a file again: a credential that could not be read in time, or the client's own secret that
    /// was refused.
    var waitsForCredential: Bool {
        call == nil && (error?.verdict == .credentialDelayed || error?.verdict == .clientRefused)
    }

    /// Only an operator can make the next attempt succeed: requests do not bring it forward.
    private var waitsForOperator: Bool { error?.verdict == .gone || error?.verdict == .clientRefused }

    /// Another attempt may find the service back, and does no harm if it is not. A doubtful refusal is repeated by its own times, a
    /// file or the store is waited for, and a service that limits calls is not asked each second. Nor is one that has no endpoint there,
    /// or is gone.
    private var mayProbe: Bool {
        switch error?.verdict {
        case .transient, .unknownOutcome: error.map { Self.mayProbe(after: $0) } ?? false
        case nil, .sessionDead, .credentialRefused, .credentialDoubted, .gone, .unknownApp, .credentialUnavailable,
            .credentialDelayed, .accountInUse, .clientRefused, .callRefused:
            false
        }
    }

    private static func mayProbe(after error: IdentityError) -> Bool {
        ![410, 429].contains(error.status) && error.responsible != .operator && error.cause != .noEndpoint
            && !error.isOfStore
    }

    /// The attempt may be made before its time: none is in progress, and the service's limit has passed.
    func mayProbe(at now: Instant) -> Bool { mayRetryEarly(at: now) && mayProbe }

    /// The service is back: the attempt is made at `instant`, if it would be later and may be sooner.
    mutating func retryAfterOutage(at instant: Instant, now: Instant) {
        guard mayProbe(at: now), case .waiting(let until) = phase else { return }
        phase = .waiting(until: min(until, instant))
    }

    /// It waits because the service has said 410.
    var isGone: Bool { call == nil && error?.verdict == .gone }

    /// The credential can be read again: the next attempt waits only for the service's limit.
    mutating func retryWithReadableCredential(at now: Instant) {
        guard case .waiting(let until) = phase else { return }
        phase = .waiting(until: min(until, max(now, notBefore)))
    }

    /// The clock jumped or the machine was suspended: what failed before may work now.
    ///
    /// - Parameter tokens: the current tokens, with the end that the clocks give them now.
    mutating func retryEarly(
        to instant: Instant, holding tokens: SessionTokens?, by policy: ClockPolicy, at now: Instant
    ) {
        guard !awaitsLastTry, !makesNoAttempt else { return }
        if error?.verdict != .gone {
            notBefore = policy.honoured(notBefore, advisoryEnd: tokens?.mandatoryFrom ?? .past, at: now)
        }
        guard case .waiting(let until) = phase else { return }
        phase = .waiting(until: min(until, max(instant, notBefore)))
    }
}
