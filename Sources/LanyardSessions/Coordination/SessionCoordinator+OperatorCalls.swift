import LanyardSessionInterface

/// The start, and what operators ask of a user's session.
extension SessionCoordinator {
    /// The start: continues with the stored session, or logs in if there is none.
    mutating func begin(_ stored: StoredUser?, duplicateOf other: String?) {
        knownRecord.isProvisional = setup.isAdded && stored?.isAdded != true
        guard let stored else { return logInFirst() }
        let relation = relation(of: stored)
        switch relation.storedState {
        case .foreign:
            // A changed identity means another account. The new login replaces what is stored.
            recordForeignUser(stored)
            logInFirst()
        case .loggedOut:
            recordStoredAtStart(stored)
            applyToSession(.ended(reason: "remembered"))
            // Under the user's lock it turns out whether another process is deleting the account.
            waiting.closesIntent = stored.intent != nil || relation.isDeletingElsewhere
        case .session:
            recordStoredAtStart(stored)
            begin(with: stored, duplicateOf: other)
        case .ended, .removed:
            recordStoredAtStart(stored)
            logInAnew(after: stored)
        }
    }

    private mutating func recordStoredAtStart(_ stored: StoredUser) {
        knownRecord.rebase(on: stored)
        recordStored(stored)
    }

    /// The store has no user of this identity.
    private mutating func logInFirst() {
        context.expect(generation: knownRecord.base.generation.next)
        applyToSession(.logIn)
    }

    private mutating func begin(with stored: StoredUser, duplicateOf other: String?) {
        guard let session = stored.session else { return }
        if let other { return endDuplicate(session, to: other) }
        if stored.isRefused { return logInAnew(after: stored) }
        compareLoginKinds(stored)
        restore(session, of: stored, isAdopted: false)
    }

    /// No stored session can be served.
    private mutating func logInAnew(after stored: StoredUser) {
        context.expect(generation: knownRecord.base.generation.next)
        applyToSession(.logIn)
        waiting.closesIntent = stored.intent != nil && waiting.call == nil
    }

    /// An older release let two users have one account. This user's session ends. The configured credential may log in
    /// to whatever account it leads to.
    private mutating func endDuplicate(_ session: StoredSession, to other: String) {
        logEvent(.accountShared, .error, reason: "account_in_use", details: ["other": other])
        if let token = session.refresh { revoke(token) }
        writes.keep(.end)
        retryNext()
        context.expect(generation: knownRecord.base.generation.next)
        applyToSession(.logIn)
    }

    /// The stored session continues whatever is configured. The store knows the kind of its login. It knows only the
    /// service's id of the account, which no configuration names.
    mutating func compareLoginKinds(_ stored: StoredUser) {
        guard let configured = setup.credential?.provider, let provider = stored.provider, provider != configured
        else { return }
        logEvent(.credentialDiffers, .warning, reason: "kind", details: ["stored": provider, "configured": configured])
    }

    /// An operator's login, or a session that came from one. It begins when the present operation has ended.
    mutating func beginOperatorLogin(_ login: OperatorLogin) {
        let refusal: SessionReply? =
            if waiting.awaitsLogin || isLoggingIn { .loginInProgress } else if isDraining, login.obtained == nil {
                .stopping
            } else { nil }
        guard let refusal else {
            waiting.login = login
            return waiting.awaitsLogin = true
        }
        if let grant = login.obtained?.grant { revoke(unwanted: grant) }
        emit(.refuseCall(refusal))
    }

    /// The result of the operator's login. Nothing happens if it has one.
    mutating func endLogin(_ result: SessionReply) {
        guard waiting.awaitsLogin else { return }
        waiting.awaitsLogin = false
        emit(.loginEnded(result))
    }

    /// A login is in progress. A second one would end in two sessions.
    var isLoggingIn: Bool {
        guard let operation, operation.call.kind == .login, !operation.isFetch else { return false }
        if case .closing = operation.stage { return false }
        return true
    }

    mutating func refresh() {
        if session.tokens != nil { applyToSession(.refreshNow(.asked)) }
        // Otherwise its outcome comes first: the service may not want to be called.
        if session.call == nil { retryVariants() }
        // One that waits already is told of the same end.
        guard session.call == nil, !waiting.awaitsRefresh else { return waiting.awaitsRefresh = true }
        guard session.tokens != nil else { return emit(.refreshEnded(.notLoggedIn)) }
        // Nothing can renew it.
        emit(.refreshEnded(context.lastError.map { .failed($0) } ?? .notSupported))
    }

    /// Replies once the session's call has its final result and that is stored.
    mutating func replyToRefreshCalls() {
        guard waiting.awaitsRefresh, session.call == nil || hasStoppedCalling else { return }
        // A crash right after the reply must not undo what the reply reports.
        if case .closing? = operation?.stage { return }
        sendRefreshReplies()
    }

    /// Before a termination, reports the result of a completed call: only the write was still open.
    mutating func replyToRefreshCallsBeforeTermination() {
        if waiting.awaitsRefresh, session.call == nil { sendRefreshReplies() }
    }

    private mutating func sendRefreshReplies() {
        waiting.awaitsRefresh = false
        emit(.refreshEnded(session.call == nil ? refreshReply : .stopping))
    }

    /// What the last refresh has led to.
    private var refreshReply: SessionReply {
        switch session {
        case .valid: .refreshed
        case .loggedOut: .overtaken
        // An error that allowed another attempt no longer applies: nothing is left to make the attempt with.
        case .loginRequired(let error) where error?.isRetryable != false: .loginRequired
        case .loggingIn, .refreshing, .stale, .unreachable, .loginRequired, .refused:
            .failed(context.lastError ?? IdentityError(.transient(retryAfter: nil), message: "the session has ended"))
        }
    }
}
