/// What an errand's call has brought, and its way into the store: first stored, then told to the session (refresh.md 8).
extension SessionCoordinator {
    mutating func callCompleted(_ result: Result<Grant, IdentityError>, _ call: SessionCall) {
        guard let operation, operation.number == call.number, case .calling = operation.stage else {
            return discard(result, call)
        }
        switch (result, call.kind) {
        case (.failure(let error), .refresh):
            if setup.rotation != .none, let token = error.unusedRefreshToken {
                orphanedRefresh = (token, storedUser?.session?.id ?? base.session)
            }
            failed(reclassified(error))
        case (.failure(let error), .login):
            revokeUnused(error)
            failed(error)
        case (.success(let grant), .refresh):
            unansweredRefreshes = 0
            orphanedRefresh = nil
            save(grant)
        case (.success(let grant), .login):
            self.operation?.stage = .claiming(grant)
            emit(.claim(account: grant.userID ?? "", operation: operation.number))
        }
    }

    /// A success that cannot be read is transient (refresh.md 10); but where refresh tokens rotate, the new one was in it.
    private func reclassified(_ error: IdentityError) -> IdentityError {
        guard setup.rotation != .none, case .transient = error.verdict, let status = error.status, 200..<300 ~= status
        else { return error }
        var error = error
        error.verdict = .unknownOutcome
        return error
    }

    /// A logout came in between: what the late answer brought must not live on over there.
    private mutating func discard(_ result: Result<Grant, IdentityError>, _ call: SessionCall) {
        if let token = result.refreshToken { revoke(token) }
        logEvent(.late, reason: call.kind.rawValue)
    }

    /// A login's answer that cannot be used has made a session all the same. A service that names the session at hand has made none.
    private mutating func revokeUnused(_ error: IdentityError) {
        guard let token = error.unusedRefreshToken, token != session.tokens?.refresh,
            token != storedUser?.session?.refresh
        else { return }
        revoke(token)
    }

    /// The session whose latest refresh token could not be used is over here.
    mutating func revokeOrphaned() {
        if let token = orphanedRefresh?.token { revoke(token) }
        orphanedRefresh = nil
    }

    mutating func claimed(_ claim: AccountOwnership, _ number: UInt64) {
        guard !adopted(claim, number), let operation, operation.number == number,
            case .claiming(let grant) = operation.stage
        else { return }
        switch (claim, operation.purpose) {
        case (.free, _), (.belongs, .own), (.belongs, .closingIntent): save(grant)
        case (.inUse(let other), _): rejectAccountInUse(grant, for: other)
        case (.belongs(let other), .asked(let ticket)):
            let obtained = ObtainedSession(
                grant, startedAt: operation.call.startedAt, startedAtWall: operation.call.startedAtWall,
                provider: operation.provider)
            reply(ticket, .belongs(to: other, obtained))
            closeAsked(with: .settle)
        }
    }

    /// The account is another user's, here or in another process: what the login has brought is ended, and the session stays as it was.
    mutating func rejectAccountInUse(_ grant: Grant, for other: String) {
        // What was made elsewhere is ended with its errand.
        if operation?.obtained == nil, let token = grant.refreshToken { revoke(token) }
        let message = "the credential leads to the account that user \(other) of this device is logged in to"
        failed(IdentityError(.accountInUse, message: message), operatorReply: .accountInUse(by: other))
    }

    // MARK: Failure

    /// The session hears of it at once; the store keeps what must outlive a crash of it.
    mutating func failed(_ error: IdentityError, operatorReply: SessionReply? = nil) {
        guard let operation else { return }
        // As long as another process has the lock, the intent in the store, if there is one, is that process's.
        let isSent = if case .locking = operation.stage { false } else { true }
        if case .asked(let ticket) = operation.purpose {
            logEvent(.requestedLoginFailed, .warning, reason: error.verdict.label, error: error)
            if let token = operation.obtained?.grant.refreshToken { revoke(token) }
            reply(ticket, operatorReply ?? .failed(error))
            return isSent ? closeAsked(with: refusal(by: error, of: operation) ?? .settle) : finish()
        }
        // Where no retry may come, nothing is gained by waiting for it.
        if operation.call.kind == .refresh, isSent, error.verdict == .unknownOutcome, setup.rotation == .oneUse {
            return abandon(operation.call, error)
        }
        if operation.call.kind == .refresh, isSent, error.verdict != .unknownOutcome {
            unansweredRefreshes = max(unansweredRefreshes - 1, 0)
        }
        applyToSession(.failed(error, operation.call))
        // Nothing can begin another session, so nothing else would ever end what is left of this one.
        if session.state == .loginRequired { revokeOrphaned() }
        guard isSent, error.verdict != .unknownOutcome || operation.call.kind == .login else { return finish() }
        close(with: pendingChange(after: error, of: operation))
    }

    /// By what the session has made of it.
    private func pendingChange(after error: IdentityError, of operation: TokenOperation) -> SessionWrites.PendingChange
    {
        switch (session, operation.call.kind) {
        case (_, .login): refusal(by: error, of: operation) ?? (endedVersion == nil ? .settle : .end)
        case (.loginRequired, _): .end
        case (_, .refresh) where pendingCall?.call.kind == .login: .dropRefreshToken
        default: .settle
        }
    }

    /// Only what a configuration names can be tried again by itself. A doubt is a refusal once the session takes it for one; a refusal is
    /// one even if the credential has changed since, because the changed one has another mark.
    private func refusal(by error: IdentityError, of operation: TokenOperation) -> SessionWrites.PendingChange? {
        guard case .configured? = operation.credential, let fingerprint = error.credential else { return nil }
        switch (error.verdict, session) {
        case (.credentialRefused, _): return .recordRefusal(fingerprint, endedVersion: endedVersion)
        case (.credentialDoubted, .refused) where operation.purpose == .own:
            return .recordRefusal(fingerprint, endedVersion: endedVersion)
        default: return nil
        }
    }

