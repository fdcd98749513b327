import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// How the outcome of a call is handled: it is stored first, then the session learns of it (refresh.md 8).
extension SessionCoordinator {
    mutating func handleCallCompleted(_ result: Result<Grant, IdentityError>, _ call: SessionCall) {
        guard let operation, operation.number == call.number, operation.isAwaitingResult else {
            return discard(result, call)
        }
        if case .success(let grant) = result, let start = grant.requestStartedAt {
            self.operation?.call.startedAt = start.instant
            self.operation?.call.startedAtWall = start.wall
        }
        switch (result, call.kind) {
        case (.failure(let error), .refresh):
            exchange(operation.refresh, for: error.unusedRefreshToken)
            if rotation != .none, let grant = Grant(successorIn: error), grant.refreshToken != operation.refresh {
                refreshToken.triesWithoutResponse = 0
                refreshToken.orphan = nil
                return save(grant)
            }
            handleFailure(refusedRefresh(reclassified(error), of: operation))
        case (.failure(let error), .login):
            // A further session that a fetch without a refresh token has begun is revoked, too.
            revokeUnused(error)
            guard let error = failStandIn(error, of: operation) else { return }
            handleFailure(countingClientTry(refusedRenewal(error, of: operation), of: operation))
        case (.success(var grant), .refresh):
            refreshToken.triesWithoutResponse = 0
            refreshToken.orphan = nil
            exchange(operation.refresh, for: grant.refreshToken)
            variantCosts.noteAccepted()
            if let error = narrowing(by: grant, of: operation) { return handleFailure(error) }
            grant.unusable = grant.unusable ?? doubtedScopes(of: grant, operation)
            save(grant)
        case (.success(var grant), .login) where operation.isFetch:
            if let token = grant.refreshToken { revoke(token) }
            grant.refreshToken = nil
            continuesAccount(grant) ? save(grant) : refuseAnotherAccount(of: operation)
        case (.success(let grant), .login):
            guard acceptsStandIn(grant, of: operation) else { return }
            self.operation?.stage = .claiming(grant)
            emit(.claim(account: grant.userID, operation: operation.number))
        }
    }

    private mutating func exchange(_ sent: Secret?, for token: Secret?) {
        refreshToken.exchange(sent, for: token, remainsValid: setup.refreshTokens.rotation == .none)
    }

    /// By itself a response that tells nothing of the session is transient (refresh-outcomes.md 10). Where refresh tokens may rotate, the
    /// service may have made the next one all the same (refresh-outcomes.md 9).
    private func reclassified(_ error: IdentityError) -> IdentityError {
        guard !error.isOfPlace, case .transient = error.verdict,
            let response = error.refreshResponse ?? error.status.map({ RefreshResponse(status: $0) })
        else { return error }
        let configured = setup.refreshTokens.rotation
        switch response.outcome(configured == .auto && refreshToken.hasRotated ? .oneUse : configured) {
        case .unsent, .known: return error
        case .unknown:
            var error = error
            // The time that the service has named holds for what follows, too.
            (error.verdict, error.retryAfter) = (.unknownOutcome, error.retryAfter)
            return error
        }
    }

    /// A logout came first. The session that the late response brought must be revoked.
    private mutating func discard(_ result: Result<Grant, IdentityError>, _ call: SessionCall) {
        if case .success(let grant) = result, call.kind == .login {
            revoke(unwanted: grant)
        } else if let token = result.refreshToken {
            revoke(token)
        }
        logEvent(.late, reason: call.kind.rawValue)
        // An operator's login may have sent another credential than the configured one. A removed user stays unknown.
        if call.cause != .asked, knownRecord.user != nil { recordSpent(result.spentCredential) }
    }

    /// An unusable login response has still created a session at the service, unless it names the current session.
    private mutating func revokeUnused(_ error: IdentityError) {
        guard let token = error.unusedRefreshToken, token != session.tokens?.refresh,
            token != knownRecord.user?.session?.refresh
        else { return }
        revoke(token)
    }

    /// Ends the session of the refresh token that could not be used.
    mutating func revokeOrphaned() {
        if let token = refreshToken.orphan?.token { revoke(token) }
        refreshToken.orphan = nil
    }

