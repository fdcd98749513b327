/// The way into the store: one change at a time, each on the base that the one before has left.
extension SessionDesk {
    mutating func write(_ wish: SessionWrites.Wish, for origin: SessionWrites.Origin) {
        let write = SessionWrites.Write(wish: wish, origin: origin)
        guard !isForStranger(write) else { return skip(write) }
        writes.lane.append(write)
        writeNext()
    }

    private mutating func writeNext() {
        guard !writes.isOpen else { return }
        // What an errand wanted that was given up meanwhile is no longer wanted.
        while let next = writes.lane.first, case .errand(let number) = next.origin, number != errand?.number {
            writes.lane.removeFirst()
        }
        guard let next = writes.lane.first else { return }
        writes.isOpen = true
        act(.commit(change(next.wish)))
    }

    private func change(_ wish: SessionWrites.Wish) -> StoreChange {
        switch wish {
        case .intend(let intent): .intend(user: setup.user, identity: home, intent, base: base)
        case .settle: .settle(user: setup.user)
        case .spend: .spend(user: setup.user, base: base)
        case .end: .end(user: setup.user, base: base)
        case .hold(let login): .hold(user: setup.user, login, base: base)
        case .refuse(let mark, let over): .refuse(user: setup.user, identity: home, mark, over: over)
        case .leave(.logOut, let revocation):
            .logOut(user: setup.user, identity: home, revocation: revocation)
        case .leave(.remove, let revocation): .remove(user: setup.user, revocation: revocation)
        }
    }

    mutating func committed(_ result: Result<StoreChange.Verdict, StoreFault>) {
        guard writes.isOpen, !writes.lane.isEmpty else { return }
        writes.isOpen = false
        let write = writes.lane.removeFirst()
        switch result {
        case .success(let verdict): settled(write, verdict)
        case .failure(let fault): unsettled(write, fault)
        }
        writeNext()
    }

    private mutating func settled(_ write: SessionWrites.Write, _ verdict: StoreChange.Verdict) {
        if case .stored(let user) = verdict { stored(write.wish, user) }
        switch write.origin {
        case .backlog: retried(write.wish, verdict)
        case .leaving(let ticket): left(write.wish, ticket, isStored: true)
        case .errand(let number) where number == errand?.number: answer(write.wish, verdict)
        case .errand: break
        }
        if writes.succeeded() { note(.storeRecovered, reason: "stored") }
        giveBack()
    }

    /// What the store holds from now on is the base of the next change.
    private mutating func stored(_ wish: SessionWrites.Wish, _ user: StoredUser?) {
        switch wish {
        // These meet whatever is there: what another process has made of the user meanwhile is not ours to skip.
        case .settle: return
        case .refuse(let mark, let over):
            if stranger != nil || hasEnded(user, over) { stand(on: user) }
            evict(wish)
            return refused = mark
        // The store has never heard of the user.
        case .spend where user == nil, .end where user == nil: return stand(on: nil)
        default: stand(on: user)
        }
        evict(wish)
        switch wish {
        case .intend: isIntentUnstored = false
        case .hold:
            writes.dropAll()
            held = base.generation
            accountSince = user?.accountSince
        case .leave: writes.dropAll()
        default: break
        }
    }

    /// What stood there as our own session is over by our own word.
    private func hasEnded(_ user: StoredUser?, _ over: SessionMark?) -> Bool {
        guard let user, user.session == nil, !user.isLoggedOut, base == over else { return false }
        return user.generation == base.generation + 1
    }

    /// The errand goes on.
    private mutating func answer(_ wish: SessionWrites.Wish, _ verdict: StoreChange.Verdict) {
        switch (wish, verdict, errand?.stage) {
        case (.intend, .stored, _): call()
        // As long as the store lacks something of ours, the answer meets what is there, not the intent.
        case (.intend, .overtaken(let user), _): writes.backlog.isEmpty ? look(at: user) : call()
        case (.hold, .stored(let user), .saving(let grant)): saved(grant, generation: user?.generation ?? 0)
        case (.hold, .overtaken(let user), .saving(let grant)): overtaken(grant, by: user)
        case (.hold, .inUse(let other), .saving(let grant)): turnAway(grant, for: other)
        case (.spend, .overtaken(let user?), _) where isOlder(user),
            (.end, .overtaken(let user?), _) where isOlder(user):
            stand(onOlder: user)
            close(with: wish)
        case (.spend, .overtaken(let user?), _) where writes.mayHaveMade(user),
            (.end, .overtaken(let user?), _) where writes.mayHaveMade(user):
            stand(on: user)
            close(with: wish)
        case (.spend, .overtaken(let user?), _) where !user.belongs(to: home),
            (.end, .overtaken(let user?), _) where !user.belongs(to: home):
            meet(user)
            finish()
        case (.spend, .overtaken(let user), _), (.end, .overtaken(let user), _):
            stand(on: user)
            yield(to: user)
        default: finish()
        }
    }

