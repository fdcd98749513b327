import LanyardSessionInterface
import LanyardSettings

/// How the coordinator reacts to external changes, and to a stored user of the same name that belongs to another
/// identity.
extension SessionCoordinator {
    /// The identity as the store names it.
    var identity: StoredIdentity { StoredIdentity(setup.identity, setup.service.fingerprint) }

    /// Compares the user with what another process may have stored since.
    mutating func reconcile(with user: StoredUser?) {
        // While changes are unsaved, what the store holds is not newer.
        guard let operation, writes.unsavedChanges.isEmpty else { return prepareCall() }
        let relation = relation(of: user)
        if knownRecord.isProvisional, let user, isNameTaken(by: user, operation) {
            return reportNameInUse(for: user, relation)
        }
        let resolutions = relation.resolutions
        let resolution: StoredRelation.RefreshResolution =
            switch (operation.purpose, operation.call.kind) {
            case (.own, .refresh), (.closingIntent, _): resolutions.beforeRefresh
            case (.own, .login): .read(resolutions.beforeLogin)
            case (.operatorLogin, _): .read(resolutions.beforeOperatorLogin)
            }
        switch resolution {
        case .read(.proceed):
            knownRecord.forgetForeign()
            recordStored(user)
            prepareCall()
        case .read(.continueBeside):
            if let user { recordForeignUser(user) }
            prepareCall()
        case .read(.writeNewer):
            if let user { restoreNewer(over: user) }
            prepareCall()
        case .endToken:
            giveUpDisplaced(by: user, relation, serves: true)
            knownRecord.rebase(on: user)
            refreshToken.triesWithoutResponse = 0
            recordStored(user)
            endDeadSession("another process found the session dead")
        case .read(.yield): applyExternalChange(user, relation)
        }
    }

    /// What the store holds is to what is known here.
    func relation(of user: StoredUser?) -> StoredRelation {
        StoredRelation(
            user,
            to: StoredRelation.Known(
                identity: identity, base: knownRecord.base, session: knownRecord.user?.session,
                failedWrite: writes.failedWrite,
                exchanged: refreshToken.exchanged, hasDeletionMark: hasDeletionMark))
    }

    /// Handles what the store holds. If this user is idle, an external change is taken over without a call.
    mutating func applySnapshot(_ user: StoredUser?) {
        guard isIdle, waiting.call == nil, !knownRecord.isProvisional else { return }
        let relation = relation(of: user)
        switch relation.resolutions.atRest {
        case .proceed: knownRecord.forgetForeign()
        case .continueBeside: if let user { recordForeignUser(user) }
        case .writeNewer: if let user { restoreNewer(over: user) }
        case .yield:
            giveUpDisplaced(by: user, relation, serves: false)
            refreshToken.triesWithoutResponse = 0
            yield(to: user)
        }
    }

    /// Another identity's user had taken this one's place in the store. A process that has changed the store since could not find the
    /// session that is given up now. A refresh token whose outcome is unknown is not sent, not even to revoke it.
    ///
    /// - Parameter serves: the access token serves until a login has replaced it. Some services end it with its refresh token.
    private mutating func giveUpDisplaced(by user: StoredUser?, _ relation: StoredRelation, serves: Bool) {
        guard knownRecord.isDisplaced, !relation.hasKnownSession else { return }
        guard let token = session.tokens?.refresh else {
            // Beside a session in the store the access token stays: some services give out the same one twice.
            guard user?.session == nil, !serves else { return }
            for revocation in accessTokensToRevoke { emit(.revoke(revocation)) }
            return
        }
        guard refreshToken.triesWithoutResponse == 0 || rotation == .none, token != user?.session?.refresh else {
            return
        }
        if serves { refreshToken.orphan = refreshToken.orphan ?? (token, sessionID) } else { revoke(token) }
    }

