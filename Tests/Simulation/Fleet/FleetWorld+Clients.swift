import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// Clients' requests, and upstreams that refuse their tokens.
extension FleetWorld {
    func request() {
        heap.plan(.request, at: clocks.now + max(plan.lifetime, .seconds(8)) * (0.25 * random.chance()))
        guard let process = running.randomElement(&random) else { return }
        let user = random.below(members.count)
        if !members[user].variants.isEmpty, random.hits(0.4) { return requestVariant(process, user) }
        report.requests += 1
        if plan.bug == .expiredTokenServed, let token = process.sessions[user].latest { checkServed(process, token) }
        switch process.tokenCache.decide(UserIndex(user), at: clocks.instant) {
        case .use(let token): checkServed(process, token)
        case .park:
            let timeout = process.sessions[user].coordinator.setup.refresh.waitMax
            heap.plan(
                .waitEnds(process: process.number, life: process.life, user: user), at: clocks.now + timeout)
        case .refuse, .replaced:
            report.refusedRequests += 1
            checkRefused(process, user)
        }
        askSessions(process)
    }

    /// A process that is about to end has no requests left.
    func stopWaiting(_ process: FleetProcess, _ user: Int) {
        guard !process.isDraining else { return }
        guard let token = process.tokenCache.unexpiredToken(UserIndex(user), at: clocks.instant) else {
            report.refusedRequests += 1
            return
        }
        checkServed(process, token)
    }

    func refuseUpstream() {
        guard let process = running.randomElement(&random) else { return }
        force(process, random.below(members.count))
    }

    /// An upstream refuses the current token.
    func force(_ process: FleetProcess, _ user: Int) {
        guard processes[process.number] === process, !process.isDraining else { return }
        let user = UserIndex(user)
        guard case .use(let token) = process.tokenCache.decide(user, at: clocks.instant) else {
            return askSessions(process)
        }
        count(.upstreamRefused)
        _ = process.tokenCache.handleRefusal(token.generation, of: user, at: clocks.instant, forces: true)
        askSessions(process)
    }

    func askSessions(_ process: FleetProcess) {
        let (needed, refused) = (process.source.needed, process.source.refused)
        process.source.needed = []
        process.source.refused = []
        for user in needed where processes[process.number] === process {
            if let (owner, _) = variant(user) {
                deliver(process, owner, .variant(user, .tokenNeeded))
            } else {
                deliver(process, user.number, .session(.tokenNeeded))
            }
        }
        for (user, generation, number) in refused where processes[process.number] === process {
            process.heardRefusals.record(number)
            if let (owner, _) = variant(user) {
                deliver(process, owner, .variant(user, .tokenRefused(Generation(generation))))
            } else {
                deliver(process, user.number, .session(.tokenRefused(Generation(generation))))
            }
        }
    }
}