    mutating func left(_ wish: SessionWrites.Wish, _ ticket: UInt64?, isStored: Bool) {
        guard case .leave(_, let revocation) = wish else { return }
        act(.dismiss(revocation, isStored: isStored, ticket: ticket))
    }

    // MARK: While it fails

    private mutating func unsettled(_ write: SessionWrites.Write, _ fault: StoreFault) {
        if write.origin != .backlog { writes.keep(write.wish) }
        if case .intend = write.wish { isIntentUnstored = true }
        suffer(fault)
        switch (write.origin, write.wish) {
        case (.backlog, _): break
        case (.leaving(let ticket), _):
            note(.leaveUnsaved, .error, reason: "store_failing", details: ["error": fault.words])
            left(write.wish, ticket, isStored: false)
        case (.errand(let number), .intend) where number == errand?.number: call()
        case (.errand(let number), .hold(let login)) where number == errand?.number:
            // It serves from memory: falling back to the old refresh token is what must never happen.
            held = login.floor
            if case .saving(let grant) = errand?.stage { saved(grant, generation: held) }
        case (.errand(let number), _) where number == errand?.number: finish()
        default: break
        }
        giveBack()
    }

    mutating func suffer(_ fault: StoreFault) {
        guard writes.failed(fault, at: moment) else { return }
        note(
            .storeFailing, .error, reason: "store_failing", nextAt: writes.retryAt == .never ? nil : writes.retryAt,
            details: ["error": fault.words])
    }

    /// The backlog is tried again, one by one, whenever nothing else is on its way.
    mutating func retryWrites() {
        guard writes.retryAt <= moment.instant else { return }
        // During a call it would wipe the call's intent, and what the call brings is newer.
        let isFree = writes.lane.isEmpty && !isMidway
        writes.wait(until: isFree ? .never : moment.instant + .seconds(1))
        if isFree { retryNext() }
    }

    /// Another user's session is about to be stored, maybe of the account that this one has left: the end that the store lacks goes first.
    mutating func makeWay() {
        guard writes.holdsEnding, !isMidway else { return }
        retryNext()
    }

    /// One more of the backlog, unless something is on its way.
    mutating func retryNext() {
        guard let first = writes.backlog.first, writes.lane.isEmpty else { return }
        write(first, for: .backlog)
    }

    private mutating func retried(_ wish: SessionWrites.Wish, _ verdict: StoreChange.Verdict) {
        if case .overtaken(let user?) = verdict, isOlder(user) {
            stand(onOlder: user)
            if !isMidway { retryNext() }
            return
        }
        writes.dropFirst()
        switch verdict {
        case .stored: break
        case .overtaken(let user): yieldBacklog(wish, to: user)
        case .inUse(let other): yieldAccount(of: wish, to: other)
        }
        // The store keeps it from now on, until the service is known to know: most likely it does.
        if case .leave(_, let revocation?) = wish { act(.dismiss(revocation, isStored: true, ticket: nil)) }
        // The session is stored only now, and its token has been sent meanwhile: who reads it must know.
        if case .hold = wish, case .stored = verdict, unanswered > 0 {
            writes.keepOpen(StoredIntent(kind: .refresh, at: unansweredAt, tries: unanswered))
        }
        if !isMidway { retryNext() }
    }

    /// A login that could not be stored in time: meanwhile another process has logged another user in to its account.
    private mutating func yieldAccount(of wish: SessionWrites.Wish, to other: String) {
        guard case .hold(let login) = wish else { return }
        writes.dropAll()
        note(.accountShared, .error, reason: "account_in_use", details: ["other": other])
        if let token = session.tokens?.refresh ?? login.session.refresh { revoke(token) }
        // It has made no call yet: none is made while the backlog is being stored.
        if errand?.purpose == .own { errand = nil }
        tell(.ended(reason: "account_in_use"))
    }

    /// What could not be stored in time met what another process has stored since.
    private mutating func yieldBacklog(_ wish: SessionWrites.Wish, to user: StoredUser?) {
        if let user, !user.belongs(to: home) {
            writes.dropAll()
            return meet(user)
        }
        note(.overtaken, .warning, reason: "backlog")
        writes.dropAll()
        if case .hold(let login) = wish, login.session.id != user?.session?.id, let token = login.session.refresh {
            revoke(token)
        }
        // An errand under way meets it by itself.
        guard errand == nil else { return }
        stand(on: user)
        yield(to: user)
    }
}
