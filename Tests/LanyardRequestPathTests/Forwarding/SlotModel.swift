@testable import LanyardRequestPath

/// A model of the connection slots of one upstream: what some shards do with them, one atomic operation at a time.
///
/// The decisions are those of the product (`SlotScheduler`). The model carries them out as `UpstreamPool` does, and
/// `successors` takes every order of the shards. Whatever clients and upstreams may do is possible at any time, until
/// each shard has had its arrivals.
struct SlotModel: Hashable {
    /// Ways to do it that lose a wake-up; the search must find each.
    enum Mistake: CaseIterable {
        /// A waiter does not try again after it is counted.
        case sleepsAfterCounting
        /// The look for waiters comes before the slot is free, as a load may that is not sequentially consistent.
        case looksBeforeFreeing
        /// The look for waiters comes before the connection is counted as idle.
        case looksBeforeIdling
        /// A waiter that loses a freed slot to a new request does not ask for another idle connection.
        case asksForIdleOnce
        /// A slot that another shard announces is not tried for.
        case ignoresNews
        /// Only the own shard's waiters hear of a free slot.
        case announcesNothing
        /// A freed slot that another shard has taken already is not announced.
        case announcesRoomOnly
        /// `take` adds, and subtracts again if that was too much: for a moment a slot seems taken that no request has.
        case addsThenSubtracts
    }

    private enum Job: Hashable {
        case rest
        /// No slot is free: the new request is counted.
        case count(UInt8)
        /// The attempt that failed is taken back (`addsThenSubtracts`): a new request's, or one for a waiter.
        case undo(UInt8?)
        /// A connection is idle already, and is counted only now.
        case publish
        /// A slot is given back; what was seen before of the waiters.
        case free(sawWaiters: Bool?)
        case action(SlotScheduler.Action)
        /// The first waiter has a connection already, and is still counted.
        case leaveLine
        /// Goes through the other shards.
        case tell(SlotScheduler.Event, from: Int)
    }

    private struct Shard: Hashable {
        /// Users, in order.
        var waiters: [UInt8] = []
        var idle: [UInt8] = []
        /// Users of connections that carry a request, sorted.
        var used: [UInt8] = []
        /// The number of idle connections that other shards see.
        var idleCount = 0
        var mail: [SlotScheduler.Event] = []
        var scheduler = SlotScheduler()
        var job = Job.rest
        var arrivals: Int
        /// Works for a new request, not for news of another shard.
        var servesNewRequest = false
    }

    private let slots: Int
    private let mistake: Mistake?
    private var taken = 0
    private var waiting = 0
    private var cancels: Int
    private var shards: [Shard]

    /// - Parameters:
    ///   - arrivals: requests that come to each shard.
    ///   - idle: connections that the first shard has at the beginning.
    ///   - cancels: waiters, of all shards, whose clients go.
    init(slots: Int, arrivals: [Int], idle: Int = 0, cancels: Int = 0, mistake: Mistake? = nil) {
        self.slots = slots
        self.mistake = mistake
        self.cancels = cancels
        shards = arrivals.map { Shard(arrivals: $0) }
        shards[0].idle = Array(repeating: 0, count: idle)
        shards[0].idleCount = idle
        taken = idle
    }

    /// What is wrong in this state, or nil.
    var fault: String? {
        let held = shards.reduce(0) { $0 + $1.used.count + $1.idle.count }
        if held > slots { return "\(held) connections of \(slots)" }
        guard shards.allSatisfy({ $0.job == .rest && $0.mail.isEmpty }) else { return nil }
        let waiters = shards.reduce(0) { $0 + $1.waiters.count }
        if held != taken { return "\(taken) slots are taken for \(held) connections" }
        if waiters != waiting { return "\(waiters) wait and \(waiting) are counted" }
        if waiters > 0, taken < slots { return "\(waiters) wait although a slot is free" }
        let hasIdle = shards.contains { !$0.idle.isEmpty }
        return waiters > 0 && hasIdle ? "\(waiters) wait although a connection is idle" : nil
    }

    /// The state as text.
    var text: String {
        shards.map { "\($0.job) waiters \($0.waiters) idle \($0.idle) used \($0.used) mail \($0.mail)" }
            .joined(separator: " | ") + " taken \(taken) waiting \(waiting)"
    }

