import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The effect of time on a session: the schedule, the attempts after failures, the token's end, and requests without a
/// token.
extension Session {
    /// When to send `.due` next, or `.never`.
    ///
    /// With a call in flight, the token's end changes nothing at once: requests wait for the response up to
    /// `refresh.wait_max`. A call that begins after that end, as after a sleep of the machine, is waited for as long.
    package func due(_ context: borrowing SessionContext) -> Instant {
        switch self {
        case .valid(let tokens, .never) where !context.canRenew(tokens): tokens.usableUntil
        case .valid(let tokens, let refreshAt): min(refreshAt, tokens.mandatoryFrom)
        case .refreshing(let tokens, let call):
            Self.lastWaitEnd(tokens, call, context.settings)
        case .stale(let tokens, let retryState):
            retryState.nextAttemptAt.map { min($0, tokens.usableUntil) }
                ?? tokens.usableUntil + context.settings.waitMax
        case .loggingIn(let retryState): retryState.nextAttemptAt ?? .never
        case .unreachable(_, let retryState): retryState.nextAttemptAt ?? .never
        case .refused(_, let retryState): retryState?.nextAttemptAt ?? .never
        case .loggedOut, .loginRequired: .never
        }
    }

    /// Until then a request can wait for the first attempt to renew a token.
    private static func lastWaitEnd(
        _ tokens: borrowing SessionTokens, _ call: SessionCall, _ settings: RefreshSettings
    ) -> Instant { max(tokens.usableUntil, call.startedAt) + settings.waitMax }

    /// Does what is due now.
    consuming func performDue(_ transition: inout TransitionContext) -> Session {
        let now = transition.now
        switch self {
        case .valid(let tokens, .never) where !transition.context.canRenew(tokens):
            return tokens.isUsable(at: now) ? self : Self.end(transition.context.lastError, &transition)
        case .valid(let tokens, let refreshAt):
            return min(refreshAt, tokens.mandatoryFrom) <= now ? Self.renew(tokens, .scheduled, &transition) : self
        case .refreshing(let tokens, let call):
            return Self.lastWaitEnd(tokens, call, transition.context.settings) <= now
                ? Self.expire(tokens, RetryState(calling: call), &transition) : self
        case .stale(let tokens, let retryState):
            let end =
                retryState.call == nil ? tokens.usableUntil : tokens.usableUntil + transition.context.settings.waitMax
            guard now < end || !Self.mayEndInLogin(tokens, retryState, transition) else {
                return Self.retryAtEnd(tokens, retryState, &transition)
            }
            guard now < end else { return Self.expire(tokens, retryState, &transition).performDue(&transition) }
            return retryState.isDue(at: now) ? Self.retry(tokens, retryState, .retry, &transition) : self
        case .unreachable(let tokens, let retryState):
            return retryState.isDue(at: now) ? Self.retry(tokens, retryState, .retry, &transition) : self
        case .loggingIn(let retryState):
            return retryState.isDue(at: now) ? Self.loginAgain(retryState, .retry, &transition) : self
        case .refused(let error, let retryState?):
            // The state stays: it is that of a refusal until a login has succeeded.
            guard retryState.isDue(at: now), transition.context.hasCredential else { return self }
            return .refused(error, retryState.calling(transition.login(.retry)))
        case .loggedOut, .loginRequired, .refused(_, nil): return self
        }
    }

    /// The service has refused the refresh, and the token has ended since. If it refuses the refresh once more, the configured login
    /// follows (refresh-outcomes.md 12).
    private static func mayEndInLogin(
        _ tokens: SessionTokens, _ retryState: RetryState, _ transition: borrowing TransitionContext
    ) -> Bool {
        retryState.error?.refusesRefresh == true && tokens.refresh != nil && transition.context.hasCredential
            && retryState.mayRetryEarly(at: transition.now)
    }

    /// A renewal at the token's end, for which requests wait as for one that has begun before.
    private static func retryAtEnd(
        _ tokens: SessionTokens, _ retryState: RetryState, _ transition: inout TransitionContext
    ) -> Session {
        guard let call = transition.renewal(of: tokens, .retry) else {
            return expire(tokens, retryState, &transition)
        }
        let next = Session.stale(tokens, retryState.calling(call))
        transition.publish(next)
        return next
    }

