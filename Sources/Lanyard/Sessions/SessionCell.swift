import Logging

/// The thin shell around one user's desk: performs its acts, brings the answers back, keeps its deadline. Belongs to the home's queue.
///
/// Home and cell hold each other until the cell is stopped: answers come from other queues whenever they like.
package final class SessionCell: @unchecked Sendable {
    package typealias Reply = @Sendable (SessionReply) -> Void

    package let member: SessionMember
    let index: UserIndex
    let home: SessionHome
    let logger: Logger
    private(set) var desk: SessionDesk
    private var inbox: [SessionDesk.Event] = []
    private var isTaking = false
    private(set) var isStopped = false
    /// Who waits for what, by ticket.
    private var replies: [UInt64: Reply] = [:]
    private var tickets: UInt64 = 0
    /// A person has ended the user's session in this process.
    private(set) var hasLeft = false
    /// How often the store was told something.
    private(set) var changes: UInt64 = 0
    private lazy var alarm = SessionAlarm(on: home.loop) { [self] in take(.due) }

    init(_ member: SessionMember, index: UserIndex, home: SessionHome) {
        self.member = member
        self.index = index
        self.home = home
        var logger = home.logger
        logger[metadataKey: "user"] = .string(member.settings.name)
        self.logger = logger
        desk = SessionDesk(home.setup(of: member, index))
    }

    /// The user's name.
    package var name: String { member.settings.name }

    /// Begins: with what the store holds, else by a login, or with the reading of a token.
    ///
    /// - Parameter other: see `SessionDesk.Event.begin`.
    func start(_ stored: StoredUser?, sharing other: String? = nil) {
        switch member.source {
        case .feed(let feed):
            home.publisher.publish(.pending, for: index)
            feed.start { [weak self] outcome in self?.send(.session(.fed(outcome))) }
        case .service:
            // First the watch: what it has seen is no older than what the login reads.
            if let login = member.settings.login {
                member.credential?.start(login) { [weak self] in self?.send(.session(.credentialChanged)) }
            }
            take(.begin(stored, sharing: other))
        }
    }

    /// The process is about to end: see `SessionDesk.Event.settle`.
    func settle() { take(.settle) }

    /// No deadline, no reading any more; answers to calls under way are dropped, and who waits hears of the end.
    func stop() {
        isStopped = true
        if desk.isUnsaved {
            var note = SessionNote(.unsaved, .error, reason: "store_failing")
            note.details["error"] = desk.storeFault?.words
            log(note, at: .now)
        }
        alarm.drop()
        member.credential?.stop()
        if case .feed(let feed) = member.source { feed.stop() }
        for reply in replies.values { reply(.overtaken) }
        replies = [:]
    }

    // MARK: What people ask. On the home's queue; each is answered exactly once, there too.

    /// Logs in, whatever was refused before; the session at hand serves until that has succeeded.
    package func login(_ credential: Credential, _ reply: @escaping Reply) {
        ask(reply) { .login(credential, ticket: $0) }
    }

    /// Takes over a session that was made on this user's behalf.
    package func give(_ gift: SessionGift, _ reply: @escaping Reply) {
        ask(reply) { .given(gift, ticket: $0) }
    }

    /// Refreshes now, bound by neither cooldown nor budget; joins a call that is under way.
    package func refreshNow(_ reply: @escaping Reply) {
        ask(reply) { .refresh(ticket: $0) }
    }

    /// Wipes the tokens, here and in the store, then tells the service.
    package func logOut(_ reply: @escaping Reply) {
        hasLeft = true
        ask(reply) { .leave(.logOut, ticket: $0) }
    }

    /// As a logout; the user is forgotten in the store, too. The cell is the caller's to take away.
    package func remove(_ reply: @escaping Reply) {
        ask(reply) { .leave(.remove, ticket: $0) }
    }

    private func ask(_ reply: @escaping Reply, _ event: (UInt64) -> SessionDesk.Event) {
        guard case .service = member.source else { return reply(.notSupported) }
        guard !isStopped, !home.isStopped else { return reply(.overtaken) }
        tickets += 1
        replies[tickets] = reply
        take(event(tickets))
    }

    // MARK: Events and acts

    /// From any queue.
    private func send(_ event: SessionDesk.Event) {
        home.loop.post { [self] in take(event) }
    }

    func take(_ event: SessionDesk.Event) {
        home.loop.assertHome()
        guard !home.isStopped, !isStopped else { return }
        inbox.append(event)
        // An act may be answered at once: its turn comes after the acts beside it.
        guard !isTaking else { return }
        isTaking = true
        var answers: [(UInt64, SessionReply)] = []
        while !inbox.isEmpty {
            let moment = SessionMoment.now
            for act in desk.take(inbox.removeFirst(), at: moment) {
                if case .reply(let ticket, let reply) = act { answers.append((ticket, reply)) }
                perform(act, at: moment)
            }
        }
        isTaking = false
        alarm.set(at: desk.due)
        home.update(self)
        // Who is answered can see it in the report.
        for (ticket, reply) in answers { replies.removeValue(forKey: ticket)?(reply) }
    }

    private func perform(_ act: SessionDesk.Act, at moment: SessionMoment) {
        switch act {
        case .publish(let availability): home.publisher.publish(availability, for: index)
        case .note(let note): log(note, at: moment)
        case .tryLock: home.store.lock(name) { [weak self] in self?.send(.locked($0)) }
        case .unlock: home.store.unlock(name)
        case .read(let errand): home.store.read(name) { [weak self] in self?.send(.read($0, errand: errand)) }
        case .commit(let change):
            changes += 1
            if case .hold = change { home.clearTheWay(for: self) }
            home.commit(change) { [weak self] in self?.send(.committed($0)) }
        case .login(let credential, let refused, let call): login(credential, refused, call)
        case .refresh(let token, let call):
            guard case .service(let service) = member.source else { return }
            home.callsOut += 1
            service.refresh(token) { [self] result in answer(result, to: call) }
        case .claim(let account, let errand): take(.claimed(home.registrar.claim(account, for: index), errand: errand))
        case .revoke(let revocation): home.revocations.tell(revocation, of: name, logger)
        case .dismiss(let revocation, let isStored, let ticket): dismiss(revocation, isStored: isStored, ticket)
        case .reply: break
        }
    }

    private func login(_ credential: Credential, _ refused: CredentialMark?, _ call: SessionCall) {
        guard case .service(let service) = member.source else { return }
        home.callsOut += 1
        service.login(credential, guarded: LoginGuard(key: home.markKey, refused: refused)) { [self] result in
            answer(result, to: call)
        }
    }

    /// Who waits is answered once the service has been asked, too.
    private func dismiss(_ revocation: StoredRevocation?, isStored: Bool, _ ticket: UInt64?) {
        let reply = ticket.flatMap { replies.removeValue(forKey: $0) }
        guard let revocation else {
            // As any other answer: when what it tells of can be seen.
            return home.loop.post { reply?(.left(isRevoked: true, isStored: isStored)) }
        }
        home.revocations.tell(revocation, of: name, isStored: isStored, logger) {
            reply?(.left(isRevoked: $0, isStored: isStored))
        }
    }

    /// From any queue. What it brings a user that was removed meanwhile is nobody's.
    private func answer(_ result: Result<Grant, IdentityFault>, to call: SessionCall) {
        home.loop.post { [self] in
            home.callsOut -= 1
            defer { home.tellSettled() }
            guard !home.isStopped else { return }
            count(result, call)
            guard isStopped else { return take(.answered(result, call)) }
            guard let token = result.refreshToken else { return }
            home.revocations.tell(
                StoredRevocation(
                    identity: member.settings.identity, refresh: token, since: .now, mark: member.home.mark),
                of: name, logger)
        }
    }

    private func count(_ result: Result<Grant, IdentityFault>, _ call: SessionCall) {
        let outcome: String =
            switch result {
            case _ where desk.errand?.number != call.number: "late"
            case .success: "success"
            case .failure(let fault): fault.verdict.label
            }
        switch call.kind {
        case .login:
            let provider = desk.errand?.provider ?? member.settings.login?.provider ?? "none"
            home.count("lanyard_login_attempts", [.init("provider", provider), .init("result", outcome)])
        case .refresh:
            home.count(
                "lanyard_refresh_attempts",
                [.init("user", name), .init("result", outcome), .init("reason", call.cause.rawValue)])
            home.observe(refresh: .now - call.startedAt)
        }
    }

    // MARK: What is seen from outside

    /// See `SessionDesk.isSettled`.
    var isSettled: Bool { if case .feed = member.source { true } else { desk.isSettled } }

    var isRefreshing: Bool {
        if case .calling? = desk.errand?.stage { desk.errand?.call.kind == .refresh } else { false }
    }

    package var status: SessionStatus { status(at: .now) }

    private func status(at moment: SessionMoment) -> SessionStatus {
        let (session, ledger) = (desk.session, desk.ledger)
        let tokens = session.tokens
        return SessionStatus(
            user: name, index: index, identity: member.settings.identity, accountID: ledger.accountID,
            state: session.state, reason: session.reason, generation: ledger.generation,
            accessTokenExpiry: tokens?.expiry,
            refreshTokenExpiry: tokens?.refresh == nil ? nil : tokens?.refreshExpiry,
            nextRefreshAt: SessionLog.wall(of: session.nextCallAt, moment), lastError: ledger.lastFault?.words,
            hasEverBeenReady: ledger.hasEverBeenReady, usableUntil: tokens?.usableUntil ?? .past,
            provider: desk.provider, isStoreFailing: desk.storeFault != nil)
    }

    private func log(_ note: SessionNote, at moment: SessionMoment) {
        if note.event == .refreshDenied {
            home.count("lanyard_refresh_denied", [.init("user", name), .init("reason", note.reason)])
        }
        SessionLog.write(
            note, state: desk.session.state, generation: desk.ledger.generation, at: moment, to: logger)
    }
}
