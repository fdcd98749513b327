import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// An operation up to its call: the order of operations, the user's lock, the store read, the intent (refresh.md 6,
/// refresh-outcomes.md 9).
extension SessionCoordinator {
    /// Starts the next operation if none is in progress: an operator's before the session's own.
    mutating func startNext() {
        guard !isOperating, !writes.isTerminating else { return }
        if let login = waiting.login {
            waiting.login = nil
            let isLink = login.obtained?.continuedSession != nil
            var call = context.begin(isLink ? .refresh : .login, .asked, at: eventContext)
            call.standIn = login.isPlain ? nil : standIn(of: call, by: login.credentials)
            operation = TokenOperation(call, for: login)
            if !isLink { logEvent(.loginStarted, reason: call.cause.rawValue) }
        } else if !isDraining, let next = waiting.call, next.call.number == session.call?.number {
            waiting.call = nil
            let login = setup.credential.map { TokenOperation.Credentials.login($0) } ?? .none
            // A fetch may have replaced the refresh token while the call waited.
            let credentials =
                next.refresh.map { .refreshToken(session.tokens?.refresh ?? $0) }
                ?? (next.call.kind == .login ? login : .none)
            var call = next.call
            call.standIn = standIn(of: call, by: credentials)
            operation = TokenOperation(call, credentials)
        } else if !isDraining, let fetch = nextFetch() {
            operation = fetch
        } else if waiting.closesIntent, !isDraining {
            waiting.closesIntent = false
            operation = TokenOperation(closingIntent: context.begin(.refresh, .start, at: eventContext))
        } else {
            return waiting.call = nil
        }
        continueWithLock()
    }

    /// A deletion may hold the lock already, or have asked for it. A second request would find this process's own lock.
    private mutating func continueWithLock() {
        switch lock {
        case .held: read()
        case .requested: operation?.stage = .beginning(.lock)
        case .free: requestLock()
        }
    }

    /// Asks for the lock. An operation in whose way nothing stands, as far as it is known here, reads the user and stores
    /// its intent with the same call.
    private mutating func requestLock() {
        lock = .requested
        guard let operation, let intent = intentWithoutLook(of: operation) else {
            self.operation?.stage = .beginning(.lock)
            return emit(.tryLock)
        }
        self.operation?.stage = .beginning(.whole(intent))
        let change = StoreChange.storeIntent(
            user: setup.user, identity: identity, intent, base: knownRecord.base, isFirstLook: true,
            token: tokenToMark(of: operation))
        emit(.begin(change, operation: operation.number))
    }

    /// The intent of an operation that begins with it; nil: more is to be decided once the user is read.
    private func intentWithoutLook(of operation: TokenOperation) -> StoredIntent? {
        guard operation.purpose == .own, !preparesCall(of: operation), !operation.isLastTry, writes.isIdle,
            refreshToken.triesWithoutResponse == 0,
            !refreshToken.isIntentUnsaved, knownRecord.foreign == nil, !knownRecord.isProvisional, deletion == nil
        else { return nil }
        switch operation.credentials {
        case .refreshToken: return StoredIntent(kind: .refresh, at: eventContext.wall, tries: 1)
        case .login: return StoredIntent(kind: .login, at: eventContext.wall, tries: 0)
        case .obtained, .none: return nil
        }
    }

    /// The store has been asked for all at once.
    mutating func handleBegun(_ result: StoreBeginning, _ number: UInt64) {
        guard case .attempted(let attempt, let lockError) = result else { return handleLocked(.busy) }
        guard let operation, operation.number == number, case .beginning(.whole(let intent)) = operation.stage else {
            // Another operation may wait for the lock by now.
            return handleLocked(lockError.map { .failed($0) } ?? .taken)
        }
        lock = lockError == nil ? .held : .free
        if let lockError { logEvent(.lockFailed, .warning, reason: "failed", details: ["error": lockError]) }
        switch attempt {
        case .begun(let user, let before, let ended):
            for revocation in ended { emit(.revoke(revocation)) }
            recordStored(before)
            handleIntentStored(intent, user)
        // The operation continues with what was read, step by step.
        case .moved(let user), .unwritten(let user): reconcile(with: user)
        case .unreadable(let error): continueUnread(error)
        }
    }

