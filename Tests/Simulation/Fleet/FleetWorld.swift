import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// One simulated world from its beginning to its end, in virtual time: the real machines of sessions and store, with everything around them
/// made up.
///
/// Belongs to one thread.
package final class FleetWorld {
    let plan: FleetPlan
    var clocks = HostClocks()
    var heap = EventHeap<FleetEvent>()
    var random: SplitMix64
    var report = FleetReport()
    var service: FleetService
    var condition = FleetCondition.clear
    /// How the service seems to one process alone, by its number: a lead's doing.
    var ownConditions: [FleetCondition?]
    /// The token that another program renews; nil: it cannot be read.
    var fedToken: Secret?
    let disk = FleetDisk()
    var members: [FleetMember]
    /// nil: not running.
    var processes: [FleetProcess?]
    /// How often each has been started.
    var lives: [Int]
    /// Which planned start of each is meant.
    var starts: [UInt64]
    /// In a row: the supervisor starts processes less and less often.
    var failedStarts = 0
    var calls: [FleetCall] = []
    /// Of each user: the calls with a refresh token that have no response yet.
    var openRefreshes: [[Int]]
    /// The requests for variants, by user.
    var traffic: [[FleetVariant.Traffic]]
    /// The variants that routes ask for, by process and user.
    var configured: [[Set<Int>]]
    var spareCalls: [Int] = []
    /// The machine sleeps until then; the service does not.
    var asleepUntil = Instant.past
    /// Nothing has gone wrong since.
    var quietSince = Instant.past
    /// Nothing goes wrong by chance until then.
    var holidayUntil = Instant.past
    /// When the last pause by the machine's host ended, the wall clock set right after it, and when the wall clock was last set back, in
    /// real time.
    var pauseEndedAt = Instant.past
    /// The machine does not know yet how long it was paused: it may fall asleep before.
    var owesPause = false
    var wallLostAt = Instant.past
    /// When the wall clock was last wrong otherwise than by a pause.
    var wallWrongAt = Instant.past
    var isWallSetWrong = false
    var bootedAt = Instant.past
    var diskTroubleAt = Instant.past
    var lockTroubleAt = Instant.past
    /// Of each number that was published: the service's account.
    var accounts: [AccountNumber: String] = [:]
    /// What the store holds, by the disk's version.
    let seen: FleetStoreView
    /// What it would hold after a loss of power.
    let durable: FleetStoreView
    /// What it held for certain after the last answered change.
    var latest: StoreContents?
    let sealing = CheapSealing(key: 7)
    let storePath = StorePath("/store/sessions")!
    /// What a look found was so when it looked: another process has stored something since, which the next one finds.
    var isLookOvertaken = false
    /// Another process has its turn within a call of this one.
    var isInterleaving = false

    package init(_ plan: FleetPlan) {
        self.plan = plan
        random = SplitMix64(plan.seed)
        service = FleetService(
            rotation: plan.rotation, lifetime: plan.lifetime, sessionLife: plan.unit * 10,
            accounts: plan.members)
        members = plan.members.enumerated().map { FleetMember(place: $0, $1) }
        processes = Array(repeating: nil, count: plan.processes)
        ownConditions = Array(repeating: nil, count: plan.processes)
        lives = Array(repeating: 0, count: plan.processes)
        starts = Array(repeating: 0, count: plan.processes)
        openRefreshes = plan.members.map { _ in [] }
        traffic = plan.members.map { $0.variants.map { FleetVariant.Traffic(isSteady: $0.traffic == .always) } }
        configured = (0..<plan.processes).map { _ in plan.members.map { Set($0.variants.indices) } }
        seen = FleetStoreView(storePath, sealing: sealing)
        durable = FleetStoreView(storePath, sealing: sealing)
        plantInDisk()
    }

    /// Lives through the plan's span, or to the first broken promise.
    package func run() -> FleetReport {
        let end = clocks.now + plan.span
        begin()
        while report.violations.isEmpty, heap.nextAt <= end, let next = heap.removeNext() {
            clocks.now = max(clocks.now, next.at)
            handle(next.event)
        }
        report.worlds = 1
        report.sessionDays = min(clocks.now, end).inDays * Double(members.count)
        return report
    }

    private func begin() {
        for number in processes.indices { planStart(number, at: clocks.now + .seconds(random.chance())) }
        heap.plan(.request, at: clocks.now + .seconds(1))
        heap.plan(.holiday, at: clocks.now + max(plan.unit * 8, .seconds(3600)))
        heap.plan(.condition, at: clocks.now + random.apart(plan.unit))
        for incident in FleetIncident.allCases where happens(incident) {
            heap.plan(.incident(incident), at: clocks.now + random.apart(plan.unit * incident.unitsApart))
        }
        guard plan.isGuided else { return }
        heap.plan(.lead, at: clocks.now + .seconds(60))
        heap.plan(.feed, at: clocks.now)
    }

    private func happens(_ incident: FleetIncident) -> Bool {
        switch incident {
        case .accountChange: plan.changesAccounts
        case .variant: plan.hasVariants
        case .drain: plan.drains
        default: true
        }
    }

    private func handle(_ event: FleetEvent) {
        if clocks.now < asleepUntil, event.needsMachine { return heap.plan(event, at: asleepUntil) }
        switch event {
        case .start(let number, let plan): start(number, plan)
        case .due(let number, let life, let user, let plan):
            if let process = process(number, life) { due(process, user, plan) }
        case .storeTurn(let number, let life):
            if let process = process(number, life) { storeTurn(process) }
        case .reach(let call): reach(call)
        case .response(let call): response(call)
        case .tick(let number, let life):
            if let process = process(number, life) { tick(process) }
        case .look(let number, let life):
            if let process = process(number, life) { enqueue(process, 0, .look) }
        case .request: request()
        case .variantTurn(let number, let life, let user, let variant, let plan):
            if let process = process(number, life) { takeTurn(process, user, variant, plan) }
        case .variantWaitEnds(let number, let life, let user, let variant):
            if let process = process(number, life) { stopWaiting(process, user, for: variant) }
        case .waitEnds(let number, let life, let user):
            if let process = process(number, life) { stopWaiting(process, user) }
        case .prepared(let number, let life, let user, let operation):
            if let process = process(number, life) { deliver(process, user, .refreshPrepared(operation: operation)) }
        case .claimed(let number, let life, let user, let operation):
            if let process = process(number, life) { deliver(process, user, .claimed(.free, operation: operation)) }
        case .accountReply(let number, let life, let user):
            if let process = process(number, life) { accountReply(process, user) }
        case .revocations(let number, let life):
            if let process = process(number, life) { revokeAgain(process) }
        case .condition: changeCondition()
        case .incident(let incident): play(incident)
        case .relief(let relief): relieve(relief)
        case .lead: beginLead()
        case .step(let step, let user, let here): take(step, user, here: here)
        case .feed: stirFeed()
        case .holiday: beginHoliday()
        case .audit: audit()
        }
        if plan.drains { endDrained() }
    }

    /// The process that was meant, if it still lives.
    func process(_ number: Int, _ life: Int) -> FleetProcess? {
        guard let process = processes[number], process.life == life else { return nil }
        return process
    }

    /// Those that have opened their store.
    var open: [FleetProcess] { processes.compactMap { $0?.sessions.count == members.count ? $0 : nil } }

    /// Of them, those that are not about to end.
    var running: [FleetProcess] {
        processes.compactMap { $0?.sessions.count == members.count && $0?.isDraining == false ? $0 : nil }
    }

    func count(_ fault: FleetFault) {
        trace("FAULT \(fault.name)")
        report.count(fault)
        quietSince = clocks.now
    }

    func eventContext() -> EventContext {
        // Without back-off: the random numbers are always such that the next attempt is as near as can be.
        let chance = plan.bug == .noBackOff ? 0 : random.chance()
        return EventContext(instant: clocks.instant, wall: clocks.wall, chance: chance, name: random.next() | 1)
    }

    /// For a developer who looks into a failure.
    func trace(_ words: @autoclosure () -> String) {
        guard plan.isTraced else { return }
        print("\(clocks.now.nanoseconds / 1_000_000) ms: \(words())")
    }

    func accuse(_ promise: FleetViolation.Promise, _ words: @autoclosure () -> String) {
        guard report.violations.isEmpty else { return }
        let day = clocks.now.inDays
        report.violations.append(
            FleetViolation(promise: promise, plan: plan, words: "day \(day), boot \(clocks.boot): \(words())"))
    }
}

extension Instant {
    var inDays: Double { Double(nanoseconds) / 86_400e9 }
}
