import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// Processes that end in order: what has begun is finished and stored, and nothing else begins. By then they have no requests left, and
/// take no operator's call.
extension FleetWorld {
    private static let drainTime = Duration.seconds(35)

    /// A process is told to end, perhaps soon after an upstream has refused a token.
    func planDrain() {
        guard let process = running.randomElement(&random) else { return }
        planDrain(of: process, within: .milliseconds(80))
        if random.hits(0.5) { force(process, random.below(members.count)) }
    }

    /// The same now and then while the response to a fetch is awaited.
    func mayDrain(_ process: FleetProcess, awaiting call: FleetCall) {
        guard call.variant != nil, clocks.now >= holidayUntil, random.hits(0.03) else { return }
        planDrain(of: process, within: call.outcome.respondsIn)
    }

    private func planDrain(of process: FleetProcess, within span: Duration) {
        let relief = FleetRelief.processDrains(process: process.number, life: process.life)
        heap.plan(.relief(relief), at: clocks.now + span * random.chance())
    }

    func drain(_ process: FleetProcess) {
        guard !process.isDraining, process.sessions.count == members.count else { return }
        report.count(.drained)
        process.isDraining = true
        process.begunCalls = members.map { _ in nil }
        let limit = FleetRelief.drainTimeEnds(process: process.number, life: process.life)
        heap.plan(.relief(limit), at: clocks.now + Self.drainTime)
        for user in members.indices {
            if plan.bug != .drainIgnored { deliver(process, user, .drain) }
            guard processes[process.number] === process else { return }
            let call = process.sessions[user].coordinator.operation?.call
            process.begunCalls[user] = call?.number
            if let call, call.variant != .plain { report.count(.drainedDuringFetch) }
        }
    }

    /// Processes that have nothing left to do end, after a last try of what is unsaved.
    func endDrained() {
        for case let process? in processes where process.isDraining && isDone(process) {
            if !process.hasRetriedUnsaved {
                process.hasRetriedUnsaved = true
                for user in members.indices { deliver(process, user, .retryUnsaved) }
                guard processes[process.number] === process, isDone(process) else { continue }
            }
            for user in members.indices { checkDrained(process, user) }
            end(process)
            startAgain(process)
        }
    }

    private func isDone(_ process: FleetProcess) -> Bool {
        process.tasks.isEmpty && process.sessions.allSatisfy { $0.call == nil && $0.coordinator.isDrained }
    }

    // MARK: Checks

    /// A call of a process that is about to end.
    func checkDraining(_ process: FleetProcess, _ user: Int, _ call: SessionCall) {
        guard process.isDraining else { return }
        report.checks += 1
        guard process.begunCalls[user] != call.number else { return }
        accuse(.drained, "\(name(process, user)) begins call \(call.number) although it is about to end")
    }

    /// What is unsaved at the end was tried once more.
    private func checkDrained(_ process: FleetProcess, _ user: Int) {
        report.checks += 1
        let coordinator = process.sessions[user].coordinator
        guard coordinator.isUnsaved, !disk.isTroubled, clocks.now > diskTroubleAt + .seconds(1) else { return }
        accuse(.drained, "\(name(process, user)) ends with something unsaved, and the disk works")
    }
}