    mutating func handleClaimed(_ ownership: AccountOwnership, _ number: UInt64) {
        guard !handleAdoptionClaim(ownership, number), let operation, operation.number == number,
            case .claiming(let grant) = operation.stage
        else { return }
        switch (ownership, operation.purpose) {
        case (.free, _), (.belongs, .own), (.belongs, .closingIntent): save(grant)
        case (.inUse(let other), _): rejectAccountInUse(grant, for: other)
        case (.belongs(let other), .operatorLogin):
            let obtained = ObtainedSession(
                grant, startedAt: operation.call.startedAt, startedAtWall: operation.call.startedAtWall,
                provider: operation.provider)
            endLogin(.belongs(to: other, obtained))
            close(with: .clearIntent)
        }
    }

    /// The account belongs to another user, in this process or another. The new session is revoked and the old one
    /// stays as it was.
    mutating func rejectAccountInUse(_ grant: Grant, for other: String) {
        // A session that was obtained elsewhere is revoked with its operation.
        if operation?.obtained == nil, let token = grant.refreshToken { revoke(token) }
        let message = "the credential leads to the account that user \(other) of this device is logged in to"
        let error = IdentityError(.accountInUse, message: message, credential: grant.spentCredential)
        handleFailure(error, operatorReply: .accountInUse(by: other))
    }

    // MARK: Failure

    /// The session learns of the failure at once. The store keeps what must survive a crash.
    mutating func handleFailure(_ error: IdentityError, operatorReply: SessionReply? = nil) {
        guard let operation else { return }
        if operation.isFetch { return handleFetchFailure(error, of: operation) }
        // While another process has the lock, an intent in the store belongs to that process.
        let isSent = !operation.isAwaitingLock && !operation.isPreparing
        if operation.purpose == .operatorLogin {
            logEvent(.operatorLoginFailed, .warning, reason: error.verdict.label, error: error)
            if let grant = operation.obtained?.grant { revoke(unwanted: grant) }
            endLogin(operatorReply ?? .failed(error))
            return isSent ? close(with: refusal(by: error, of: operation) ?? .clearIntent) : finish()
        }
        if operation.isLastTry, isSent { return endAfterLastTry(error, of: operation) }
        // If no retry may follow, waiting for one is useless.
        if operation.call.kind == .refresh, isSent, error.verdict == .unknownOutcome,
            rotation == .oneUse || rotation == .grace && !isWithinGrace
        {
            return abandon(operation.call, error)
        }
        if operation.call.kind == .refresh, isSent, error.verdict != .unknownOutcome {
            refreshToken.triesWithoutResponse = max(refreshToken.triesWithoutResponse - 1, 0)
        }
        applyToSession(.failed(error, operation.call))
        if operation.call.kind == .refresh, isSent, session.tokens?.refresh == nil { blockRefusedFetches() }
        limitVariants(by: error)
        // Nothing can begin another session, so nothing else would end the orphaned one.
        if session.state == .loginRequired { revokeOrphaned() }
        if operation.isPreparing { return closeUnsent(with: pendingChange(after: error, of: operation)) }
        guard isSent, error.verdict != .unknownOutcome || operation.call.kind == .login else { return finish() }
        close(with: pendingChange(after: error, of: operation))
    }

    /// The change of the store that follows from the session's new state.
    private func pendingChange(after error: IdentityError, of operation: TokenOperation) -> SessionWrites.PendingChange
    {
        if operation.call.kind == .login {
            return refusal(by: error, of: operation) ?? (endedVersion == nil ? .clearIntent : .end)
        }
        return switch session.state {
        case .loginRequired: .end
        case .loggedOut, .loggingIn, .valid, .refreshing, .stale, .unreachable, .refused:
            // A login waits that takes the place of the dead refresh token.
            session.tokens.map { $0.refresh == nil && $0.lastTry == nil } == true ? .dropRefreshToken : .clearIntent
        }
    }