    /// Starts the first renewal of a token.
    private static func renew(
        _ tokens: SessionTokens, _ cause: SessionCall.Cause, _ transition: inout TransitionContext
    ) -> Session {
        guard let call = transition.renewal(of: tokens, cause) else {
            return serveToEnd(tokens, transition.context.lastError, &transition)
        }
        let next = Session.refreshing(tokens, call)
        // Requests begin to wait later than the shards know.
        if next.waitsFrom(transition.context) > tokens.mandatoryFrom { transition.publish(next) }
        return next
    }

    /// Starts another renewal after failures.
    private static func retry(
        _ tokens: SessionTokens, _ retryState: RetryState, _ cause: SessionCall.Cause,
        _ transition: inout TransitionContext
    ) -> Session {
        guard let call = transition.renewal(of: tokens, cause) else {
            return serveToEnd(tokens, retryState.error, &transition)
        }
        // Requests that come while the state is `unreachable` are refused at once, with or without an attempt.
        guard tokens.isUsable(at: transition.now) else { return .unreachable(tokens, retryState.calling(call)) }
        let next = Session.stale(tokens, retryState.calling(call))
        // Requests can wait for the token again.
        transition.publish(next)
        return next
    }

    /// Nothing can renew the tokens: there is neither a refresh token nor a credential. The access token serves until it
    /// ends.
    ///
    /// - Parameter error: why the renewal before has failed.
    static func serveToEnd(
        _ tokens: SessionTokens, _ error: IdentityError?, _ transition: inout TransitionContext
    ) -> Session {
        if tokens.lastTry != nil { return awaitLastTry(of: tokens, error, &transition) }
        guard tokens.isUsable(at: transition.now) else { return end(error, &transition) }
        let next = Session.valid(tokens, refreshAt: .never)
        let error = IdentityError(
            .credentialUnavailable,
            message: "nothing renews the session: it has no refresh token, and no credential is configured; "
                + "log in again before the access token ends; OAuth: ask for the scope that brings a refresh token, "
                + "offline_access at most servers")
        transition.context.lastError = error
        transition.publish(next)
        transition.logEvent(.loginRequired, .warning, reason: "not_renewable", nextAt: tokens.usableUntil, error: error)
        return next
    }

    /// The session has ended. Only an operator's login can begin a new one.
    static func end(_ error: IdentityError?, _ transition: inout TransitionContext) -> Session {
        transition.add(.publish(.none(.loginRequired)))
        let next = Session.loginRequired(error)
        transition.logEvent(.loginRequired, .error, reason: next.reason.rawValue, error: error)
        return next
    }

    /// The token is no longer usable, no new one has come, and the wait for one has ended.
    private static func expire(
        _ tokens: SessionTokens, _ retryState: RetryState, _ transition: inout TransitionContext
    ) -> Session {
        let next = Session.unreachable(tokens, retryState)
        transition.publish(next)
        transition.logEvent(
            .expired, .error, reason: retryState.reason.rawValue, nextAt: retryState.nextAttemptAt,
            error: retryState.error)
        return next
    }

    /// A shard found no usable token. What is due has been done already. A publication follows only if the next attempt
    /// has moved: a repeated one would wake waiting requests for nothing, and they would ask again.
    consuming func requestToken(_ transition: inout TransitionContext) -> Session {
        switch self {
        case .loggingIn, .unreachable:
            var hasMoved = false
            let next = changingRetries {
                hasMoved = $0.requestToken(by: transition.context.policy, at: transition.eventContext)
            }
            if hasMoved { transition.publish(next) }
            return next
        case .loggedOut, .valid, .refreshing, .stale, .loginRequired, .refused: return self
        }
    }

    /// An upstream refused the token of `generation` (refresh-outcomes.md 11). A newer token is published at once. Otherwise one
    /// refresh starts, within cooldown and budget, and requests wait for it at any time of the token's life.
    consuming func renew(after generation: Generation, _ transition: inout TransitionContext) -> Session {
        let next: Session
        switch self {
        case .valid(let tokens, let refreshAt):
            let isPossible =
                tokens.generation == generation && refreshAt != .never
                && transition.context.notBefore <= transition.now
            next =
                isPossible && Self.mayForce(refreshAt, &transition) ? Self.renew(tokens, .forced, &transition) : self
        case .stale(let tokens, let retryState):
            let isPossible = tokens.generation == generation && retryState.mayRetryEarly(at: transition.now)
            next =
                isPossible && Self.mayForce(retryState.nextAttemptAt, &transition)
                ? Self.retry(tokens, retryState, .forced, &transition) : self
        case .loggedOut, .loggingIn, .refreshing, .unreachable, .loginRequired, .refused: next = self
        }
        if next.tokens != nil { transition.publish(next) }
        return next
    }

