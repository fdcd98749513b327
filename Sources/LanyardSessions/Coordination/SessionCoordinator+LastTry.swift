import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Refresh tokens that work only once: the last try after an unknown outcome, and calls while the store cannot be written
/// (refresh.md 8, refresh-outcomes.md 9).
extension SessionCoordinator {
    // MARK: The last try

    /// When the refresh token whose outcome is unknown may be sent once more: each access token of the session has ended by
    /// then, of variants too. Nil: never, because a credential can log in, or it was sent once more before.
    var lastTryAt: Instant? {
        guard setup.refreshTokens.lastTry, rotation != .none, !refreshToken.hasMadeLastTry, canOnlyOperatorLogIn,
            deletion == nil, knownRecord.foreign == nil, let tokens = session.tokens
        else { return nil }
        let variantTokens = variants.compactMap(\.session.tokens?.hasEndedAt)
        // Those of routes that a reload has removed may be in use elsewhere.
        let stored = (writes.unsaved?.session ?? knownRecord.user?.session)?.tokens.others.values.map(hasEndedAt) ?? []
        return (variantTokens + stored).reduce(max(tokens.hasEndedAt, unknownOutcomePauseEnd), max)
    }

    /// The service may still be at the call that had no response.
    private var unknownOutcomePauseEnd: Instant {
        let pause = context.policy.unknownOutcomePause
        let since = min(max(eventContext.wall - refreshToken.unconfirmedSince, .zero), pause)
        return eventContext.instant + (pause - since)
    }

    private func hasEndedAt(_ token: StoredAccessToken) -> Instant {
        SessionTokens(
            token, (nil, nil), generation: .zero, accountID: nil, account: .none, boot: setup.boot, at: eventContext,
            skew: context.skew ?? .zero, settings: context.settings
        ).hasEndedAt
    }

    /// No credential is configured, or only one that works for a single login. That one is tried first.
    private var canOnlyOperatorLogIn: Bool {
        guard case .configured(let login)? = setup.credential else { return setup.credential == nil }
        return login.kind == .refreshToken || login.kind == .googleAuthCode
    }

    /// The intent stays open, here and in the store, until the last try or an operator's login.
    mutating func holdForLastTry(_ call: SessionCall, _ error: IdentityError, until lastTryAt: Instant) {
        recordLostFetch(call, error)
        applyToSession(
            call.variant == .plain
                ? .abandoned(error, call, lastTryAt: lastTryAt)
                : .refreshTokenEnded(error, .outcomeUnknown, lastTryAt: lastTryAt))
        if refreshToken.isIntentUnsaved {
            keepOpenIntent()
            writes.wait(until: eventContext.instant + context.policy.unsavedRetryDelay)
        }
        finish()
    }

    /// Under the user's lock, after the store was read. No process has a newer token, since that would have been taken over.
    mutating func prepareLastTry(_ operation: TokenOperation) {
        guard lock == .held, writes.unsavedChanges.isEmpty else { return postpone(because: writes.error) }
        guard let lastTryAt else { return abandon(operation.call, Self.unknownOutcome) }
        guard lastTryAt <= eventContext.instant else {
            return holdForLastTry(operation.call, Self.unknownOutcome, until: lastTryAt)
        }
        prepareOrStoreIntent()
    }

    /// The store did not take the mark of the last try: another process has changed the user, or has made it.
    mutating func handleOvertakenLastTry(by user: StoredUser?) {
        guard let operation else { return }
        guard writes.unsavedChanges.isEmpty else { return postpone(because: writes.error) }
        switch relation(of: user).resolutions.beforeRefresh {
        case .read(.proceed):
            recordStored(user)
            refreshToken.hasMadeLastTry = true
            abandon(operation.call, Self.unknownOutcome)
        case .read(.continueBeside), .read(.writeNewer), .read(.yield), .endToken: reconcile(with: user)
        }
    }

    /// The last try has been sent, and has brought no new token: whatever the error, it is never repeated.
    mutating func endAfterLastTry(_ error: IdentityError, of operation: TokenOperation) {
        var error = error
        error.verdict = .unknownOutcome
        error.message =
            "the outcome of a refresh was unknown, and the last try with its refresh token failed: \(error.message)"
        refreshToken.hasMadeLastTry = true
        abandon(operation.call, error)
    }

    // MARK: A store that fails

    /// The refresh token that the operation sends, if it may work only once and is sent even if the store does not take the intent: the
    /// store then marks it. For a last try, the token that it is about.
    func tokenToMark(of operation: TokenOperation) -> Secret? {
        operation.call.kind == .refresh && rotation != .none && !canWaitForStore(operation) ? operation.refresh : nil
    }

    /// The intent could not be stored. The call is still made, unless its token works only once and was not marked.
    ///
    /// - Parameter marked: `tokenToMark` of the intent.
    mutating func callUnmarked(because error: StoreError, marked: Secret?) {
        guard let operation else { return }
        let canWait = operation.refresh != nil && rotation != .none && marked == nil
        operation.isLastTry || canWait ? postpone(because: error) : call()
    }

    /// The token works only once, no operator has asked for the call, and requests have an access token until the mandatory zone.
    private func canWaitForStore(_ operation: TokenOperation) -> Bool {
        guard operation.purpose == .own, operation.refresh != nil, rotation != .none, !waiting.awaitsRefresh else {
            return false
        }
        switch operation.call.cause {
        case .scheduled, .retry, .start, .requestChanged: break
        // An upstream refuses the access token, or an operator wants the call.
        case .forced, .asked, .fetchRefused, .sessionDead, .outcomeUnknown, .lastTry, .credentialChanged: return false
        }
        let tokens =
            operation.isFetch
            ? variants.first { $0.named.variant == operation.call.variant }?.session.tokens : session.tokens
        return tokens.map { eventContext.instant < $0.mandatoryFrom } ?? false
    }

    /// Nothing is sent now. The call is tried again like one that has failed.
    ///
    /// - Parameter error: why the store cannot be written; nil: the user's lock cannot be taken, or the store holds another user.
    mutating func postpone(because error: StoreError?) {
        guard let operation else { return }
        let reason = error.map { "the store cannot be written: \($0.message)" } ?? "the user's lock cannot be taken"
        var failure = IdentityError(
            .transient(retryAfter: nil), message: "the refresh token works only once, and is not sent now: " + reason)
        failure.isOfStore = true
        failure.responsible = .operator
        if operation.isFetch {
            failFetch(failure, of: operation)
        } else {
            applyToSession(.failed(failure, operation.call))
        }
        finish()
    }
}
