import LanyardFoundations
import LanyardSessionInterface

/// How a session handles the outcomes of its calls.
extension Session {
    /// Tokens have come. If their call is no longer the current one, the session has moved on: a late response never
    /// revives it.
    consuming func accept(_ grant: Grant, of call: SessionCall, _ transition: inout TransitionContext) -> Session {
        guard self.call?.number == call.number else {
            // A late login has created another session at the service.
            if call.kind == .login, let refresh = grant.refreshToken { transition.add(.revoke(refresh)) }
            transition.logEvent(.late, reason: call.kind.rawValue)
            return self
        }
        transition.context.recordSkew(from: grant.serverDate, call: call, at: transition.eventContext)
        transition.context.recordSuccess(of: call, at: transition.now)
        let former = transition.context.account
        var old = call.kind == .refresh ? tokens : nil
        // A response without another refresh token says that this one is as good as before.
        if call.cause == .lastTry {
            let sent = old?.lastTry?.token
            old?.refresh = sent
        }
        let tokens = transition.context.accept(
            grant, startedAt: call.startedAt, startedAtWall: call.startedAtWall, keeping: old)
        return Self.begin(tokens, grant, of: call, after: former, retryState ?? RetryState(calling: call), &transition)
    }

    /// An operator's login replaces the session and any operation in progress for it.
    consuming func replace(by grant: Grant, of call: SessionCall, _ transition: inout TransitionContext) -> Session {
        transition.context.forgetLogins()
        transition.context.recordSkew(from: grant.serverDate, call: call, at: transition.eventContext)
        let former = transition.context.account
        let tokens = transition.context.accept(
            grant, startedAt: call.startedAt, startedAtWall: call.startedAtWall, isExplicit: true)
        return Self.begin(tokens, grant, of: call, after: former, RetryState(calling: call), &transition)
    }

    /// A link has replaced the access token. A renewal that waits for its turn is not needed any more.
    consuming func renew(by grant: Grant, of call: SessionCall, _ transition: inout TransitionContext) -> Session {
        guard let old = tokens else {
            transition.logEvent(.late, reason: call.kind.rawValue)
            return self
        }
        transition.context.recordSkew(from: grant.serverDate, call: call, at: transition.eventContext)
        let former = transition.context.account
        let tokens = transition.context.accept(
            grant, startedAt: call.startedAt, startedAtWall: call.startedAtWall, keeping: old)
        return Self.begin(tokens, grant, of: call, after: former, RetryState(calling: call), &transition)
    }

    /// Continues with the tokens of a call.
    ///
    /// - Parameter former: the account before it.
    private static func begin(
        _ tokens: SessionTokens, _ grant: Grant, of call: SessionCall, after former: SessionAccount?,
        _ known: RetryState, _ transition: inout TransitionContext
    ) -> Session {
        // The refresh token belongs to that account, even if the access token is unusable.
        let isAnother =
            grant.userID.map { transition.context.recordAccount($0) } ?? tokens.account.isOther(than: former)
        if isAnother { transition.add(.logEvent(.accountChanged(to: tokens.account, reason: call.cause.rawValue))) }
        guard tokens.isUsable(at: transition.now) else { return failUnusableGrant(tokens, call, known, &transition) }
        let next = serve(tokens, &transition)
        let nextAt = next.due(transition.context)
        let event: SessionLogEvent.Event = call.kind == .login ? .loginSucceeded : .refreshSucceeded
        transition.logEvent(event, reason: call.cause.rawValue, nextAt: nextAt)
        if let skew = transition.context.skew, transition.context.isSkewed {
            var logEvent = SessionLogEvent(.skewed, .warning, reason: "clock_off")
            logEvent.skewSeconds = Int(skew.inSeconds.rounded())
            transition.add(.logEvent(logEvent))
        }
        return next
    }

    /// Serves `tokens` from now on.
    static func serve(_ tokens: SessionTokens, _ transition: inout TransitionContext) -> Session {
        transition.context.hasEverBeenReady = true
        guard transition.context.canRenew(tokens) else { return serveToEnd(tokens, nil, &transition) }
        let next = Session.valid(tokens, refreshAt: transition.refreshAt(tokens))
        transition.publish(next)
        return next
    }

