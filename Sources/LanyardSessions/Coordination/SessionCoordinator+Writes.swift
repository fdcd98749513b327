import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Writes to the store: one change at a time, each based on the version that the one before has left.
extension SessionCoordinator {
    mutating func write(_ pendingChange: SessionWrites.PendingChange, for origin: SessionWrites.Origin) {
        let write = SessionWrites.Write(pendingChange: pendingChange, origin: origin)
        guard !isBlockedByForeign(write) else { return skipWrite(write) }
        writes.writesInFlight.append(write)
        writeNext()
    }

    private mutating func writeNext() {
        while !writes.isWriting, let next = writes.writesInFlight.first {
            if case .operation(let number) = next.origin, number != operation?.number {
                // A change of an abandoned operation is dropped.
                writes.writesInFlight.removeFirst()
            } else if isBlockedByForeign(next) {
                // The change before it has found the foreign user.
                writes.writesInFlight.removeFirst()
                skipWrite(next)
            } else {
                writes.isWriting = true
                emit(.commit(change(next)))
            }
        }
    }

    private func change(_ write: SessionWrites.Write) -> StoreChange {
        switch write.pendingChange {
        case .storeIntent(let intent, let token, let isLastTry):
            return .storeIntent(
                user: setup.user, identity: identity, intent, base: knownRecord.base, token: token, isLastTry: isLastTry
            )
        case .clearIntent:
            let isOfLogin = write.origin != .unsavedChanges && operation?.call.kind == .login
            return .clearIntent(user: setup.user, sent: sentToken(of: write), isOfLogin: isOfLogin)
        case .dropRefreshToken: return .dropRefreshToken(user: setup.user, base: knownRecord.base)
        case .end: return .end(user: setup.user, base: knownRecord.base)
        case .saveSession(var login):
            login.hasOpenCall = refreshToken.triesWithoutResponse > 0
            return .saveSession(
                user: setup.user, writes.hasUnsavedCancellation ? login.endingDeletion : login, base: knownRecord.base)
        case .recordRefusal(let fingerprint, let endedVersion):
            return .recordRefusal(user: setup.user, identity: identity, fingerprint, endedVersion: endedVersion)
        case .beginDeletion(let session): return .beginDeletion(user: setup.user, session: session)
        case .cancelDeletion(let session): return .cancelDeletion(user: setup.user, session: session)
        case .terminate(.logOut, let end): return .logOut(user: setup.user, identity: identity, end)
        case .terminate(.remove, let end): return .remove(user: setup.user, end)
        }
    }

    /// The refresh token whose call has had its response, if it may work only once; nil: a login's intent is closed, or one of a crash.
    private func sentToken(of write: SessionWrites.Write) -> StoreChange.SentToken? {
        // A change that is tried again is of the session's present token: a later session would have taken its place.
        let token = write.origin == .unsavedChanges ? session.tokens?.refresh : operation?.refresh
        guard rotation != .none, let token else { return nil }
        return StoreChange.SentToken(token, openCalls: refreshToken.triesWithoutResponse)
    }

    mutating func handleCommitted(_ result: Result<StoreChange.Verdict, StoreError>) {
        guard writes.isWriting, !writes.writesInFlight.isEmpty else { return }
        writes.isWriting = false
        let write = writes.writesInFlight.removeFirst()
        switch result {
        case .success(.storedEnding(let user, let ended)): handleWriteSuccess(write, .stored(user), ending: ended)
        case .success(let verdict): handleWriteSuccess(write, verdict, ending: [])
        case .failure(let error): handleWriteFailure(write, error)
        }
        writeNext()
    }

    /// - Parameter ended: of the session that the change has ended and that is not known here.
    private mutating func handleWriteSuccess(
        _ write: SessionWrites.Write, _ verdict: StoreChange.Verdict, ending ended: [StoredRevocation]
    ) {
        // That of a known foreign user is revoked with it.
        for revocation in ended
        where !write.pendingChange.isTermination && revocation.token != knownRecord.foreign?.session?.refresh {
            emit(.revoke(revocation))
        }
        if case .stored(let user) = verdict { handleStored(write.pendingChange, user) }
        switch write.origin {
        case .unsavedChanges: handleRetried(write.pendingChange, verdict, ending: ended)
        case .termination(let id):
            if case .overtaken(let user?) = verdict { recordForeignUser(user) }
            let isStored = if case .stored = verdict { true } else { false }
            handleTerminated(write.pendingChange, id, isStored: isStored, ending: ended)
        case .deletion:
            if case .beginDeletion(let session) = write.pendingChange { handleDeletionMarked(session, verdict) }
        case .operation(let number) where number == operation?.number: continueOperation(write.pendingChange, verdict)
        case .operation, .spentCredential: break
        }
        if writes.recordSuccess() { logEvent(.storeRecovered, reason: "stored") }
        releaseLock()
    }

