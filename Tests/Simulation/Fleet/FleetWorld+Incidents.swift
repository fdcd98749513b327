import Glibc
import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSessions

/// What goes wrong in a world, and what operators do in it.
extension FleetWorld {
    func changeCondition() {
        let units: Double
        if clocks.now < holidayUntil {
            condition = .clear
            units = (holidayUntil - clocks.now) / plan.unit
        } else {
            condition = FleetCondition.next(&random)
            units = condition.units(&random)
        }
        heap.plan(.condition, at: clocks.now + max(plan.unit * units, .seconds(1)))
    }

    func play(_ incident: FleetIncident) {
        heap.plan(.incident(incident), at: clocks.now + random.apart(plan.unit * incident.unitsApart))
        guard clocks.now >= holidayUntil, clocks.now >= asleepUntil else { return }
        switch incident {
        case .crash: planCrash()
        case .power: losePower()
        case .wall: setWallWrong()
        case .suspend: suspend()
        case .pause: pause()
        case .disk: breakDisk()
        case .locks:
            disk.refusesLocks = true
            heap.plan(.relief(.locksWork), at: clocks.now + plan.unit * (0.3 * random.chance()))
        case .account: troubleAccount()
        case .operatorCall: letOperatorAct()
        case .upstream: refuseUpstream()
        case .accountChange: changeAccount()
        case .variant: changeVariant()
        case .drain: planDrain()
        }
    }

    func relieve(_ relief: FleetRelief) {
        switch relief {
        case .diskTakesAll: repairDisk()
        case .locksWork: mendLocks()
        case .serviceRecovers: condition = .clear
        case .wallIsRight: setWall(error: .zero)
        case .accountEnabled(let user): enable(user)
        case .credentialMended(let user): mendCredential(of: user)
        case .credentialRenewed(let user): renewCredential(of: user)
        case .operatorLogsIn(let user): logIn(user)
        case .operatorRefreshes(let user):
            if let process = running.randomElement(&random) { refreshNow(user, at: process) }
        case .sessionRevoked(let user):
            count(.sessionRevoked)
            service.revokeAll(of: user)
        case .processKilled(let number, let life):
            if clocks.now >= holidayUntil, let process = process(number, life) { kill(process, at: nil) }
        case .processDrains(let number, let life):
            if clocks.now >= holidayUntil, let process = process(number, life) { drain(process) }
        case .drainTimeEnds(let number, let life):
            if let process = process(number, life) { kill(process, at: nil) }
        case .operatorLogsOut(let number, let life, let user):
            if let process = process(number, life), !process.isDraining { logOutForAWhile(user, at: process) }
        case .variantGiven(let user, let variant): service.variantResponses[user][variant] = .right
        case .variantForced(let number, let life, let user, let variant):
            if let process = process(number, life), !process.isDraining { forceVariant(process, user, variant) }
        case .serviceSeems(let condition, let process):
            ownConditions[process] = clocks.now < holidayUntil ? nil : condition
        }
    }

    // MARK: Processes and machine

    /// The next time that one of the processes comes to a place drawn by lot, it dies there; and something happens that leads there.
    private func planCrash() {
        guard let process = running.randomElement(&random) else { return }
        if random.hits(0.1) { return kill(process, at: nil) }
        let point = random.pick(plan.changesAccounts ? CrashPoint.drawnWithAccounts : CrashPoint.drawn)
        process.gate.armed = (point, random.hits(0.5))
        let needsCredential = [.recordRefusal, .dropRefreshToken, .login].contains(point.work)
        let fitting = members.indices.filter {
            // A refresh that fails is what leads there, and only who has a token makes one.
            if [.clearIntent, .beginDeletion, .cancelDeletion, .account].contains(point.work) {
                return hasToken($0, at: process)
            }
            return members[$0].hasCredential == needsCredential
                || ![.recordRefusal, .dropRefreshToken, .login, .end].contains(point.work)
        }
        lead(process, fitting.randomElement(&random) ?? 0, to: point.work)
    }

    private func hasToken(_ user: Int, at process: FleetProcess) -> Bool {
        process.tokenCache.unexpiredToken(UserIndex(user), at: clocks.instant) != nil
    }

    private func lead(_ process: FleetProcess, _ user: Int, to work: CrashPoint.Work) {
        switch work {
        case .logOut, .revoke: logOutForAWhile(user, at: process)
        // Each logout makes a new file; any change does when enough records were added.
        case .replace where random.hits(0.5): logOutForAWhile(user, at: process)
        case .recordRefusal:
            troublePassword(of: user)
            force(process, user)
        case .dropRefreshToken, .end, .login:
            count(.sessionRevoked)
            service.revokeAll(of: user)
            force(process, user)
            heap.plan(.relief(.operatorLogsIn(user: user)), at: clocks.now + plan.unit * random.chance())
        case .clearIntent:
            condition = .failing
            heap.plan(.relief(.serviceRecovers), at: clocks.now + .seconds(60))
            force(process, user)
        case .beginDeletion, .cancelDeletion, .account: lead(process, user, toAccount: work)
        case .open: kill(process, at: nil)
        default: force(process, user)
        }
    }

