/// An errand up to its call: whose turn it is, the user's lock, what the store holds by now, the intent (refresh.md 6, refresh.md 9).
extension SessionDesk {
    /// The errand that waits, if none is under way: a person's before the session's own.
    mutating func startNext() {
        guard errand == nil, adopting == nil, !writes.isLeaving else { return }
        if let login = asked {
            asked = nil
            let call = ledger.begin(.login, .asked, at: moment)
            errand = SessionErrand(call, asked: login, at: moment.instant)
            note(.loginStarted, reason: call.cause.rawValue)
        } else if !isSettling, let next = wanted, next.call.number == session.call?.number {
            wanted = nil
            let credential = next.call.kind == .login ? setup.credential : nil
            errand = SessionErrand(next.call, refresh: next.refresh, credential: credential, at: moment.instant)
        } else if isUntidy, !isSettling {
            isUntidy = false
            errand = SessionErrand(tidying: ledger.begin(.refresh, .start, at: moment), at: moment.instant)
        } else {
            return wanted = nil
        }
        switch lock {
        case .held: read()
        case .asked: break
        case .free:
            lock = .asked
            act(.tryLock)
        }
    }

    mutating func locked(_ result: StoreLock) {
        lock = result == .taken ? .held : .free
        guard let errand, case .locking = errand.stage else { return giveBack() }
        switch result {
        case .taken: return read()
        case .failed(let words):
            note(.lockFailed, .warning, reason: "failed", details: ["error": words])
            return read()
        // Whoever has it has a call of its own.
        case .busy where errand.purpose == .tidying: return finish()
        case .busy: break
        }
        guard moment.instant < errand.patienceEnd else {
            return failed(IdentityFault(.transient(retryAfter: nil), words: "another process has the user's lock"))
        }
        let until = moment.instant + .milliseconds(20) + .milliseconds(180) * moment.chance
        if !errand.hasQueued { note(.waitingForLock, reason: "busy", nextAt: until) }
        self.errand?.hasQueued = true
        self.errand?.stage = .queueing(until: until)
    }

    /// The lock goes back, unless a rotated refresh token is not stored yet: another process would send the old one. Nor while a logout is
    /// being stored that has cut off a call: another process would find an intent open that was never sent.
    mutating func giveBack() {
        guard errand == nil, lock == .held, !writes.isLeaving else { return }
        guard setup.rotation == .none || !writes.holdsNewSession else { return }
        lock = .free
        act(.unlock)
    }

    /// A deadline of the errand has come.
    mutating func goOn() {
        switch errand?.stage {
        case .queueing:
            errand?.stage = .locking
            lock = .asked
            act(.tryLock)
        case .pausing: intend()
        default: break
        }
    }

    private mutating func read() {
        guard let number = errand?.number else { return }
        errand?.stage = .reading
        act(.read(errand: number))
    }

    mutating func read(_ result: Result<StoredUser?, StoreFault>, _ number: UInt64) {
        guard let errand, errand.number == number, case .reading = errand.stage else { return }
        if errand.purpose == .tidying { return tidy(result) }
        switch result {
        case .success(let user): look(at: user)
        case .failure(let fault):
            suffer(fault)
            proceed()
        }
    }

    /// The call is to be made, unless the same refresh token has been sent too often (refresh.md 9).
    mutating func proceed() {
        guard let errand else { return }
        if let gift = errand.gift {
            // What the store lacks goes first.
            retryNext()
            return save(gift.grant)
        }
        guard errand.call.kind == .refresh, unanswered > 0 else { return intend() }
        // Where it does not rotate, the token in hand is the only one there is: without a credential nothing else can help.
        let isAllowed =
            switch setup.rotation {
            case .none: unanswered < 2 || !ledger.hasCredential
            case .grace: unanswered < 2
            case .oneUse: false
            }
        guard isAllowed else { return abandon(errand.call, Self.unknownOutcome) }
        let since = min(max(moment.wall - unansweredAt, .zero), SessionErrand.retryAfter)
        guard since < SessionErrand.retryAfter else { return intend() }
        self.errand?.stage = .pausing(until: moment.instant + (SessionErrand.retryAfter - since))
    }

    private static let unknownOutcome = IdentityFault(
        .unknownOutcome,
        words: "what became of the latest refresh is unknown, and its refresh token must not be sent again")

    mutating func abandon(_ call: SessionCall, _ fault: IdentityFault) {
        unanswered = 0
        if !ledger.hasCredential { revokeStranded() }
        tell(.abandoned(fault, call))
        close(with: ledger.hasCredential ? .spend : .end)
    }

    private mutating func intend() {
        guard let errand else { return }
        self.errand?.stage = .intending
        // What the store lacks goes first: the intent must stand beside the refresh token that is about to be sent.
        retryNext()
        let tries = unanswered + (errand.call.kind == .refresh ? 1 : 0)
        write(
            .intend(StoredIntent(kind: errand.call.kind, at: moment.wall, tries: tries)),
            for: .errand(errand.number))
    }

    /// The intent is stored, or cannot be: the call goes out. Its token's life counts from this moment.
    mutating func call() {
        guard var errand else { return }
        errand.call.startedAt = moment.instant
        errand.call.startedAtWall = moment.wall
        errand.stage = .calling
        self.errand = errand
        if let token = errand.refresh {
            unanswered += 1
            unansweredAt = moment.wall
            act(.refresh(token, errand.call))
        } else if let credential = errand.credential {
            // Whoever logs in by hand may try what was refused before.
            act(.login(credential, refused: errand.purpose == .own ? refused : nil, errand.call))
        } else {
            failed(IdentityFault(.credentialUnavailable, words: "nothing is configured to log in with"))
        }
    }

    /// The errand is over. What waits comes next.
    mutating func finish() {
        errand = nil
        giveBack()
    }

    // MARK: What the store says of the user

    mutating func learn(_ user: StoredUser?) {
        refused = user?.refused
        provider = user?.provider
        accountSince = user?.accountSince
        if let account = user?.accountID, ledger.learnAccount(account) {
            note(.accountChanged, .warning, reason: "elsewhere")
        }
        // What another process had open at the start of this one may have been answered since.
        let open = user?.intent?.tries ?? 0
        unanswered = isIntentUnstored ? max(unanswered, open) : open
        if let intent = user?.intent, open > 0 { unansweredAt = intent.at }
    }

    mutating func restore(_ stored: StoredSession, of user: StoredUser, isAdopted: Bool) {
        // A call of ours that the store never heard of was made with the token before.
        isIntentUnstored = false
        unanswered = user.intent?.tries ?? 0
        held = user.generation
        if isAdopted { warnings.restart() }
        let tokens = SessionTokens(
            stored, generation: ledger.resume(generation: user.generation), accountID: user.accountID,
            boot: setup.boot, at: moment, skew: ledger.skew ?? .zero, settings: ledger.settings)
        let how = Session.Restoration(
            isTrusted: isAdopted || setup.offline == .cached, isUrgent: unanswered > 0, spread: isAdopted ? 0 : 0.1,
            isAdopted: isAdopted)
        tell(.restored(tokens, how))
    }
}
