import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The observable state of a session.
extension Session {
    /// The state for status, metrics and log.
    package var state: SessionState {
        switch self {
        case .loggedOut: .loggedOut
        case .loggingIn: .loggingIn
        case .valid: .valid
        case .refreshing: .refreshing
        case .stale: .stale
        case .unreachable: .unreachable
        case .loginRequired: .loginRequired
        case .refused: .refused
        }
    }

    /// The reason for health and status.
    package var reason: SessionReason {
        switch self {
        case .loggedOut(let reason): reason
        case .loggingIn(let retryState): retryState.failures == 0 ? .loggingIn : retryState.reason
        // Nothing renews it.
        case .valid(let tokens, .never) where tokens.expiry != nil: .refreshFailing
        case .valid: .tokenValid
        case .refreshing: .tokenValid
        case .stale(_, let retryState): retryState.reason == .identityGone ? .identityGone : .refreshFailing
        case .unreachable(_, let retryState): retryState.reason
        case .loginRequired(let error): error?.verdict == .unknownOutcome ? .outcomeUnknown : .loginRequired
        case .refused(let error, _): error.verdict == .accountInUse ? .accountInUse : .credentialRefused
        }
    }

    /// The tokens of an authenticated user, usable or not.
    package var tokens: SessionTokens? {
        switch self {
        case .valid(let tokens, _): tokens
        case .refreshing(let tokens, _): tokens
        case .stale(let tokens, _): tokens
        case .unreachable(let tokens, _): tokens
        case .loggedOut, .loggingIn, .loginRequired, .refused: nil
        }
    }

    /// The call in flight; there is at most one.
    package var call: SessionCall? {
        switch self {
        case .refreshing(_, let call): call
        case .loggedOut, .loggingIn, .valid, .stale, .unreachable, .loginRequired, .refused: retryState?.call
        }
    }

    /// When the next call is made; `.never` while one is in progress or none will be.
    package var nextCallAt: Instant {
        switch self {
        case .valid(_, let refreshAt): refreshAt
        case .loggedOut, .loggingIn, .refreshing, .stale, .unreachable, .loginRequired, .refused:
            retryState?.nextAttemptAt ?? .never
        }
    }

    var retryState: RetryState? {
        switch self {
        case .loggingIn(let retryState): retryState
        case .stale(_, let retryState): retryState
        case .unreachable(_, let retryState): retryState
        case .refused(_, let retryState): retryState
        case .loggedOut, .valid, .refreshing, .loginRequired: nil
        }
    }

    /// The same state with changed retries. A state that has none stays as it is.
    consuming func changingRetries(_ change: (inout RetryState) -> Void) -> Session {
        switch self {
        case .loggingIn(var retryState):
            change(&retryState)
            return .loggingIn(retryState)
        case .stale(let tokens, var retryState):
            change(&retryState)
            return .stale(tokens, retryState)
        case .unreachable(let tokens, var retryState):
            change(&retryState)
            return .unreachable(tokens, retryState)
        case .loggedOut, .valid, .refreshing, .loginRequired, .refused: return self
        }
    }

    /// The same state with changed tokens. A state that has none stays as it is.
    consuming func changingTokens(_ change: (inout SessionTokens) -> Void) -> Session {
        guard var tokens else { return self }
        change(&tokens)
        switch self {
        case .valid(_, let refreshAt): return .valid(tokens, refreshAt: refreshAt)
        case .refreshing(_, let call): return .refreshing(tokens, call)
        case .stale(_, let retryState): return .stale(tokens, retryState)
        case .unreachable(_, let retryState): return .unreachable(tokens, retryState)
        // They have no tokens.
        case .loggedOut, .loggingIn, .loginRequired, .refused: return self
        }
    }

