/// The way into the store: one change at a time, each on the base that the one before has left.
extension SessionCoordinator {
    mutating func write(_ pendingChange: SessionWrites.PendingChange, for origin: SessionWrites.Origin) {
        let write = SessionWrites.Write(pendingChange: pendingChange, origin: origin)
        guard !isBlockedByForeign(write) else { return skipWrite(write) }
        writes.writesInFlight.append(write)
        writeNext()
    }

    private mutating func writeNext() {
        guard !writes.isWriting else { return }
        // What an errand wanted that was given up meanwhile is no longer wanted.
        while let next = writes.writesInFlight.first, case .operation(let number) = next.origin,
            number != operation?.number
        {
            writes.writesInFlight.removeFirst()
        }
        guard let next = writes.writesInFlight.first else { return }
        writes.isWriting = true
        emit(.commit(change(next.pendingChange)))
    }

    private func change(_ pendingChange: SessionWrites.PendingChange) -> StoreChange {
        switch pendingChange {
        case .storeIntent(let intent): .storeIntent(user: setup.user, identity: home, intent, base: base)
        case .settle: .settle(user: setup.user)
        case .dropRefreshToken: .dropRefreshToken(user: setup.user, base: base)
        case .end: .end(user: setup.user, base: base)
        case .saveSession(let login): .saveSession(user: setup.user, login, base: base)
        case .recordRefusal(let fingerprint, let endedVersion):
            .recordRefusal(user: setup.user, identity: home, fingerprint, endedVersion: endedVersion)
        case .terminate(.logOut, let revocation):
            .logOut(user: setup.user, identity: home, revocation: revocation)
        case .terminate(.remove, let revocation): .remove(user: setup.user, revocation: revocation)
        }
    }

    mutating func committed(_ result: Result<StoreChange.Verdict, StoreError>) {
        guard writes.isWriting, !writes.writesInFlight.isEmpty else { return }
        writes.isWriting = false
        let write = writes.writesInFlight.removeFirst()
        switch result {
        case .success(let verdict): writeSucceeded(write, verdict)
        case .failure(let error): writeFailed(write, error)
        }
        writeNext()
    }

    private mutating func writeSucceeded(_ write: SessionWrites.Write, _ verdict: StoreChange.Verdict) {
        if case .stored(let user) = verdict { stored(write.pendingChange, user) }
        switch write.origin {
        case .unsavedChanges: retried(write.pendingChange, verdict)
        case .termination(let ticket): terminated(write.pendingChange, ticket, isStored: true)
        case .operation(let number) where number == operation?.number: continueOperation(write.pendingChange, verdict)
        case .operation: break
        }
        if writes.succeeded() { logEvent(.storeRecovered, reason: "stored") }
        giveBack()
    }

    /// What the store holds from now on is the base of the next change.
    private mutating func stored(_ pendingChange: SessionWrites.PendingChange, _ user: StoredUser?) {
        switch pendingChange {
        // These meet whatever is there: what another process has made of the user meanwhile is not ours to skip.
        case .settle: return
        case .recordRefusal(let fingerprint, let endedVersion):
            if foreignUser != nil || hasEnded(user, endedVersion) { rebase(on: user) }
            revokeEvicted(pendingChange)
            return refused = fingerprint
        // The store has never heard of the user.
        case .dropRefreshToken where user == nil, .end where user == nil: return rebase(on: nil)
        default: rebase(on: user)
        }
        revokeEvicted(pendingChange)
        switch pendingChange {
        case .storeIntent: isIntentUnsaved = false
        case .saveSession:
            writes.dropAll()
            held = base.generation
            accountSince = user?.accountSince
        case .terminate: writes.dropAll()
        default: break
        }
    }

    /// What stood there as our own session is over by our own word.
    private func hasEnded(_ user: StoredUser?, _ endedVersion: SessionVersion?) -> Bool {
        guard let user, user.session == nil, !user.isLoggedOut, base == endedVersion else { return false }
        return user.generation == base.generation + 1
    }

    /// The errand goes on.
    private mutating func continueOperation(
        _ pendingChange: SessionWrites.PendingChange, _ verdict: StoreChange.Verdict
    ) {
        switch (pendingChange, verdict, operation?.stage) {
        case (.storeIntent, .stored, _): call()
        // As long as the store lacks something of ours, the answer meets what is there, not the intent.
        case (.storeIntent, .overtaken(let user), _): writes.unsavedChanges.isEmpty ? reconcile(at: user) : call()
        case (.saveSession, .stored(let user), .saving(let grant)): saved(grant, generation: user?.generation ?? 0)
        case (.saveSession, .overtaken(let user), .saving(let grant)): overtaken(grant, by: user)
        case (.saveSession, .inUse(let other), .saving(let grant)): rejectAccountInUse(grant, for: other)
        case (.dropRefreshToken, .overtaken(let user?), _) where isOlder(user),
            (.end, .overtaken(let user?), _) where isOlder(user):
            rebase(onOlder: user)
            close(with: pendingChange)
        case (.dropRefreshToken, .overtaken(let user?), _) where writes.mayHaveWritten(user),
            (.end, .overtaken(let user?), _) where writes.mayHaveWritten(user):
            rebase(on: user)
            close(with: pendingChange)
        case (.dropRefreshToken, .overtaken(let user?), _) where !user.belongs(to: home),
            (.end, .overtaken(let user?), _) where !user.belongs(to: home):
            noteForeign(user)
            finish()
        case (.dropRefreshToken, .overtaken(let user), _), (.end, .overtaken(let user), _):
            rebase(on: user)
            yield(to: user)
        default: finish()
        }
    }