    /// What the store holds now is the base of the next change.
    private mutating func handleStored(_ pendingChange: SessionWrites.PendingChange, _ user: StoredUser?) {
        let evicted = knownRecord.foreign
        switch pendingChange {
        // These changes apply to any version. The base stays, so that an external change is not overlooked.
        case .clearIntent, .beginDeletion: return
        case .cancelDeletion: return handleDeletionCancelled(user)
        case .recordRefusal(let fingerprint, let endedVersion):
            // The refusal has ended the stored session of this process.
            let isEnd =
                switch relation(of: user).storedState {
                case .ended: knownRecord.base == endedVersion
                case .session, .removed, .loggedOut, .foreign: false
                }
            if evicted != nil || isEnd { knownRecord.rebase(on: user) }
            revoke(evicted, by: pendingChange)
            return knownRecord.refused = fingerprint
        // The store does not know the user.
        case .dropRefreshToken where user == nil, .end where user == nil: return knownRecord.rebase(on: nil)
        case .storeIntent, .dropRefreshToken, .end, .saveSession, .terminate: knownRecord.rebase(on: user)
        }
        revoke(evicted, by: pendingChange)
        switch pendingChange {
        case .storeIntent(_, _, let isLastTry):
            refreshToken.isIntentUnsaved = false
            if isLastTry { refreshToken.hasMadeLastTry = true }
        case .saveSession:
            writes.dropAll()
            refreshToken.recordSaved()
            knownRecord.current = knownRecord.base.generation
            knownRecord.accountSince = user?.accountSince
        case .terminate: writes.dropUpToTermination()
        case .clearIntent, .dropRefreshToken, .end, .recordRefusal, .beginDeletion, .cancelDeletion: break
        }
    }

    /// The operation has begun with its intent.
    mutating func handleIntentStored(_ intent: StoredIntent, _ user: StoredUser?) {
        handleStored(.storeIntent(intent, nil, isLastTry: false), user)
        if writes.recordSuccess() { logEvent(.storeRecovered, reason: "stored") }
        call()
    }

    /// Continues the operation after its write.
    private mutating func continueOperation(
        _ pendingChange: SessionWrites.PendingChange, _ verdict: StoreChange.Verdict
    ) {
        switch pendingChange {
        case .storeIntent: continueWithCall(verdict)
        case .saveSession: continueAfterSave(verdict)
        case .dropRefreshToken, .end:
            switch verdict {
            case .overtaken(let user): closeAgain(with: pendingChange, after: user)
            case .stored, .storedEnding, .inUse: finish()
            }
        // These changes apply to any version: what the store holds may be another process's.
        case .clearIntent, .recordRefusal:
            finish()
            if case .stored(let user) = verdict { applySnapshot(user) }
        case .terminate, .beginDeletion, .cancelDeletion: finish()
        }
    }

    /// The store was asked for the intent.
    private mutating func continueWithCall(_ verdict: StoreChange.Verdict) {
        switch verdict {
        case .stored(let user) where operation?.purpose == .own && relation(of: user).isDeletingElsewhere:
            // The mark came after the read.
            applyToSession(.ended(reason: "elsewhere"))
            close(with: .clearIntent)
        case .stored: call()
        case .overtaken(let user) where operation?.isLastTry == true: handleOvertakenLastTry(by: user)
        // While changes are unsaved, the call is made: its result is checked against the external change later.
        case .overtaken(let user): writes.unsavedChanges.isEmpty ? reconcile(with: user) : call()
        case .storedEnding, .inUse: finish()
        }
    }

    /// The store was asked for the session of the operation.
    private mutating func continueAfterSave(_ verdict: StoreChange.Verdict) {
        guard case .saving(let grant) = operation?.stage else { return finish() }
        switch verdict {
        case .stored(let user), .storedEnding(let user, _):
            handleSaved(grant, generation: user?.generation ?? .zero)
        case .overtaken(let user): handleOvertaken(grant, by: user)
        case .inUse(let other): rejectAccountInUse(grant, for: other)
        }
    }

    /// Another process has changed the user before the end of a session, or of its refresh token, was stored.
    private mutating func closeAgain(with pendingChange: SessionWrites.PendingChange, after user: StoredUser?) {
        switch relation(of: user).resolutions.atEnd {
        case .writeNewer:
            if let user { rebase(onOlder: user) }
            close(with: pendingChange)
        case .rebase:
            knownRecord.rebase(on: user)
            close(with: pendingChange)
        case .continueBeside:
            if let user { recordForeignUser(user) }
            finish()
        case .yield: yield(to: user)
        }
    }

