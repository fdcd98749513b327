import Dispatch
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// The service of all sessions: one serial queue with every session and its deadlines. It connects the shards that need
/// tokens, the identity services that issue them, and the store that keeps them.
///
/// All members but `report` belong to the queue of `loop`. Functions marked "From anywhere" may be called on any thread
/// and return at once; `start` waits.
package final class SessionService: TokenSource, @unchecked Sendable {
    /// The loop `lanyard.sessions`. Its deadlines include time in which the machine was suspended.
    package let loop: EventLoop
    let publisher: any TokenPublisher
    let store: any SessionStore
    let logger: Logger
    private var settings: SessionSettings
    private let boot = Machine.bootID
    /// The configured identities, by name.
    private(set) var identities: [String: ConfiguredIdentity]
    /// What the store held when it was opened.
    let contents: StoreContents
    /// The runners, by the number of their `UserIndex`. An index is reused only if its first user never had a session.
    private(set) var slots: [UserSlot] = []
    /// What waits for the start.
    private var reloadsBeforeStart: [@Sendable () -> Void] = []
    private(set) var isStarted = false
    private(set) var isStopped = false
    /// The process is about to end: what is under way is finished, and nothing begins.
    private(set) var isDraining = false
    /// Only operators' requests are waited for any more.
    private var awaitsOperatorsOnly = false
    /// Login and refresh calls without a result yet, including those of removed users. The tokens that these bring are
    /// revoked.
    private var callsInFlight = 0
    private let drained = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)
    /// The configured users, by name, whether or not an operator has removed them.
    private(set) var configured: [String: ManagedUser]
    /// The registry as it was at the start. From then on `userService` has it.
    private let registry: UserRegistry
    private(set) lazy var userService = UserService(registry, environment: self)
    private lazy var revocationRunner = RevocationRunner(environment: self)
    private var clocks: ClockComparison?
    private lazy var clockTimer = SessionTimer(on: loop) { [self] in compareClocks() }
    private let refreshDurations = Histogram()
    private var startupCheck: StartupCheck
    /// Called once, on the queue, if the start has failed and the configuration wants the process to end with this
    /// status.
    package nonisolated(unsafe) var onFailedStart: @Sendable (Int32) -> Void = { _ in }
    private let latest = Guarded(SessionReport())

    /// Prepares the service; no thread starts and no call is made before `start`.
    ///
    /// - Parameters:
    ///   - managedUsers: in the order of the configuration; a user's position is its `UserIndex`.
    ///   - identities: for users that the admin API adds, or that the store has kept.
    ///   - names: begins with those of `managedUsers`.
    ///   - contents: what `store` held when it was opened.
    /// - Throws: the local error of a missing descriptor.
    package init(
        _ managedUsers: [ManagedUser], identities: [ConfiguredIdentity] = [], names: UserNames? = nil,
        settings: SessionSettings = SessionSettings(), store: any SessionStore, contents: StoreContents,
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
        configured = Dictionary(managedUsers.map { ($0.settings.name, $0) }) { first, _ in first }
        registry = UserRegistry(
            managedUsers, identities: identities, contents: contents, settings: settings,
            names: names ?? UserNames(managedUsers.map(\.settings.name)))
        slots = managedUsers.enumerated().map { place, managedUser in
            UserSlot(current: makeRunner(managedUser, UserIndex(place)))
        }
        // Users that only the store knows.
        for user in registry.users where !user.isConfigured { addRunner(for: user) }
        latest.withLock { report in
            report.activeUser = registry.active
            report.isStoreInMemory = store.isMemoryOnly
            report.users = registry.shown.compactMap { runner(at: $0)?.status }
            report.expectWrites()
            // The admin API may log a user in with any of them.
            if identities.contains(where: \.hasLogins) || managedUsers.contains(where: { $0.settings.login != nil }) {
                for provider in LoginKind.providers { report.expectLogins(by: provider) }
            }
            for user in registry.shown { expectRefreshes(of: user, &report) }
        }
    }

    /// A token that is read from a file is not renewed here.
    private func expectRefreshes(of user: UserIndex, _ report: inout SessionReport) {
        guard let runner = runner(at: user), case .service = runner.managedUser.source else { return }
        report.expectRefreshes(of: runner.name)
    }

    /// Publishes the active user, then continues with the stored sessions and logs in the other users. From any thread, not from the queue.
    ///
    /// Returns when the report has every stored session: until then it says of their users that they are logging in. After a second it
    /// returns in any case.
    package func start() {
        let isUnderWay = DispatchSemaphore(value: 0)
        loop.start()
        loop.post { [self] in
            publisher.activate(registry.active)
            for runner in runners {
                runner.start(contents[runner.name], duplicateOf: registry.duplicateAccounts[runner.index])
            }
            userService.start()
            for revocation in contents.revocations {
                revocationRunner.enqueue(revocation, of: nil, isStored: true, logger) { _ in }
            }
            startClockTimer()
            isStarted = true
            for reload in reloadsBeforeStart { reload() }
            reloadsBeforeStart = []
            isUnderWay.signal()
        }
        _ = isUnderWay.wait(timeout: .now() + 1)
    }

    /// At once, or after the start.
    func whenStarted(_ work: @escaping @Sendable () -> Void) {
        loop.assertIsCurrent()
        if isStarted { work() } else { reloadsBeforeStart.append(work) }
    }

    /// Waits until calls under way have a result that is stored. Unsaved changes are tried once more; no further call
    /// begins. Blocks the calling thread, which owns no queue.
    ///
    /// Stopping during a refresh would leave its outcome unknown. Where refresh tokens rotate, that costs a login.
    ///
    /// - Parameters:
    ///   - limit: the longest wait for work that no operator waits for.
    ///   - operators: the longest wait for operators' requests, if that is longer.
    package func drain(within limit: Duration, operators: Duration = .zero) {
        let began = Instant.now
        loop.post { [self] in
            isDraining = true
            userService.drain()
            for runner in runners { runner.drain() }
            signalIfDrained()
        }
        guard drained.wait(timeout: .now() + .nanoseconds(Int(limit.nanoseconds))) == .timedOut else { return }
        let left = operators - (.now - began)
        guard left > .zero else { return }
        loop.post { [self] in
            awaitsOperatorsOnly = true
            signalIfDrained()
        }
        _ = drained.wait(timeout: .now() + .nanoseconds(Int(left.nanoseconds)))
    }

    /// Ends `drain` at once, also one that has not begun. From anywhere.
    package func endDrain() { drained.signal() }

    func signalIfDrained() {
        guard isDraining, userService.isDrained else { return }
        let isQuiet =
            callsInFlight == 0 && revocationRunner.isDrained
            && slots.allSatisfy { $0.all.allSatisfy(\.isDrained) }
        guard awaitsOperatorsOnly || isQuiet else { return }
        drained.signal()
    }

    /// Ends the service: no further call, log line or publication. Published tokens stay usable while they last. From
    /// anywhere.
    package func stop() {
        loop.post { [self] in
            guard !isStopped else { return }
            // The waiters of revocations get their reply first: the other waiters only learn that the outcome is
            // unknown.
            revocationRunner.stop()
            loop.post { [self] in end() }
        }
    }

    private func end() {
        guard !isStopped else { return }
        isStopped = true
        userService.stop()
        for slot in slots { slot.all.forEach { $0.stop() } }
        slots = []
        clockTimer.drop()
        loop.stop()
        ended.signal()
    }

    /// Waits for the end that `stop` has begun. Afterwards no reply is sent and nothing is written to the store. Blocks
    /// the calling thread, which owns no queue.
    package func waitForEnd(within limit: Duration) {
        _ = ended.wait(timeout: .now() + .nanoseconds(Int(limit.nanoseconds)))
    }

    /// All sessions as of the latest change. It never waits for the queue. From anywhere.
    package var report: SessionReport {
        var report = latest.withLock { $0 }
        report.refreshDurations = refreshDurations.samples("lanyard_refresh_duration_seconds")
        return report
    }

    /// Hands over a session that was obtained elsewhere. It replaces the session of `user`, and its lifetime counts
    /// from now. From anywhere.
    package func adopt(_ grant: Grant, for user: UserIndex) {
        send(.obtained(ObtainedSession(grant, startedAt: .now, startedAtWall: .now), ticket: nil), to: user)
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

    /// The runner of a user; nil: unknown, removed, or replaced by a reload. On the queue.
    package func runner(at user: UserIndex) -> SessionRunner? {
        runner(withNameOf: user).flatMap { $0.index == user ? $0 : nil }
    }

    /// The runners of all present users. On the queue.
    var runners: [SessionRunner] { slots.compactMap(\.current) }

    /// The runner of the present user of that name, if there is one. On the queue.
    func runner(withNameOf user: UserIndex) -> SessionRunner? { slot(of: user).current }

    /// The runners of the user's name. On the queue.
    func slot(of user: UserIndex) -> UserSlot { slots.indices.contains(user.number) ? slots[user.number] : UserSlot() }

    /// Changes the runners of the user's name. On the queue.
    func change(_ user: UserIndex, _ change: (inout UserSlot) -> Void) {
        while slots.count <= user.number { slots.append(UserSlot()) }
        change(&slots[user.number])
    }

    /// The runner of a user by name. On the queue.
    package func runner(named name: String) -> SessionRunner? {
        runners.first { $0.name == name }
    }

    func addRunner(for user: RegisteredUser) {
        guard let managedUser = managedUser(for: user) else { return }
        let runner = makeRunner(managedUser, user.index)
        change(user.index) { $0.current = runner }
    }

    /// - Parameter generation: of the latest token that was published for the index.
    func makeRunner(_ managedUser: ManagedUser, _ index: UserIndex, after generation: UInt64 = 0) -> SessionRunner {
        var setup = setup(of: managedUser, index)
        setup.generation = generation
        return SessionRunner(managedUser, setup: setup, publisher: publisher, environment: self)
    }

    func drop(_ runner: SessionRunner) {
        guard self.runner(at: runner.index) === runner else { return }
        runner.stop()
        change(runner.index) { $0.current = nil }
        // An operator has removed a configured user.
        publisher.publish(.none(.userUnknown(wasRemoved: configured[runner.name] != nil)), for: runner.index)
    }

    /// How a user that is not configured is kept logged in; nil: its identity is not configured any more.
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
            offline: settings.login.offline, boot: boot, fingerprint: managedUser.storedIdentity.fingerprint,
            others: identities.values.compactMap(\.storedIdentity), configured: Set(configured.keys))
    }

    // MARK: The store and the service

    var fingerprintKey: Secret { contents.fingerprintKey }

    func retryUnsavedEnds(for runner: SessionRunner) {
        for other in runners where other !== runner && other.coordinator.hasUnsavedEnd {
            other.handle(.retryUnsavedEnd)
        }
    }

    /// Hands a change to the store and counts its result.
    package func commit(
        _ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void
    ) {
        store.commit(change) { [self] result in
            countWrite(result)
            reply(result)
        }
    }

    func begin(_ user: String, _ intent: StoreChange, reply: @escaping @Sendable (StoreBeginning) -> Void) {
        store.begin(user, intent) { [self] result in
            if case .looked(_, _, let verdict) = result { countWrite(verdict) }
            reply(result)
        }
    }

    private func countWrite(_ result: Result<StoreChange.Verdict, StoreError>) {
        let outcome =
            switch result {
            case .success(.stored), .success(.storedEnding): "stored"
            case .success(.overtaken), .success(.inUse): "overtaken"
            case .failure: "failed"
            }
        count("lanyard_store_writes", [.init("result", outcome)])
    }

    func service(of revocation: StoredRevocation) -> (any IdentityService)? {
        let wanted = StoredIdentity(revocation.identity, revocation.fingerprint)
        if let identity = identities[revocation.identity], case .service(let service, _) = identity.kind,
            identity.storedIdentity?.matches(wanted) == true
        {
            return service
        }
        // A user that leaves ends its session at its former service.
        for runner in runners + slots.flatMap(\.retiring) where runner.managedUser.storedIdentity.matches(wanted) {
            if case .service(let service) = runner.managedUser.source { return service }
        }
        return nil
    }

    func accounts(at identity: String) -> (any AccountService)? {
        if case .service(let service, _)? = identities[identity]?.kind { return service.accounts }
        for runner in runners where runner.managedUser.settings.identity == identity {
            if case .service(let service) = runner.managedUser.source { return service.accounts }
        }
        return nil
    }

    // MARK: Reports of the parts

    func update(_ runner: SessionRunner) {
        loop.assertIsCurrent()
        guard !runner.isStopped else { return }
        let status = runner.status
        countRefreshes()
        latest.withLock { report in
            if let place = report.users.firstIndex(where: { $0.index == status.index }) {
                report.users[place] = status
            }
            report.skew = runner.coordinator.context.skew ?? report.skew
        }
        userService.runnerChanged(runner)
        checkStartup()
        signalIfDrained()
    }

    /// Calls of users that leave count until they end.
    func countRefreshes() {
        let inFlight = slots.reduce(0) { $0 + $1.all.count(where: \.isRefreshing) }
        latest.withLock { $0.refreshesInFlight = inFlight }
    }

    func show(_ shown: [UserIndex], isFailing: Bool) {
        latest.withLock { report in
            report.isActiveUserUnsaved = isFailing
            guard report.users.map(\.index) != shown else { return }
            report.users = shown.compactMap { runner(at: $0)?.status }
            for user in shown { expectRefreshes(of: user, &report) }
        }
    }

    func view(of user: UserIndex) -> UserView? {
        let report = latest.withLock { $0 }
        return report.users.first { $0.index.hasName(of: user) }
            .map { UserView(status: $0, userState: report.userState(of: $0)) }
    }

    func activate(_ user: UserIndex?) {
        publisher.activate(user)
        latest.withLock { $0.activeUser = user }
    }

    /// Takes what all users have in common, before the users change. The runners follow.
    func apply(_ configuration: SessionConfiguration) {
        loop.assertIsCurrent()
        identities = Dictionary(configuration.identities.map { ($0.name, $0) }) { first, _ in first }
        configured = Dictionary(configuration.users.map { ($0.settings.name, $0) }) { first, _ in first }
        settings = configuration.settings
        startupCheck.end()
        revocationRunner.retryGivenUp()
    }

    /// Shows exactly these users, and the active one. The shards have it with the routes.
    func showReloaded(_ shown: [UserIndex], active: UserIndex?) {
        latest.withLock { report in
            report.users = shown.compactMap { runner(at: $0)?.status }
            report.activeUser = active
            for user in shown { expectRefreshes(of: user, &report) }
        }
    }

    private func checkStartup() {
        guard !startupCheck.isOver else { return }
        let users = runners.filter { $0.coordinator.setup.credential != nil }.map {
            ($0.coordinator.session.state, $0.coordinator.session.reason, $0.coordinator.context.hasEverBeenReady)
        }
        if let status = startupCheck.verdict(users) { onFailedStart(status) }
    }

    func callBegan() { callsInFlight += 1 }

    func callEnded() { callsInFlight -= 1 }

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

    /// Reads external changes of users that would not read the store for a long time.
    func readExternalChanges() {
        let commitCount = runners.map { ($0, $0.commitCount) }
        store.readAll { [self] users in
            guard let users else { return }
            loop.post { [self] in reconcile(users, as: commitCount) }
        }
    }

    /// - Parameter commitCount: the number of changes that each runner had sent before the read. A runner that has sent
    ///   more since is skipped.
    private func reconcile(_ users: [StoredUser], as commitCount: [(SessionRunner, UInt64)]) {
        guard !isStopped, !isDraining else { return }
        let users = Dictionary(users.map { ($0.name, $0) }) { first, _ in first }
        for (runner, count) in commitCount {
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
            "the clocks jumped: all sessions are re-evaluated",
            metadata: ["event": "clock.jumped", "reason": .string(reason.rawValue)])
        for runner in runners { runner.handle(.session(.clockJumped)) }
    }
}

/// What the parts see of the service.
extension SessionService: RunnerEnvironment, UserEnvironment, RevocationEnvironment {
    var accounts: any AccountRegistry { userService }
    var revocations: any RevocationSending { revocationRunner }
}

/// Operators' requests while Lanyard runs. On the service's queue, unless stated otherwise.
extension SessionService: UserOperations {
    /// From anywhere.
    package func perform(
        _ request: UserRequest, reply: @escaping @Sendable (Result<UserOutcome, UserError>) -> Void
    ) {
        loop.post { [self] in
            guard !isStopped, !isDraining else { return reply(.failure(.stopping)) }
            userService.perform(request, reply)
        }
    }
}
