import LanyardFoundations
import LanyardSessionInterface

/// The last try: a refresh token that works only once, and whose outcome is unknown, is sent once more when every access
/// token of the session has ended and no credential can log in (refresh-outcomes.md 9). Then nothing is left that a repeat could end.
///
/// The state is `stale` while the access token is usable, and `unreachable` from then on. `SessionCoordinator` makes sure
/// of the rest: the user's lock, the store, and the mark that no process sends the token a third time.
extension Session {
    /// The access token serves to its end, and nothing renews it before the last try.
    static func awaitLastTry(
        of tokens: SessionTokens, _ error: IdentityError?, _ transition: inout TransitionContext
    ) -> Session {
        guard let lastTry = tokens.lastTry else { return end(error, &transition) }
        transition.context.lastError = error
        var retryState = RetryState(waitingUntil: lastTry.at, because: error)
        retryState.awaitsLastTry = true
        let next: Session =
            tokens.isUsable(at: transition.now) ? .stale(tokens, retryState) : .unreachable(tokens, retryState)
        transition.publish(next)
        transition.logEvent(
            .lastTryAwaited, .warning, reason: SessionReason.outcomeUnknown.rawValue, nextAt: lastTry.at, error: error)
        return next
    }

    /// The configured credential was refused for good: the last try takes the place of its logins. Nil: there is none.
    borrowing func makeLastTry(insteadOfLogin error: IdentityError, _ transition: inout TransitionContext) -> Session? {
        guard var tokens, tokens.lastTry != nil else { return nil }
        switch error.verdict {
        case .credentialRefused, .credentialDoubted, .credentialUnavailable: break
        case .transient, .unknownOutcome, .sessionDead, .gone, .unknownApp, .credentialDelayed, .accountInUse,
            .clientRefused,
            .callRefused:
            return nil
        }
        tokens.lastTry?.replacesLogin = true
        transition.context.lastError = error
        guard let call = transition.renewal(of: tokens, .lastTry) else {
            return Self.awaitLastTry(of: tokens, error, &transition)
        }
        return .unreachable(tokens, RetryState(calling: call))
    }

    /// A credential may log in now.
    static func logIn(
        insteadOfLastTryOf tokens: SessionTokens, _ retryState: RetryState, _ transition: inout TransitionContext
    ) -> Session {
        var tokens = tokens
        tokens.lastTry?.replacesLogin = false
        guard let call = transition.renewal(of: tokens, .credentialChanged) else {
            return awaitLastTry(of: tokens, retryState.error, &transition)
        }
        return tokens.isUsable(at: transition.now)
            ? .stale(tokens, retryState.calling(call)) : .unreachable(tokens, retryState.calling(call))
    }
}