    /// A new token is wanted at once, regardless of Retry-After, unless a call is in progress.
    consuming func renewNow(_ cause: SessionCall.Cause, _ transition: inout TransitionContext) -> Session {
        switch self {
        case .valid(let tokens, let refreshAt):
            refreshAt == .never ? self : Self.renew(tokens, cause, &transition)
        case .stale(let tokens, let retryState), .unreachable(let tokens, let retryState):
            retryState.call == nil && !retryState.awaitsLastTry && !retryState.makesNoAttempt
                ? Self.retry(tokens, retryState, cause, &transition) : self
        case .loggedOut, .loggingIn, .refreshing, .loginRequired, .refused: self
        }
    }

    /// A request wants a token, only another attempt can bring one, and nothing forbids that attempt now.
    package func wantsProbe(at now: Instant) -> Bool {
        switch self {
        case .loggingIn(let retryState), .unreachable(_, let retryState):
            retryState.hasTokenRequest && retryState.mayProbe(at: now)
        case .loggedOut, .valid, .refreshing, .stale, .loginRequired, .refused: false
        }
    }

    /// An attempt waits that may be made at once if the service is back.
    package func awaitsService(at now: Instant) -> Bool { retryState?.mayProbe(at: now) ?? false }

    /// Makes the attempt now that waits for its time.
    consuming func probe(_ transition: inout TransitionContext) -> Session {
        guard wantsProbe(at: transition.now) else { return self }
        switch self {
        case .loggingIn(let retryState): return Self.loginAgain(retryState, .retry, &transition)
        case .unreachable(let tokens, let retryState): return Self.retry(tokens, retryState, .retry, &transition)
        case .loggedOut, .valid, .refreshing, .stale, .loginRequired, .refused: return self
        }
    }

    /// The service is back.
    consuming func retry(afterOutage delay: Duration, _ transition: inout TransitionContext) -> Session {
        let now = transition.now
        let next = changingRetries { $0.retryAfterOutage(at: now + delay, now: now) }
        return next.performDue(&transition)
    }

    private static func mayForce(_ nextAt: Instant?, _ transition: inout TransitionContext) -> Bool {
        if let denial = transition.context.forcedRefreshDenial(at: transition.now) {
            // A used-up budget acts as the circuit breaker: an upstream refuses fresh tokens repeatedly (refresh.md 5).
            transition.logEvent(
                .refreshDenied, denial == .budget ? .error : .warning, reason: denial.rawValue, nextAt: nextAt)
            return false
        }
        transition.logEvent(.refreshForced, reason: SessionCall.Cause.forced.rawValue)
        return true
    }

    /// The clocks disagree, or the machine was suspended. The earlier of the two ends applies, and what is due by it
    /// happens soon.
    consuming func reevaluateAfterClockJump(_ transition: inout TransitionContext) -> Session {
        let policy = transition.context.policy
        let soon = transition.now + policy.clockJumpSpread * transition.eventContext.chance
        let next: Session
        switch self {
        case .valid(var tokens, let refreshAt):
            let early = tokens.bound(by: transition.eventContext)
            let isUsable = tokens.isUsable(at: transition.now)
            // A renewal that the jump has made overdue is spread. A token that it has made useless is renewed at once.
            let sooner = max(
                refreshAt - early, min(refreshAt, soon), min(transition.context.notBefore, tokens.mandatoryFrom))
            next = .valid(tokens, refreshAt: refreshAt == .never ? .never : isUsable ? sooner : transition.now)
        case .refreshing(var tokens, let call):
            tokens.bound(by: transition.eventContext)
            next = .refreshing(tokens, call)
        case .stale(var tokens, var retryState):
            tokens.bound(by: transition.eventContext)
            retryState.retryEarly(to: soon, holding: tokens, by: policy, at: transition.now)
            next = .stale(tokens, retryState)
        case .unreachable(let tokens, var retryState):
            retryState.retryEarly(to: soon, holding: tokens, by: policy, at: transition.now)
            next = .unreachable(tokens, retryState)
        case .loggingIn(var retryState):
            retryState.retryEarly(to: soon, holding: nil, by: policy, at: transition.now)
            next = .loggingIn(retryState)
        case .loggedOut, .loginRequired, .refused: next = self
        }
        let done = next.isLeftToCoordinator(transition.context) ? next : next.performDue(&transition)
        if done.tokens != nil { transition.publish(done) }
        return done
    }

    private func isLeftToCoordinator(_ context: borrowing SessionContext) -> Bool {
        if case .valid = self { context.renewsOnlyUsed } else { false }
    }
}
