import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import LanyardVault

/// How processes begin, what they do with their store, and how their sessions are told.
extension FleetWorld {
    static let identity = "demo"

    /// In place of whatever start was planned before.
    func planStart(_ number: Int, at instant: Instant) {
        starts[number] += 1
        heap.plan(.start(process: number, plan: starts[number]), at: instant)
    }

    func start(_ number: Int, _ plan: UInt64) {
        guard processes[number] == nil, starts[number] == plan else { return }
        lives[number] += 1
        if lives[number] > 1 { report.restarts += 1 }
        let life = lives[number]
        let gate = FleetDiskGate(disk, process: number &+ life &* processes.count)
        gate.onCall = { [unowned self] in interleave(with: number) }
        let fingerprintKey = Secret(capacity: 32) { _ in 32 }
        let file = StoreFile(storePath, on: gate, sealing: sealing, fingerprintKey: fingerprintKey)
        let process = FleetProcess(number: number, life: life, gate: gate, file: file, at: clocks)
        if random.hits(0.03) { gate.armed = (random.pick(CrashPoint.opening), random.hits(0.5)) }
        processes[number] = process
        gate.work = .open
        do throws(StoreError) {
            try file.inspect()
            process.entry = try file.lockOpenFile(.shared)
            let opened = try file.begin()
            guard gate.died == nil else { return kill(process, at: gate.died) }
            begin(process, opened.contents)
        } catch {
            if let died = gate.died { return kill(process, at: died) }
            refuseToStart(process, error)
        }
    }

    /// Exits 78 or 75, and is started again by its supervisor.
    private func refuseToStart(_ process: FleetProcess, _ fault: StoreError) {
        switch fault.kind {
        case .busy, .system: break
        default: accuse(.readable, fault.message)
        }
        processes[process.number] = nil
        process.gate.die(at: CrashPoint(.open, .none))
        failedStarts += 1
        let timeout = Duration.seconds(1 << min(failedStarts, 9))
        planStart(process.number, at: clocks.now + random.between(.seconds(1), timeout))
    }

    private func begin(_ process: FleetProcess, _ contents: StoreContents) {
        failedStarts = 0
        process.copy = contents
        process.revocations = contents.revocations
        planRevocations(process)
        for (place, member) in members.enumerated() {
            let session = FleetSession(SessionCoordinator(setup(of: place, in: process)))
            session.known = contents[member.name]
            session.troubledAt = clocks.now
            session.variants = member.variants.indices.map {
                FleetVariant(variantIndex(place, $0), isConfigured: configured[process.number][place].contains($0))
            }
            process.sessions.append(session)
            members[place].startsInHour += 1
        }
        if plan.changesAccounts { process.registry = registry(contents) }
        if plan.isGuided { startFeed(process) }
        for place in members.indices {
            deliver(process, place, .begin(contents[members[place].name]))
            guard processes[process.number] === process else { return }
            checkStart(process, place, contents[members[place].name])
        }
    }

    /// As the process's configuration says.
    func setup(of user: Int, in process: FleetProcess) -> SessionCoordinator.Setup {
        let member = members[user]
        var setup = SessionCoordinator.Setup(
            user: member.name, identity: Self.identity, index: UserIndex(user),
            credential: member.hasCredential ? .configured(member.login) : nil,
            refreshTokens: plantedRefreshTokens, boot: clocks.bootName)
        setup.offline = plan.isCachedStart ? .cached : .never
        setup.service.asksBeforeSending = plan.preparesCalls
        setup.variants = configured[process.number][user].sorted().map {
            (NamedVariant("route\($0)", FleetVariant.all[$0]), variantIndex(user, $0))
        }
        return setup
    }

    private func registry(_ contents: StoreContents) -> UserRegistry {
        let users = members.enumerated().map { place, member in
            RegisteredUser(
                name: member.name, index: UserIndex(place), identity: Self.identity, isConfigured: true,
                configuredProvider: member.hasCredential ? member.login.provider : nil,
                loginState: contents[member.name]?.isLoggedOut == true ? .loggedOut : .none)
        }
        return UserRegistry(
            users, identities: [Self.identity: false], configuredActive: nil, remembered: nil, activatesNext: false,
            names: UserNames(members.map(\.name)))
    }

    // MARK: Events and acts

    func due(_ process: FleetProcess, _ user: Int, _ plan: UInt64) {
        let session = process.sessions[user]
        guard session.plan == plan else { return }
        session.plannedAt = .never
        if session.glance.due <= clocks.instant { deliver(process, user, .due) } else { planDue(process, user) }
    }

