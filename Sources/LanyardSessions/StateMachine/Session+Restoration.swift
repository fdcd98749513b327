import LanyardFoundations
import LanyardSessionInterface

/// How a session takes over tokens that no call of its own has brought: from the store, at a reload, and from a file.
extension Session {
    /// Restores the stored session. An access token that must not be used waits for one refresh.
    consuming func restore(_ tokens: SessionTokens, _ how: Restoration, _ transition: inout TransitionContext)
        -> Session
    {
        let event: SessionLogEvent.Event = how.isAdopted ? .adopted : .restored
        guard how.isTrusted, tokens.isUsable(at: transition.now) else {
            let withheld = tokens.withheld(at: transition.now)
            guard let next = Self.renewing(withheld, .start, &transition) else {
                return Self.end(transition.context.lastError, &transition)
            }
            transition.publish(next)
            transition.logEvent(
                event, reason: how.isTrusted ? "expired" : "offline_never",
                nextAt: next.call == nil ? next.nextCallAt : transition.now)
            return next
        }
        transition.context.hasEverBeenReady = true
        guard transition.context.canRenew(tokens) else {
            let next = Self.serveToEnd(tokens, nil, &transition)
            transition.logEvent(event, reason: "token_valid", nextAt: next.due(transition.context))
            return next
        }
        let scheduled = transition.refreshAt(tokens, spread: how.spread)
        // A Retry-After of the service applies to every token of this user.
        let allowed = min(transition.context.notBefore, tokens.mandatoryFrom)
        let next = Session.valid(tokens, refreshAt: max(how.isUrgent ? transition.now : scheduled, allowed))
        transition.publish(next)
        transition.logEvent(
            event, reason: how.isUrgent ? "outcome_unknown" : "token_valid", nextAt: next.due(transition.context))
        return next
    }

    /// A reload has changed which token the session has (docs/reference/oauth-variants.md 4.2).
    consuming func exchange(for tokens: SessionTokens, _ transition: inout TransitionContext) -> Session {
        transition.context.lastError = nil
        guard tokens.isUsable(at: transition.now) else {
            guard let next = Self.renewing(tokens, .requestChanged, &transition) else {
                return Self.end(nil, &transition)
            }
            transition.publish(next)
            return next
        }
        guard transition.context.canRenew(tokens) else { return Self.serveToEnd(tokens, nil, &transition) }
        let scheduled = transition.refreshAt(tokens)
        let next = Session.valid(
            tokens, refreshAt: max(scheduled, min(transition.context.notBefore, tokens.mandatoryFrom)))
        transition.publish(next)
        return next
    }

    /// Renews tokens that cannot be served, at once or after the service's Retry-After; nil if nothing can renew them.
    private static func renewing(
        _ withheld: SessionTokens, _ cause: SessionCall.Cause, _ transition: inout TransitionContext
    ) -> Session? {
        if withheld.refresh != nil || transition.context.hasCredential,
            let retryState = transition.context.waitBeforeCall(at: transition.now)
        {
            return .unreachable(withheld, retryState)
        }
        return transition.renewal(of: withheld, cause).map { .refreshing(withheld, $0) }
    }

    /// A token that is renewed elsewhere: `valid` while it can be read, and `stale` while its file is being written.
    consuming func feed(_ outcome: Result<Secret, IdentityError>, _ transition: inout TransitionContext) -> Session {
        switch outcome {
        case .success(let token):
            var grant = Grant(
                accessToken: token, refreshToken: nil, userID: nil, lifetime: .nanoseconds(Int64.max),
                refreshTokenExpiry: nil, serverDate: nil)
            // The identity is the account, whatever its file holds.
            grant.account = AccountFingerprint(of: ["static"])
            let tokens = transition.context.accept(
                grant, startedAt: transition.now, startedAtWall: transition.eventContext.wall)
            let next = Self.serve(tokens, &transition)
            transition.logEvent(.tokenChanged, reason: "read")
            return next
        case .failure(let error):
            guard error.verdict == .credentialDelayed, let tokens else { return Self.refuse(error, &transition) }
            transition.context.lastError = error
            // The feed has the next outcome: no attempt of the session's own follows.
            let next = Session.stale(tokens, RetryState(waitingUntil: .never, because: error))
            transition.publish(next)
            transition.logEvent(
                .tokenKept, .warning, reason: next.reason.rawValue,
                nextAt: transition.now + TokenTransition.durationMax, error: error)
            return next
        }
    }
}
