import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// What a refused call leads to that its response alone does not say: it depends on the session, the configured login and the
/// refusals before (refresh-outcomes.md 12).
extension SessionCoordinator {
    /// The service takes no refresh tokens of this client, or has refused the refresh by a named error, and the access token has
    /// ended. The login that follows may be allowed, and begins another session (docs/reference/oauth-rules.md 3). The refresh token may
    /// live on at the service until then.
    mutating func refusedRefresh(_ error: IdentityError, of operation: TokenOperation) -> IdentityError {
        guard operation.purpose == .own, !operation.isFetch, case .configured(let login)? = setup.credential,
            login.kind != .refreshToken, !login.kind.isInteractive
        else { return error }
        let hasEnded = session.tokens.map { !$0.isUsable(at: eventContext.instant) } ?? false
        switch error.verdict {
        case .clientRefused where error.isGrantRefused: break
        // With a Retry-After the service asks for another try.
        case .clientRefused where error.refusesRefresh && hasEnded && error.retryAfter == nil,
            .credentialDoubted where error.refusesRefresh && hasEnded && error.retryAfter == nil,
            .transient where error.refusesRefresh && hasEnded && error.retryAfter == nil:
            break
        case .transient, .unknownOutcome, .sessionDead, .credentialRefused, .credentialDoubted, .gone, .unknownApp,
            .credentialUnavailable, .credentialDelayed, .accountInUse, .clientRefused, .callRefused:
            return error
        }
        if let token = operation.refresh { refreshToken.orphan = (token, sessionID) }
        var error = error
        error.verdict = .sessionDead
        return error
    }

    /// A login that only renews the access token is refused, or one that takes the place of refreshes: the session's tokens serve to
    /// their ends, as after a refused refresh. Until then the login is tried again, and at once when a file of the client or of the
    /// login changes
    /// (docs/reference/oauth-rules.md 3).
    func refusedRenewal(_ error: IdentityError, of operation: TokenOperation) -> IdentityError {
        guard operation.purpose == .own, !operation.isFetch, case .configured(let login)? = operation.credential,
            login.kind.isRefresh || error.isGrantRefused, let tokens = session.tokens, tokens.refresh == nil,
            hasUsableToken
        else { return error }
        var error = error
        switch error.verdict {
        case .credentialRefused, .credentialDoubted, .credentialUnavailable: error.verdict = .clientRefused
        case .transient, .unknownOutcome, .sessionDead, .gone, .unknownApp, .credentialDelayed, .accountInUse,
            .clientRefused, .callRefused:
            break
        }
        return error
    }

    /// Its own, or that of a variant.
    private var hasUsableToken: Bool {
        session.tokens?.isUsable(at: eventContext.instant) == true
            || variants.contains { $0.session.tokens?.isUsable(at: eventContext.instant) == true }
    }

    /// Counts a login of a machine that was refused for its client. It is made a few times more (refresh-outcomes.md 12).
    func countingClientTry(_ error: IdentityError, of operation: TokenOperation) -> IdentityError {
        guard operation.purpose == .own, !operation.isFetch, case .configured(let login)? = operation.credential,
            login.kind.isRepeatedForClient, let fingerprint = error.credential
        else { return error }
        // Client credentials have nothing else that a refusal without a name could be for.
        let isOfClient =
            error.isOfClient && error.verdict == .credentialRefused
            || login.kind == .clientCredentials && error.verdict == .credentialDoubted
        guard isOfClient else { return error }
        let known = knownRecord.refused.flatMap { fingerprint.isSame(as: $0) ? $0.clientTries?.count : nil } ?? 0
        var error = error
        error.credential?.clientTries = ClientTries(
            count: min(known + 1, Int(UInt16.max)), at: eventContext.wall)
        return error
    }

    /// The access token in whose place the call is to bring another one, because an upstream has refused it; nil: none was refused.
    func refusedToken(of call: SessionCall) -> Secret? {
        guard call.cause == .forced else { return nil }
        if call.variant == .plain { return session.tokens?.access }
        return variants.first { $0.named.variant == call.variant && $0.session.call?.number == call.number }?
            .session.tokens?.access
    }

    /// It is the login that follows one that was refused for its client. Another process may have made it since.
    func isClientRetry(_ operation: TokenOperation) -> Bool {
        guard let tries = knownRecord.refused?.clientTries else { return false }
        if case .refused(let error, let retryState?) = session, retryState.call?.number == operation.number,
            error.credential?.clientTries == tries
        {
            return true
        }
        return context.policy.clientRetryWait(after: tries, at: eventContext.wall) == .zero
    }
}
