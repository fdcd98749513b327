import LanyardSessionInterface
import LanyardSettings

/// How a session ends: by an operator or with the process, and how an intent is closed that a crash left open.
extension SessionCoordinator {
    /// Local first: the shards learn of it at once, then the store, then the service. A call in progress comes too late.
    mutating func terminate(_ termination: Termination, id: UInt64) {
        replyToRefreshCallsBeforeTermination()
        let version = endingVersion
        let hasGivenUpToken = writes.hasUnsavedEnding || writes.hasUnsavedTokenDrop
        // Nothing is left that a revocation of a token with an unknown outcome could end.
        var newest = refreshToken.orphan?.token ?? session.tokens.flatMap { $0.refresh ?? $0.lastTry?.token }
        let accessTokens = accessTokensToRevoke
        refreshToken.orphan = nil
        let spent = unsavedSpentCredential
        if let operation, let grant = operation.unsavedGrant {
            // A login has begun another session than the one that ends. A refresh has continued the same session.
            switch operation.call.kind {
            case .login: giveUp(grant, ofLogin: operation)
            case .refresh: newest = grant.refreshToken ?? newest
            }
        }
        if let grant = waiting.login?.obtained?.grant { revoke(unwanted: grant) }
        endLogin(.overtaken)
        // A mark on its way has its result with its write.
        if waiting.deletion == .locking { endPreparation(.overtaken) }
        (operationState, waiting.login, waiting.call) = (.none, nil, nil)
        knownRecord.forgetUser()
        refreshToken.triesWithoutResponse = 0
        for action in session.handle(.logOut, at: eventContext, &context) {
            switch action {
            case .publish(let availability): publish(availability)
            case .logEvent(let logEvent): emit(.logEvent(logEvent))
            case .login, .refresh, .revoke: break
            }
        }
        let evicted = knownRecord.wasStored ? nil : knownRecord.foreign?.evictionRevocation(at: eventContext.wall)
        let ended = newest.map { [revocation(of: $0)] } ?? accessTokens
        // This termination takes the place of one that the store has not taken, and of what that is to revoke.
        let others = [writes.unsavedRevocations, evicted.map { [$0] } ?? []].first { !$0.isEmpty } ?? []
        let revocations = (ended.isEmpty ? others : ended).map(\.byOperator)
        var end = StoreChange.SessionEnd(version, revocations: revocations, at: eventContext.wall)
        end.includesAccessTokens = setup.service.revokesAccessTokens
        end.hasGivenUpToken = hasGivenUpToken
        // Another process may have put another identity's user in the place of this one.
        if knownRecord.wasStored { end.owner = identity }
        // The sessions of a deleted account have ended.
        if deletion?.isDone == true { (end.isDeleted, end.revocations) = (true, evicted.map { [$0.byOperator] } ?? []) }
        deletion = nil
        write(.terminate(termination, end), for: .termination(id))
        if case .logOut = termination { recordSpent(spent) }
    }

    private mutating func giveUp(_ grant: Grant, ofLogin operation: TokenOperation) {
        switch operation.stage {
        case .beginning, .queueing, .pausing, .preparing, .calling, .claiming, .closing: revoke(unwanted: grant)
        // The store may hold that session until it takes the termination.
        case .saving:
            writes.revokedAfterTermination += revocations(ofUnwanted: grant)
            // The store may hold the session that this login replaces in its place.
            if let replaced = operation.replacedRefreshToken {
                writes.revokedAfterTermination.append(revocation(of: replaced))
            }
        }
    }

    /// The access tokens of a session without a refresh token: nothing else ends it at the service (RFC 7009 §2.1).
    var accessTokensToRevoke: [StoredRevocation] {
        guard setup.service.revokesAccessTokens, let plain = session.tokens, plain.refresh == nil else { return [] }
        let all = [plain] + variants.compactMap(\.session.tokens)
        return all.filter { $0.expiry.map { eventContext.wall < $0 } ?? true }.map {
            revocation(of: $0.access, .accessToken)
        }
    }

    /// The configured credential, if it has served in a login that the store may not have taken.
    private var unsavedSpentCredential: CredentialFingerprint? {
        switch operation?.stage {
        case .claiming(let grant), .saving(let grant):
            operation?.call.kind == .login ? spentCredential(after: grant) : nil
        case nil, .beginning, .queueing, .pausing, .preparing, .calling, .closing:
            writes.unsaved?.refused
        }
    }