    /// What the shards are told. It never contains an expired token.
    package func availability(at now: Instant, _ context: borrowing SessionContext) -> AccessToken.Availability {
        switch self {
        case .loggedOut: .none(context.refusalAfterLogout)
        case .loginRequired: .none(.loginRequired)
        case .refused(let error, _):
            .none(
                .credentialRefused(
                    because: error.message, action: reason.action(latest: error, canLogIn: context.hasCredential)))
        case .loggingIn(let retryState):
            retryState.failures == 0 ? .pending : Self.unreachable(retryState, at: now, context)
        case .unreachable(_, let retryState): Self.unreachable(retryState, at: now, context)
        case .valid(let tokens, let refreshAt):
            Self.token(
                tokens, awaiting: nil, isBetweenAttempts: false,
                refreshAt == .never
                    ? tokens.usableUntil == .never ? .elsewhere : .impossible
                    : Self.renewal(from: context.notBefore, at: now, context),
                at: now, context)
        case .refreshing(let tokens, let call):
            Self.token(tokens, awaiting: call, isBetweenAttempts: false, .inProgress, at: now, context)
        case .stale(let tokens, let retryState):
            tokens.isUsable(at: now) || retryState.call != nil
                ? Self.token(
                    tokens, awaiting: retryState.call, isBetweenAttempts: retryState.call == nil,
                    Self.renewal(in: retryState, at: now, context), at: now, context)
                : Self.unreachable(retryState, at: now, context)
        }
    }

    /// The renewal that a refused token would cause after earlier failures.
    private static func renewal(
        in retryState: RetryState, at now: Instant, _ context: borrowing SessionContext
    ) -> AccessToken.Renewal {
        if retryState.makesNoAttempt { return .elsewhere }
        return retryState.call != nil ? .inProgress : renewal(from: retryState.notBefore, at: now, context)
    }

    private static func renewal(
        from notBefore: Instant, at now: Instant, _ context: borrowing SessionContext
    ) -> AccessToken.Renewal {
        notBefore <= now ? .possible(from: context.forcedRefreshAllowedAt(at: now)) : .failing(until: notBefore)
    }

    /// Requests wait from the mandatory zone on, at once after an upstream's refusal, and not at all between attempts
    /// (refresh.md 4).
    private static func token(
        _ tokens: SessionTokens, awaiting call: SessionCall?, isBetweenAttempts: Bool, _ renewal: AccessToken.Renewal,
        at now: Instant, _ context: borrowing SessionContext
    ) -> AccessToken.Availability {
        guard tokens.isUsable(at: now) else { return .pending }
        let waitsFrom = isBetweenAttempts ? .never : waitsFrom(tokens, awaiting: call, context)
        return .token(tokens.accessToken(of: context.user, waitsFrom: waitsFrom, renewal: renewal))
    }

    private static func waitsFrom(
        _ tokens: SessionTokens, awaiting call: SessionCall?, _ context: borrowing SessionContext
    ) -> Instant {
        guard let call else { return tokens.mandatoryFrom }
        if call.cause == .forced { return .past }
        // Until the second call goes out a request that waits gains nothing.
        guard call.startedAt < tokens.mandatoryFrom, let delay = context.secondCallAfter(of: tokens) else {
            return tokens.mandatoryFrom
        }
        return max(tokens.mandatoryFrom, min(call.startedAt + delay, tokens.usableUntil))
    }

    /// From when on requests wait for the call in progress.
    func waitsFrom(_ context: borrowing SessionContext) -> Instant {
        tokens.map { Self.waitsFrom($0, awaiting: call, context) } ?? .past
    }

    /// The end of an attempt in progress is unknown: a request may try again after the longest wait.
    private static func unreachable(
        _ retryState: RetryState, at now: Instant, _ context: borrowing SessionContext
    ) -> AccessToken.Availability {
        var next = retryState.nextAttemptAt ?? now + context.settings.waitMax
        // A request that comes again has the service asked.
        if let probe = retryState.probeAt(now, by: context.policy) { next = min(next, probe) }
        let action = retryState.reason.action(latest: retryState.error, canLogIn: context.hasCredential)
        if let error = retryState.error {
            switch error.passedOn {
            case .loginRequired: return .none(.loginRequiredElsewhere(because: error.message))
            case .credentialRefused: return .none(.credentialRefusedElsewhere(because: error.message))
            case nil: break
            }
            if error.verdict == .clientRefused { return .none(.clientRefused(because: error.message, action: action)) }
            if error.cause == .unusableToken { return .none(.tokenUnusable(because: error.message)) }
        }
        return .none(
            .identityUnreachable(
                nextAttemptAt: next, because: retryState.error?.message, action: action,
                requested: retryState.requestedAttempt(by: context.policy)))
    }
}
