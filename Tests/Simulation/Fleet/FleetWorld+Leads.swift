import LanyardFoundations
import LanyardSessions

/// The course of leads in a guided world: one after another, each with a user of its choice.
extension FleetWorld {
    /// How the service seems to this process.
    func condition(of process: Int) -> FleetCondition { ownConditions[process] ?? condition }

    /// Begins a lead, if there is a user who can be led.
    func beginLead() {
        guard clocks.now >= holidayUntil, running.count == 2 else { return planLead(.seconds(60)) }
        let lead = random.pick(FleetLead.all)
        let users = members.indices.filter { user in
            (lead.needsCredential ?? members[user].hasCredential) == members[user].hasCredential
        }
        guard let user = users.randomElement(&random) else { return planLead(.seconds(1)) }
        let here = random.below(2)
        guard running.allSatisfy({ $0.sessions[user].glance.state == .valid }) else {
            revive(user, at: running[here])
            return planLead(.seconds(40))
        }
        trace("LEAD \(lead.edge.name): user \(user) in process \(here)")
        var at = clocks.now
        for (step, rest) in lead.way {
            heap.plan(.step(step, user: user, here: here), at: at)
            at = at + .seconds(rest)
        }
        planLead(at - clocks.now + .seconds(5))
    }

    /// The other process finds it by its next look.
    private func revive(_ user: Int, at process: FleetProcess) {
        enable(user)
        mendCredential(of: user)
        logIn(user, at: process)
    }

    private func planLead(_ delay: Duration) {
        heap.plan(.lead, at: clocks.now + delay * (1 + 0.2 * random.chance()))
    }

    func take(_ step: FleetLead.Step, _ user: Int, here: Int) {
        guard clocks.now >= holidayUntil else { return }
        switch step {
        case .condition(let place, let condition): ownConditions[number(place, here)] = condition
        case .logIn(let place): at(place, here) { logIn(user, at: $0) }
        case .logOut(let place): at(place, here) { logOut(user, at: $0) }
        case .refresh(let place): at(place, here) { refreshNow(user, at: $0) }
        case .revoke:
            count(.sessionRevoked)
            service.revokeAll(of: user)
        case .changePassword:
            count(.passwordChanged)
            service.changePassword(of: user)
        case .mend: mendCredential(of: user)
        }
    }

    private func number(_ place: FleetLead.Place, _ here: Int) -> Int { place == .here ? here : 1 - here }

    private func at(_ place: FleetLead.Place, _ here: Int, _ act: (FleetProcess) -> Void) {
        let process = processes[number(place, here)]
        if let process, running.contains(where: { $0 === process }) { act(process) }
    }

    /// An operator who sees a login go out with the wrong password may put the right one into its file while it is in progress.
    func mayMendMeanwhile(_ user: Int, until response: Instant) {
        guard plan.isGuided, !service.accepts(password: members[user].password, of: user), random.hits(0.5) else {
            return
        }
        let at = random.between(.zero, response - clocks.now)
        heap.plan(.relief(.credentialMended(user: user)), at: clocks.now + at)
    }
}