    private func planDue(_ process: FleetProcess, _ user: Int) {
        let session = process.sessions[user]
        let due = session.glance.due
        guard due != .never else { return }
        var at = max(clocks.real(due), clocks.now)
        if session.isLockBusy, let timeout = lockTimeout(process, user) { at = max(at, timeout) }
        guard at < session.plannedAt else { return }
        session.plan += 1
        session.plannedAt = at
        heap.plan(.due(process: process.number, life: process.life, user: user, plan: session.plan), at: at)
    }

    /// Who waits for a lock asks five to fifty times a second. As long as it cannot be given back, the most of these are the same, and not
    /// simulated.
    private func lockTimeout(_ process: FleetProcess, _ user: Int) -> Instant? {
        guard let other = processes[1 - process.number], other.locks[user] != nil else { return nil }
        guard disk.isTroubled || other.sessions[user].responseAt > clocks.now + .seconds(4) else { return nil }
        return clocks.now + .seconds(1) + .seconds(2) * random.chance()
    }

    /// An event for one session, and everything that it decides.
    ///
    /// - Parameter ticket: of the operator's call that the event is; nil: no caller waits for a reply.
    func deliver(_ process: FleetProcess, _ user: Int, _ event: SessionCoordinator.Event, ticket: UInt64? = nil) {
        let session = process.sessions[user]
        let before = session.glance.state
        let actions = session.handle(event, ticket, at: eventContext())
        let after = session.glance.state
        if !session.variants.isEmpty { noteTrouble(event, after, process, user) }
        trace(
            "\(name(process, user)) \(FleetStory.event(event)): \(before) -> \(after) \(actions.map(FleetStory.action))"
        )
        if before != after {
            report.edges[FleetReport.Edge(from: before, to: after).index] += 1
            checkEnd(process, user, after)
            mayLeave(process, user, after)
            mayMissStore(process, user)
        }
        for action in actions where processes[process.number] === process { perform(action, process, user) }
        guard processes[process.number] === process else { return }
        if case .due = event { checkProgress(process, user) }
        planDue(process, user)
    }

    private func perform(_ action: SessionCoordinator.Action, _ process: FleetProcess, _ user: Int) {
        for (ticket, result) in process.sessions[user].replies.take(for: action) {
            receive(result, to: ticket, process, user)
        }
        switch action {
        case .tryLock: enqueue(process, user, .lock)
        case .begin(let change, let operation): enqueue(process, user, .begin(change, operation))
        case .unlock: enqueue(process, user, .unlock)
        case .read(let operation): enqueue(process, user, .read(operation))
        case .commit(let change): enqueue(process, user, .commit(change))
        case .login(let credential, let refused, let call):
            guard survives(process, .login) else { return }
            checkDraining(process, user, call)
            logIn(process, user, credential, refused, call)
        case .refresh(let token, let call):
            guard survives(process, .refresh) else { return }
            checkDraining(process, user, call)
            let outcome = condition(of: process.number).outcome(isLogin: false, &random)
            refresh(process, user, token, call, outcome)
        case .prepareRefresh(let token, let call):
            checkDraining(process, user, call)
            prepare(process, user, token, call)
        case .sendRefresh(let operation):
            guard survives(process, .refresh) else { return }
            sendPrepared(process, user, operation)
        case .cancelRefresh(let operation): giveUp(process, user, operation)
        // The services of the simulation do not allow it.
        case .secondCall: break
        case .claim(_, let operation):
            heap.plan(
                .claimed(process: process.number, life: process.life, user: user, operation: operation), at: clocks.now)
        case .revoke(let revocation):
            checkRevoked(process, user, revocation)
            guard survives(process, .revoke) else { return }
            revoke(process, user, revocation)
        case .completeTermination(let revocations, _, _):
            for revocation in revocations {
                guard survives(process, .revoke) else { return }
                revoke(process, user, revocation)
            }
        case .publish(let availability):
            guard survives(process, .publish) else { return }
            publish(process, user, availability)
        case .publishVariant(let availability, let index):
            guard survives(process, .publish) else { return }
            publish(process, user, availability, of: index)
        case .publishAccount: break
        case .countUses(let index): countUses(process, user, of: index)
        case .logEvent(let logEvent):
            if [.dead, .outcomeUnknown].contains(logEvent.event) {
                process.sessions[user].noteLoss(at: clocks.instant)
            }
        case .refuseCall, .loginEnded, .deletionPrepared, .refreshEnded: break
        }
    }

    /// False: it died just before.
    func survives(_ process: FleetProcess, _ work: CrashPoint.Work) -> Bool {
        let point = CrashPoint(work, .none)
        guard process.gate.armed?.point == point else { return true }
        kill(process, at: point)
        return false
    }

    func publish(_ process: FleetProcess, _ user: Int, _ availability: AccessToken.Availability) {
        if case .token(let token) = availability {
            checkPublished(process, user, token)
            process.sessions[user].latest = token
        }
        process.tokenCache.receive(availability, for: UserIndex(user), heard: process.heardRefusals)
    }
}
