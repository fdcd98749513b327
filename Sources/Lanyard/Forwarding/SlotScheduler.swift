/// Decides the steps by which one shard hands on the connection slots that all shards share.
///
/// Each step is one atomic operation on shared numbers or one act on the shard's own lists. `UpstreamPool` carries it out. The promise:
/// when nothing is left to do, no request waits on any shard while a slot is free or a connection is idle. Two orders make it true, both
/// sequentially consistent:
/// - A request is counted as a waiter before its shard tries to take a slot. A slot is freed before its shard looks for waiters.
/// - A request is counted as a waiter before its shard looks for idle connections. A connection is counted as idle before its shard looks
///   for waiters.
///
/// `SlotModelTests` runs this type through every interleaving of small cases.
struct SlotScheduler: Hashable {
    /// Why there may be something to do.
    enum Event: Hashable {
        /// A request has joined the shard's line, or another shard has freed a slot.
        case serve
        /// This shard has freed a slot.
        case freed
        /// A connection has become idle here.
        case idled
        /// Another shard wants the slot of an idle connection.
        case shed
    }

    enum Action: Hashable {
        /// The first waiter gets an idle connection of its own user.
        case handOver
        /// Take a slot for the first waiter of this shard. Outcome: whether there was one.
        case takeSlot
        /// The first waiter has the slot: count it no longer, and dial.
        case serveFirst
        /// One idle connection of this shard goes, and is counted no longer.
        case closeIdle
        /// Its slot is free.
        case freeSlot
        /// Outcome: whether a request waits on any shard, to whom the freed slot is to be announced.
        case checkWaiting
        /// Outcome: whether a request waits on any shard, for whom an idle connection is to go.
        case checkDemand
        /// Report `.serve` to all other shards.
        case notifyWaiters
        /// Report `.shed` to the other shards that have idle connections.
        case notifyIdle
    }

    private var mustServe = false
    private var mustAnnounce = false
    private var mustShed = false
    /// The outcome of the step before has decided it.
    private var decided: Action?

    mutating func record(_ event: Event) {
        switch event {
        case .serve: mustServe = true
        case .freed: (mustServe, mustAnnounce) = (true, true)
        case .idled: (mustServe, mustShed) = (true, true)
        case .shed: mustShed = true
        }
    }

    /// The next step, or nil when there is none.
    ///
    /// - Parameters:
    ///   - hasWaiters: requests wait on this shard.
    ///   - hasIdle: connections are idle on this shard.
    ///   - hasFitting: one of them is of the first waiter's user.
    mutating func next(hasWaiters: Bool, hasIdle: Bool, hasMatchingIdle: Bool) -> Action? {
        if let action = decided {
            decided = nil
            return action
        }
        if mustServe, hasWaiters { return hasMatchingIdle ? .handOver : .takeSlot }
        mustServe = false
        if mustShed, hasIdle {
            mustShed = false
            return .checkDemand
        }
        mustShed = false
        // Even if the slot is taken again: who wants it then asks for another idle connection.
        guard mustAnnounce else { return nil }
        mustAnnounce = false
        return .checkWaiting
    }

    /// Tells what came of a step, before anything else happens on the shard.
    ///
    /// - Parameter hasIdle: connections are idle on this shard.
    mutating func finished(_ action: Action, _ outcome: Bool = true, hasIdle: Bool) {
        switch action {
        case .takeSlot where outcome: decided = .serveFirst
        case .takeSlot where hasIdle: decided = .closeIdle
        case .takeSlot:
            mustServe = false
            decided = .notifyIdle
        case .checkDemand: if outcome { decided = .closeIdle }
        case .checkWaiting: if outcome { decided = .notifyWaiters }
        case .closeIdle: decided = .freeSlot
        case .freeSlot: record(.freed)
        case .handOver, .serveFirst, .notifyWaiters, .notifyIdle: break
        }
    }
}