    /// A process ends; after a while it is started again.
    func kill(_ process: FleetProcess, at point: CrashPoint?) {
        guard processes[process.number] === process else { return }
        count(.processKilled)
        if let point { report.crashes[point.index] += 1 }
        // In the midst of a write the power matters most.
        if let point, point.call != .none, random.hits(0.3) { return losePower() }
        end(process)
        startAgain(process)
    }

    /// The end of a process, as others see it, and its next start.
    func startAgain(_ process: FleetProcess) {
        forgetUnsettled()
        let pause =
            random.hits(0.8) ? random.between(.milliseconds(50), .seconds(20)) : plan.unit * (0.5 * random.chance())
        planStart(process.number, at: clocks.now + pause)
    }

    func end(_ process: FleetProcess) {
        forgetOpenRefreshes(of: process)
        countCutOff(of: process)
        process.gate.die(at: CrashPoint(.open, .none))
        processes[process.number] = nil
        toldStore(byDying: process)
        recordLogins(ofDying: process)
        cutOffAccountChanges(of: process)
        for user in process.sessions.indices {
            members[user].isUnsettled = true
            members[user].unsettled += process.sessions[user].unsettled
        }
        excuseUnsaved()
    }

    /// What a process had heard and not stored is unanswered again: no process knows it any more.
    private func forgetUnsettled() {
        let contents = storedContents()
        for user in members.indices where members[user].unsettled > 0 {
            let open = contents?[members[user].name]?.intent?.tries ?? 0
            let all = members[user].unknownOutcomes + members[user].unsettled
            members[user].unknownOutcomes = max(members[user].unknownOutcomes, min(all, open))
            members[user].unsettled = 0
        }
    }

    /// A write fell back of a process that had died before: the intent that stood before it stands again, and its response is unknown.
    private func reopenIntents() {
        let contents = storedContents()
        for user in members.indices {
            guard let intent = contents?[members[user].name]?.intent, intent.kind == .refresh else { continue }
            members[user].unknownOutcomes = max(members[user].unknownOutcomes, intent.tries)
        }
    }

    /// What no disk took is gone with the process that held it.
    private func excuseUnsaved() {
        guard clocks.now < diskTroubleAt + .seconds(120) || clocks.now < lockTroubleAt + .seconds(120) else { return }
        for user in members.indices { excuse(user) }
    }

    private func losePower() {
        count(.powerLost)
        for case let process? in processes { end(process) }
        let lost = disk.losePower(&random)
        if lost.undone { count(.renameUndone) }
        if lost.torn { count(.writeTorn) }
        forgetUnsettled()
        if lost.undone || lost.torn { reopenIntents() }
        clocks.reboot()
        bootedAt = clocks.now
        if random.hits(0.2) { setWall(error: clocks.wallError + random.between(.seconds(-600), .seconds(600))) }
        let back = clocks.now + random.between(.seconds(20), .seconds(90))
        for number in processes.indices { planStart(number, at: back + .seconds(random.chance())) }
    }

    private func suspend() {
        count(.suspended)
        let most = random.hits(0.5) ? plan.unit * 0.2 : plan.unit * 1.5
        watchClocks()
        asleepUntil = clocks.now + max(most * random.chance(), .seconds(8))
    }

    /// The host stops the machine, clocks and all; on the way back its wall clock is set right.
    private func pause() {
        count(.paused)
        let pause = max(plan.unit * random.chance(), .seconds(8))
        asleepUntil = clocks.now + pause
        let resumed = asleepUntil
        watchClocks()
        clocks.lose(pause)
        // Counted from the resumption on, since nothing looks at the clocks before.
        pauseEndedAt = resumed
        owesPause = true
        wallLostAt = resumed
        heap.plan(.relief(.wallIsRight), at: resumed + random.between(.milliseconds(10), .seconds(3)))
    }

    private func setWallWrong() {
        let far = random.hits(0.5) ? Duration.seconds(30) : max(plan.lifetime, .seconds(120))
        setWall(error: clocks.wallError + random.between(.zero - far, far))
        heap.plan(.relief(.wallIsRight), at: clocks.now + plan.unit * (1.5 * random.chance()))
    }