    /// All states that one atomic operation of any shard leads to.
    var successors: [SlotModel] {
        shards.indices.flatMap { index in
            shards[index].job == .rest ? afterRest(index) : goOn(index)
        }
    }

    private func changed(_ change: (inout SlotModel) -> Void) -> SlotModel {
        var next = self
        change(&next)
        return next
    }

    // MARK: What may begin at any time

    private func afterRest(_ index: Int) -> [SlotModel] {
        var next: [SlotModel] = []
        let shard = shards[index]
        if !shard.mail.isEmpty { next.append(changed { $0.readMail(index) }) }
        if shard.arrivals > 0 {
            for user in UInt8(0)..<2 { next.append(changed { $0.arrive(user, index) }) }
        }
        for user in Set(shard.used) {
            next.append(changed { $0.endBadly(user, index) })
            next.append(changed { $0.endWell(user, index) })
        }
        for place in shard.idle.indices {
            next.append(
                changed {
                    $0.shards[index].idle.remove(at: place)
                    $0.publishIdle(index)
                    $0.shards[index].job = .free(sawWaiters: nil)
                })
        }
        if cancels > 0 {
            for place in shard.waiters.indices {
                next.append(
                    changed {
                        $0.cancels -= 1
                        $0.shards[index].waiters.remove(at: place)
                        $0.waiting -= 1
                    })
            }
        }
        return next
    }

    private mutating func readMail(_ index: Int) {
        let event = shards[index].mail.removeFirst()
        shards[index].servesNewRequest = false
        if mistake == .ignoresNews, event == .serve { return }
        shards[index].scheduler.record(event)
        proceed(index)
    }

    /// `ClientConnection.seekUpstream` and `UpstreamPool.connect`, as far as the first operation.
    private mutating func arrive(_ user: UInt8, _ index: Int) {
        shards[index].arrivals -= 1
        if let place = shards[index].idle.lastIndex(of: user) {
            shards[index].idle.remove(at: place)
            publishIdle(index)
            use(user, index)
        } else if !shards[index].waiters.isEmpty {
            count(user, index)
        } else if taken < slots {
            taken += 1
            use(user, index)
        } else if mistake == .addsThenSubtracts {
            taken += 1
            shards[index].job = .undo(user)
        } else {
            shards[index].job = .count(user)
        }
    }

    private mutating func endBadly(_ user: UInt8, _ index: Int) {
        shards[index].used.remove(at: shards[index].used.firstIndex(of: user)!)
        if mistake == .looksBeforeFreeing { return shards[index].job = .free(sawWaiters: waiting > 0) }
        free(index)
    }

    private mutating func endWell(_ user: UInt8, _ index: Int) {
        shards[index].used.remove(at: shards[index].used.firstIndex(of: user)!)
        if mistake == .looksBeforeIdling {
            if waiting > 0 { return shards[index].job = .free(sawWaiters: nil) }
            shards[index].idle.append(user)
            return shards[index].job = .publish
        }
        shards[index].idle.append(user)
        publishIdle(index)
        shards[index].scheduler.record(.idled)
        proceed(index)
    }

    // MARK: One operation that is in progress

    private func goOn(_ index: Int) -> [SlotModel] {
        switch shards[index].job {
        case .rest: []
        case .count(let user): [changed { $0.count(user, index) }]
        case .undo(let user):
            [
                changed {
                    $0.taken -= 1
                    if let user {
                        $0.shards[index].job = .count(user)
                    } else {
                        $0.handleCompletion(.takeSlot, false, index)
                    }
                }
            ]
        case .leaveLine:
            [
                changed {
                    let user = $0.shards[index].waiters.removeFirst()
                    $0.waiting -= 1
                    $0.use(user, index)
                    $0.handleCompletion(.handOver, true, index)
                }
            ]
        case .publish:
            [
                changed {
                    $0.publishIdle(index)
                    $0.shards[index].job = .rest
                }
            ]
        case .free(let sawWaiters): [changed { $0.free(index, sawWaiters) }]
        case .tell(let event, let from): [changed { $0.tell(event, from, index) }]
        // A dial may fail at once.
        case .action(.serveFirst): [false, true].map { fails in changed { $0.serveFirst(index, fails: fails) } }
        case .action(let action): [changed { $0.perform(action, index) }]
        }
    }

