import Logging

/// The thin shell around one session: performs its steps, keeps its deadline. Belongs to the home's queue.
///
/// Home and cell hold each other until `SessionHome.stop`: answers come from other queues whenever they like.
final class SessionCell: @unchecked Sendable {
    let member: SessionMember
    private let home: SessionHome
    private let logger: Logger
    private var session = Session.loggedOut(.loggingIn)
    private var ledger: SessionLedger
    private lazy var alarm = SessionAlarm(on: home.loop) { [self] in take(.due) }

    init(_ member: SessionMember, user: UserIndex, settings: RefreshSettings, home: SessionHome, logger: Logger) {
        self.member = member
        self.home = home
        var logger = logger
        logger[metadataKey: "user"] = .string(member.settings.name)
        self.logger = logger
        let hasCredential = if case .service = member.source { member.settings.login != nil } else { false }
        ledger = SessionLedger(user: user, settings: settings, hasCredential: hasCredential)
    }

    /// Begins: a login, unless a session was handed over before, or the reading of a token.
    func start() {
        switch member.source {
        case .feed(let feed):
            home.publisher.publish(.pending, for: ledger.user)
            feed.start { [weak self] outcome in self?.send(.fed(outcome)) }
        case .service:
            // First the watch: what it has seen is no older than what the login reads.
            if let login = member.settings.login {
                member.credential?.start(login) { [weak self] in self?.send(.credentialChanged) }
            }
            take(.loginRequested)
        }
    }

    /// No deadline, no reading any more; answers to calls under way are dropped by the home.
    func stop() {
        alarm.drop()
        member.credential?.stop()
        if case .feed(let feed) = member.source { feed.stop() }
    }

    /// From any queue.
    private func send(_ event: Session.Event) {
        home.loop.post { [self] in take(event) }
    }

    func take(_ event: Session.Event) {
        home.loop.assertHome()
        guard !home.isStopped else { return }
        let moment = SessionMoment(instant: .now, wall: .now, chance: .random(in: 0..<1))
        for step in session.take(event, at: moment, &ledger) { perform(step, at: moment) }
        alarm.set(at: session.due(ledger))
        home.update(status(at: moment), skew: ledger.skew)
    }

    private func perform(_ step: Session.Step, at moment: SessionMoment) {
        switch step {
        case .publish(let availability): home.publisher.publish(availability, for: ledger.user)
        case .note(let note): log(note, at: moment)
        case .login(let call):
            guard case .service(let service) = member.source, let login = member.settings.login else { return }
            service.login(login) { [weak self] result in self?.answer(result, to: call) }
        case .refresh(let token, let call):
            guard case .service(let service) = member.source else { return }
            service.refresh(token) { [weak self] result in self?.answer(result, to: call) }
        case .revoke(let token):
            guard case .service(let service) = member.source else { return }
            service.revoke(token) { [logger] result in Self.log(revocation: result, logger) }
        }
    }

    /// From any queue.
    private func answer(_ result: Result<Grant, IdentityFault>, to call: SessionCall) {
        home.loop.post { [self] in
            guard !home.isStopped else { return }
            count(result, call)
            switch result {
            case .success(let grant): take(.granted(grant, call))
            case .failure(let fault): take(.failed(fault, call))
            }
        }
    }

    private func count(_ result: Result<Grant, IdentityFault>, _ call: SessionCall) {
        let outcome: String =
            switch result {
            case _ where session.call != call: "late"
            case .success: "success"
            case .failure(let fault): fault.verdict.label
            }
        switch call.kind {
        case .login:
            let provider = member.settings.login?.provider ?? "none"
            home.count("lanyard_login_attempts", [.init("provider", provider), .init("result", outcome)])
        case .refresh:
            let user = MetricSample.Label("user", member.settings.name)
            home.count(
                "lanyard_refresh_attempts", [user, .init("result", outcome), .init("reason", call.cause.rawValue)])
        }
    }

    var isRefreshing: Bool { session.call?.kind == .refresh }

    /// Before the start.
    var initialStatus: SessionStatus { status(at: SessionMoment(instant: .now, wall: .now, chance: 0)) }

    private func status(at moment: SessionMoment) -> SessionStatus {
        let tokens = session.tokens
        return SessionStatus(
            user: member.settings.name, index: ledger.user, identity: member.settings.identity,
            accountID: ledger.accountID, state: session.state, reason: session.reason, generation: ledger.generation,
            accessTokenExpiry: tokens?.expiry,
            refreshTokenExpiry: tokens?.refresh == nil ? nil : tokens?.refreshExpiry,
            nextRefreshAt: Self.wall(of: session.nextCallAt, moment), lastError: ledger.lastFault?.words,
            hasEverBeenReady: ledger.hasEverBeenReady, usableUntil: tokens?.usableUntil ?? .past)
    }

    private static func wall(of instant: Instant, _ moment: SessionMoment) -> WallTime? {
        instant == .never ? nil : moment.wall + (instant - moment.instant)
    }

    // MARK: Log

    private func log(_ note: SessionNote, at moment: SessionMoment) {
        var metadata: Logger.Metadata = [
            "event": .string(note.name), "reason": .string(note.reason), "state": .string(session.state.rawValue),
            "generation": .stringConvertible(ledger.generation),
        ]
        if let next = note.nextAt, let wall = Self.wall(of: next, moment) {
            metadata["next_at"] = .string(Timestamp.text(wall))
        }
        Self.describe(note.fault, in: &metadata)
        logger.log(level: note.level.loggerLevel, "\(note.words)", metadata: metadata)
    }

    private static func log(revocation result: Result<Void, IdentityFault>, _ logger: Logger) {
        switch result {
        case .success: logger.info("session revoked at the service", metadata: ["event": "session.revoke.succeeded"])
        case .failure(let fault):
            var metadata: Logger.Metadata = ["event": "session.revoke.failed", "reason": .string(fault.verdict.label)]
            describe(fault, in: &metadata)
            logger.warning("the service was not told of the session's end", metadata: metadata)
        }
    }

    private static func describe(_ fault: IdentityFault?, in metadata: inout Logger.Metadata) {
        guard let fault else { return }
        metadata["error"] = .string(fault.words)
        if let status = fault.status { metadata["status"] = .stringConvertible(status) }
        if let code = fault.code { metadata["error_code"] = .string(code) }
    }
}

extension SessionNote.Level {
    fileprivate var loggerLevel: Logger.Level {
        switch self {
        case .info: .info
        case .warning: .warning
        case .error: .error
        }
    }
}