    /// Without a session in the store the operation in progress continues, with a login, unless it is a fetch.
    private func servesOn(after relation: StoredRelation) -> Bool {
        switch relation.storedState {
        case .ended: operation?.isFetch != true
        case .session, .removed, .loggedOut, .foreign: false
        }
    }

    /// Another process has changed the user. No call is made if what it stored suffices.
    private mutating func applyExternalChange(_ user: StoredUser?, _ relation: StoredRelation) {
        let isOwn = operation?.purpose == .own
        giveUpDisplaced(by: user, relation, serves: servesOn(after: relation))
        knownRecord.rebase(on: user)
        refreshToken.triesWithoutResponse = 0
        switch relation.storedState {
        case .session: return adopt(user, finishing: isOwn)
        case .removed:
            end(with: user, reason: "removed")
            if isOwn { return finish() }
        case .loggedOut:
            end(with: user, reason: "elsewhere")
            if isOwn { return finish() }
        case .ended:
            recordStored(user)
            if operation?.isFetch == true { return yield(to: user) }
            if !isOwn, var tokens = session.tokens {
                // If the operator's login fails, the old refresh token must not be sent again.
                tokens.refresh = nil
                applyToSession(.restored(tokens, .init(isTrusted: true, isUrgent: true, spread: 0, isAdopted: true)))
            }
        case .foreign: break
        }
        prepareCall()
    }

    /// Continues with what another process has stored. Older unsaved changes are dropped, also the cancellation of a deletion:
    /// its mark then counts as another process's.
    mutating func yield(to user: StoredUser?) {
        writes.dropAll()
        let relation = relation(of: user)
        knownRecord.rebase(on: user)
        switch relation.storedState {
        case .session: return adopt(user, finishing: true)
        case .removed: end(with: user, reason: "removed")
        case .loggedOut: end(with: user, reason: "elsewhere")
        case .ended:
            end(with: user, reason: "elsewhere")
            // The session died in the other process, and no operator ended it.
            applyToSession(.logIn)
        case .foreign: break
        }
        finish()
    }

    /// The session has ended in the store.
    private mutating func end(with user: StoredUser?, reason: String) {
        recordStored(user)
        // The other process does not know of it.
        revokeOrphaned()
        applyToSession(.ended(reason: reason))
    }

    private mutating func endDeadSession(_ message: String) {
        guard let call = operation?.call else { return }
        let error = IdentityError(.sessionDead, message: message)
        applyToSession(call.variant == .plain ? .failed(error, call) : .refreshTokenEnded(error, .sessionDead))
        finish()
    }

    // MARK: Another process's session

    /// Takes the session over. If its account is another one than before, the account is checked as after a login: two
    /// users share none (architecture-control.md 5.7).
    private mutating func adopt(_ user: StoredUser?, finishing: Bool) {
        guard let user else { return finish() }
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
        recordStored(user)
        restore(session, of: user, isAdopted: true)
        finishing ? finish() : prepareCall()
    }

    /// An operator adds a user whose name the store has given away. If another process has added the user, it is known here
    /// from now on, as after a restart. A user that was configured once, and is not any more, stays unknown: the refused
    /// call must not bring it back.
    private mutating func reportNameInUse(for user: StoredUser, _ relation: StoredRelation) {
        guard user.belongs(to: identity) else {
            endLogin(.nameInUse(isKnown: false))
            return finish()
        }
        knownRecord.forgetForeign()
        guard let operation, operation.purpose == .operatorLogin else { return prepareCall() }
        endLogin(.nameInUse(isKnown: user.isAdded))
        guard user.isAdded else { return finish() }
        knownRecord.isProvisional = false
        knownRecord.rebase(on: user)
        switch relation.storedState {
        case .session: return adopt(user, finishing: true)
        case .loggedOut:
            recordStored(user)
            waiting.closesIntent = relation.isDeletingElsewhere
        case .ended:
            recordStored(user)
            applyToSession(.logIn)
        case .removed, .foreign: break
        }
        finish()
    }