    /// - Parameter ended: of the session that the store held, if it is not the one that was known here.
    mutating func handleTerminated(
        _ pendingChange: SessionWrites.PendingChange, _ id: UInt64, isStored: Bool,
        ending ended: [StoredRevocation] = []
    ) {
        guard case .terminate(_, let end) = pendingChange else { return }
        emit(.completeTermination(end.revocations + ended, isStored: isStored, id: id))
        for revocation in writes.revokedAfterTermination where !ended.contains(where: { $0.token == revocation.token })
        {
            emit(.revoke(revocation))
        }
        writes.revokedAfterTermination = []
    }

    // MARK: Failing writes

    private mutating func handleWriteFailure(_ write: SessionWrites.Write, _ error: StoreError) {
        if write.origin != .unsavedChanges, !isClosedByMark(write.pendingChange) { writes.keep(write.pendingChange) }
        if case .storeIntent = write.pendingChange { refreshToken.isIntentUnsaved = true }
        if case .recordRefusal(let fingerprint, _) = write.pendingChange { knownRecord.refused = fingerprint }
        recordStoreFailure(error)
        switch write.origin {
        case .deletion: if write.pendingChange.isDeletionMark { endPreparation(.storeFailing) }
        case .unsavedChanges, .spentCredential: break
        case .termination(let id):
            logEvent(.logoutUnsaved, .error, reason: "store_failing", details: ["error": error.message])
            handleTerminated(write.pendingChange, id, isStored: false)
        case .operation(let number):
            if number == operation?.number { continueOperation(afterFailed: write.pendingChange, error) }
        }
        releaseLock()
    }

    private mutating func continueOperation(
        afterFailed pendingChange: SessionWrites.PendingChange, _ error: StoreError
    ) {
        switch pendingChange {
        case .storeIntent(_, let token, _): callUnmarked(because: error, marked: token)
        case .saveSession(let login):
            // The session serves from memory. Going back to the old refresh token must never happen.
            knownRecord.current = login.generationMin
            if case .saving(let grant) = operation?.stage { handleSaved(grant, generation: knownRecord.current) }
        case .clearIntent, .dropRefreshToken, .end, .recordRefusal, .terminate, .beginDeletion, .cancelDeletion:
            finish()
        }
    }

    /// The store never held the intent of the call, so its mark alone was to be closed. Another process may have sent the token since: its
    /// call must not be closed by a repetition.
    private func isClosedByMark(_ pendingChange: SessionWrites.PendingChange) -> Bool {
        guard case .clearIntent = pendingChange else { return false }
        return rotation != .none && operation?.refresh != nil && refreshToken.isIntentUnsaved
    }

    mutating func recordStoreFailure(_ error: StoreError) {
        guard writes.recordFailure(error, by: context.policy, at: eventContext) else { return }
        logEvent(
            .storeFailing, .error, reason: "store_failing", nextAt: writes.retryAt == .never ? nil : writes.retryAt,
            details: ["error": error.message])
    }

    /// Tries the unsaved changes again, one by one, while nothing else is in progress.
    mutating func retryWrites() {
        guard writes.retryAt <= eventContext.instant else { return }
        // During a call, the retry would erase the call's intent, and the result of the call is newer.
        let isFree = writes.writesInFlight.isEmpty && !isCallOrWriteUnderWay
        let retryAt = isFree ? Instant.never : eventContext.instant + context.policy.unsavedRetryDelay
        writes.wait(until: retryAt)
        if isFree { retryNext() }
    }

    /// Another user's session is about to be stored, perhaps of the account that this user has left. The unsaved end
    /// goes first.
    mutating func retryUnsavedEnd() {
        guard writes.hasUnsavedEnding, !isCallOrWriteUnderWay else { return }
        retryNext()
    }

    /// Tries the first unsaved change, unless a write is in progress.
    mutating func retryNext() {
        guard let first = writes.unsavedChanges.first, writes.writesInFlight.isEmpty else { return }
        write(first, for: .unsavedChanges)
    }

    /// Tries the next unsaved change, or has it tried soon after the operation in progress.
    private mutating func continueRetries() {
        guard isCallOrWriteUnderWay else { return retryNext() }
        guard !writes.unsavedChanges.isEmpty else { return }
        writes.wait(until: eventContext.instant + context.policy.unsavedRetryDelay)
    }

