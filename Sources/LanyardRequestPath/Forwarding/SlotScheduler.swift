/// Decides how one shard uses the connection slots that all shards share, as a state machine.
///
/// Each action is one atomic operation on shared numbers or one operation on the shard's own lists. `UpstreamPool`
/// performs it. The guarantee: when no action is left, no request waits on any shard while a slot is free or a usable
/// connection is idle. Two orders ensure it, both sequentially consistent:
/// - A request is counted as a waiter before its shard tries to take a slot. A slot is freed before its shard checks
///   for waiters.
/// - A request is counted as a waiter before its shard checks for idle connections. A connection is counted as idle
///   before its shard checks for waiters.
///
/// `SlotModelTests` runs this type through each interleaving of small cases.
struct SlotScheduler: Hashable {
    /// What may make an action necessary.
    enum Event: Hashable {
        /// A request has joined the shard's queue, or another shard has freed a slot.
        case serve
        /// This shard has freed a slot.
        case freed
        /// A connection has become idle here.
        case idled
        /// Another shard wants the slot of an idle connection.
        case shed
    }

    enum Action: Hashable {
        /// Give the first waiter an idle connection of its own user.
        case handOver
        /// Take a slot for the first waiter of this shard. Outcome: whether one was free.
        case takeSlot
        /// The first waiter has the slot: remove it from the waiters and connect.
        case serveFirst
        /// Close one idle connection of this shard and remove it from the count.
        case closeIdle
        /// Free the slot of the closed connection.
        case freeSlot
        /// Outcome: whether a request waits on any shard, so that the freed slot is announced.
        case checkWaiting
        /// Outcome: whether a request waits on any shard, so that an idle connection is closed for it.
        case checkDemand
        /// Report `.serve` to all other shards.
        case notifyWaiters
        /// Report `.shed` to the other shards that have idle connections.
        case notifyIdle
    }

    private var mustServe = false
    private var mustAnnounce = false
    private var mustShed = false
    /// The next action, if the outcome of the last one has decided it.
    private var decided: Action?

    mutating func record(_ event: Event) {
        switch event {
        case .serve: mustServe = true
        case .freed: (mustServe, mustAnnounce) = (true, true)
        case .idled: (mustServe, mustShed) = (true, true)
        case .shed: mustShed = true
        }
    }

    /// The next action, or nil if none is left.
    ///
    /// - Parameters:
    ///   - hasWaiters: requests wait on this shard.
    ///   - hasIdle: connections are idle on this shard.
    ///   - hasMatchingIdle: one of them belongs to the first waiter's user.
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
        // Also if the slot has been taken again: a shard that wants it then asks for another idle connection.
        guard mustAnnounce else { return nil }
        mustAnnounce = false
        return .checkWaiting
    }

    /// Reports the outcome of an action, before anything else happens on the shard.
    ///
    /// - Parameter hasIdle: connections are idle on this shard.
    mutating func handleCompletion(_ action: Action, _ outcome: Bool = true, hasIdle: Bool) {
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
