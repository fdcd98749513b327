import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions

/// Every process looks at the store every 30 s, for what another one did to its users. Of those looks only the ones
/// that may find something are simulated.
extension FleetWorld {
    /// A process has stored something about a user.
    func toldStore(_ stored: StoredUser?, _ user: Int, by process: FleetProcess) {
        guard processes.count > 1, let other = processes[1 - process.number], other.sessions.count > user else {
            return
        }
        // At rest it finds what is newer by its next call, too: some of those looks must do.
        if matters(stored, to: other.sessions[user].glance) || plan.isGuided || random.hits(0.05) { planLook(other) }
    }

    /// It may have died just after a write.
    func toldStore(byDying process: FleetProcess) {
        if processes.count > 1, let other = processes[1 - process.number] { planLook(other) }
    }

    /// A session has changed its state; the store may have told before what matters only now.
    func mayMissStore(_ process: FleetProcess, _ user: Int) {
        let glance = process.sessions[user].glance
        guard processes.count > 1, !process.isLookPlanned, !glance.state.isAuthenticated || glance.makesNoCall
        else { return }
        if matters(storedContents()?[members[user].name], to: glance) { planLook(process) }
    }

    /// Nothing here would have it find out soon.
    private func matters(_ stored: StoredUser?, to glance: FleetSession.Glance) -> Bool {
        guard let stored, stored.version != glance.base else { return false }
        return glance.state.isAuthenticated == (stored.session == nil) || glance.makesNoCall
    }

    private func planLook(_ process: FleetProcess) {
        guard !process.isLookPlanned, plan.bug != .noLook else { return }
        process.isLookPlanned = true
        let step = Duration.seconds(30)
        let done = (clocks.instant - process.looksFrom).nanoseconds / step.nanoseconds
        let next = process.looksFrom + step * Int(done + 1)
        heap.plan(.look(process: process.number, life: process.life), at: max(clocks.real(next), clocks.now))
    }

    /// What a look has found.
    func looked(_ contents: StoreContents?, _ process: FleetProcess) {
        process.isLookPlanned = false
        for user in members.indices where processes[process.number] === process {
            let stored = contents?[members[user].name]
            if contents != nil, process.sessions[user].coordinator.isIdle {
                // Once it looks, it takes over whatever is newer.
                guard let stored, stored.version != process.sessions[user].glance.base else { continue }
                report.checks += 1
                process.sessions[user].known = stored
                isLookOvertaken = storedContents()?[members[user].name]?.version != stored.version
                deliver(process, user, .storeSnapshot(stored))
                isLookOvertaken = false
            } else if contents == nil || matters(stored, to: process.sessions[user].glance) {
                planLook(process)
            }
        }
    }
}