    /// The name of a user that is to be added belongs to another one, of this identity or of one that is known here.
    private func isNameTaken(by user: StoredUser, _ operation: TokenOperation) -> Bool {
        guard user.session != nil || user.isAdded else { return false }
        return user.belongs(to: identity)
            || operation.purpose == .operatorLogin && setup.others.contains { user.belongs(to: $0) }
    }

    // MARK: An older file

    /// Takes the older state as the base of the next write.
    mutating func rebase(onOlder user: StoredUser) {
        var older = SessionLogEvent(.storeOlder, .warning, reason: "older")
        older.counts = ["stored": user.version.generation.number, "known": knownRecord.base.generation.number]
        emit(.logEvent(older))
        knownRecord.rebase(onOlder: user)
    }

    /// The newer session is kept and written again, because refresh tokens may work only once.
    private mutating func restoreNewer(over user: StoredUser) {
        rebase(onOlder: user)
        guard let known = knownRecord.user, let session = known.session else { return }
        var login = StoreChange.StoredLogin(
            identity: setup.identity, session: session, accountID: known.accountID, provider: known.provider,
            isAdded: known.isAdded, generationMin: knownRecord.lowest, fingerprint: setup.service.fingerprint,
            configured: setup.configured, refused: known.refused)
        login.subject = known.subject
        writes.keep(.saveSession(login))
        retryNext()
    }

    // MARK: Another identity's user

    /// Records a foreign user. It is never restored, and its tokens are sent only to its own service.
    mutating func recordForeignUser(_ other: StoredUser) {
        guard knownRecord.recordForeignUser(other) else { return }
        logEvent(
            .foreignUser, knownRecord.wasStored ? .error : .warning,
            reason: knownRecord.wasStored ? "displaced" : "identity_changed",
            details: ["stored_identity": other.identity])
    }

    /// Whether the write is skipped because the store holds a foreign user.
    func isBlockedByForeign(_ write: SessionWrites.Write) -> Bool {
        guard knownRecord.foreign != nil else { return false }
        switch write.pendingChange {
        case .storeIntent, .clearIntent, .dropRefreshToken, .end, .beginDeletion, .cancelDeletion: return true
        case .terminate(.remove, _):
            if case .termination = write.origin { return knownRecord.wasStored }
            return true
        case .saveSession, .recordRefusal, .terminate: return knownRecord.wasStored
        }
    }

    /// Continues as if the change were stored. The session lives in memory only.
    mutating func skipWrite(_ write: SessionWrites.Write) {
        if case .storeIntent = write.pendingChange { refreshToken.isIntentUnsaved = true }
        switch write.origin {
        case .termination(let id): handleTerminated(write.pendingChange, id, isStored: false)
        case .deletion: if write.pendingChange.isDeletionMark { endPreparation(.storeFailing) }
        case .operation(let number):
            if number == operation?.number { continueOperation(afterSkipped: write.pendingChange) }
        case .unsavedChanges, .spentCredential: break
        }
        releaseLock()
    }

    private mutating func continueOperation(afterSkipped pendingChange: SessionWrites.PendingChange) {
        switch pendingChange {
        case .storeIntent: operation?.isLastTry == true ? postpone(because: nil) : call()
        case .saveSession:
            if case .saving(let grant) = operation?.stage {
                handleSaved(grant, generation: nil)
            } else {
                finish()
            }
        case .clearIntent, .dropRefreshToken, .end, .recordRefusal, .terminate, .beginDeletion, .cancelDeletion:
            finish()
        }
    }

    /// This user is stored now. If the change has replaced a foreign one, the session of that one has ended, and its own
    /// service is told.
    mutating func revoke(_ evicted: StoredUser?, by pendingChange: SessionWrites.PendingChange) {
        knownRecord.wasStored = true
        // An operator's logout carries that revocation itself.
        if pendingChange.isTermination { return }
        if let revocation = evicted?.evictionRevocation(at: eventContext.wall) { emit(.revoke(revocation)) }
    }
}
