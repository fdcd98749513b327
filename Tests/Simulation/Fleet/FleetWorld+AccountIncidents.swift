import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions

/// What operators do about accounts and credentials, and what happens at the same time.
extension FleetWorld {
    /// A link or a deletion, and often something that races with it.
    func changeAccount() {
        guard let process = running.randomElement(&random) else { return }
        let user = random.below(members.count)
        let credential = random.pick([
            FleetAccountChange.LinkCredential.right, .right, .right, .right, .wrong, .foreign,
        ])
        let kind = random.hits(0.5) ? FleetAccountChange.Kind.deletion : .link(credential)
        if members[user].isOneUse, random.hits(0.3) { renewCredential(of: user) }
        if random.hits(0.3) { service.refuseAccessTokens(of: user, before: clocks.now) }
        if random.hits(0.3) { refreshNow(user, at: process) }
        begin(kind, user, at: process)
        disturb(user, process)
        guard kind == .deletion else { return }
        let back = clocks.now + .seconds(60) + plan.unit * (0.4 * random.chance())
        heap.plan(.relief(.operatorLogsIn(user: user)), at: back)
    }

    private func disturb(_ user: Int, _ process: FleetProcess) {
        // A call takes up to 300 ms as a rule, and some take 30 s.
        let most = random.hits(0.8) ? Duration.milliseconds(400) : .seconds(30)
        let at = clocks.now + most * random.chance()
        switch random.below(8) {
        case 0: heap.plan(.relief(.operatorRefreshes(user: user)), at: at)
        case 1, 2: heap.plan(.relief(.processKilled(process: process.number, life: process.life)), at: at)
        case 3:
            // The session ends while a slow call is in progress, and another one begins.
            let end = clocks.now + .seconds(15) * random.chance()
            heap.plan(.relief(.sessionRevoked(user: user)), at: end)
            heap.plan(.relief(.operatorRefreshes(user: user)), at: end + .milliseconds(100))
        case 4:
            let relief = FleetRelief.operatorLogsOut(process: process.number, life: process.life, user: user)
            heap.plan(.relief(relief), at: at)
            heap.plan(.relief(.operatorLogsIn(user: user)), at: at + .seconds(1) * random.chance())
        default: break
        }
    }

    /// A process is led to a crash point of a link or a deletion.
    func lead(_ process: FleetProcess, _ user: Int, toAccount work: CrashPoint.Work) {
        // A deletion that the service refuses is cancelled.
        if work == .cancelDeletion {
            condition = .failing
            heap.plan(.relief(.serviceRecovers), at: clocks.now + .seconds(5))
        }
        begin(work == .account && random.hits(0.5) ? .link(.right) : .deletion, user, at: process)
        heap.plan(
            .relief(.operatorLogsIn(user: user)), at: clocks.now + .seconds(60) + plan.unit * (0.2 * random.chance()))
    }

    // MARK: Credentials for one login

    /// The file gets the next credential, which the service takes once.
    func renewCredential(of user: Int) {
        let isSpent = !service.isRight(password: members[user].password, of: user)
        // The service does not know what it has not given out.
        guard isSpent || members[user].password < service.accounts[user].password + 40 else { return }
        count(.credentialMended)
        for process in running where process.sessions[user].call.map({ calls[$0].call?.kind }) == .login {
            report.count(.fileChangedDuringLogin)
        }
        members[user].password = isSpent ? service.accounts[user].password : members[user].password + 1
        announceCredential(of: user)
    }

    /// The sessions that watch the file learn of it.
    func announceCredential(of user: Int) {
        guard members[user].hasCredential else { return }
        for process in running {
            let isNeeded = process.sessions[user].glance.state == .refused
            if isNeeded || !members[user].isOneUse { process.sessions[user].isAsked = true }
            if plan.bug != .fileChangeIgnored { deliver(process, user, .session(.credentialChanged)) }
            checkNewCredential(process, user)
        }
    }

    /// The guard has held a credential back: an operator writes a new one, sooner or later.
    func holdBack(_ user: Int, _ recorded: CredentialFingerprint) {
        guard members[user].isOneUse else { return }
        report.count(recorded.isSpent ? .spentHeldBack : .refusedHeldBack)
        heap.plan(.relief(.credentialRenewed(user: user)), at: clocks.now + plan.unit * (0.5 * random.chance()))
    }
}