    /// Only a configured credential can be tried again automatically. A doubted credential counts as refused once the
    /// session treats it so. A refusal is recorded even if the credential file has changed since, because the new
    /// content has another fingerprint.
    private func refusal(by error: IdentityError, of operation: TokenOperation) -> SessionWrites.PendingChange? {
        guard case .configured? = operation.credential, var fingerprint = error.credential else { return nil }
        // An operator had it sent again. It stays spent, whatever the service says of it now.
        if let refused = knownRecord.refused, fingerprint.isSame(as: refused) {
            if refused.isSpent { fingerprint = refused }
            // An operator's try is none of Lanyard's own.
            if operation.purpose != .own { fingerprint.clientTries = refused.clientTries }
        }
        switch error.verdict {
        // A credential that comes with `accountInUse` is spent.
        case .credentialRefused, .accountInUse: break
        case .credentialDoubted:
            guard operation.purpose == .own, case .refused = session else { return nil }
        case .transient, .unknownOutcome, .sessionDead, .gone, .unknownApp, .credentialUnavailable, .credentialDelayed,
            .clientRefused, .callRefused:
            return nil
        }
        return .recordRefusal(fingerprint, endedVersion: endedVersion)
    }

    /// The version of a stored session that has no refresh token and is not served any more. A restart must not serve
    /// it either.
    private var endedVersion: SessionVersion? {
        guard base.session != 0, session.tokens == nil, let stored = knownRecord.user?.session else { return nil }
        return stored.refresh == nil || writes.hasUnsavedTokenDrop ? knownRecord.base : nil
    }

    /// The call has no intent. An intent of an earlier call stays.
    private mutating func closeUnsent(with pendingChange: SessionWrites.PendingChange) {
        if case .clearIntent = pendingChange { finish() } else { close(with: pendingChange) }
    }

    mutating func close(with pendingChange: SessionWrites.PendingChange) {
        guard let operation else { return }
        self.operation?.stage = .closing
        // Unsaved changes of the dead session must not be stored later.
        switch pendingChange {
        case .dropRefreshToken: writes.dropRefreshToken()
        case .end: writes.dropSession()
        case .storeIntent, .clearIntent, .saveSession, .recordRefusal, .terminate, .beginDeletion, .cancelDeletion:
            if operation.purpose == .own, operation.call.kind == .login, case .refused = session {
                writes.dropSession()
            }
        }
        write(pendingChange, for: .operation(operation.number))
    }

    // MARK: Success

    mutating func save(_ grant: Grant) {
        guard let operation else { return }
        let grant = dated(grant, of: operation)
        // The old session is not held any more but may still live at the service, for example after a refresh that
        // got 404.
        if operation.call.kind == .login, session.tokens == nil {
            let replaced = knownRecord.user?.session?.refresh
            self.operation?.replacedRefreshToken = replaced
        }
        self.operation?.stage = .saving(grant)
        let login =
            operation.isFetch || grant.unusable != nil
            ? login(fetching: grant, by: operation) : login(with: grant, by: operation)
        guard let login else { return handleSaved(grant, generation: nil) }
        self.operation?.savedSession = login.session.id
        write(.saveSession(login), for: .operation(operation.number))
    }

    /// With the end of its refresh token as it is configured, if the service does not say it. A refresh does not move that end.
    private func dated(_ grant: Grant, of operation: TokenOperation) -> Grant {
        guard grant.refreshToken != nil, grant.refreshTokenExpiry == nil,
            let lifetime = setup.refreshTokens.lifetime
        else { return grant }
        var grant = grant
        grant.refreshTokenExpiry =
            operation.call.kind == .login ? operation.call.startedAtWall + lifetime : session.tokens?.refreshExpiry
        return grant
    }