    mutating func handleLocked(_ result: StoreLock) {
        lock = result == .taken ? .held : .free
        continueDeletion(result)
        guard let operation, operation.isAwaitingLock else { return releaseLock() }
        switch result {
        case .taken: return read()
        case .failed(let message):
            logEvent(.lockFailed, .warning, reason: "failed", details: ["error": message])
            return read()
        // The process is about to end, and the call has not begun. A session that has come already keeps waiting: it would be lost.
        case .busy where isDraining && operation.obtained == nil: return finish()
        // The holder of the lock makes a call of its own.
        case .busy where operation.purpose == .closingIntent: return finish()
        case .busy: break
        }
        let isFirst = operation.lockDeadline == .never
        let deadline = isFirst ? eventContext.instant + context.policy.lockTimeout : operation.lockDeadline
        self.operation?.lockDeadline = deadline
        guard eventContext.instant < deadline else {
            return handleFailure(
                IdentityError(.transient(retryAfter: nil), message: "another process has the user's lock"))
        }
        let until = eventContext.instant + Backoff.storeLock.delay(after: 1, chance: eventContext.chance)
        if isFirst { logEvent(.waitingForLock, reason: "busy", nextAt: until) }
        self.operation?.stage = .queueing(until: until)
    }

    /// Gives the lock back, with three exceptions. While a rotated refresh token is unsaved, another process would send
    /// the old one. While a logout that has cut off a call is being stored, another process would find an open intent
    /// that was never sent. While the account is being deleted, a start would take the mark for a crash's.
    mutating func releaseLock() {
        guard operation == nil, lock == .held, !writes.isTerminating, !keepsLockForDeletion else { return }
        guard rotation == .none || !writes.hasUnsavedSession else { return }
        lock = .free
        emit(.unlock)
    }

    /// A deadline of the operation has come.
    mutating func continueAfterDelay() {
        switch operation?.stage {
        case .queueing: continueWithLock()
        case .pausing: prepareOrStoreIntent()
        case nil, .beginning, .preparing, .calling, .claiming, .saving, .closing: break
        }
    }

    private mutating func read() {
        guard let number = operation?.number else { return }
        operation?.stage = .beginning(.read)
        emit(.read(operation: number))
    }

    mutating func handleRead(_ result: Result<StoredUser?, StoreError>, _ number: UInt64) {
        guard let operation, operation.number == number, case .beginning(.read) = operation.stage else { return }
        if operation.purpose == .closingIntent { return closeStoredIntent(result) }
        switch result {
        case .success(let user): reconcile(with: user)
        case .failure(let error): continueUnread(error)
        }
    }

    private mutating func continueUnread(_ error: StoreError) {
        recordStoreFailure(error)
        // Another process may have stored a newer token.
        if operation?.isLastTry == true { return postpone(because: error) }
        prepareCall()
    }

    /// Prepares the call, unless the same refresh token has been sent too often (refresh-outcomes.md 9).
    mutating func prepareCall() {
        guard let operation else { return }
        if let obtained = operation.obtained {
            // The access token of a link belongs to a session that has ended.
            if let continued = obtained.continuedSession, session.tokens == nil || continued != sessionID {
                if operation.purpose == .operatorLogin { endLogin(.overtaken) }
                return finish()
            }
            // Unsaved changes go first.
            retryNext()
            return save(obtained.grant)
        }
        guard !isLoginDuringDeletion(operation) else {
            return handleFailure(IdentityError(.transient(retryAfter: nil), message: "the account is being deleted"))
        }
        if operation.isLastTry { return prepareLastTry(operation) }
        guard operation.call.kind == .refresh, refreshToken.triesWithoutResponse > 0 else {
            return prepareOrStoreIntent()
        }
        // Without rotation, the current token is the only one. Without a credential, nothing else can help.
        let isAllowed =
            switch rotation {
            case .none: refreshToken.triesWithoutResponse < 2 || !context.hasCredential
            case .grace: refreshToken.triesWithoutResponse < 2 && isWithinGrace
            case .oneUse, .auto: false
            }
        guard isAllowed else { return abandon(operation.call, Self.unknownOutcome) }
        let pause = context.policy.unknownOutcomePause
        let since = min(max(eventContext.wall - refreshToken.unconfirmedSince, .zero), pause)
        guard since < pause else { return prepareOrStoreIntent() }
        let until = eventContext.instant + (pause - since)
        self.operation?.stage = .pausing(until: until)
        // The service does not wait for so long.
        self.operation?.preparation = .none
    }

    /// What a refresh does to this session's refresh token: never `auto`.
    var rotation: RefreshTokenRotation {
        guard setup.refreshTokens.rotation == .auto else { return setup.refreshTokens.rotation }
        return refreshToken.hasRotated ? .oneUse : .none
    }

