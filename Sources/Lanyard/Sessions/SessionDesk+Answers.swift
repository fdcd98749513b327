/// What an errand's call has brought, and its way into the store: first stored, then told to the session (refresh.md 8).
extension SessionDesk {
    mutating func answered(_ result: Result<Grant, IdentityFault>, _ call: SessionCall) {
        guard let errand, errand.number == call.number, case .calling = errand.stage else {
            return discard(result, call)
        }
        switch (result, call.kind) {
        case (.failure(let fault), .refresh):
            if setup.rotation != .none, let token = fault.unusedRefreshToken {
                strandedRefresh = (token, ours?.session?.id ?? base.session)
            }
            failed(judged(fault))
        case (.failure(let fault), .login):
            revokeUnused(fault)
            failed(fault)
        case (.success(let grant), .refresh):
            unanswered = 0
            strandedRefresh = nil
            save(grant)
        case (.success(let grant), .login):
            self.errand?.stage = .claiming(grant)
            act(.claim(account: grant.userID ?? "", errand: errand.number))
        }
    }

    /// A success that cannot be read is transient (refresh.md 10); but where refresh tokens rotate, the new one was in it.
    private func judged(_ fault: IdentityFault) -> IdentityFault {
        guard setup.rotation != .none, case .transient = fault.verdict, let status = fault.status, 200..<300 ~= status
        else { return fault }
        var fault = fault
        fault.verdict = .unknownOutcome
        return fault
    }

    /// A logout came in between: what the late answer brought must not live on over there.
    private mutating func discard(_ result: Result<Grant, IdentityFault>, _ call: SessionCall) {
        if let token = result.refreshToken { revoke(token) }
        note(.late, reason: call.kind.rawValue)
    }

    /// A login's answer that cannot be used has made a session all the same. A service that names the session at hand has made none.
    private mutating func revokeUnused(_ fault: IdentityFault) {
        guard let token = fault.unusedRefreshToken, token != session.tokens?.refresh, token != ours?.session?.refresh
        else { return }
        revoke(token)
    }

    /// The session whose latest refresh token could not be used is over here.
    mutating func revokeStranded() {
        if let token = strandedRefresh?.token { revoke(token) }
        strandedRefresh = nil
    }

    mutating func claimed(_ claim: SessionClaim, _ number: UInt64) {
        guard !adopted(claim, number), let errand, errand.number == number, case .claiming(let grant) = errand.stage
        else { return }
        switch (claim, errand.purpose) {
        case (.free, _), (.belongs, .own), (.belongs, .tidying): save(grant)
        case (.inUse(let other), _): turnAway(grant, for: other)
        case (.belongs(let other), .asked(let ticket)):
            let gift = SessionGift(
                grant, startedAt: errand.call.startedAt, startedAtWall: errand.call.startedAtWall,
                provider: errand.provider)
            reply(ticket, .belongs(to: other, gift))
            closeAsked(with: .settle)
        }
    }

    /// The account is another user's, here or in another process: what the login has brought is ended, and the session stays as it was.
    mutating func turnAway(_ grant: Grant, for other: String) {
        // What was made elsewhere is ended with its errand.
        if errand?.gift == nil, let token = grant.refreshToken { revoke(token) }
        let words = "the credential leads to the account that user \(other) of this device is logged in to"
        failed(IdentityFault(.accountInUse, words: words), answer: .accountInUse(by: other))
    }

    // MARK: Failure

    /// The session hears of it at once; the store keeps what must outlive a crash of it.
    mutating func failed(_ fault: IdentityFault, answer: SessionReply? = nil) {
        guard let errand else { return }
        // As long as another process has the lock, the intent in the store, if there is one, is that process's.
        let isSent = if case .locking = errand.stage { false } else { true }
        if case .asked(let ticket) = errand.purpose {
            note(.askedLoginFailed, .warning, reason: fault.verdict.label, fault: fault)
            if let token = errand.gift?.grant.refreshToken { revoke(token) }
            reply(ticket, answer ?? .failed(fault))
            return isSent ? closeAsked(with: refusal(by: fault, of: errand) ?? .settle) : finish()
        }
        // Where no retry may come, nothing is gained by waiting for it.
        if errand.call.kind == .refresh, isSent, fault.verdict == .unknownOutcome, setup.rotation == .oneUse {
            return abandon(errand.call, fault)
        }
        if errand.call.kind == .refresh, isSent, fault.verdict != .unknownOutcome {
            unanswered = max(unanswered - 1, 0)
        }
        tell(.failed(fault, errand.call))
        // Nothing can begin another session, so nothing else would ever end what is left of this one.
        if session.state == .loginRequired { revokeStranded() }
        guard isSent, fault.verdict != .unknownOutcome || errand.call.kind == .login else { return finish() }
        close(with: wish(after: fault, of: errand))
    }

    /// By what the session has made of it.
    private func wish(after fault: IdentityFault, of errand: SessionErrand) -> SessionWrites.Wish {
        switch (session, errand.call.kind) {
        case (_, .login): refusal(by: fault, of: errand) ?? (over == nil ? .settle : .end)
        case (.loginRequired, _): .end
        case (_, .refresh) where wanted?.call.kind == .login: .spend
        default: .settle
        }
    }