    private func login(with grant: Grant, by operation: TokenOperation) -> StoreChange.StoredLogin {
        let isRefresh = operation.call.kind == .refresh
        let old = isRefresh ? session.tokens : nil
        // The unsaved parts of this session are stored with the refresh.
        let unsaved = isRefresh ? writes.unsaved : nil
        let known =
            isRefresh && knownRecord.base.session != 0
            ? knownRecord.base.session : StoredSession.newID(eventContext.name, isByOperator: operation.purpose != .own)
        var stored = StoredSession(
            id: unsaved?.session.id ?? known, access: grant.accessToken,
            refresh: grant.refreshToken ?? (operation.isLastTry ? operation.refresh : old?.refresh),
            refreshExpiry: grant.refreshToken == nil ? old?.refreshExpiry : grant.refreshTokenExpiry,
            issuedAt: operation.call.startedAtWall,
            issuedAtBoot: BootInstant(boot: setup.boot, instant: operation.call.startedAt), lifetime: grant.lifetime,
            others: continuesVariants(with: grant, operation) ? otherTokens(of: isRefresh ? known : nil) : [:],
            hasRotated: isRefresh ? refreshToken.hasRotated : grant.hasRotated)
        stored.account = isRefresh ? old?.account.fingerprint : grant.account
        if let variant = operation.call.standIn {
            stored.tokens = .withoutPlain(variant, stored.tokens.plain, others: stored.tokens.others)
        }
        stored.grantedScopes =
            stored.refresh == nil ? nil : isRefresh ? refreshToken.grantedScopes : grant.scopes
        stored.blockedVariants = endsBlocks(operation) ? [:] : knownBlocks
        // One last try in the life of a refresh token: a response without another one leaves the mark.
        stored.hasMadeLastTry = isRefresh && refreshToken.hasMadeLastTry
        var login = StoreChange.StoredLogin(
            // This login replaces an earlier unsaved login, which had named the account.
            identity: setup.identity, session: stored, accountID: grant.userID ?? old?.accountID,
            provider: operation.provider ?? unsaved?.provider, isAdded: setup.isAdded,
            generationMin: knownRecord.next,
            fingerprint: setup.service.fingerprint, configured: setup.configured, isLink: operation.isLink,
            keepsLogout: operation.purpose == .own || operation.isLink, refused: refusedCredential(after: grant))
        login.subject = operation.provider == nil ? unsaved?.subject : grant.subject
        return login
    }

    /// The access tokens of the session that a renewal of the plain one leaves as they are.
    ///
    /// - Parameter session: nil: a login continues whatever session is known.
    private func otherTokens(of session: UInt64?) -> [TokenVariant: StoredAccessToken] {
        guard let known = writes.unsaved?.session ?? knownRecord.user?.session else { return [:] }
        return session == nil || writes.unsaved != nil || known.id == session ? known.tokens.others : [:]
    }

    /// The tokens of variants stay what they are: the plain one was refreshed, or a session without a refresh token was
    /// renewed by its login. Any other login may have begun another session.
    private func continuesVariants(with grant: Grant, _ operation: TokenOperation) -> Bool {
        guard operation.call.kind == .login else { return true }
        return operation.purpose == .own && grant.refreshToken == nil && operation.call.cause != .credentialChanged
            && session.tokens.map { $0.refresh == nil } ?? false
            // The credential's file may have changed since the last login.
            && context.continuesAccount(grant, isExplicit: false)
    }

    /// What the store remembers of the configured credential beside these tokens. A refresh proves nothing of a credential that was
    /// refused: the last try takes the place of its login (refresh-outcomes.md 9), and its session may end, too.
    func refusedCredential(after grant: Grant) -> CredentialFingerprint? {
        operation?.call.kind == .refresh ? knownRecord.refused : spentCredential(after: grant)
    }

    /// The configured credential, if it has served its only login: this one, or an earlier one.
    func spentCredential(after grant: Grant) -> CredentialFingerprint? {
        if case .configured? = operation?.credential { return grant.spentCredential }
        return knownRecord.refused?.isSpent == true ? knownRecord.refused : nil
    }

    /// The credential has served, and its session is given up. No later login must send it again. What another process
    /// has recorded since stays.
    mutating func recordSpent(_ fingerprint: CredentialFingerprint?) {
        guard let fingerprint, fingerprint.isSpent, knownRecord.user?.refused?.isSpent != true else { return }
        knownRecord.refused = fingerprint
        write(.recordRefusal(fingerprint, endedVersion: nil), for: .spentCredential)
    }