    /// The service still accepts the refresh token that was sent without a response: the window has begun with that call, or later.
    /// The allowance for the service's clock, and the pause before the repetition, must fit into it.
    var isWithinGrace: Bool {
        guard let window = setup.refreshTokens.graceWindow else { return true }
        let elapsed = eventContext.wall - refreshToken.unconfirmedSince
        // The wall clock was set back: it is unknown how much time has passed.
        guard elapsed >= .zero else { return false }
        let allowance = context.policy.allowance(lifetime: nil, skew: context.skew ?? .zero)
        return max(elapsed, context.policy.unknownOutcomePause) < window - allowance
    }

    static let unknownOutcome = IdentityError(
        .unknownOutcome,
        message: "the outcome of the latest refresh is unknown, and its refresh token must not be sent again")

    mutating func abandon(_ call: SessionCall, _ error: IdentityError) {
        if let lastTryAt { return holdForLastTry(call, error, until: lastTryAt) }
        refreshToken.triesWithoutResponse = 0
        // A token that no response replaces is the session's own to its end.
        if rotation == .none, refreshToken.orphan == nil, let token = session.tokens?.refresh {
            refreshToken.orphan = (token, sessionID)
        }
        if !context.hasCredential { revokeOrphaned() }
        recordLostFetch(call, error)
        applyToSession(call.variant == .plain ? .abandoned(error, call) : .refreshTokenEnded(error, .outcomeUnknown))
        close(with: context.hasCredential ? .dropRefreshToken : .end)
    }

    /// The refresh token may work only once. A crash after the intent is stored, and before the token is sent, would cost the session, so
    /// the time between is kept short: the service is connected first.
    private func preparesCall(of operation: TokenOperation) -> Bool {
        operation.refresh != nil && rotation != .none && setup.service.asksBeforeSending
    }

    mutating func prepareOrStoreIntent() {
        guard let operation, preparesCall(of: operation), operation.preparation != .ready else { return storeIntent() }
        guard let token = operation.refresh else { return }
        // The end has begun while the store was at work.
        guard !isDraining else { return finish() }
        self.operation?.stage = .preparing
        self.operation?.preparation = .begun
        setStart()
        emit(.prepareRefresh(token, self.operation?.call ?? operation.call))
    }

    mutating func handlePrepared(_ number: UInt64) {
        guard let operation, operation.number == number, operation.isPreparing else { return }
        self.operation?.preparation = .ready
        storeIntent()
    }

    /// The call that is prepared and not sent yet.
    var preparedCall: UInt64? { operation.flatMap { $0.isPrepared ? $0.number : nil } }

    /// A call that was prepared before the present event is given up, unless it still waits or was sent.
    mutating func cancelUnlessNeeded(_ number: UInt64) {
        guard number != preparedCall else { return }
        if let operation, operation.number == number, operation.preparation == .sent { return }
        emit(.cancelRefresh(operation: number))
    }

    private mutating func setStart() {
        let (instant, wall) = (eventContext.instant, eventContext.wall)
        let scopes = operation?.refresh == nil ? [] : scopesToKeep
        operation?.call.startedAt = instant
        operation?.call.startedAtWall = wall
        operation?.call.scopes = scopes
    }

    private mutating func storeIntent() {
        guard let operation else { return }
        self.operation?.stage = .beginning(.intent)
        // Unsaved changes go first: the intent must stand beside the refresh token that is about to be sent.
        retryNext()
        let tries = refreshToken.triesWithoutResponse + (operation.call.kind == .refresh ? 1 : 0)
        // The window of `grace` counts from the first call without a response.
        let at = refreshToken.triesWithoutResponse > 0 ? refreshToken.unconfirmedSince : eventContext.wall
        let intent = StoredIntent(kind: operation.call.kind, at: at, tries: tries)
        write(
            .storeIntent(intent, tokenToMark(of: operation), isLastTry: operation.isLastTry),
            for: .operation(operation.number))
    }

