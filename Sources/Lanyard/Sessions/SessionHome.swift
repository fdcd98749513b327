import Dispatch
import Logging

/// The home of all sessions: one serial queue on which every session lives, with its deadlines, between the shards that want tokens,
/// the identity services that grant them, and the store that keeps them.
///
/// Everything but `report` belongs to `loop`'s queue; functions that say so may be called from anywhere and return at once.
package final class SessionService: TokenSource, @unchecked Sendable {
    /// What all users have in common.
    package struct Settings: Sendable {
        package var refresh: RefreshSettings
        package var login: LoginSettings
        /// `active_user`, if it was configured; else the first configured user is active.
        package var activeUser: String?
        /// `on_active_logout: next`.
        package var activatesNextOnLogout: Bool

        package init(
            refresh: RefreshSettings = RefreshSettings(), login: LoginSettings = LoginSettings(),
            activeUser: String? = nil, activatesNextOnLogout: Bool = false
        ) {
            self.refresh = refresh
            self.login = login
            self.activeUser = activeUser
            self.activatesNextOnLogout = activatesNextOnLogout
        }
    }

    /// `lanyard.sessions`: its deadlines count on through a suspend.
    package let loop: EventLoop
    let publisher: any TokenPublisher
    let store: any SessionStore
    let logger: Logger
    private let settings: Settings
    private let boot = Machine.bootID
    /// By name.
    private let identities: [String: ConfiguredIdentity]
    /// What the store held when it was opened: the start goes on from it.
    let contents: StoreContents
    /// The first so many indices are those of the configuration's users.
    private let configuredCount: Int
    /// In the order of their `UserIndex`; nil: forgotten. An index goes to another user only if
    /// its first one never had a session.
    private(set) var runners: [SessionRunner?] = []
    private(set) var isStopped = false
    /// The process is about to end: what is under way is finished, nothing begins.
    private(set) var isDraining = false
    /// Only people are waited for any more.
    private var awaitsOperatorsOnly = false
    /// Calls that renew or log in and are not answered yet, those of removed users among them: what they bring must not live on.
    var callsInFlight = 0
    private let drained = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)
    /// The users whom the configuration names.
    private let configured: Set<String>
    /// As it was at the start; from then on it is the registrar's.
    private let registry: UserRegistry
    private(set) lazy var userService = UserService(registry, of: self)
    private(set) lazy var revocations = RevocationRunner(of: self)
    private var clocks: ClockComparison?
    private lazy var clockTimer = SessionTimer(on: loop) { [self] in compareClocks() }
    private let refreshDurations = Histogram()
    private var startupCheck: StartupCheck
    /// Called once, on the queue, when a start has come to nothing and the configuration wants the process to end with this status.
    package nonisolated(unsafe) var onFailedStart: @Sendable (Int32) -> Void = { _ in }
    private let latest = Guarded(SessionReport())

    /// Prepares; no thread starts and nothing is called before `start`.
    ///
    /// - Parameters:
    ///   - members: in the order of the configuration; a user's place is its `UserIndex`.
    ///   - identities: for users that come at run time, or that the store has kept besides.
    ///   - names: begins with those of `members`.
    ///   - contents: what `store` held when it was opened.
    /// - Throws: the local fault of a missing descriptor.
    package init(
        _ managedUsers: [ManagedUser], identities: [ConfiguredIdentity] = [], names: UserNames? = nil,
        settings: Settings = Settings(), store: any SessionStore, contents: StoreContents,
        publisher: any TokenPublisher, logger: Logger
    ) throws(SystemError) {
        loop = try EventLoop(label: "lanyard.sessions")
        self.publisher = publisher
        self.store = store
        self.contents = contents
        self.settings = settings
        startupCheck = StartupCheck(settings.login)
        self.logger = logger
        self.identities = Dictionary(identities.map { ($0.name, $0) }) { first, _ in first }
        configured = Set(managedUsers.map(\.settings.name))
        registry = UserRegistry(
            managedUsers, identities: identities, contents: contents, settings: settings,
            names: names ?? UserNames(managedUsers.map(\.settings.name)))
        configuredCount = managedUsers.count
        runners = managedUsers.enumerated().map { place, managedUser in
            SessionRunner(managedUser, index: UserIndex(place), home: self)
        }
        // Those whom only the store knows.
        for user in registry.users where !user.isConfigured {
            if let managedUser = managedUser(for: user) {
                addRunner(SessionRunner(managedUser, index: user.index, home: self))
            }
        }
        latest.withLock { report in
            report.activeUser = registry.active
            report.isStoreInMemory = store.isMemoryOnly
            report.users = registry.shown.compactMap { runner(at: $0)?.status }
            report.expectWrites()
            // The admin API may log a user in by any of them.
            if identities.contains(where: \.hasLogins) || managedUsers.contains(where: { $0.settings.login != nil }) {
                for provider in UserSettings.Login.providers { report.expectLogins(by: provider) }
            }
            for user in registry.shown { expectRefreshes(of: user, &report) }
        }
    }

    /// Nobody renews a token that is read from a file.
    private func expectRefreshes(of user: UserIndex, _ report: inout SessionReport) {
        guard let runner = runner(at: user), case .service = runner.managedUser.source else { return }
        report.expectRefreshes(of: runner.name)
    }

    /// Publishes whom routes follow, then goes on with what the store holds, and logs in whom it does not. From anywhere.
    package func start() {
        loop.start()
        loop.post { [self] in
            publisher.activate(registry.active)
            for case let runner? in runners {
                runner.start(contents[runner.name], duplicateOf: registry.duplicateAccounts[runner.index])
            }
            userService.start()
            for revocation in contents.revocations { revocations.enqueue(revocation, isStored: true, logger) }
            startClockTimer()
        }
    }

    /// Lets calls under way be answered and stored, and tries once more to store what the store lacks; no further call begins. Blocks the
    /// calling thread, which owns no queue.
    ///
    /// A stop in the middle would leave the outcome of a refresh unknown, and where refresh tokens rotate that costs a login.
    ///
    /// - Parameters:
    ///   - limit: for what nobody waits for.
    ///   - people: for what a person has asked for, if that is longer.
    package func settle(within limit: Duration, people: Duration = .zero) {
        let began = Instant.now
        loop.post { [self] in
            isDraining = true
            userService.settle()
            for case let runner? in runners { runner.settle() }
            signalIfDrained()
        }
        guard drained.wait(timeout: .now() + .nanoseconds(Int(limit.nanoseconds))) == .timedOut else { return }
        let left = people - (.now - began)
        guard left > .zero else { return }
        loop.post { [self] in
            awaitsOperatorsOnly = true
            signalIfDrained()
        }
        _ = drained.wait(timeout: .now() + .nanoseconds(Int(left.nanoseconds)))
    }

    /// Ends `settle` at once, also one that has not begun. From anywhere.
    package func endDrain() { drained.signal() }

    /// Whether the process may end by now is looked at.
    func signalIfDrained() {
        guard isDraining, userService.isDrained else { return }
        let isQuiet = callsInFlight == 0 && revocations.isDrained && runners.allSatisfy { $0?.isDrained ?? true }
        guard awaitsOperatorsOnly || isQuiet else { return }
        drained.signal()
    }

    /// Ends for good: no further call, log line or publication. What was published stays usable while it lasts. From anywhere.
    package func stop() {
        loop.post { [self] in
            guard !isStopped else { return }
            // First those who wait for a revocation: the others learn only that nothing is known.
            revocations.stop()
            loop.post { [self] in end() }
        }
    }

    private func end() {
        guard !isStopped else { return }
        isStopped = true
        userService.stop()
        for case let runner? in runners { runner.stop() }
        runners = []
        clockTimer.drop()
        loop.stop()
        ended.signal()
    }

    /// Waits for the end that `stop` has begun: afterwards nobody is answered and nothing is given to the store any more. Blocks the calling
    /// thread, which owns no queue.
    package func waitForEnd(within limit: Duration) {
        _ = ended.wait(timeout: .now() + .nanoseconds(Int(limit.nanoseconds)))
    }

    /// All sessions as of the latest change; never waits for the queue. From anywhere.
    package var report: SessionReport {
        var report = latest.withLock { $0 }
        report.refreshDurations = refreshDurations.samples("lanyard_refresh_duration_seconds")
        return report
    }

    /// Hands over a session that was made elsewhere, in place of whatever `user` has; its life counts from now. From anywhere.
    package func adopt(_ grant: Grant, for user: UserIndex) {
        send(.given(ObtainedSession(grant, startedAt: .now, startedAtWall: .now), ticket: nil), to: user)
    }

    /// From anywhere.
    package func tokenNeeded(by user: UserIndex) { send(.session(.tokenNeeded), to: user) }

    /// From anywhere.
    package func tokenRefused(by user: UserIndex, generation: UInt64) {
        send(.session(.tokenRefused(generation)), to: user)
    }

    private func send(_ event: SessionCoordinator.Event, to user: UserIndex) {
        loop.post { [self] in runner(at: user)?.handle(event) }
    }

    // MARK: Users

    /// nil: nobody, or no more.
    package func runner(at user: UserIndex) -> SessionRunner? {
        runners.indices.contains(user.number) ? runners[user.number] : nil
    }

    package func runner(named name: String) -> SessionRunner? {
        runners.lazy.compactMap(\.self).first { $0.name == name }
    }

    func addRunner(_ runner: SessionRunner) {
        while runners.count <= runner.index.number { runners.append(nil) }
        runners[runner.index.number] = runner
    }

    /// Takes a user away who has been removed.
    func drop(_ runner: SessionRunner) {
        guard self.runner(at: runner.index) === runner else { return }
        runner.stop()
        runners[runner.index.number] = nil
        // A name of the configuration is free only because its user was removed, whoever has borne it since.
        publisher.publish(.none(.userUnknown(wasRemoved: runner.index.number < configuredCount)), for: runner.index)
    }

    /// How a user that no configuration names is kept logged in; nil: its identity is not configured any more.
    func managedUser(for user: RegisteredUser) -> ManagedUser? {
        guard case .service(let service, let rotation)? = identities[user.identity]?.kind else { return nil }
        return ManagedUser(
            UserSettings(name: user.name, identity: user.identity), source: .service(service), rotation: rotation,
            isAdded: true)
    }

    func setup(of managedUser: ManagedUser, _ index: UserIndex) -> SessionCoordinator.Setup {
        let credential: Credential? =
            if case .service = managedUser.source { managedUser.settings.login.map { .configured($0) } } else { nil }
        return SessionCoordinator.Setup(
            user: managedUser.settings.name, identity: managedUser.settings.identity, index: index,
            credential: credential,
            rotation: managedUser.rotation, isAdded: managedUser.isAdded, refresh: settings.refresh,
            offline: settings.login.offline, boot: boot, fingerprint: managedUser.home.fingerprint,
            others: identities.values.compactMap(\.home), configured: configured)
    }

    // MARK: The store and the service

    var fingerprintKey: Secret { contents.fingerprintKey }

    /// A session is about to be stored: whoever has left, and stands in the store because that failed, leaves it first.
    func retryUnsavedEnds(for runner: SessionRunner) {
        for case let other? in runners where other !== runner && other.coordinator.hasUnsavedEnd {
            other.handle(.retryUnsavedEnd)
        }
    }

    /// Every change of the store goes through here, and is counted. `reply` is called on whatever queue.
    package func commit(
        _ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void
    ) {
        store.commit(change) { [self] result in
            let outcome =
                switch result {
                case .success(.stored): "stored"
                case .success(.overtaken), .success(.inUse): "overtaken"
                case .failure: "failed"
                }
            count("lanyard_store_writes", [.init("result", outcome)])
            reply(result)
        }
    }

    /// Who is to be told of a session's end; nil: nobody who is configured.
    func service(of revocation: StoredRevocation) -> (any IdentityService)? {
        let home = StoredIdentity(revocation.identity, revocation.fingerprint)
        if let identity = identities[revocation.identity], case .service(let service, _) = identity.kind {
            return identity.home?.matches(home) == true ? service : nil
        }
        for case let runner? in runners where runner.managedUser.home.matches(home) {
            if case .service(let service) = runner.managedUser.source { return service }
        }
        return nil
    }

    // MARK: What cells report

    /// Leaves a cell's status where others read it. On the queue.
    func update(_ runner: SessionRunner) {
        guard !runner.isStopped else { return }
        let status = runner.status
        let inFlight = runners.count { $0?.isRefreshing ?? false }
        latest.withLock { report in
            if let place = report.users.firstIndex(where: { $0.index == status.index }) {
                report.users[place] = status
            }
            report.refreshesInFlight = inFlight
            report.skew = runner.coordinator.context.skew ?? report.skew
        }
        userService.handleReply(of: runner)
        checkStartup()
        signalIfDrained()
    }

    /// These users are to be seen, in this order.
    func show(_ shown: [UserIndex], isFailing: Bool) {
        latest.withLock { report in
            report.isActiveUserUnsaved = isFailing
            guard report.users.map(\.index) != shown else { return }
            report.users = shown.compactMap { runner(at: $0)?.status }
            for user in shown { expectRefreshes(of: user, &report) }
        }
    }

    /// A user as everybody sees it, nil if nobody does.
    func view(of user: UserIndex) -> UserView? {
        let report = latest.withLock { $0 }
        return report.users.first { $0.index == user }.map { UserView(status: $0, userState: report.userState(of: $0)) }
    }

    /// Whom routes without a user of their own follow from now on.
    func activate(_ user: UserIndex?) {
        publisher.activate(user)
        latest.withLock { $0.activeUser = user }
    }

    private func checkStartup() {
        guard !startupCheck.isOver else { return }
        let users = runners.compactMap(\.self).filter { $0.coordinator.setup.credential != nil }.map {
            ($0.coordinator.session.state, $0.coordinator.session.reason, $0.coordinator.context.hasEverBeenReady)
        }
        if let status = startupCheck.verdict(users) { onFailedStart(status) }
    }

    func count(_ name: String, _ labels: [MetricSample.Label]) {
        latest.withLock { $0.count(name, labels) }
    }

    func observe(refresh duration: Duration) { refreshDurations.observe(duration) }

    // MARK: Clocks

    private func startClockTimer() {
        let clocks = ClockComparison(instant: .now, wall: .now)
        self.clocks = clocks
        clockTimer.set(at: clocks.nextAt)
    }

    /// Reads what other processes on this store have made of users whom nothing else would have look there for long.
    func readExternalChanges() {
        let commitCount = runners.map { runner in runner.map { ($0, $0.commitCount) } }
        store.readAll { [self] users in
            guard let users else { return }
            loop.post { [self] in enqueue(users, as: commitCount) }
        }
    }

    /// - Parameter changes: what each cell had told the store before that was read: whoever has told more since has overtaken it.
    private func enqueue(_ users: [StoredUser], as commitCount: [(SessionRunner, UInt64)?]) {
        guard !isStopped, !isDraining else { return }
        let users = Dictionary(users.map { ($0.name, $0) }) { first, _ in first }
        for case let (runner, count)? in commitCount {
            guard self.runner(at: runner.index) === runner, runner.commitCount == count else { continue }
            runner.handle(.storeSnapshot(users[runner.name]))
        }
    }

    /// Every 30 s (refresh.md 14).
    private func compareClocks() {
        let reason = clocks?.disagreement(at: .now, .now)
        startClockTimer()
        readExternalChanges()
        guard let reason else { return }
        latest.withLock { $0.clockJumps += 1 }
        logger.warning(
            "the clocks jumped: all sessions are looked at again",
            metadata: ["event": "clock.jumped", "reason": .string(reason.rawValue)])
        for case let runner? in runners { runner.handle(.session(.clockJumped)) }
    }
}