    private mutating func count(_ user: UInt8, _ index: Int) {
        waiting += 1
        shards[index].waiters.append(user)
        shards[index].servesNewRequest = true
        if mistake == .sleepsAfterCounting { return shards[index].job = .tell(.shed, from: 0) }
        shards[index].scheduler.record(.serve)
        proceed(index)
    }

    private mutating func free(_ index: Int, _ sawWaiters: Bool? = nil) {
        taken -= 1
        guard let sawWaiters else {
            shards[index].scheduler.record(.freed)
            return proceed(index)
        }
        shards[index].scheduler.record(.serve)
        if sawWaiters { for other in shards.indices where other != index { shards[other].mail.append(.serve) } }
        proceed(index)
    }

    private mutating func serveFirst(_ index: Int, fails: Bool) {
        let user = shards[index].waiters.removeFirst()
        waiting -= 1
        handleCompletion(.serveFirst, true, index)
        if fails { shards[index].job = .free(sawWaiters: nil) } else { use(user, index) }
    }

    private mutating func perform(_ action: SlotScheduler.Action, _ index: Int) {
        var outcome = true
        switch action {
        case .handOver:
            let shard = shards[index]
            shards[index].idle.remove(at: shard.idle.lastIndex(of: shard.waiters[0])!)
            publishIdle(index)
            return shards[index].job = .leaveLine
        case .takeSlot:
            outcome = taken < slots
            if outcome || mistake == .addsThenSubtracts { taken += 1 }
            if !outcome, mistake == .addsThenSubtracts { return shards[index].job = .undo(nil) }
        case .serveFirst: break
        case .closeIdle:
            shards[index].idle.removeFirst()
            publishIdle(index)
        case .freeSlot: taken -= 1
        case .checkWaiting where mistake == .announcesRoomOnly: outcome = taken < slots && waiting > 0
        case .checkWaiting, .checkDemand: outcome = waiting > 0
        case .notifyWaiters:
            if mistake == .announcesNothing { break }
            return shards[index].job = .tell(.serve, from: 0)
        case .notifyIdle:
            if mistake == .asksForIdleOnce, !shards[index].servesNewRequest { break }
            return shards[index].job = .tell(.shed, from: 0)
        }
        handleCompletion(action, outcome, index)
    }

    /// Tells one other shard.
    private mutating func tell(_ event: SlotScheduler.Event, _ from: Int, _ index: Int) {
        if from != index, event != .shed || shards[from].idleCount > 0 { shards[from].mail.append(event) }
        if from + 1 < shards.count { return shards[index].job = .tell(event, from: from + 1) }
        proceed(index)
    }

    private mutating func handleCompletion(_ action: SlotScheduler.Action, _ outcome: Bool, _ index: Int) {
        shards[index].scheduler.handleCompletion(action, outcome, hasIdle: !shards[index].idle.isEmpty)
        proceed(index)
    }

    private mutating func proceed(_ index: Int) {
        let (waiters, idle) = (shards[index].waiters, shards[index].idle)
        let action = shards[index].scheduler.next(
            hasWaiters: !waiters.isEmpty, hasIdle: !idle.isEmpty,
            hasMatchingIdle: waiters.first.map(idle.contains) ?? false)
        shards[index].job = action.map { .action($0) } ?? .rest
    }

    private mutating func use(_ user: UInt8, _ index: Int) {
        shards[index].used.append(user)
        shards[index].used.sort()
    }

    private mutating func publishIdle(_ index: Int) { shards[index].idleCount = shards[index].idle.count }
}

extension SlotModel {
    struct Search {
        var states = 0
        /// From the beginning to the first state that has a fault; empty if there is none.
        var trace: [String] = []
        var fault: String?
    }

    /// Every state that can be reached, the nearest first, up to one with a fault.
    func search() -> Search {
        var seen: [SlotModel: Int] = [self: 0]
        var states = [self]
        var parents = [-1]
        var next = 0
        while next < states.count {
            for state in states[next].successors where seen[state] == nil {
                seen[state] = states.count
                states.append(state)
                parents.append(next)
                guard let fault = state.fault else { continue }
                var trace: [String] = []
                var place = states.count - 1
                while place >= 0 {
                    trace.append(states[place].text)
                    place = parents[place]
                }
                return Search(states: states.count, trace: trace.reversed(), fault: fault)
            }
            next += 1
        }
        return Search(states: states.count)
    }
}
