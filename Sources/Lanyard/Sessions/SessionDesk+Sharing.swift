/// What other processes have made of the user since, and whose user of that name the store holds at all.
extension SessionDesk {
    /// As the store names it.
    var home: StoredIdentity { StoredIdentity(setup.identity, setup.mark) }

    /// The store holds another identity's user of this name, who came while this one was at work: that one stays, this one goes on from memory.
    var isDisplaced: Bool { stranger != nil && hasStood }

    /// This is what the store holds of the user: the base of each change.
    mutating func stand(on user: StoredUser?) {
        base = user?.mark ?? .nobody
        ours = user
    }

    /// What another process may have done since.
    mutating func look(at user: StoredUser?) {
        // As long as the store lacks something of ours, what it holds is no news.
        guard writes.backlog.isEmpty else { return proceed() }
        if let user, !user.belongs(to: home) { return look(atStranger: user) }
        stranger = nil
        if isNewcomer, let user, user.session != nil || user.isAdded { return makeRoom(for: user) }
        let mark = user?.mark ?? .nobody
        if mark != base {
            if let user, isOlder(user) {
                keepOurs(over: user)
                return proceed()
            }
            return follow(user)
        }
        learn(user)
        guard let errand, errand.purpose == .own else { return proceed() }
        if user?.isLoggedOut == true { return stop(because: "elsewhere") }
        if errand.call.kind == .refresh, let session = user?.session, session.refresh == nil {
            return die("another process found the session dead")
        }
        proceed()
    }

    /// The store was read beside all errands. At rest, what another process has made of the user is taken over without a call.
    mutating func see(_ user: StoredUser?) {
        guard isIdle, wanted == nil, !isNewcomer else { return }
        if let user, !user.belongs(to: home) { return meet(user) }
        stranger = nil
        guard (user?.mark ?? .nobody) != base else { return }
        if let user, isOlder(user) { return keepOurs(over: user) }
        unanswered = 0
        stand(on: user)
        yield(to: user)
    }

    /// Another process has changed the user: what it stored holds, and no call is made where that suffices.
    private mutating func follow(_ user: StoredUser?) {
        stand(on: user)
        unanswered = 0
        let isOwn = errand?.purpose == .own
        if let user, user.session != nil { return adopt(user, finishing: isOwn) }
        learn(user)
        if user == nil || user?.isLoggedOut == true {
            if isOwn { return stop(because: user == nil ? "removed" : "elsewhere") }
            tell(.ended(reason: user == nil ? "removed" : "elsewhere"))
        } else if errand?.call.kind == .refresh {
            return die("another process found the session dead")
        } else if !isOwn, var tokens = session.tokens {
            // Should the person's login fail, the refresh token that was at hand must not be sent again.
            tokens.refresh = nil
            tell(.restored(tokens, .init(isTrusted: true, isUrgent: true, spread: 0, isAdopted: true)))
        }
        proceed()
    }

    /// Goes on with what another process has stored, on which the desk stands: what the store could not take of the time before is not worth
    /// storing any more.
    mutating func yield(to user: StoredUser?) {
        writes.dropAll()
        if let user, user.session != nil { return adopt(user, finishing: true) }
        learn(user)
        tell(.ended(reason: user == nil ? "removed" : "elsewhere"))
        // It has died there, and nobody wants it so.
        if user?.isLoggedOut == false { tell(.loginRequested) }
        finish()
    }

    private mutating func stop(because reason: String) {
        tell(.ended(reason: reason))
        finish()
    }

    private mutating func die(_ words: String) {
        guard let call = errand?.call else { return }
        tell(.failed(IdentityFault(.sessionDead, words: words), call))
        finish()
    }

    // MARK: Another process's session

    /// Takes the session over. One of another account than before is asked for as a login's is: two users of one device share none
    /// (architecture.md 5.7).
    private mutating func adopt(_ user: StoredUser, finishing: Bool) {
        guard let account = user.accountID, account != ledger.accountID else { return takeOver(user, finishing) }
        adopting = (user, finishing)
        act(.claim(account: account, errand: errand?.number ?? 0))
    }

    /// Returns whether it was this that waited.
    mutating func adopted(_ claim: SessionClaim, _ number: UInt64) -> Bool {
        guard let (user, finishing) = adopting, number == errand?.number ?? 0 else { return false }
        adopting = nil
        guard case .inUse(let other) = claim else {
            takeOver(user, finishing)
            return true
        }
        let words =
            "another process has logged the user in to the account that user \(other) of this one is logged in to"
        let fault = IdentityFault(.accountInUse, words: words)
        note(.accountTaken, .error, reason: "account_in_use", fault: fault, details: ["other": other])
        if let errand, errand.purpose == .own {
            tell(.failed(fault, errand.call))
            finish()
        } else {
            tell(.ended(reason: "account_in_use"))
            finishing ? finish() : proceed()
        }
        return true
    }