    mutating func terminated(_ pendingChange: SessionWrites.PendingChange, _ ticket: UInt64?, isStored: Bool) {
        guard case .terminate(_, let revocation) = pendingChange else { return }
        emit(.completeTermination(revocation, isStored: isStored, ticket: ticket))
    }

    // MARK: While it fails

    private mutating func writeFailed(_ write: SessionWrites.Write, _ error: StoreError) {
        if write.origin != .unsavedChanges { writes.keep(write.pendingChange) }
        if case .storeIntent = write.pendingChange { isIntentUnsaved = true }
        recordStoreFailure(error)
        switch (write.origin, write.pendingChange) {
        case (.unsavedChanges, _): break
        case (.termination(let ticket), _):
            logEvent(.logoutUnsaved, .error, reason: "store_failing", details: ["error": error.message])
            terminated(write.pendingChange, ticket, isStored: false)
        case (.operation(let number), .storeIntent) where number == operation?.number: call()
        case (.operation(let number), .saveSession(let login)) where number == operation?.number:
            // It serves from memory: falling back to the old refresh token is what must never happen.
            held = login.generationMin
            if case .saving(let grant) = operation?.stage { saved(grant, generation: held) }
        case (.operation(let number), _) where number == operation?.number: finish()
        default: break
        }
        giveBack()
    }

    mutating func recordStoreFailure(_ error: StoreError) {
        guard writes.failed(error, at: eventContext) else { return }
        logEvent(
            .storeFailing, .error, reason: "store_failing", nextAt: writes.retryAt == .never ? nil : writes.retryAt,
            details: ["error": error.message])
    }

    /// The backlog is tried again, one by one, whenever nothing else is on its way.
    mutating func retryWrites() {
        guard writes.retryAt <= eventContext.instant else { return }
        // During a call it would wipe the call's intent, and what the call brings is newer.
        let isFree = writes.writesInFlight.isEmpty && !isCallOrWriteUnderWay
        writes.wait(until: isFree ? .never : eventContext.instant + .seconds(1))
        if isFree { retryNext() }
    }

    /// Another user's session is about to be stored, maybe of the account that this one has left: the end that the store lacks goes first.
    mutating func retryUnsavedEnd() {
        guard writes.hasUnsavedEnding, !isCallOrWriteUnderWay else { return }
        retryNext()
    }

    /// One more of the backlog, unless something is on its way.
    mutating func retryNext() {
        guard let first = writes.unsavedChanges.first, writes.writesInFlight.isEmpty else { return }
        write(first, for: .unsavedChanges)
    }

    private mutating func retried(_ pendingChange: SessionWrites.PendingChange, _ verdict: StoreChange.Verdict) {
        if case .overtaken(let user?) = verdict, isOlder(user) {
            rebase(onOlder: user)
            if !isCallOrWriteUnderWay { retryNext() }
            return
        }
        writes.dropFirst()
        switch verdict {
        case .stored: break
        case .overtaken(let user): yieldUnsavedChange(pendingChange, to: user)
        case .inUse(let other): yieldAccount(of: pendingChange, to: other)
        }
        // The store keeps it from now on, until the service is known to know: most likely it does.
        if case .terminate(_, let revocation?) = pendingChange {
            emit(.completeTermination(revocation, isStored: true, ticket: nil))
        }
        // The session is stored only now, and its token has been sent meanwhile: who reads it must know.
        if case .saveSession = pendingChange, case .stored = verdict, unansweredRefreshes > 0 {
            writes.keepIntent(StoredIntent(kind: .refresh, at: unansweredAt, tries: unansweredRefreshes))
        }
        if !isCallOrWriteUnderWay { retryNext() }
    }

    /// A login that could not be stored in time: meanwhile another process has logged another user in to its account.
    private mutating func yieldAccount(of pendingChange: SessionWrites.PendingChange, to other: String) {
        guard case .saveSession(let login) = pendingChange else { return }
        writes.dropAll()
        logEvent(.accountShared, .error, reason: "account_in_use", details: ["other": other])
        if let token = session.tokens?.refresh ?? login.session.refresh { revoke(token) }
        // It has made no call yet: none is made while the backlog is being stored.
        if operation?.purpose == .own { operation = nil }
        applyToSession(.ended(reason: "account_in_use"))
    }

    /// What could not be stored in time met what another process has stored since.
    private mutating func yieldUnsavedChange(_ pendingChange: SessionWrites.PendingChange, to user: StoredUser?) {
        if let user, !user.belongs(to: home) {
            writes.dropAll()
            return noteForeign(user)
        }
        logEvent(.overtaken, .warning, reason: "backlog")
        writes.dropAll()
        if case .saveSession(let login) = pendingChange, login.session.id != user?.session?.id,
            let token = login.session.refresh
        {
            revoke(token)
        }
        // An errand under way meets it by itself.
        guard operation == nil else { return }
        rebase(on: user)
        yield(to: user)
    }
}