    /// Only what a configuration names can be tried again by itself. A doubt is a refusal once the session takes it for one; a refusal is
    /// one even if the credential has changed since, because the changed one has another mark.
    private func refusal(by fault: IdentityFault, of errand: SessionErrand) -> SessionWrites.Wish? {
        guard case .configured? = errand.credential, let mark = fault.credential else { return nil }
        switch (fault.verdict, session) {
        case (.credentialRefused, _): return .refuse(mark, over: over)
        case (.credentialDoubted, .refused) where errand.purpose == .own: return .refuse(mark, over: over)
        default: return nil
        }
    }

    /// What the store holds of the session has no refresh token, and is not served any more: a restart must not serve it either.
    private var over: SessionMark? {
        guard base.session != 0, session.tokens == nil, let stored = ours?.session else { return nil }
        return stored.refresh == nil || writes.holdsSpending ? base : nil
    }

    /// A user that has come to nothing is not kept.
    private mutating func closeAsked(with wish: SessionWrites.Wish) {
        let isStillborn = setup.isAdded && ledger.accountID == nil
        close(with: isStillborn ? .leave(.remove, nil) : wish)
    }

    mutating func close(with wish: SessionWrites.Wish) {
        guard let errand else { return }
        self.errand?.stage = .closing
        // What the store could not take of the session that has died must not get there late.
        switch wish {
        case .spend: writes.spend()
        case .end: writes.dropSession()
        default: if errand.purpose == .own, errand.call.kind == .login, case .refused = session { writes.dropSession() }
        }
        write(wish, for: .errand(errand.number))
    }

    // MARK: Success

    mutating func save(_ grant: Grant) {
        guard let errand else { return }
        // A session that is not at hand any more, but alive over there, such as one whose refresh was answered by 404.
        if errand.call.kind == .login, session.tokens == nil { self.errand?.replaced = ours?.session?.refresh }
        self.errand?.stage = .saving(grant)
        write(.hold(login(with: grant, by: errand)), for: .errand(errand.number))
    }

    private func login(with grant: Grant, by errand: SessionErrand) -> StoreChange.StoredLogin {
        let isRefresh = errand.call.kind == .refresh
        let old = isRefresh ? session.tokens : nil
        // What no store has heard of this session goes with the refresh.
        let unsaved = isRefresh ? writes.unsaved : nil
        let known = isRefresh && base.session != 0 ? base.session : moment.name
        let stored = StoredSession(
            id: unsaved?.session.id ?? known, access: grant.accessToken,
            refresh: grant.refreshToken ?? old?.refresh,
            refreshExpiry: grant.refreshToken == nil ? old?.refreshExpiry : grant.refreshTokenExpiry,
            issuedAt: errand.call.startedAtWall,
            issuedAtBoot: BootInstant(boot: setup.boot, instant: errand.call.startedAt), lifetime: grant.lifetime)
        return StoreChange.StoredLogin(
            // A login before it that could not be stored is replaced by this, and named the account.
            identity: setup.identity, session: stored, accountID: grant.userID ?? old?.accountID,
            provider: isRefresh ? unsaved?.provider : errand.provider, isAdded: setup.isAdded,
            floor: max(floor, max(held, base.generation)) + 1,
            mark: setup.mark, configured: setup.configured)
    }

    /// The store holds it, or cannot: in either case it serves from now on.
    mutating func saved(_ grant: Grant, generation: UInt64) {
        guard let errand else { return }
        ledger.expect(generation: generation)
        if isCurrent, let old = errand.replaced { revoke(old) }
        switch errand.purpose {
        case .own, .tidying: tell(.granted(grant, errand.call))
        case .asked(let ticket):
            if isCurrent, let old = session.tokens?.refresh, old != grant.refreshToken { revoke(old) }
            wanted = nil
            tell(.loggedIn(grant, errand.call))
            reply(ticket, .loggedIn)
        }
        if errand.call.kind == .login {
            revokeStranded()
            unanswered = 0
            refused = nil
            provider = errand.provider ?? provider
            isNewcomer = false
        }
        warnings.restart()
        finish()
    }

    /// Unless nobody knows whether a refresh token is still its session's: an old one is never sent again, not even to revoke it.
    private var isCurrent: Bool { unanswered == 0 || setup.rotation == .none }

    /// Another process changed the user while this call was under way, which the user's lock forbids to all but a person's logout.
    mutating func overtaken(_ grant: Grant, by user: StoredUser?) {
        guard let errand else { return }
        if let user, !user.belongs(to: home) {
            meet(user)
            return save(grant)
        }
        if let user, isOlder(user) {
            stand(onOlder: user)
            return save(grant)
        }
        if let user, writes.mayHaveMade(user) {
            stand(on: user)
            return save(grant)
        }
        note(.overtaken, .warning, reason: errand.call.kind.rawValue)
        if errand.call.kind == .login, writes.holdsLeaving || user?.session == nil && user?.isLoggedOut == false {
            // Nobody is logged in there, and nobody wants it so: this login is good. So it is where what stands there has been left by a person.
            stand(on: user)
            return save(grant)
        }
        // That which this login was to replace, should no store have it, goes with it.
        if errand.call.kind == .login, isCurrent, let unsaved = writes.unsaved?.session,
            unsaved.id != user?.session?.id, let token = unsaved.refresh
        {
            revoke(token)
        }
        if user?.session?.id != base.session || errand.call.kind == .login,
            let token = grant.refreshToken ?? errand.refresh
        {
            revoke(token)
        }
        stand(on: user)
        if case .asked(let ticket) = errand.purpose { reply(ticket, .overtaken) }
        yield(to: user)
    }
}