    private mutating func takeOver(_ user: StoredUser, _ finishing: Bool) {
        guard let session = user.session else { return finish() }
        // The other process may have been given that very token: only if its session is another one, it is of no more use.
        if strandedRefresh?.session == session.id { strandedRefresh = nil } else { revokeStranded() }
        learn(user)
        restore(session, of: user, isAdopted: true)
        finishing ? finish() : proceed()
    }

    /// A person wants a user of a name that another process has given away: the name is in use, and its user is known here from now on.
    private mutating func makeRoom(for user: StoredUser) {
        guard let errand, case .asked(let ticket) = errand.purpose else { return proceed() }
        reply(ticket, .nameInUse(isKnown: true))
        isNewcomer = false
        hasStood = true
        stand(on: user)
        if user.session != nil { return adopt(user, finishing: true) }
        learn(user)
        if !user.isLoggedOut { tell(.loginRequested) }
        finish()
    }

    // MARK: An older file

    /// The same session, less far than it was: a file from a backup was put in the place of a newer one (threats.md T14).
    func isOlder(_ user: StoredUser) -> Bool {
        base.session != 0 && user.mark.session == base.session && user.mark.generation < base.generation
    }

    /// What is going to be written meets this from now on.
    mutating func stand(onOlder user: StoredUser) {
        note(
            .storeOlder, .warning, reason: "older",
            details: ["stored": String(user.mark.generation), "known": String(base.generation)])
        floor = max(floor, base.generation)
        base = user.mark
    }

    /// Refresh tokens may work once: what is newer is kept, and written again.
    private mutating func keepOurs(over user: StoredUser) {
        stand(onOlder: user)
        guard let ours, let session = ours.session else { return }
        writes.keep(
            .hold(
                StoreChange.StoredLogin(
                    identity: setup.identity, session: session, accountID: ours.accountID, provider: ours.provider,
                    isAdded: ours.isAdded, floor: floor, mark: setup.mark, configured: setup.configured)))
        retryNext()
    }

    // MARK: Another identity's user

    /// Nobody to this one: never restored, and nothing of it is sent anywhere but to its own service.
    mutating func meet(_ other: StoredUser) {
        let isNews = stranger == nil
        stranger = other
        if !hasStood { base = other.mark }
        guard isNews else { return }
        note(
            .stranger, hasStood ? .error : .warning, reason: hasStood ? "displaced" : "identity_changed",
            details: ["stored_identity": other.identity])
    }

    private mutating func look(atStranger other: StoredUser) {
        let isKnownHere = setup.others.contains { other.belongs(to: $0) } && (other.session != nil || other.isAdded)
        if isNewcomer, isKnownHere, let errand, case .asked(let ticket) = errand.purpose {
            reply(ticket, .nameInUse(isKnown: false))
            return finish()
        }
        meet(other)
        proceed()
    }

    /// Whether the store is not to be told, because it holds somebody else there.
    func isForStranger(_ write: SessionWrites.Write) -> Bool {
        guard stranger != nil else { return false }
        switch write.wish {
        case .intend, .settle, .spend, .end: return true
        case .leave(.remove, _):
            if case .leaving = write.origin { return hasStood }
            return true
        case .hold, .refuse, .leave: return hasStood
        }
    }

    /// As if it were stored; it lives in memory.
    mutating func skip(_ write: SessionWrites.Write) {
        if case .intend = write.wish { isIntentUnstored = true }
        switch (write.origin, write.wish, errand?.stage) {
        case (.leaving(let ticket), _, _): left(write.wish, ticket, isStored: false)
        case (.errand(let number), .intend, _) where number == errand?.number: call()
        case (.errand(let number), .hold, .saving(let grant)) where number == errand?.number:
            saved(grant, generation: ledger.generation + 1)
        case (.errand(let number), _, _) where number == errand?.number: finish()
        default: break
        }
        giveBack()
    }

    /// A change has taken the place of what stood there: that session is over, and its own service is told.
    mutating func evict(_ wish: SessionWrites.Wish) {
        hasStood = true
        guard let other = stranger else { return }
        stranger = nil
        // A person's logout brings that along.
        if case .leave = wish { return }
        if let revocation = other.eviction(at: moment.wall) { act(.revoke(revocation)) }
    }
}