    /// Makes the call, whether or not the intent could be stored. The token's lifetime counts from this moment, unless the grant says
    /// when the request itself began.
    mutating func call() {
        guard let operation else { return }
        // While the intent was being stored the window may have ended, or the wall clock may have been set back.
        if operation.call.kind == .refresh, refreshToken.triesWithoutResponse > 0, rotation == .grace, !isWithinGrace,
            !operation.isLastTry
        {
            return abandon(operation.call, Self.unknownOutcome)
        }
        setStart()
        let secondCall = secondCall(of: operation)
        self.operation?.stage = .calling
        self.operation?.secondCall = secondCall
        let call = self.operation?.call ?? operation.call
        switch operation.credentials {
        case .refreshToken(let token):
            if operation.isLastTry { logEvent(.lastTry, .warning, reason: call.cause.rawValue) }
            refreshToken.send(at: eventContext.wall)
            guard operation.preparation == .ready else { return emit(.refresh(token, call)) }
            self.operation?.preparation = .sent
            emit(.sendRefresh(operation: call.number))
        case .login(let credential):
            emit(.login(credential, refused: unsendable(credential, by: operation), call))
        case .obtained, .none:
            let remedy =
                operation.isFetch
                ? "; a further access token needs a refresh token, which many servers give for the scope offline_access"
                : ""
            var error = IdentityError(.credentialUnavailable, message: "no credential is configured" + remedy)
            // Nothing was refused: only a login can bring the refresh token.
            if operation.isFetch { error.responsible = .user }
            handleFailure(error)
        }
    }

    /// The fingerprint of a credential that is not sent. An operator's login may try one that was refused before, but no refresh token
    /// that has served: where it works once, its reuse ends the session that it has begun.
    private func unsendable(_ credential: Credential, by operation: TokenOperation) -> CredentialFingerprint? {
        guard operation.purpose != .own else { return isClientRetry(operation) ? nil : knownRecord.refused }
        guard case .configured(let login) = credential, login.kind == .refreshToken,
            knownRecord.refused?.isSpent == true
        else { return nil }
        return knownRecord.refused
    }

    /// Ends the operation. The next one may start.
    mutating func finish() {
        let fetch = operation.flatMap { $0.isFetch ? $0.call : nil }
        operation = nil
        releaseLock()
        if let fetch { repeatFetch(fetch) }
    }

    // MARK: The stored user

    mutating func recordStored(_ user: StoredUser?) {
        knownRecord.refused = user?.refused
        knownRecord.provider = user?.provider
        knownRecord.accountSince = user?.accountSince
        if let user, user.hasEverBeenLoggedIn { context.hasEverBeenLoggedIn = true }
        if let account = user?.accountID, context.recordAccount(account) {
            logEvent(.accountChanged, .warning, reason: "elsewhere")
        }
        refreshToken.recordIntent(user?.intent)
        refreshToken.recordLastTry(
            of: user?.session, present: session.tokens.flatMap { $0.refresh ?? $0.lastTry?.token })
    }

    mutating func restore(_ stored: StoredSession, of user: StoredUser, isAdopted: Bool) {
        refreshToken.begin(with: user.intent, of: stored)
        knownRecord.current = user.generation
        if isAdopted { refreshToken.warnings.restart() }
        // Its refresh token renews the plain one.
        if stored.refresh != nil, standIn != nil {
            standIn = nil
            rebuildVariants()
        }
        let own = storedToken(stored)
        // Another process may have fetched only the token of a variant.
        let known =
            isAdopted
            ? session.tokens.flatMap { tokens in own.flatMap { tokens.isSame(as: $0) ? tokens.generation : nil } } : nil
        let former = context.account
        let account = context.restoreAccount(
            SessionAccount.Proof(of: stored, userID: user.accountID),
            continuesSession: stored.id == knownRecord.servedSession)
        knownRecord.servedSession = stored.id
        // Where the service names its accounts, `recordStored` has noted the other one.
        if user.accountID == nil, account.isOther(than: former) {
            emit(.logEvent(.accountChanged(to: account, reason: "elsewhere")))
        }
        var tokens = SessionTokens(
            own ?? stored.tokens.plain, (stored.refresh, stored.refreshExpiry),
            generation: known ?? context.resume(generation: user.generation), accountID: user.accountID,
            account: account, boot: setup.boot, at: eventContext,
            skew: context.skew ?? .zero, settings: context.settings, refreshTokens: context.refreshTokens,
            callDuration: context.callDuration)
        if own == nil { tokens = tokens.withheld(at: eventContext.instant) }
        let how = Session.Restoration(
            isTrusted: isAdopted || setup.offline == .cached, isUrgent: refreshToken.triesWithoutResponse > 0,
            spread: isAdopted ? 0 : context.policy.restartSpread,
            isAdopted: isAdopted)
        applyToSession(.restored(tokens, how))
        superseded.forgetIssue()
        emit(.countUses(ownIndex))
        variantCosts.blocks = stored.blockedVariants
        applyBlocks()
        restoreVariants(stored, how)
    }
}
