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
    let subscribers: TokenSubscribers
    let logger: Logger
    private let countedStore: CountedStore
    private(set) var configuration: RunningConfiguration
    var runnerTable = RunnerTable()
    private(set) var life = ServiceLife.starting(waiting: [])
    private let waits = ServiceEnd()
    /// The registry as it was at the start. From then on `userService` has it.
    private let registry: UserRegistry
    private(set) lazy var userService = UserService(registry, environment: self)
    private lazy var records = ServiceRecords(
        revocations: RevocationRunner(environment: self),
        metadata: MetadataKeeper(contents.metadata, environment: self),
        turns: TurnKeeper(environment: self))
    private lazy var timers = ServiceTimers(
        clocks: ClockTimer(on: loop) { [unowned self] in handleClocks($0, seconds: $1) },
        probe: SessionTimer(on: loop) { [unowned self] in makeProbes() },
        lastWrites: SessionTimer(on: loop) { [unowned self] in repeatLastWrites() })
    private var startupCheck: StartupCheck
    private let board = SessionReportBoard()

    /// Prepares the service; no thread starts and no call is made before `start`.
    ///
    /// - Parameters:
    ///   - managedUsers: in the order of the configuration; a user's position is its `UserIndex`.
    ///   - identities: for users that the admin API adds, or that the store has kept.
    ///   - names: begins with those of `managedUsers`.
    ///   - contents: what `store` held when it was opened.
    ///   - onFailedStart: called once, on the queue, if the start has failed and the configuration wants the process to end
    ///     with this status.
    /// - Throws: the local error of a missing descriptor.
    package init(
        _ managedUsers: [ManagedUser], identities: [ConfiguredIdentity] = [], names: UserNames? = nil,
        settings: SessionSettings = SessionSettings(), store: any SessionStore, contents: StoreContents,
        subscribers: [any TokenSubscriber], logger: Logger,
        onFailedStart: @escaping @Sendable (Int32) -> Void = { _ in }
    ) throws(SystemError) {
        loop = try EventLoop(label: "lanyard.sessions")
        self.subscribers = TokenSubscribers(subscribers, on: loop)
        countedStore = CountedStore(store: store, contents: contents, board: board)
        startupCheck = StartupCheck(settings.login, onFailure: onFailedStart)
        self.logger = logger
        configuration = RunningConfiguration(
            SessionConfiguration(users: managedUsers, identities: identities, settings: settings))
        registry = UserRegistry(
            managedUsers, identities: identities, contents: contents, settings: settings,
            names: names ?? UserNames(managedUsers.map(\.settings.name)))
        for (place, managedUser) in managedUsers.enumerated() {
            runnerTable[UserIndex(place)].current = makeRunner(managedUser, UserIndex(place))
        }
        // Users that only the store knows.
        for user in registry.users where !user.isConfigured { makeRunners(for: user) }
        // The admin API may log a user in with any of them.
        let hasLogins = identities.contains(where: \.hasLogins) || managedUsers.contains { $0.settings.login != nil }
        // The queue has no thread yet: this one runs it.
        loop.queue.sync { showUsers(hasLogins: hasLogins) }
    }

    /// The first report.
    private func showUsers(hasLogins: Bool) {
        board.change { report in
            report.activeUser = registry.active
            report.isStoreInMemory = store.isMemoryOnly
            report.show(registry.shown.compactMap { runnerTable.runner(at: $0)?.status })
            report.expectWrites()
            if hasLogins { for provider in LoginKind.providers { report.expectLogins(by: provider) } }
            for user in registry.shown { expectRefreshes(of: user, &report) }
        }
    }

    /// A token that is read from a file is not renewed here.
    private func expectRefreshes(of user: UserIndex, _ report: inout SessionReport) {
        guard let runner = runnerTable.runner(at: user), case .service = runner.managedUser.source else { return }
        report.expectRefreshes(of: runner.name)
        for variant in runner.coordinator.variants { report.expectFetches(of: runner.name, for: variant.named.name) }
    }

    /// Publishes the active user, then continues with the stored sessions and logs in the other users. From any thread, not from the queue.
    ///
    /// Returns when the report has every stored session: until then it says of their users that they are logging in. After five seconds
    /// it returns in any case.
    package func start() {
        let isUnderWay = DispatchSemaphore(value: 0)
        loop.start()
        loop.post { [self] in
            subscribers.activate(registry.active)
            records.metadata.serve(configuration.identities.values)
            let stored = contents.usersByName
            for runner in runners where runner.coordinator.setup.credential != nil { startupCheck.expect(runner.index) }
            for runner in runners {
                runner.start(stored[runner.name], duplicateOf: registry.duplicateAccounts[runner.index])
            }
            refuseUnknownVariants()
            userService.start()
            for revocation in contents.revocations {
                records.revocations.enqueue(revocation, of: nil, isStored: true, logger) { _ in }
            }
            timers.clocks.start()
            handleStarted()
            isUnderWay.signal()
        }
        _ = isUnderWay.wait(timeout: .now() + 5)
    }

    private func handleStarted() {
        guard case .starting(let waiting) = life else { return }
        life = .serving
        for work in waiting { work() }
    }

    /// At once, or after the start.
    func whenStarted(_ work: @escaping @Sendable () -> Void) {
        loop.assertIsCurrent()
        guard case .starting(let waiting) = life else { return work() }
        life = .starting(waiting: waiting + [work])
    }

    var isStopped: Bool { life.isStopped }
    /// What is in progress is finished, and nothing begins.
    var isDraining: Bool { life.isDraining }

    /// Waits until calls in progress have a result that is stored. Unsaved changes are tried once more; no further call
    /// begins. Blocks the calling thread, which owns no queue.
    ///
    /// Stopping during a refresh would leave its outcome unknown. Where refresh tokens rotate, that costs a login.
    ///
    /// - Parameters:
    ///   - limit: the longest wait for work that no operator waits for. When the time is up, unsaved changes are tried
    ///     once more, which takes `lastWritesMax` at most.
    ///   - operators: the longest wait for operators' calls, if that is longer.
    ///   - rotations: the longest wait for refreshes that may bring another refresh token, if that is longer. A refresh has
    ///     a limit of its own. The writes of refresh tokens that the store did not take are repeated for as long.
    package func drain(within limit: Duration, operators: Duration = .zero, rotations: Duration = .zero) {
        let began = Instant.now
        loop.post { [self] in beginDrain() }
        guard !waits.waitUntilDrained(within: limit) else { return }
        for (step, limit) in [(DrainStep.operatorsCalls, operators), (.rotations, rotations)] {
            let left = limit - (.now - began)
            guard left > .zero else { continue }
            loop.post { [self] in
                if isDraining { life = .draining(step) }
                awaitUnsavedRefreshTokens()
                signalIfDrained()
            }
            guard !waits.waitUntilDrained(within: left) else { break }
        }
        guard !waits.isGivenUp else { return }
        loop.post { [self] in beginLastWrites(.lastWritesBesideCalls) }
        _ = waits.waitUntilDrained(within: Self.lastWritesMax)
    }

    /// The longest wait for the last writes of a stop whose time is up.
    private static let lastWritesMax = Duration.seconds(1)

    private func beginDrain() {
        guard !isStopped else { return }
        if !isDraining { life = .draining(.telling) }
        userService.retryUnsaved()
        for runner in runners where runner.isRenewedHere { runner.drain() }
        if case .draining(.telling) = life { life = .draining(.everything) }
        awaitUnsavedRefreshTokens()
        signalIfDrained()
    }

    /// Ends `drain` at once, also one that has not begun. From anywhere.
    package func endDrain() { waits.giveUp() }

    func signalIfDrained() {
        loop.assertIsCurrent()
        guard case .draining(let step) = life else { return }
        switch step {
        case .everything: if isFinished { beginLastWrites(.lastWrites) }
        case .operatorsCalls: if userService.isDrained, !isRotating { endWaitForCalls() }
        case .rotations: if !isRotating { endWaitForCalls() }
        case .telling, .beginningLastWrites: break
        case .lastWrites: if isFinished, !isRotating { waits.signalDrained() }
        case .lastWritesBesideCalls:
            if !runnerTable.contains(where: \.isWriting), !userService.isWriting { waits.signalDrained() }
        }
    }

    /// `drain` begins the last writes, whose time is its own.
    private func endWaitForCalls() {
        life = .draining(.beginningLastWrites)
        waits.signalDrained()
    }

    /// Nothing is in progress.
    private var isFinished: Bool {
        userService.isDrained && waits.callsInFlight == 0 && records.revocations.isDrained
            && runnerTable.areAllDrained()
    }

    /// The response to a refresh may have the only copy of the next refresh token, or this process has it.
    private var isRotating: Bool { runnerTable.contains { $0.isRotating || $0.hasUnsavedRefreshToken } }

    /// The newest refresh token of a session ends with this process, unless the store takes it while `drain` still waits.
    private func repeatLastWrites() {
        guard isDraining else { return }
        for runner in runnerTable.all where runner.hasUnsavedRefreshToken { runner.retryBeforeEnd() }
        awaitUnsavedRefreshTokens()
        signalIfDrained()
    }

    private func awaitUnsavedRefreshTokens() {
        let isNeeded = runnerTable.contains(where: \.hasUnsavedRefreshToken)
        timers.lastWrites.set(at: isNeeded ? .now + Self.lastWritesInterval : .never)
    }

    /// Between two tries: short, because the supervisor may end the process soon.
    private static let lastWritesInterval = Duration.milliseconds(500)

    /// The store may have recovered since a session's own last try: another user's call can have taken seconds.
    ///
    /// - Parameter step: what is waited for then.
    private func beginLastWrites(_ step: DrainStep) {
        guard isDraining else { return }
        life = .draining(.beginningLastWrites)
        for runner in runnerTable.all where runner.isRenewedHere { runner.retryUnsaved() }
        userService.retryUnsaved()
        life = .draining(step)
        awaitUnsavedRefreshTokens()
        signalIfDrained()
    }

    /// Ends the service: no further call, log line or publication. Published tokens stay usable while they last. From
    /// anywhere.
    package func stop() {
        loop.post { [self] in
            guard !isStopped else { return }
            // The waiters of revocations get their reply first: the other waiters only learn that the outcome is
            // unknown.
            records.revocations.stop()
            loop.post { [self] in end() }
        }
    }

    private func end() {
        guard !isStopped else { return }
        life = .stopped
        userService.stop()
        runnerTable.stop()
        probeTimer.drop()
        turns.drop()
        timers.lastWrites.drop()
        timers.clocks.drop()
        loop.stop()
        waits.signalEnded()
    }

    /// Waits for the end that `stop` has begun. Afterwards no reply is sent and nothing is written to the store. Blocks
    /// the calling thread, which owns no queue.
    package func waitForEnd(within limit: Duration) {
        waits.waitUntilEnded(within: limit)
    }

    /// All sessions as of the latest change. It never waits for the queue. From anywhere.
    package var report: SessionReport { board.report }

    /// Hands over a session that was obtained elsewhere. It replaces the session of `user`, and its lifetime counts
    /// from now. From anywhere.
    package func adopt(_ grant: Grant, for user: UserIndex) {
        send(.obtained(ObtainedSession(grant, startedAt: .now, startedAtWall: .now)), to: user)
    }

    /// From anywhere.
    package func tokenNeeded(by user: UserIndex) {
        if names.isVariant(user) { return send(.tokenNeeded, ofVariant: user) }
        send(.session(.tokenNeeded), to: user)
    }

    /// From anywhere. The number counts as heard even if the user has left, so that no later token of the index waits for a reply.
    package func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber) {
        let generation = Generation(generation)
        loop.post { [self] in
            whenStarted { [self] in
                subscribers.recordRefusal(number)
                names.isVariant(user)
                    ? handle(.tokenRefused(generation), ofVariant: user)
                    : handle(.session(.tokenRefused(generation)), of: user)
            }
        }
    }

    /// From anywhere.
    package func refreshDenied(by user: UserIndex) {
        loop.post { [self] in
            whenStarted { [self] in
                guard names.isVariant(user) else { runner(at: user)?.recordDeniedRefresh(); return }
                names.owner(of: user).flatMap { runner(withNameOf: $0) }?.recordDeniedRefresh(ofVariant: user)
            }
        }
    }

    /// From anywhere.
    package func freshTokenRefused(by user: UserIndex, generation: UInt64) {
        let generation = Generation(generation)
        if names.isVariant(user) { return send(.freshTokenRefused(generation), ofVariant: user) }
        send(.freshTokenRefused(generation), to: user)
    }

    private func send(_ event: SessionCoordinator.VariantEvent, ofVariant index: UserIndex) {
        loop.post { [self] in whenStarted { [self] in handle(event, ofVariant: index) } }
    }

    private func handle(_ event: SessionCoordinator.VariantEvent, ofVariant index: UserIndex) {
        guard let owner = names.owner(of: index) else { return }
        runner(withNameOf: owner)?.handle(.variant(index, event))
    }

    /// A request may come before the start: a runner that handled its event first would never begin.
    private func send(_ event: SessionCoordinator.Event, to user: UserIndex) {
        loop.post { [self] in whenStarted { [self] in handle(event, of: user) } }
    }

    private func handle(_ event: SessionCoordinator.Event, of user: UserIndex) { runner(at: user)?.handle(event) }

    // MARK: Users

    /// The runner of a user; nil: unknown, removed, or replaced by a reload. On the queue.
    package func runner(at user: UserIndex) -> SessionRunner? {
        loop.assertIsCurrent()
        return runnerTable.runner(at: user)
    }

    /// The runners of all present users. On the queue.
    var runners: [SessionRunner] {
        loop.assertIsCurrent()
        return runnerTable.current
    }

    /// The runner of the present user of that name, if there is one. On the queue.
    func runner(withNameOf user: UserIndex) -> SessionRunner? {
        loop.assertIsCurrent()
        return runnerTable[user].current
    }

    /// The runner of a user by name. On the queue.
    package func runner(named name: String) -> SessionRunner? {
        loop.assertIsCurrent()
        return names.knownIndex(of: name).flatMap(runner(withNameOf:))
    }

    func addRunner(for user: RegisteredUser) {
        loop.assertIsCurrent()
        makeRunners(for: user)
    }

    private func makeRunners(for user: RegisteredUser) {
        guard let managedUser = configuration.addedUser(user) else { return }
        runnerTable[user.index].current = makeRunner(managedUser, user.index)
    }

    /// - Parameter former: the runners of the name that have not ended.
    func makeRunner(_ managedUser: ManagedUser, _ index: UserIndex, after former: UserRunners = UserRunners())
        -> SessionRunner
    {
        var setup = configuration.setup(of: managedUser, index, names)
        setup.generation = former.current?.coordinator.latestGeneration ?? .zero
        let hasFormerRequest = former.all.contains { $0.hasFormerRequest(of: managedUser) }
        return SessionRunner(
            managedUser, setup: setup, hasFormerRequest: hasFormerRequest, subscribers: subscribers, environment: self)
    }

    func drop(_ runner: SessionRunner) {
        loop.assertIsCurrent()
        guard self.runner(at: runner.index) === runner else { return }
        runner.stop()
        runnerTable[runner.index].current = nil
        startupCheck.forget(runner.index)
        countRefreshes(after: runner)
        // An operator has removed a configured user.
        let wasRemoved = configuration.users[runner.name] != nil
        subscribers.publish(.none(.userUnknown(wasRemoved: wasRemoved)), for: runner.index)
        publishVariants(of: runner.name, .none(.userUnknown(wasRemoved: wasRemoved)))
    }

    /// Publishes what all tokens of a user are from now on.
    func publishVariants(of name: String, _ availability: AccessToken.Availability) {
        loop.assertIsCurrent()
        for (_, index) in configuration.variantIndexes(of: name, names) {
            subscribers.publish(availability, for: index)
        }
    }

    /// Routes ask for variants of users that have none: an operator has removed the user, or given the name to another one.
    func refuseUnknownVariants() {
        loop.assertIsCurrent()
        for name in configuration.namesWithVariants {
            let coordinator = runner(named: name)?.coordinator
            guard coordinator?.hasVariants != true else { continue }
            publishVariants(of: name, .none(.userUnknown(wasRemoved: coordinator == nil)))
        }
    }

    /// Assigns the indexes of users.
    var names: UserNames { registry.names }

    // MARK: The store and the service

    var store: any SessionStore { countedStore.store }
    var contents: StoreContents { countedStore.contents }
    var fingerprintKey: Secret { contents.fingerprintKey }

    func retryUnsavedEnds(for runner: SessionRunner) {
        loop.assertIsCurrent()
        for other in runnerTable.unsavedEnds where other !== runner { other.handle(.retryUnsavedEnd) }
    }

    /// Hands a change to the store and counts its result.
    package func commit(
        _ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void
    ) {
        loop.assertIsCurrent()
        countedStore.commit(change, reply: reply)
    }

    func begin(_ user: String, _ intent: StoreChange, reply: @escaping @Sendable (StoreBeginning) -> Void) {
        loop.assertIsCurrent()
        countedStore.begin(user, intent, reply: reply)
    }

    func service(of revocation: StoredRevocation) -> (any IdentityService)? {
        loop.assertIsCurrent()
        let wanted = StoredIdentity(revocation.identity, revocation.fingerprint)
        if let identity = configuration.identities[revocation.identity], case .service(let service, _) = identity.kind,
            identity.storedIdentity?.matches(wanted) == true
        {
            return service
        }
        // A user that leaves ends its session at its former service.
        for runner in runners + runnerTable.retiring where runner.managedUser.storedIdentity.matches(wanted) {
            if case .service(let service) = runner.managedUser.source { return service }
        }
        return nil
    }

    func userCount(at identity: String) -> Int {
        loop.assertIsCurrent()
        return runnerTable.current.count { $0.managedUser.settings.identity == identity }
    }

    func accounts(at identity: String) -> (any AccountService)? {
        loop.assertIsCurrent()
        if case .service(let service, _)? = configuration.identities[identity]?.kind { return service.accounts }
        for runner in runners where runner.managedUser.settings.identity == identity {
            if case .service(let service) = runner.managedUser.source { return service.accounts }
        }
        return nil
    }

    // MARK: Reports of the parts

    func update(_ runner: SessionRunner) {
        loop.assertIsCurrent()
        guard !runner.isStopped else { return }
        runnerTable.handleChange(of: runner)
        board.update(
            runner.status, skew: runner.coordinator.context.skew, refreshes: runnerTable.refreshCount)
        armProbe(for: runner)
        userService.handleRunnerChange(runner)
        checkStartup(of: runner)
        signalIfDrained()
    }

    /// A runner has ended.
    func countRefreshes(after runner: SessionRunner) {
        runnerTable.handleChange(of: runner)
        let inFlight = runnerTable.refreshCount
        board.change { $0.refreshesInFlight = inFlight }
    }

    func show(_ shown: [UserIndex], isFailing: Bool) {
        loop.assertIsCurrent()
        board.change { report in
            report.isActiveUserUnsaved = isFailing
            guard report.users.map(\.index) != shown else { return }
            report.show(shown.compactMap { runner(at: $0)?.status })
            for user in shown { expectRefreshes(of: user, &report) }
        }
    }

    /// From anywhere.
    func reportedUser(_ user: UserIndex) -> ReportedUser? { board.reportedUser(user) }

    func activate(_ user: UserIndex?) {
        loop.assertIsCurrent()
        subscribers.activate(user)
        board.change { $0.activeUser = user }
    }

    /// Takes what all users have in common, before the users change. The runners follow.
    func apply(_ configuration: SessionConfiguration) {
        loop.assertIsCurrent()
        self.configuration = RunningConfiguration(configuration)
        records.metadata.serve(configuration.identities)
        startupCheck.end()
        records.revocations.retryGivenUp()
    }

    /// Shows exactly these users, and the active one. The shards have it with the routes.
    func showReloaded(_ shown: [UserIndex], active: UserIndex?) {
        loop.assertIsCurrent()
        board.change { report in
            report.show(shown.compactMap { runner(at: $0)?.status })
            report.activeUser = active
            for user in shown { expectRefreshes(of: user, &report) }
        }
    }

    private func checkStartup(of runner: SessionRunner) {
        let (session, context) = (runner.coordinator.session, runner.coordinator.context)
        startupCheck.record(runner.index, session.state, session.reason, hasBeenReady: context.hasEverBeenReady)
    }

    func beginCall() {
        loop.assertIsCurrent()
        waits.beginCall()
    }

    func endCall() {
        loop.assertIsCurrent()
        waits.endCall()
    }

    func secondCallAllowedAt(_ identity: String, for attempt: CallAttempt, isReleased: Bool) -> Instant? {
        loop.assertIsCurrent()
        return records.secondCalls[identity, default: SecondCallLimit()].allowedAt(
            for: attempt, isReleased: isReleased, at: loop.now)
    }

    /// The service has responded.
    ///
    /// - Returns: whether a session has wanted a second call since it did before.
    func endSilence(of identity: String) -> Bool {
        loop.assertIsCurrent()
        return records.secondCalls[identity]?.endSilence() ?? false
    }

    /// From anywhere.
    func count(_ name: String, _ labels: [MetricSample.Label]) { board.count(name, labels) }

    /// From anywhere.
    func observe(refresh duration: Duration) { board.observe(refresh: duration) }

    // MARK: Clocks

    /// Every 30 s (refresh.md 14).
    private func handleClocks(_ reason: ClockComparison.Disagreement?, seconds: Int) {
        readExternalChanges()
        guard let reason else { return }
        board.change { $0.clockJumps += 1 }
        logger.warning(
            "the clocks jumped: all sessions are re-evaluated",
            metadata: [
                "event": "clock.jumped", "reason": .string(reason.rawValue), "seconds": .stringConvertible(seconds),
            ])
        for runner in runners { runner.handle(.session(.clockJumped)) }
    }
}

/// What the store holds besides users.
private struct ServiceRecords {
    let revocations: RevocationRunner
    let metadata: MetadataKeeper
    let turns: TurnKeeper
    /// By the name of the identity.
    var secondCalls: [String: SecondCallLimit] = [:]
}

/// What the parts see of the service.
extension SessionService: RunnerEnvironment, UserEnvironment, RevocationEnvironment {
    var accounts: any AccountRegistry { userService }
    var revocations: any RevocationSending { records.revocations }
    var turns: TurnKeeper { records.turns }
}

/// Timers of the service beside those of its sessions.
private struct ServiceTimers {
    let clocks: ClockTimer
    let probe: SessionTimer
    /// While the process ends: when to try again to store what only this process has.
    let lastWrites: SessionTimer
    /// What `probe` is for: of identities whose latest call has failed.
    var probes: [String: IdentityProbe] = [:]
}

extension SessionService {
    /// Of identities whose latest call has failed.
    var probes: [String: IdentityProbe] {
        get { timers.probes }
        set { timers.probes = newValue }
    }

    var probeTimer: SessionTimer { timers.probe }
}
