import LanyardSessionInterface
import LanyardSettings

/// How the coordinator reacts to external changes, and to a stored user of the same name that belongs to another
/// identity.
extension SessionCoordinator {
    /// The identity as the store names it.
    var identity: StoredIdentity { StoredIdentity(setup.identity, setup.fingerprint) }

    /// Compares the user with what another process may have stored since.
    mutating func reconcile(with user: StoredUser?) {
        // While changes are unsaved, what the store holds is not newer.
        guard writes.unsavedChanges.isEmpty else { return prepareCall() }
        let relation = relation(of: user)
        if let user, case .foreign = relation { return reconcile(withForeign: user) }
        view.forgetForeign()
        if view.isProvisional, let user, user.session != nil || user.isAdded { return reportNameInUse(for: user) }
        switch relation.resolution(at: .reading) {
        case .proceed, .continue: break
        case .writeNewer:
            if let user { restoreNewer(over: user) }
            return prepareCall()
        case .rebase, .keepLogin, .yield: return applyExternalChange(user)
        }
        learn(user)
        guard let operation, operation.purpose == .own else { return prepareCall() }
        guard let user else { return prepareCall() }
        switch user.status {
        // During a deletion the mark is this process's own.
        case .loggedOut where !hasDeletionMark, .deleting where !hasDeletionMark:
            return endSession(because: "elsewhere")
        case .active(let session), .deleting(let session):
            if operation.call.kind == .refresh, session.refresh == nil {
                return endDeadSession("another process found the session dead")
            }
        case .none, .refused, .loggedOut: break
        }
        prepareCall()
    }

    /// What the store holds is to what is known here.
    func relation(of user: StoredUser?) -> StoredRelation {
        StoredRelation(
            user,
            to: StoredRelation.Known(
                identity: identity, base: view.base, session: view.user?.session, failedWrite: writes.failedWrite,
                exchanged: refreshToken.exchanged, hasDeletionMark: hasDeletionMark))
    }

    /// Handles a read of all users. If this user is idle, an external change is taken over without a call.
    mutating func applySnapshot(_ user: StoredUser?) {
        guard isIdle, waiting.call == nil, !view.isProvisional else { return }
        let relation = relation(of: user)
        if let user, case .foreign = relation { return noteForeign(user) }
        view.forgetForeign()
        switch relation.resolution(at: .idle) {
        case .proceed, .continue: break
        case .writeNewer: if let user { restoreNewer(over: user) }
        case .rebase, .keepLogin, .yield:
            refreshToken.triesWithoutResponse = 0
            view.rebase(on: user)
            yield(to: user)
        }
    }

    /// Another process has changed the user. No call is made if what it stored suffices.
    private mutating func applyExternalChange(_ user: StoredUser?) {
        view.rebase(on: user)
        refreshToken.triesWithoutResponse = 0
        let isOwn = operation?.purpose == .own
        switch ExternalState(user, hasOwnMark: hasDeletionMark) {
        case .session(let user): return adopt(user, finishing: isOwn)
        case .removed, .loggedOut:
            learn(user)
            let reason = user == nil ? "removed" : "elsewhere"
            if isOwn { return endSession(because: reason) }
            applyToSession(.ended(reason: reason))
        case .ended:
            learn(user)
            if isOwn, operation?.call.kind == .refresh {
                return endDeadSession("another process found the session dead")
            }
            if operation?.isFetch == true { return yield(to: user) }
            if !isOwn, var tokens = session.tokens {
                // If the operator's login fails, the old refresh token must not be sent again.
                tokens.refresh = nil
                applyToSession(.restored(tokens, .init(isTrusted: true, isUrgent: true, spread: 0, isAdopted: true)))
            }
        }
        prepareCall()
    }

    /// Continues with what another process has stored, which is already the base. Older unsaved changes are dropped.
    mutating func yield(to user: StoredUser?) {
        writes.dropAll()
        switch ExternalState(user, hasOwnMark: hasDeletionMark) {
        case .session(let user): return adopt(user, finishing: true)
        case .removed, .loggedOut:
            learn(user)
            applyToSession(.ended(reason: user == nil ? "removed" : "elsewhere"))
        case .ended:
            learn(user)
            applyToSession(.ended(reason: "elsewhere"))
            // The session died in the other process, and no operator ended it.
            applyToSession(.logIn)
        }
        finish()
    }

    private mutating func endSession(because reason: String) {
        applyToSession(.ended(reason: reason))
        finish()
    }

    private mutating func endDeadSession(_ message: String) {
        guard let call = operation?.call else { return }
        let error = IdentityError(.sessionDead, message: message)
        applyToSession(call.variant == .plain ? .failed(error, call) : .refreshTokenEnded(error, .sessionDead))
        finish()
    }

    // MARK: Another process's session

    /// Takes the session over. If its account is another one than before, the account is checked as after a login: two
    /// users share none (architecture.md 5.7).
    private mutating func adopt(_ user: StoredUser, finishing: Bool) {
        guard let account = user.accountID, account != context.accountID else { return takeOver(user, finishing) }
        let adoption = Adoption(user: user, finishing: finishing, claim: operation?.number ?? 0)
        operationState = .adopting(adoption, operation)
        emit(.claim(account: account, operation: adoption.claim))
    }