    /// The session that an operator ends, as far as it is known here. The store revokes what it holds beyond it.
    private var endingVersion: SessionVersion {
        if session.tokens != nil { return SessionVersion(session: sessionID, generation: knownRecord.current) }
        // Its refresh token is dead or must not be sent again, and the store does not know that yet.
        return writes.hasUnsavedEnding || writes.hasUnsavedTokenDrop ? knownRecord.base : .absent
    }

    // MARK: The end of the process

    /// No new call begins: an intent without its call would have an unknown outcome. A session that already exists
    /// is stored, whatever it waits for.
    mutating func drain() {
        guard !isDraining else { return }
        shutdown = .draining
        waiting.call = nil
        for place in variants.indices { variants[place].waiting = nil }
        if let login = waiting.login, login.obtained == nil {
            waiting.login = nil
            endLogin(.stopping)
        }
        if waiting.deletion == .locking { endPreparation(.stopping) }
        guard let operation, !operation.hasBegun else { return }
        if operation.purpose == .operatorLogin { endLogin(.stopping) }
        finish()
    }

    /// The session's own call will not be made any more.
    var hasStoppedCalling: Bool { isDraining && operation == nil }

    /// Nothing is left to do before the process ends; `isUnsaved` tells whether something could not be stored.
    package var isDrained: Bool {
        hasStoppedCalling && waiting.login == nil && writes.writesInFlight.isEmpty && !writes.isWriting
    }

    /// A call with a refresh token that may be exchanged for another one has no response yet, or the response is being
    /// stored. The refresh token may be that of a file, which a login sends.
    package var isRotating: Bool {
        guard setup.refreshTokens.rotation != .none, let operation,
            operation.refresh != nil || operation.sendsConfiguredRefreshToken
        else { return false }
        return switch operation.stage {
        // The store may have the intent already, and then the call follows.
        case .beginning(.whole), .beginning(.intent), .calling, .claiming, .saving: true
        case .beginning(.lock), .beginning(.read), .queueing, .pausing, .preparing, .closing: false
        }
    }

    /// The store does not have the session's newest refresh token, or does not know that it was sent, and no login takes the
    /// session's place as well: a stop repeats the write while it may.
    package var hasUnsavedRefreshToken: Bool {
        writes.unsavedChanges.contains { pendingChange in
            switch pendingChange {
            case .saveSession(let login):
                login.session.refresh != nil && login.session.refresh != knownRecord.user?.session?.refresh
                    && (rotation != .none || !context.hasCredential)
            case .storeIntent: rotation != .none
            case .clearIntent, .dropRefreshToken, .end, .recordRefusal, .terminate, .beginDeletion, .cancelDeletion:
                false
            }
        }
    }

    /// A crash, or the end of the process, would lose something that the store has not taken.
    package var isUnsaved: Bool { !writes.unsavedChanges.isEmpty }

    /// The store still holds a session that has ended here.
    package var hasUnsavedEnd: Bool { writes.hasUnsavedEnding }

    /// The store holds the current session as it is. It never will if it holds another identity's user in its place.
    var isStored: Bool { !isUnsaved && !knownRecord.isDisplaced }

    /// Tries the unsaved changes once more when nothing else is in progress. Then the process may end.
    mutating func retryBeforeExit() {
        guard isDrained, case .draining = shutdown else { return }
        shutdown = .retried
        retryNext()
    }

    // MARK: After a crash

    /// Closes the open intent of a user that is not logged in and has no automatic login, and ends a deletion that was
    /// cut off. The user's lock is needed because the call or the deletion may be another process's.
    mutating func closeStoredIntent(_ result: Result<StoredUser?, StoreError>) {
        guard case .success(let user?) = result else { return finish() }
        switch relation(of: user) {
        case .sameDeletion: endInterruptedDeletion(user)
        case .sameWithoutSession, .sameLoggedOut: user.intent == nil ? finish() : close(with: .clearIntent)
        case .foreign, .same, .sameWithoutRefreshToken, .sameAbsent, .older, .deletingElsewhere, .deletingOtherSession,
            .ownFailedWrite, .exchangedToken, .sameTokens, .absent, .loggedOut, .ended, .newer, .otherSession:
            finish()
        }
    }
}