    /// The response took longer than its token lives. There is nothing to serve, and asking faster would not help.
    private static func failUnusableGrant(
        _ tokens: SessionTokens, _ call: SessionCall, _ known: RetryState, _ transition: inout TransitionContext
    ) -> Session {
        let error = IdentityError(
            .transient(retryAfter: nil), message: "the response took longer than its access token lives")
        return continueFailing(error, of: call, holding: tokens, known, &transition)
    }

    consuming func fail(_ error: IdentityError, of call: SessionCall, _ transition: inout TransitionContext) -> Session
    {
        guard self.call?.number == call.number else {
            transition.logEvent(.late, reason: call.kind.rawValue, error: error)
            return self
        }
        if case .refused(let refusal, let retryState?) = self {
            return Self.failRepeated(error, of: call, after: refusal, retryState, &transition)
        }
        let isConfirmed = retryState?.confirmsDoubt(by: transition.context.policy, at: transition.now) ?? false
        switch (error.verdict, call.kind) {
        case (.credentialDoubted, _) where !isConfirmed, (.transient, _), (.unknownOutcome, _),
            (.gone, _), (.credentialDelayed, _), (.clientRefused, _), (.callRefused, .refresh):
            let asked = min(transition.context.notBefore, tokens?.mandatoryFrom ?? .never)
            let retryState = retryState ?? RetryState(calling: call, notBefore: asked)
            let next = Self.continueFailing(error, of: call, holding: tokens, retryState, &transition)
            // A file of the client changed after this call had begun.
            guard error.verdict == .clientRefused, transition.context.hasUntriedCredential else { return next }
            return next.retryWithChangedCredential(&transition)
        case (.sessionDead, .refresh), (.credentialDoubted, .refresh), (.credentialRefused, .refresh),
            (.credentialUnavailable, .refresh):
            transition.logEvent(.dead, .warning, reason: SessionCall.Cause.sessionDead.rawValue, error: error)
            return endDeadSession(error, .sessionDead, nil, &transition)
        case (.unknownApp, _), (.accountInUse, _), (.sessionDead, .login), (.credentialDoubted, .login),
            (.credentialRefused, .login), (.credentialUnavailable, .login), (.callRefused, .login):
            // The file changed after this call had begun.
            guard !(call.kind == .login && transition.context.hasUntriedCredential) else {
                transition.context.lastError = error
                return Self.beginLogin(.credentialChanged, &transition)
            }
            if call.kind == .login, let next = makeLastTry(insteadOfLogin: error, &transition) { return next }
            return Self.refuse(error, &transition)
        }
    }

    /// The login that was repeated because its client was refused has failed. A response that decides nothing changes neither the
    /// state nor the number of tries that are left.
    private static func failRepeated(
        _ error: IdentityError, of call: SessionCall, after refusal: IdentityError, _ known: RetryState,
        _ transition: inout TransitionContext
    ) -> Session {
        guard !transition.context.hasUntriedCredential else {
            transition.context.lastError = error
            return beginLogin(.credentialChanged, &transition)
        }
        switch error.verdict {
        case .transient, .unknownOutcome, .gone, .credentialDelayed, .clientRefused: break
        case .sessionDead, .credentialRefused, .credentialDoubted, .unknownApp, .credentialUnavailable, .accountInUse,
            .callRefused:
            return refuse(error, &transition)
        }
        transition.context.lastError = error
        let policy = transition.context.policy
        let tries = refusal.credential?.clientTries?.count ?? 1
        let retryState = known.failed(error, holding: nil, by: policy, at: transition.eventContext)
            .waiting(notBefore: transition.now + (policy.clientRetryDelay(after: tries) ?? .zero))
        transition.context.recordRetryAfter(retryState, error)
        let next = Session.refused(refusal, retryState)
        transition.publish(next)
        transition.logEvent(
            .loginFailed, .warning, reason: next.reason.rawValue, nextAt: retryState.nextAttemptAt, error: error)
        return next
    }

