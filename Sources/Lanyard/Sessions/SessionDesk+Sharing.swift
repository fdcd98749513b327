/// What other processes have made of the user since, and whose user of that name the store holds at all.
extension SessionCoordinator {
    /// As the store names it.
    var home: StoredIdentity { StoredIdentity(setup.identity, setup.fingerprint) }

    /// The store holds another identity's user of this name, who came while this one was at work: that one stays, this one goes on from memory.
    var isDisplaced: Bool { foreignUser != nil && wasStored }

    /// This is what the store holds of the user: the base of each change.
    mutating func rebase(on user: StoredUser?) {
        base = user?.fingerprint ?? .nobody
        storedUser = user
    }

    /// What another process may have done since.
    mutating func reconcile(at user: StoredUser?) {
        // As long as the store lacks something of ours, what it holds is no news.
        guard writes.unsavedChanges.isEmpty else { return prepareCall() }
        if let user, !user.belongs(to: home) { return reconcile(withForeign: user) }
        foreignUser = nil
        if isProvisional, let user, user.session != nil || user.isAdded { return reportNameInUse(for: user) }
        let fingerprint = user?.fingerprint ?? .nobody
        if fingerprint != base {
            if let user, isOlder(user) {
                restoreNewer(over: user)
                return prepareCall()
            }
            return applyExternalChange(user)
        }
        learn(user)
        guard let operation, operation.purpose == .own else { return prepareCall() }
        if user?.isLoggedOut == true { return endSession(because: "elsewhere") }
        if operation.call.kind == .refresh, let session = user?.session, session.refresh == nil {
            return endDeadSession("another process found the session dead")
        }
        prepareCall()
    }

    /// The store was read beside all errands. At rest, what another process has made of the user is taken over without a call.
    mutating func applySnapshot(_ user: StoredUser?) {
        guard isIdle, pendingCall == nil, !isProvisional else { return }
        if let user, !user.belongs(to: home) { return noteForeign(user) }
        foreignUser = nil
        guard (user?.fingerprint ?? .nobody) != base else { return }
        if let user, isOlder(user) { return restoreNewer(over: user) }
        unansweredRefreshes = 0
        rebase(on: user)
        yield(to: user)
    }

    /// Another process has changed the user: what it stored holds, and no call is made where that suffices.
    private mutating func applyExternalChange(_ user: StoredUser?) {
        rebase(on: user)
        unansweredRefreshes = 0
        let isOwn = operation?.purpose == .own
        if let user, user.session != nil { return adopt(user, finishing: isOwn) }
        learn(user)
        if user == nil || user?.isLoggedOut == true {
            if isOwn { return endSession(because: user == nil ? "removed" : "elsewhere") }
            applyToSession(.ended(reason: user == nil ? "removed" : "elsewhere"))
        } else if operation?.call.kind == .refresh {
            return endDeadSession("another process found the session dead")
        } else if !isOwn, var tokens = session.tokens {
            // Should the person's login fail, the refresh token that was at hand must not be sent again.
            tokens.refresh = nil
            applyToSession(.restored(tokens, .init(isTrusted: true, isUrgent: true, spread: 0, isAdopted: true)))
        }
        prepareCall()
    }

    /// Goes on with what another process has stored, on which the desk stands: what the store could not take of the time before is not worth
    /// storing any more.
    mutating func yield(to user: StoredUser?) {
        writes.dropAll()
        if let user, user.session != nil { return adopt(user, finishing: true) }
        learn(user)
        applyToSession(.ended(reason: user == nil ? "removed" : "elsewhere"))
        // It has died there, and nobody wants it so.
        if user?.isLoggedOut == false { applyToSession(.loginRequested) }
        finish()
    }

    private mutating func endSession(because reason: String) {
        applyToSession(.ended(reason: reason))
        finish()
    }

    private mutating func endDeadSession(_ message: String) {
        guard let call = operation?.call else { return }
        applyToSession(.failed(IdentityError(.sessionDead, message: message), call))
        finish()
    }

    // MARK: Another process's session

    /// Takes the session over. One of another account than before is asked for as a login's is: two users of one device share none
    /// (architecture.md 5.7).
    private mutating func adopt(_ user: StoredUser, finishing: Bool) {
        guard let account = user.accountID, account != context.accountID else { return takeOver(user, finishing) }
        adopting = (user, finishing)
        emit(.claim(account: account, operation: operation?.number ?? 0))
    }

    /// Returns whether it was this that waited.
    mutating func adopted(_ claim: AccountOwnership, _ number: UInt64) -> Bool {
        guard let (user, finishing) = adopting, number == operation?.number ?? 0 else { return false }
        adopting = nil
        guard case .inUse(let other) = claim else {
            takeOver(user, finishing)
            return true
        }
        let message =
            "another process has logged the user in to the account that user \(other) of this one is logged in to"
        let error = IdentityError(.accountInUse, message: message)
        logEvent(.accountTaken, .error, reason: "account_in_use", error: error, details: ["other": other])
        if let operation, operation.purpose == .own {
            applyToSession(.failed(error, operation.call))
            finish()
        } else {
            applyToSession(.ended(reason: "account_in_use"))
            finishing ? finish() : prepareCall()
        }
        return true
    }