    /// What the store holds of the session has no refresh token, and is not served any more: a restart must not serve it either.
    private var endedVersion: SessionVersion? {
        guard base.session != 0, session.tokens == nil, let stored = storedUser?.session else { return nil }
        return stored.refresh == nil || writes.hasUnsavedTokenDrop ? base : nil
    }

    /// A user that has come to nothing is not kept.
    private mutating func closeAsked(with pendingChange: SessionWrites.PendingChange) {
        let neverEstablished = setup.isAdded && context.accountID == nil
        close(with: neverEstablished ? .terminate(.remove, nil) : pendingChange)
    }

    mutating func close(with pendingChange: SessionWrites.PendingChange) {
        guard let operation else { return }
        self.operation?.stage = .closing
        // What the store could not take of the session that has died must not get there late.
        switch pendingChange {
        case .dropRefreshToken: writes.dropRefreshToken()
        case .end: writes.dropSession()
        default:
            if operation.purpose == .own, operation.call.kind == .login, case .refused = session {
                writes.dropSession()
            }
        }
        write(pendingChange, for: .operation(operation.number))
    }

    // MARK: Success

    mutating func save(_ grant: Grant) {
        guard let operation else { return }
        // A session that is not at hand any more, but alive over there, such as one whose refresh was answered by 404.
        if operation.call.kind == .login, session.tokens == nil {
            self.operation?.replacedRefreshToken = storedUser?.session?.refresh
        }
        self.operation?.stage = .saving(grant)
        write(.saveSession(login(with: grant, by: operation)), for: .operation(operation.number))
    }

    private func login(with grant: Grant, by operation: TokenOperation) -> StoreChange.StoredLogin {
        let isRefresh = operation.call.kind == .refresh
        let old = isRefresh ? session.tokens : nil
        // What no store has heard of this session goes with the refresh.
        let unsaved = isRefresh ? writes.unsaved : nil
        let known = isRefresh && base.session != 0 ? base.session : eventContext.name
        let stored = StoredSession(
            id: unsaved?.session.id ?? known, access: grant.accessToken,
            refresh: grant.refreshToken ?? old?.refresh,
            refreshExpiry: grant.refreshToken == nil ? old?.refreshExpiry : grant.refreshTokenExpiry,
            issuedAt: operation.call.startedAtWall,
            issuedAtBoot: BootInstant(boot: setup.boot, instant: operation.call.startedAt), lifetime: grant.lifetime)
        return StoreChange.StoredLogin(
            // A login before it that could not be stored is replaced by this, and named the account.
            identity: setup.identity, session: stored, accountID: grant.userID ?? old?.accountID,
            provider: isRefresh ? unsaved?.provider : operation.provider, isAdded: setup.isAdded,
            generationMin: max(generationMin, max(held, base.generation)) + 1,
            fingerprint: setup.fingerprint, configured: setup.configured)
    }

    /// The store holds it, or cannot: in either case it serves from now on.
    mutating func saved(_ grant: Grant, generation: UInt64) {
        guard let operation else { return }
        context.expect(generation: generation)
        if isCurrent, let old = operation.replacedRefreshToken { revoke(old) }
        switch operation.purpose {
        case .own, .closingIntent: applyToSession(.granted(grant, operation.call))
        case .asked(let ticket):
            if isCurrent, let old = session.tokens?.refresh, old != grant.refreshToken { revoke(old) }
            pendingCall = nil
            applyToSession(.loggedIn(grant, operation.call))
            reply(ticket, .loggedIn)
        }
        if operation.call.kind == .login {
            revokeOrphaned()
            unansweredRefreshes = 0
            refused = nil
            provider = operation.provider ?? provider
            isProvisional = false
        }
        warnings.restart()
        finish()
    }

    /// Unless nobody knows whether a refresh token is still its session's: an old one is never sent again, not even to revoke it.
    private var isCurrent: Bool { unansweredRefreshes == 0 || setup.rotation == .none }

    /// Another process changed the user while this call was under way, which the user's lock forbids to all but a person's logout.
    mutating func overtaken(_ grant: Grant, by user: StoredUser?) {
        guard let operation else { return }
        if let user, !user.belongs(to: home) {
            noteForeign(user)
            return save(grant)
        }
        if let user, isOlder(user) {
            rebase(onOlder: user)
            return save(grant)
        }
        if let user, writes.mayHaveWritten(user) {
            rebase(on: user)
            return save(grant)
        }
        logEvent(.overtaken, .warning, reason: operation.call.kind.rawValue)
        if operation.call.kind == .login,
            writes.hasUnsavedTermination || user?.session == nil && user?.isLoggedOut == false
        {
            // Nobody is logged in there, and nobody wants it so: this login is good. So it is where what stands there has been left by a person.
            rebase(on: user)
            return save(grant)
        }
        // That which this login was to replace, should no store have it, goes with it.
        if operation.call.kind == .login, isCurrent, let unsaved = writes.unsaved?.session,
            unsaved.id != user?.session?.id, let token = unsaved.refresh
        {
            revoke(token)
        }
        if user?.session?.id != base.session || operation.call.kind == .login,
            let token = grant.refreshToken ?? operation.refresh
        {
            revoke(token)
        }
        rebase(on: user)
        if case .asked(let ticket) = operation.purpose { reply(ticket, .overtaken) }
        yield(to: user)
    }
}