    /// Continues without a new token, and tries again.
    private static func continueFailing(
        _ error: IdentityError, of call: SessionCall, holding tokens: SessionTokens?, _ known: RetryState,
        _ transition: inout TransitionContext
    ) -> Session {
        transition.context.lastError = error
        let retryState = known.failed(
            error, holding: tokens, by: transition.context.policy, at: transition.eventContext)
        transition.context.recordRetryAfter(retryState, error)
        let next: Session =
            if let tokens {
                tokens.isUsable(at: transition.now) ? .stale(tokens, retryState) : .unreachable(tokens, retryState)
            } else {
                .loggingIn(retryState)
            }
        transition.publish(next)
        transition.logEvent(
            call.kind == .login ? .loginFailed : .refreshFailed, error.isAlarming ? .error : .warning,
            reason: retryState.reason.rawValue,
            nextAt: retryState.nextAttemptAt, error: error)
        return next
    }

    /// The outcome of the last refresh is unknown, and a repetition might do harm, or did not help (refresh-outcomes.md 9).
    consuming func abandon(
        _ error: IdentityError, of call: SessionCall, _ lastTryAt: Instant?, _ transition: inout TransitionContext
    ) -> Session {
        guard self.call?.number == call.number else { return self }
        transition.logEvent(.outcomeUnknown, .warning, reason: SessionCall.Cause.outcomeUnknown.rawValue, error: error)
        return endDeadSession(error, .outcomeUnknown, lastTryAt, &transition)
    }

    /// The fetch of a variant has used the refresh token. The state stays.
    consuming func takeRefreshToken(of grant: Grant, _ call: SessionCall, _ transition: inout TransitionContext)
        -> Session
    {
        transition.context.recordSkew(from: grant.serverDate, call: call, at: transition.eventContext)
        let settings = transition.context.refreshTokens
        return changingTokens { $0 = $0.renewed(by: grant, startedAtWall: call.startedAtWall, settings) }
    }

    /// The fetch of a variant has found that the refresh token cannot be used any more.
    consuming func loseRefreshToken(
        _ error: IdentityError, _ cause: SessionCall.Cause, _ lastTryAt: Instant?, _ transition: inout TransitionContext
    ) -> Session {
        guard tokens != nil else { return self }
        let event: SessionLogEvent.Event = cause == .outcomeUnknown ? .outcomeUnknown : .dead
        transition.logEvent(event, .warning, reason: cause.rawValue, error: error)
        return endDeadSession(error, cause, lastTryAt, &transition)
    }

    /// The service has asked for no call before a time, in the response to a call for another access token. A call that waits
    /// for its turn is not made.
    consuming func limit(by error: IdentityError, _ transition: inout TransitionContext) -> Session {
        guard let pause = error.pause else { return self }
        // Whatever else the response says is of the other call.
        var error = error
        error.verdict = .transient(retryAfter: pause)
        if let call = self.call { return fail(error, of: call, &transition) }
        let notBefore = transition.context.policy.honoured(
            transition.now + pause, advisoryEnd: tokens?.mandatoryFrom ?? .past, at: transition.now)
        transition.context.recordRetryAfter(RetryState(waitingUntil: notBefore, because: error), error)
        let next: Session
        switch self {
        case .valid(let tokens, let refreshAt):
            next = .valid(tokens, refreshAt: max(refreshAt, min(notBefore, tokens.mandatoryFrom)))
        case .loggingIn, .stale, .unreachable: next = changingRetries { $0 = $0.waiting(notBefore: notBefore) }
        case .loggedOut, .refreshing, .loginRequired, .refused: return self
        }
        transition.publish(next)
        return next
    }

    /// The refresh token is dead (refresh-outcomes.md 12). With a credential, a login follows while the access token serves on;
    /// without one, the session ends, unless a last try can follow.
    ///
    /// - Parameter lastTryAt: when the refresh token may be sent once more; nil: never.
    private consuming func endDeadSession(
        _ error: IdentityError, _ cause: SessionCall.Cause, _ lastTryAt: Instant?,
        _ transition: inout TransitionContext
    ) -> Session {
        transition.context.lastError = error
        guard var tokens else { return self }
        tokens.giveUpRefreshToken(lastTryAt: lastTryAt)
        if let next = waitForLogin(with: tokens, &transition) { return next }
        if let next = waitAfterLogin(with: tokens, error, &transition) { return next }
        guard let call = transition.renewal(of: tokens, cause) else {
            return tokens.lastTry == nil
                ? Self.end(error, &transition) : Self.awaitLastTry(of: tokens, error, &transition)
        }
        switch self {
        case .valid, .refreshing: return .refreshing(tokens, call)
        case .stale(_, let retryState): return .stale(tokens, retryState.calling(call))
        case .unreachable(_, let retryState): return .unreachable(tokens, retryState.calling(call))
        // They have no tokens.
        case .loggedOut, .loggingIn, .loginRequired, .refused: return self
        }
    }