    /// The new tokens serve from now on, whether or not the store has taken them.
    ///
    /// - Parameter generation: of the tokens in the store; nil: the store holds another identity's user in their place.
    mutating func handleSaved(_ grant: Grant, generation: Generation?) {
        guard let operation else { return }
        if let error = grant.unusable { return handleSuccessor(grant, error, by: operation) }
        if operation.isFetch { return handleFetched(grant, by: operation) }
        let continuesVariants = continuesVariants(with: grant, operation)
        replaceStandIn(after: operation)
        noteIssueOfOwn()
        if let generation { context.expect(generation: generation) }
        if isCurrent, let old = operation.replacedRefreshToken { revoke(old) }
        switch operation.purpose {
        case .own, .closingIntent: applyToSession(.granted(grant, operation.call))
        case .operatorLogin where operation.isLink:
            applyToSession(.renewed(grant, operation.call))
            knownRecord.provider = operation.provider ?? knownRecord.provider
            endLogin(.linked)
        case .operatorLogin:
            if isCurrent, let old = session.tokens?.refresh, old != grant.refreshToken { revoke(old) }
            waiting.call = nil
            applyToSession(.loggedIn(grant, operation.call))
            endLogin(.loggedIn)
        }
        if operation.call.kind == .login {
            knownRecord.servedSession = operation.savedSession
            revokeOrphaned()
            refreshToken.begin(with: grant)
            endBlocks(by: operation)
            knownRecord.refused = spentCredential(after: grant)
            knownRecord.provider = operation.provider ?? knownRecord.provider
            knownRecord.isProvisional = false
        }
        if continuesVariants {
            for place in variants.indices where variants[place].session.state == .refused {
                applyToVariant(at: place, .logIn)
            }
            if waiting.awaitsRefresh { retryVariants() }
            endGone()
        } else {
            restartVariants()
        }
        refreshToken.warnings.restart()
        finish()
    }

    /// A refresh has brought the next refresh token, which is stored, and no access token that can be used: it is tried again.
    private mutating func handleSuccessor(_ grant: Grant, _ error: IdentityError, by operation: TokenOperation) {
        applyToSession(.refreshTokenUsed(grant, operation.call))
        let doubt = variantCosts.takeDoubt(of: operation.number)
        if !operation.isFetch {
            applyToSession(.failed(error, operation.call))
        } else if doubt?.isFirst != true {
            failFetch(error, of: operation)
        }
        if doubt != nil { applyToSession(.refreshNow(.fetchRefused)) }
        refreshToken.warnings.restart()
        finish()
    }

    /// False while it is unknown whether a refresh token still belongs to its session. An old token is then never sent
    /// again, not even to revoke it.
    private var isCurrent: Bool { refreshToken.triesWithoutResponse == 0 || rotation == .none }

    /// Another process changed the user while this call was in progress. The user's lock prevents that for all changes
    /// but an operator's logout.
    mutating func handleOvertaken(_ grant: Grant, by user: StoredUser?) {
        guard let operation else { return }
        let relation = relation(of: user)
        let resolutions = relation.resolutions
        let resolution: StoredRelation.LoginResolution =
            if operation.isFetch || operation.call.kind == .refresh {
                .change(resolutions.afterRefresh)
            } else {
                writes.hasUnsavedTermination ? resolutions.afterLoginWithUnsavedEnd : resolutions.afterLogin
            }
        switch resolution {
        case .change(.continueBeside):
            if let user { recordForeignUser(user) }
            return save(grant)
        case .change(.writeNewer):
            if let user { rebase(onOlder: user) }
            return save(grant)
        case .change(.rebase):
            knownRecord.rebase(on: user)
            return save(grant)
        case .keepLogin:
            logEvent(.overtaken, .warning, reason: operation.call.kind.rawValue)
            knownRecord.rebase(on: user)
            return save(grant)
        case .change(.yield): logEvent(.overtaken, .warning, reason: operation.call.kind.rawValue)
        }
        let spent = operation.call.kind == .login ? spentCredential(after: grant) : nil
        // If no store has the session that this login was to replace, it is revoked with the login.
        if operation.call.kind == .login, !operation.isFetch, isCurrent, let unsaved = writes.unsaved?.session,
            !unsaved.isStored(in: user), let token = unsaved.refresh
        {
            revoke(token)
        }
        if !relation.hasKnownSession || operation.call.kind == .login {
            if let token = grant.refreshToken ?? operation.refresh {
                revoke(token)
            } else if user?.session == nil {
                // Beside a session in the store the access token stays: some services give out the same one twice.
                revoke(unwanted: grant)
            }
        }
        if operation.purpose == .operatorLogin { endLogin(.overtaken) }
        yield(to: user)
        if user != nil { recordSpent(spent) }
    }
}