    private mutating func takeOver(_ user: StoredUser, _ finishing: Bool) {
        guard let session = user.session else { return finish() }
        // The other process may have been given that very token: only if its session is another one, it is of no more use.
        if orphanedRefresh?.session == session.id { orphanedRefresh = nil } else { revokeOrphaned() }
        learn(user)
        restore(session, of: user, isAdopted: true)
        finishing ? finish() : prepareCall()
    }

    /// A person wants a user of a name that another process has given away: the name is in use, and its user is known here from now on.
    private mutating func reportNameInUse(for user: StoredUser) {
        guard let operation, case .asked(let ticket) = operation.purpose else { return prepareCall() }
        reply(ticket, .nameInUse(isKnown: true))
        isProvisional = false
        wasStored = true
        rebase(on: user)
        if user.session != nil { return adopt(user, finishing: true) }
        learn(user)
        if !user.isLoggedOut { applyToSession(.loginRequested) }
        finish()
    }

    // MARK: An older file

    /// The same session, less far than it was: a file from a backup was put in the place of a newer one (threats.md T14).
    func isOlder(_ user: StoredUser) -> Bool {
        base.session != 0 && user.fingerprint.session == base.session && user.fingerprint.generation < base.generation
    }

    /// What is going to be written meets this from now on.
    mutating func rebase(onOlder user: StoredUser) {
        logEvent(
            .storeOlder, .warning, reason: "older",
            details: ["stored": String(user.fingerprint.generation), "known": String(base.generation)])
        generationMin = max(generationMin, base.generation)
        base = user.fingerprint
    }

    /// Refresh tokens may work once: what is newer is kept, and written again.
    private mutating func restoreNewer(over user: StoredUser) {
        rebase(onOlder: user)
        guard let storedUser, let session = storedUser.session else { return }
        writes.keep(
            .saveSession(
                StoreChange.StoredLogin(
                    identity: setup.identity, session: session, accountID: storedUser.accountID,
                    provider: storedUser.provider,
                    isAdded: storedUser.isAdded, generationMin: generationMin, fingerprint: setup.fingerprint,
                    configured: setup.configured)))
        retryNext()
    }

    // MARK: Another identity's user

    /// Nobody to this one: never restored, and nothing of it is sent anywhere but to its own service.
    mutating func noteForeign(_ other: StoredUser) {
        let isNews = foreignUser == nil
        foreignUser = other
        if !wasStored { base = other.fingerprint }
        guard isNews else { return }
        logEvent(
            .foreignUser, wasStored ? .error : .warning, reason: wasStored ? "displaced" : "identity_changed",
            details: ["stored_identity": other.identity])
    }

    private mutating func reconcile(withForeign other: StoredUser) {
        let isKnownHere = setup.others.contains { other.belongs(to: $0) } && (other.session != nil || other.isAdded)
        if isProvisional, isKnownHere, let operation, case .asked(let ticket) = operation.purpose {
            reply(ticket, .nameInUse(isKnown: false))
            return finish()
        }
        noteForeign(other)
        prepareCall()
    }

    /// Whether the store is not to be told, because it holds somebody else there.
    func isBlockedByForeign(_ write: SessionWrites.Write) -> Bool {
        guard foreignUser != nil else { return false }
        switch write.pendingChange {
        case .storeIntent, .settle, .dropRefreshToken, .end: return true
        case .terminate(.remove, _):
            if case .termination = write.origin { return wasStored }
            return true
        case .saveSession, .recordRefusal, .terminate: return wasStored
        }
    }

    /// As if it were stored; it lives in memory.
    mutating func skipWrite(_ write: SessionWrites.Write) {
        if case .storeIntent = write.pendingChange { isIntentUnsaved = true }
        switch (write.origin, write.pendingChange, operation?.stage) {
        case (.termination(let ticket), _, _): terminated(write.pendingChange, ticket, isStored: false)
        case (.operation(let number), .storeIntent, _) where number == operation?.number: call()
        case (.operation(let number), .saveSession, .saving(let grant)) where number == operation?.number:
            saved(grant, generation: context.generation + 1)
        case (.operation(let number), _, _) where number == operation?.number: finish()
        default: break
        }
        giveBack()
    }

    /// A change has taken the place of what stood there: that session is over, and its own service is told.
    mutating func revokeEvicted(_ pendingChange: SessionWrites.PendingChange) {
        wasStored = true
        guard let other = foreignUser else { return }
        foreignUser = nil
        // A person's logout brings that along.
        if case .terminate = pendingChange { return }
        if let revocation = other.evictionRevocation(at: eventContext.wall) { emit(.revoke(revocation)) }
    }
}