    /// A fetch has lost the refresh token, which its own token's end had it send inside a Retry-After. The login that follows waits
    /// for the Retry-After as a call without a usable token does, because the variant has none. Nil: it may be made now.
    private borrowing func waitForLogin(with tokens: SessionTokens, _ transition: inout TransitionContext) -> Session? {
        guard call == nil, transition.context.canRenew(tokens),
            let wait = transition.context.waitBeforeCall(at: transition.now)
        else { return nil }
        let next: Session
        switch self {
        case .valid: next = .stale(tokens, wait)
        case .stale(_, let retryState): next = .stale(tokens, retryState.waiting(like: wait))
        case .unreachable(_, let retryState): next = .unreachable(tokens, retryState.waiting(like: wait))
        case .loggedOut, .loggingIn, .refreshing, .loginRequired, .refused: return nil
        }
        transition.publish(next)
        return next
    }

    /// The login that follows is put off, and requests do not bring it forward: the sessions of the logins before have ended without a
    /// refresh, one after the other (refresh-outcomes.md 12), or the response that cost the refresh token names a time (refresh.md 3, 4).
    /// The later one counts. Nil: it is made now.
    private borrowing func waitAfterLogin(
        with tokens: SessionTokens, _ error: IdentityError, _ transition: inout TransitionContext
    ) -> Session? {
        guard transition.context.canRenew(tokens), tokens.expiry != nil else { return nil }
        let loginAt = transition.context.reloginAt(transition.eventContext)
        let askedAt = limitOfLogin(with: tokens, error, transition)
        guard let until = [loginAt, askedAt].compactMap(\.self).max() else { return nil }
        let wait = RetryState(waitingUntil: until, because: error)
        let next: Session
        switch self {
        case .valid, .refreshing, .stale, .unreachable:
            next = tokens.isUsable(at: transition.now) ? .stale(tokens, wait) : .unreachable(tokens, wait)
        case .loggedOut, .loggingIn, .loginRequired, .refused: return nil
        }
        if let askedAt {
            transition.context.recordRetryAfter(RetryState(waitingUntil: askedAt, because: error), error)
        }
        transition.publish(next)
        if loginAt != nil {
            transition.logEvent(
                .loginPutOff, .warning, reason: SessionCall.Cause.sessionDead.rawValue, nextAt: until, error: error)
        }
        return next
    }

    /// Before that the service wants no call, by the response that cost the refresh token; nil: it names no time.
    private borrowing func limitOfLogin(
        with tokens: SessionTokens, _ error: IdentityError, _ transition: TransitionContext
    ) -> Instant? {
        guard let pause = error.pause, pause > .zero else { return nil }
        // Without a call it was a fetch, whose variant has no token.
        let isServed = call != nil && tokens.isUsable(at: transition.now)
        return transition.context.policy.honoured(
            transition.now + pause, advisoryEnd: isServed ? tokens.mandatoryFrom : .past, at: transition.now)
    }

    /// The credential is refused: no further call until it changes or an operator logs in, but for the tries that follow a refusal of
    /// the client.
    static func refuse(_ error: IdentityError, _ transition: inout TransitionContext) -> Session {
        transition.context.lastError = error
        let wait = error.credential?.clientTries.flatMap {
            transition.context.policy.clientRetryWait(after: $0, at: transition.eventContext.wall)
        }
        let next = Session.refused(error, wait.map { RetryState(waitingUntil: transition.now + $0, because: error) })
        transition.publish(next)
        let nextAt = wait == nil ? nil : next.nextCallAt
        transition.logEvent(.refused, .error, reason: next.reason.rawValue, nextAt: nextAt, error: error)
        return next
    }
}
