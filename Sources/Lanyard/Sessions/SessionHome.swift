import Dispatch
import Logging

/// The home of all sessions: one serial queue on which every session lives, with its deadlines, between the shards that want tokens
/// and the identity services that grant them.
///
/// Everything but `report` belongs to `loop`'s queue; the package functions may be called from anywhere and return at once.
package final class SessionHome: TokenSource, @unchecked Sendable {
    /// `lanyard.sessions`: its deadlines count on through a suspend.
    let loop: EventLoop
    let publisher: any TokenPublisher
    private let logger: Logger
    private let activeUser: UserIndex?
    private var cells: [SessionCell] = []
    private(set) var isStopped = false
    private var clocks: ClockComparison?
    private lazy var tick = SessionAlarm(on: loop) { [self] in compareClocks() }
    private let latest = Guarded(SessionReport())

    /// Prepares; no thread starts and nothing is called before `start`.
    ///
    /// - Parameters:
    ///   - members: in the order of the configuration; a user's place is its `UserIndex`.
    ///   - activeUser: whom routes without a user of their own follow.
    /// - Throws: the local fault of a missing descriptor.
    package init(
        _ members: [SessionMember], activeUser: UserIndex?, refresh: RefreshSettings, publisher: any TokenPublisher,
        logger: Logger
    ) throws(Fault) {
        loop = try EventLoop(label: "lanyard.sessions")
        self.publisher = publisher
        self.logger = logger
        self.activeUser = activeUser
        cells = members.enumerated().map { place, member in
            SessionCell(member, user: UserIndex(place), settings: refresh, home: self, logger: logger)
        }
        latest.withLock { report in
            report.activeUser = activeUser
            report.users = cells.map { $0.initialStatus }
        }
    }

    /// Publishes whom routes follow, then begins to log users in.
    package func start() {
        loop.start()
        loop.post { [self] in
            publisher.activate(activeUser)
            for cell in cells { cell.start() }
            beginTick()
        }
    }

    /// Ends for good: no further call, log line or publication. What was published stays usable while it lasts.
    package func stop() {
        loop.post { [self] in
            guard !isStopped else { return }
            isStopped = true
            for cell in cells { cell.stop() }
            cells = []
            tick.drop()
            loop.stop()
        }
    }

    /// All sessions as of the latest change; never waits for the queue.
    package var report: SessionReport { latest.withLock { $0 } }

    /// Hands over a session that was made elsewhere, in place of whatever `user` has; its life counts from now.
    package func adopt(_ grant: Grant, for user: UserIndex) { send(.adopted(grant), to: user) }

    package func tokenNeeded(by user: UserIndex) { send(.tokenNeeded, to: user) }

    private func send(_ event: Session.Event, to user: UserIndex) {
        loop.post { [self] in
            guard cells.indices.contains(user.number) else { return }
            cells[user.number].take(event)
        }
    }

    // MARK: What cells report

    /// Leaves `status` where others read it. On the queue.
    func update(_ status: SessionStatus, skew: Duration?) {
        let inFlight = cells.count { $0.isRefreshing }
        latest.withLock { report in
            report.users[status.index.number] = status
            report.refreshesInFlight = inFlight
            report.skew = skew ?? report.skew
        }
    }

    func count(_ name: String, _ labels: [MetricSample.Label]) {
        latest.withLock { $0.count(name, labels) }
    }

    // MARK: Clocks

    private func beginTick() {
        let clocks = ClockComparison(instant: .now, wall: .now)
        self.clocks = clocks
        tick.set(at: clocks.nextAt)
    }

    /// Every 30 s (refresh-policy rule 14).
    private func compareClocks() {
        let reason = clocks?.disagreement(at: .now, .now)
        beginTick()
        guard let reason else { return }
        latest.withLock { $0.clockJumps += 1 }
        logger.warning(
            "the clocks jumped: all sessions are looked at again",
            metadata: ["event": "clock.jumped", "reason": .string(reason.rawValue)])
        for cell in cells { cell.take(.clockJumped) }
    }
}