    private mutating func handleRetried(
        _ pendingChange: SessionWrites.PendingChange, _ verdict: StoreChange.Verdict, ending ended: [StoredRevocation]
    ) {
        switch verdict {
        case .stored, .storedEnding:
            // A termination has been dropped with what came before it.
            if !pendingChange.isTermination { writes.dropFirst() }
            if pendingChange.appliesToAnyVersion, case .stored(let user) = verdict { applySnapshot(user) }
            // The store now keeps the revocation until the service has confirmed it. It most likely has already.
            if case .terminate(_, let end) = pendingChange {
                let revocations = end.revocations + ended
                if !revocations.isEmpty { emit(.completeTermination(revocations, isStored: true, id: nil)) }
            }
        case .overtaken(let user): handleOvertakenRetry(pendingChange, by: user)
        case .inUse(let other):
            writes.dropFirst()
            yieldAccount(of: pendingChange, to: other)
        }
        // The session is stored only now, and its token has been sent since. The stored intent must say so.
        if case .saveSession = pendingChange, case .stored = verdict, refreshToken.triesWithoutResponse > 0 {
            keepOpenIntent()
        }
        continueRetries()
    }

    /// The calls with the refresh token that had no response are stored as soon as the store can be written.
    mutating func keepOpenIntent() {
        writes.keepIntent(
            StoredIntent(kind: .refresh, at: refreshToken.unconfirmedSince, tries: refreshToken.triesWithoutResponse))
    }

    /// Another process has changed the user before the unsaved change was stored.
    private mutating func handleOvertakenRetry(_ pendingChange: SessionWrites.PendingChange, by user: StoredUser?) {
        let resolutions = relation(of: user).resolutions
        switch pendingChange {
        // Another process has added the user again. It is not known here any more.
        case .terminate(.remove, _):
            logEvent(.overtaken, .warning, reason: "unsaved_change")
            writes.dropAll()
            knownRecord.rebase(on: user.flatMap { $0.belongs(to: identity) ? $0 : nil })
        case .saveSession(let login) where login.session.isStored(in: user):
            retry(pendingChange, over: user, resolutions.ofUnsavedSession)
        case .saveSession, .terminate(.logOut, _), .storeIntent, .clearIntent, .dropRefreshToken, .end, .recordRefusal,
            .beginDeletion, .cancelDeletion:
            retry(pendingChange, over: user, resolutions.ofUnsavedChange)
        }
    }

    /// Prepares the next try of the unsaved change, or gives it up.
    private mutating func retry(
        _ pendingChange: SessionWrites.PendingChange, over user: StoredUser?,
        _ resolution: StoredRelation.ChangeResolution
    ) {
        switch resolution {
        case .writeNewer: if let user { rebase(onOlder: user) }
        case .rebase: knownRecord.rebase(on: user)
        case .continueBeside:
            writes.dropAll()
            if let user { recordForeignUser(user) }
        case .yield:
            writes.dropFirst()
            yieldUnsavedChange(pendingChange, to: user)
        }
    }

    /// A login could not be stored in time. Since then another process has logged another user in to its account.
    private mutating func yieldAccount(of pendingChange: SessionWrites.PendingChange, to other: String) {
        guard case .saveSession(let login) = pendingChange else { return }
        writes.dropAll()
        logEvent(.accountShared, .error, reason: "account_in_use", details: ["other": other])
        if let token = session.tokens?.refresh ?? login.session.refresh { revoke(token) }
        // The operation has made no call yet: none is made while unsaved changes are being stored.
        if operation?.purpose == .own { operation = nil }
        applyToSession(.ended(reason: "account_in_use"))
        recordSpent(login.refused)
    }

    /// An unsaved change is obsolete because of an external change.
    private mutating func yieldUnsavedChange(_ pendingChange: SessionWrites.PendingChange, to user: StoredUser?) {
        logEvent(.overtaken, .warning, reason: "unsaved_change")
        writes.dropAll()
        if case .saveSession(let login) = pendingChange, !login.session.isStored(in: user) {
            if let token = login.session.refresh {
                revoke(token)
            } else if user?.session == nil, setup.service.revokesAccessTokens {
                let tokens = login.session.tokens
                for token in [tokens.plain.token] + tokens.others.values.map(\.token) where token.count > 0 {
                    emit(.revoke(revocation(of: token, .accessToken)))
                }
            }
        }
        // An operation in progress detects the change by itself.
        guard operation == nil else { return }
        yield(to: user)
        if user != nil, case .saveSession(let login) = pendingChange { recordSpent(login.refused) }
    }
}