    /// Returns whether an adoption was waiting for this check.
    mutating func handleAdoptionClaim(_ ownership: AccountOwnership, _ number: UInt64) -> Bool {
        guard case .adopting(let adoption, let operation) = operationState, number == adoption.claim else {
            return false
        }
        operationState = operation.map { .running($0) } ?? .none
        guard case .inUse(let other) = ownership else {
            takeOver(adoption.user, adoption.finishing)
            return true
        }
        let message =
            "another process has logged the user in to the account that user \(other) of this one is logged in to"
        let error = IdentityError(.accountInUse, message: message)
        logEvent(.accountTaken, .error, reason: "account_in_use", error: error, details: ["other": other])
        if let operation, operation.purpose == .own, !operation.isFetch {
            applyToSession(.failed(error, operation.call))
            finish()
        } else {
            applyToSession(.ended(reason: "account_in_use"))
            adoption.finishing ? finish() : prepareCall()
        }
        return true
    }

    private mutating func takeOver(_ user: StoredUser, _ finishing: Bool) {
        guard let session = user.session else { return finish() }
        // The other process may have received that same token. It is revoked only if that process has another session.
        if refreshToken.orphan?.session == session.id { refreshToken.orphan = nil } else { revokeOrphaned() }
        learn(user)
        restore(session, of: user, isAdopted: true)
        finishing ? finish() : prepareCall()
    }

    /// An operator adds a user whose name the store has given away. If another process has added the user, it is known here
    /// from now on, as after a restart. A user that was configured once, and is not any more, stays unknown: the refused
    /// call must not bring it back.
    private mutating func reportNameInUse(for user: StoredUser) {
        guard let operation, operation.purpose == .operatorLogin else { return prepareCall() }
        endLogin(.nameInUse(isKnown: user.isAdded))
        guard user.isAdded else { return finish() }
        view.isProvisional = false
        view.wasStored = true
        view.rebase(on: user)
        switch user.status {
        case .active, .deleting: return adopt(user, finishing: true)
        case .loggedOut: learn(user)
        case .none, .refused:
            learn(user)
            applyToSession(.logIn)
        }
        finish()
    }

    // MARK: An older file

    /// Takes the older state as the base of the next write.
    mutating func rebase(onOlder user: StoredUser) {
        var older = SessionLogEvent(.storeOlder, .warning, reason: "older")
        older.counts = ["stored": user.version.generation.number, "known": view.base.generation.number]
        emit(.logEvent(older))
        view.rebase(onOlder: user)
    }

    /// The newer session is kept and written again, because refresh tokens may work only once.
    private mutating func restoreNewer(over user: StoredUser) {
        rebase(onOlder: user)
        guard let known = view.user, let session = known.session else { return }
        let spent = known.refused?.isSpent == true ? known.refused : nil
        writes.keep(
            .saveSession(
                StoreChange.StoredLogin(
                    identity: setup.identity, session: session, accountID: known.accountID,
                    provider: known.provider,
                    isAdded: known.isAdded, generationMin: view.lowest, fingerprint: setup.fingerprint,
                    configured: setup.configured, spent: spent)))
        retryNext()
    }

    // MARK: Another identity's user

    /// Notes a foreign user. It is never restored, and its tokens are sent only to its own service.
    mutating func noteForeign(_ other: StoredUser) {
        guard view.note(foreign: other) else { return }
        logEvent(
            .foreignUser, view.wasStored ? .error : .warning, reason: view.wasStored ? "displaced" : "identity_changed",
            details: ["stored_identity": other.identity])
    }

    private mutating func reconcile(withForeign other: StoredUser) {
        let isKnownHere = setup.others.contains { other.belongs(to: $0) } && (other.session != nil || other.isAdded)
        if view.isProvisional, isKnownHere, let operation, operation.purpose == .operatorLogin {
            endLogin(.nameInUse(isKnown: false))
            return finish()
        }
        noteForeign(other)
        prepareCall()
    }

    /// Whether the write is skipped because the store holds a foreign user.
    func isBlockedByForeign(_ write: SessionWrites.Write) -> Bool {
        guard view.foreign != nil else { return false }
        switch write.pendingChange {
        case .storeIntent, .clearIntent, .dropRefreshToken, .end, .beginDeletion, .cancelDeletion: return true
        case .terminate(.remove, _):
            if case .termination = write.origin { return view.wasStored }
            return true
        case .saveSession, .recordRefusal, .terminate: return view.wasStored
        }
    }

    /// Continues as if the change were stored. The session lives in memory only.
    mutating func skipWrite(_ write: SessionWrites.Write) {
        if case .storeIntent = write.pendingChange { refreshToken.isIntentUnsaved = true }
        switch (write.origin, write.pendingChange, operation?.stage) {
        case (.termination(let id), _, _): handleTerminated(write.pendingChange, id, isStored: false)
        case (.deletion, .beginDeletion, _): endPreparation(.storeFailing)
        case (.operation(let number), .storeIntent, _) where number == operation?.number: call()
        case (.operation(let number), .saveSession, .saving(let grant)) where number == operation?.number:
            handleSaved(grant, generation: nil)
        case (.operation(let number), _, _): if number == operation?.number { finish() }
        case (.deletion, _, _), (.unsavedChanges, _, _), (.spentCredential, _, _): break
        }
        releaseLock()
    }

    /// A change has replaced the foreign user. Its session is over, and its own service is told.
    mutating func revokeEvicted(_ pendingChange: SessionWrites.PendingChange) {
        view.wasStored = true
        guard let other = view.foreign else { return }
        view.forgetForeign()
        // An operator's logout carries that revocation itself.
        if pendingChange.isTermination { return }
        if let revocation = other.evictionRevocation(at: eventContext.wall) { emit(.revoke(revocation)) }
    }
}