    func setWall(error: Duration) {
        let change = error - clocks.wallError
        if owesPause, error == .zero {
            owesPause = false
            pauseEndedAt = max(pauseEndedAt, clocks.now)
        }
        guard change != .zero else { return }
        if isWallSetWrong { wallWrongAt = clocks.now }
        isWallSetWrong = error != .zero
        count(change < .zero ? .wallBackwards : .wallForwards)
        if change < .zero { wallLostAt = clocks.now }
        watchClocks()
        clocks.setWall(error: error)
    }

    // MARK: Disk

    private func breakDisk() {
        switch random.below(4) {
        case 0:
            count(.diskFull)
            disk.isFull = true
        case 1:
            count(.diskReadOnly)
            disk.isReadOnly = true
        case 2:
            count(.synchronizationFailed)
            disk.failsToSynchronize = true
        default:
            count(.writeShort)
            disk.writeMost = 1 + random.below(200)
        }
        diskTroubleAt = clocks.now
        let span = random.hits(0.9) ? Duration.seconds(60) : plan.unit * 0.5
        heap.plan(.relief(.diskTakesAll), at: clocks.now + span * random.chance())
    }

    private func repairDisk() {
        if disk.isTroubled {
            diskTroubleAt = clocks.now
            quietSince = clocks.now
        }
        disk.isFull = false
        disk.isReadOnly = false
        disk.failsToSynchronize = false
        disk.writeMost = .max
    }

    private func mendLocks() {
        if disk.refusesLocks {
            lockTroubleAt = clocks.now
            quietSince = clocks.now
        }
        disk.refusesLocks = false
    }

    // MARK: Accounts and operators

    private func troubleAccount() {
        let user = random.below(members.count)
        switch random.below(4) {
        case 0:
            count(.userDisabled)
            service.disable(user, true)
            heap.plan(.relief(.accountEnabled(user: user)), at: clocks.now + plan.unit * (2 * random.chance()))
        case 1:
            troublePassword(of: user)
        default:
            count(.sessionRevoked)
            service.revokeAll(of: user)
        }
        heap.plan(.relief(.operatorLogsIn(user: user)), at: clocks.now + plan.unit * (2.2 + random.chance()))
    }

    private func troublePassword(of user: Int) {
        count(.passwordChanged)
        service.changePassword(of: user)
        heap.plan(.relief(.credentialMended(user: user)), at: clocks.now + plan.unit * (2 * random.chance()))
    }

    func enable(_ user: Int) {
        guard service.accounts[user].isDisabled else { return }
        count(.userEnabled)
        service.disable(user, false)
    }

    private func letOperatorAct() {
        let user = random.below(members.count)
        guard let process = running.randomElement(&random) else { return }
        switch random.below(5) {
        case 0, 1: logOutForAWhile(user, at: process)
        case 2, 3: logIn(user, at: process)
        default: refreshNow(user, at: process)
        }
    }

    /// An operator who sees trouble may also give up: a session can be left in each of its states.
    func mayLeave(_ process: FleetProcess, _ user: Int, _ state: SessionState) {
        let chance: Double? = [.stale: 0.04, .unreachable: 0.04, .loggingIn: 0.06, .refreshing: 0.002][state]
        guard let chance, clocks.now >= holidayUntil, !process.isDraining, random.hits(chance) else { return }
        let relief = FleetRelief.operatorLogsOut(process: process.number, life: process.life, user: user)
        heap.plan(.relief(relief), at: clocks.now + .seconds(1) * random.chance())
    }

    private func logOutForAWhile(_ user: Int, at process: FleetProcess) {
        heap.plan(.relief(.operatorLogsIn(user: user)), at: clocks.now + plan.unit * (0.3 * random.chance()))
        logOut(user, at: process)
    }

    // MARK: Days off

    /// All that is wrong is mended, and for a while nothing goes wrong.
    func beginHoliday() {
        // Seldom enough that short lives see trouble, too.
        let working = max(plan.unit * 5, .seconds(3600))
        heap.plan(.holiday, at: clocks.now + working * (1 + random.chance()))
        let beginning = max(clocks.now, asleepUntil)
        holidayUntil = beginning + .seconds(900)
        condition = .clear
        for number in ownConditions.indices { ownConditions[number] = nil }
        repairDisk()
        mendLocks()
        setWall(error: .zero)
        for process in open { process.gate.armed = nil }
        for user in members.indices {
            enable(user)
            for variant in FleetVariant.all.indices { service.variantResponses[user][variant] = .right }
            mendCredential(of: user)
            for process in running where !members[user].isLoggedOut {
                let state = process.sessions[user].glance.state
                if state == .refused || state == .loginRequired { logIn(user, at: process) }
            }
        }
        heap.plan(.audit, at: beginning + .seconds(890))
    }
}

extension Array {
    func randomElement(_ random: inout SplitMix64) -> Element? { isEmpty ? nil : self[random.below(count)] }
}
