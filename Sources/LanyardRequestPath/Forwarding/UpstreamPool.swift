import Glibc
import LanyardFoundations
import LanyardSettings
import Synchronization

/// One shard's connections to one upstream: the last used is reused first. At the limit requests wait in order.
///
/// Belongs to the shard's queue.
package final class UpstreamPool: Watcher, @unchecked Sendable {
    package typealias Acquisition = UpstreamAcquisition
    package typealias Completion = (consuming Result<UpstreamLease, UpstreamError>) -> Void

    /// Waiters that are served in one run: if each connection fails at once, other work of the shard must get its turn.
    private static let servedMax = 64

    private enum Purpose: UInt8, DeadlinePurpose {
        /// The first waiting request, or the first one whose name is looked up, has waited as long as it may.
        case waiting
        /// The addresses are looked up again.
        case refresh
    }

    /// Whether the scheduler's actions are being performed.
    private enum Run {
        case none
        /// In a caller: events are only recorded during that.
        case running
        /// `resume` continues it.
        case deferred
    }

    let loop: EventLoop
    package let target: UpstreamTarget
    /// nil: the upstream does not speak TLS.
    let trust: ShardTrust?
    let parked: SharedLimit
    let resources: Resources
    let idleOfShard: IdleConnections
    /// Connections of HTTP/2, and what is known of the upstream's protocol.
    var sharing = UpstreamSharing()
    var idle = IdleList(.pool)
    /// By `UserIndex.number`.
    var idleOfUsers = UserTable(empty: IdleList(.user))
    var waiters: [Acquisition] = []
    private var scheduler = SlotScheduler()
    /// For the first waiter, between two actions of the scheduler.
    private var takenPermit: Permit?
    /// Of a closed idle connection, between two actions of the scheduler.
    private var closedSlot: UpstreamSlot?
    private var run = Run.none
    private var resolving: [Acquisition] = []
    private lazy var deadline = Deadline(of: self, for: Purpose.waiting.rawValue)
    /// When the addresses are looked up again, as long as connections are open.
    private lazy var refreshDeadline = Deadline(of: self, for: Purpose.refresh.rawValue)
    /// A reload has replaced the pool: no connection becomes idle any more.
    private(set) var isRetired = false
    /// Connections of this shard, in use or idle.
    package let open = Counter()
    /// Of the first route that had the pool. A pool that replaces this one after a reload continues with them.
    let counters: UpstreamCounters
    /// Written here only; sequentially consistent, as `SlotScheduler` requires.
    private let idleNumber = Atomic<Int>(0)
    /// Idle connections of this shard. From any thread.
    package var idleCount: Int { idleNumber.load(ordering: .sequentiallyConsistent) }

    /// - Parameters:
    ///   - parked: the process's limit of parked requests.
    ///   - buffers: the process's limit of buffer memory.
    ///   - tls: memory of all TLS sessions of the shard.
    ///   - frames: memory of the shard's connections of HTTP/2; nil: a pool without a shard has its own.
    ///   - http2: of the shard; nil: a pool without a shard has its own.
    ///   - responseLimits: of the heads of responses on streams of HTTP/2.
    ///   - idle: the idle connections of all pools of the shard.
    ///   - counters: of the route and the shard.
    ///   - keepAlive: probes of connections without traffic.
    package init(
        target: UpstreamTarget, loop: EventLoop, parked: SharedLimit, buffers: BufferBudget,
        tls: TLSWorkspace = TLSWorkspace(), frames: FrameMemory? = nil,
        http2: HTTP2Counters? = nil, responseLimits: HeadLimits = .response, idle: IdleConnections = IdleConnections(),
        counters: UpstreamCounters = UpstreamCounters(), keepAlive: KeepAlivePolicy = KeepAlivePolicy()
    ) {
        self.target = target
        trust = target.trust.map { ShardTrust($0.context) }
        self.loop = loop
        self.parked = parked
        resources = Resources(
            buffers: buffers, tls: tls, frames: frames ?? FrameMemory(budget: buffers, on: loop),
            counters: http2 ?? HTTP2Counters(.upstream), responseLimits: responseLimits, keepAlive: keepAlive,
            proxy: ShardProxy(target.proxyAuthorization))
        idleOfShard = idle
        self.counters = counters
        super.init()
        target.add(self)
    }

    /// Establishes a new connection. `completion` may be called before this returns; then the result is nil.
    ///
    /// - Parameters:
    ///   - old: of a connection in use, which is closed. The new one gets its slot, even if other requests wait.
    ///   - need: which version of HTTP carries the request.
    package func connect(
        for user: UserIndex, _ account: AccountNumber, inPlaceOf old: consuming UpstreamLease? = nil,
        needing need: Need = .any, completion: @escaping Completion
    ) -> Acquisition? {
        loop.assertIsCurrent()
        let request = Acquisition(user, account, needing: need, completion)
        let slot: UpstreamSlot? = if let old { old.closeForAnother() } else { nil }
        if let slot { resolveAndConnect(request, slot) } else { start(request) }
        return request.isAlive ? request : nil
    }

    /// Follows a connection that is being opened and may carry the request, opens another one, or waits.
    func start(_ request: Acquisition) {
        loop.assertIsCurrent()
        if follow(request) { return }
        if waiters.isEmpty, let permit = target.connections.acquire() {
            resolveAndConnect(request, UpstreamSlot(permit, in: idleOfShard))
        } else {
            wait(request)
        }
    }

    /// The client has disconnected: `completion` will not be called.
    package func cancel(_ request: Acquisition) {
        loop.assertIsCurrent()
        guard request.isAlive else { return }
        request.giveUp()
        if request.isWaiting {
            waiters.removeAll { $0 === request }
            request.endWait()
        } else if unfollow(request) || request.isWanted {
            // The connection is for others as well, or another's.
            return
        } else {
            abandon(request)
        }
    }

    /// No request waits any more for the connection that is being opened.
    func abandon(_ request: Acquisition) {
        loop.assertIsCurrent()
        sharing.opening.removeAll { $0 === request }
        request.connector?.cancel()
        resolving.removeAll { $0 === request }
        request.slot = nil
        schedule(.freed)
    }

    /// The exchange has ended in an orderly way: the connection becomes idle. Only its lease calls this.
    func giveBack(_ connection: UpstreamConnection) {
        loop.assertIsCurrent()
        // Another client would be served as the one that has authenticated itself on it.
        guard !connection.isBound, mayBecomeIdle(connection) else { return end(connection) }
        keepIdle(connection)
        // A waiter here may use the connection. A waiter that cannot, here or on another shard, needs its slot.
        schedule(.idled)
    }

    func mayBecomeIdle(_ connection: UpstreamConnection) -> Bool {
        !connection.stream.hasEnded && !connection.stream.hasLargeSession && isTrusted(connection)
            && hasCurrentAddress(connection) && !isRetired
    }

    /// As `giveBack`, for a connection that belongs to its client: it becomes idle, and only `takeBound` takes it. A request that
    /// waits for a slot closes it as any idle one. Only its lease calls this.
    ///
    /// - Returns: whether it is open.
    func keepBound(_ connection: UpstreamConnection) -> Bool {
        loop.assertIsCurrent()
        guard connection.isBound, mayBecomeIdle(connection) else {
            end(connection)
            return false
        }
        keepIdle(connection)
        schedule(.idled)
        return connection.isOpen
    }

    /// Closes a connection, idle or not.
    func discard(_ connection: UpstreamConnection) {
        loop.assertIsCurrent()
        if connection.hasFreePlace { removeIdle(connection) }
        end(connection)
    }

    /// The upstream was verified by the present files.
    package func isTrusted(_ connection: UpstreamConnection) -> Bool {
        loop.assertIsCurrent()
        return connection.epochs.trust == trustEpoch
    }

    /// Of the present files.
    private var trustEpoch: Int { trust?.epoch ?? 0 }

    /// Closes it, once: a request that waited for a slot may have closed an idle one already.
    func end(_ connection: UpstreamConnection) {
        loop.assertIsCurrent()
        guard connection.isOpen else { return }
        removeShared(connection)
        _ = connection.close()
        schedule(.freed)
    }

    /// A reload has replaced the pool. The requests that began before are served by it to their end.
    func retire() {
        loop.assertIsCurrent()
        isRetired = true
        closeIdle()
    }

    /// No connection is open, and no request waits for one. A connection that is being opened belongs to an acquisition,
    /// whose request keeps the pool.
    var isUnused: Bool { open.value == 0 && waiters.isEmpty && resolving.isEmpty }

    /// Ends a pool that no request will use again. It can be released then.
    package func finish() {
        loop.assertIsCurrent()
        retire()
        loop.drop(deadline)
        loop.drop(refreshDeadline)
        target.remove(self)
    }

    func publishIdle() { idleNumber.store(idle.count, ordering: .sequentiallyConsistent) }

    // MARK: Waiting at the limit

    /// Adds the request to the queue. It may have left the queue with a slot when this returns.
    private func wait(_ request: Acquisition) {
        request.wait = target.waiting.acquire()
        request.deadlineAt = loop.now + target.settings.timeouts.connect
        waiters.append(request)
        schedule(.serve)
        guard request.isWaiting else { return }
        if let permit = parked.acquire() {
            request.parked = consume permit
            counters.waits.add()
            return armDeadline()
        }
        waiters.removeAll { $0 === request }
        request.endWait()
        reply(request, .failure(.connectionLimit))
    }

    /// Performs the scheduler's actions. A connection attempt may fail before it returns and free its slot, and an
    /// exchange may give back the connection that it just received. Such events are recorded, and the loop of the first
    /// caller continues: nested calls could be as deep as the queue is long.
    func schedule(_ event: SlotScheduler.Event) {
        scheduler.record(event)
        guard run == .none else { return }
        runScheduler()
    }

    private func runScheduler() {
        run = .running
        var share = Self.servedMax
        while share > 0 {
            let hasIdle = !idle.isEmpty
            let hasMatchingIdle = waiters.first.map { self.hasIdle(for: $0.user, needing: $0.need) } ?? false
            guard
                let action = scheduler.next(
                    hasWaiters: !waiters.isEmpty, hasIdle: hasIdle, hasMatchingIdle: hasMatchingIdle)
            else { return run = .none }
            let outcome = perform(action)
            scheduler.handleCompletion(action, outcome, hasIdle: !idle.isEmpty)
            if action == .serveFirst || action == .handOver { share -= 1 }
        }
        run = .deferred
        loop.resumeLater(self)
    }

    package override func resume() {
        loop.assertIsCurrent()
        run = .none
        runScheduler()
    }

    /// Performs one action. Returns its outcome.
    private func perform(_ action: SlotScheduler.Action) -> Bool {
        switch action {
        case .handOver:
            let first = waiters[0]
            if let lease = takeFree(for: first.user, first.account, needing: first.need) {
                waiters.removeFirst()
                reply(first, .success(lease))
            } else {
                guard probeIdle(for: first) else { return false }
                waiters.removeFirst()
                first.endWait()
            }
        case .takeSlot:
            takenPermit = target.connections.acquire()
            return takenPermit != nil
        case .serveFirst:
            guard let permit = takenPermit.take() else { return false }
            let first = waiters.removeFirst()
            first.endWait()
            resolveAndConnect(first, UpstreamSlot(permit, in: idleOfShard))
        case .closeIdle:
            let connection = idle.oldest!
            removeIdle(connection)
            removeShared(connection)
            closedSlot = connection.close()
        case .freeSlot: closedSlot = nil
        case .checkWaiting, .checkDemand: return target.waiting.count > 0
        case .notifyWaiters: target.notifyOtherPools(than: self) { $0.schedule(.serve) }
        case .notifyIdle: target.notifyOtherPools(than: self, where: { $0.idleCount > 0 }) { $0.schedule(.shed) }
        }
        return true
    }

    package override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        switch Purpose(of: deadline) {
        case .waiting: endLongWaits()
        case .refresh: refreshAddresses()
        }
    }

    private func endLongWaits() {
        // The notification of a free slot may be on its way.
        if !waiters.isEmpty { schedule(.serve) }
        while let first = waiters.first, first.deadlineAt <= loop.now {
            waiters.removeFirst()
            first.endWait()
            reply(first, .failure(.connectionLimit))
        }
        while let first = resolving.first, first.deadlineAt <= loop.now {
            let old = target.staleAddresses(at: loop.now)
            guard old.isEmpty else { return handleAddresses(.success(old)) }
            resolving.removeFirst()
            fail(first, .nameTimedOut)
        }
        armDeadline()
    }

    private func armDeadline() {
        loop.set(deadline, at: min(waiters.first?.deadlineAt ?? .never, resolving.first?.deadlineAt ?? .never))
    }

    // MARK: Connecting

    private func resolveAndConnect(_ request: Acquisition, _ slot: consuming UpstreamSlot) {
        if mayShare(request) { sharing.opening.append(request) }
        request.slot = consume slot
        idleOfShard.makeRoom()
        let lookup = target.addresses(at: loop.now) { [self] result in
            // The waiting requests may have been cancelled since.
            loop.post { [self] in handleAddresses(result) }
        }
        switch lookup {
        case .known(let addresses): connect(request, to: addresses)
        case .pending(let waitMax):
            request.deadlineAt = loop.now + waitMax
            resolving.append(request)
            armDeadline()
        }
    }

    private func refreshAddresses() {
        guard open.value > 0 else { return }
        loop.set(refreshDeadline, at: target.refreshIfDue(at: loop.now))
    }

    /// The lookup has ended: all requests that wait for it continue.
    private func handleAddresses(_ result: Result<[SocketAddress], UpstreamError>) {
        let waiting = resolving
        resolving = []
        armDeadline()
        // Completing one request may cancel another.
        for request in waiting where request.isWanted {
            switch result {
            case .success(let addresses): connect(request, to: addresses)
            case .failure(let failure): fail(request, failure)
            }
        }
    }

    private func connect(_ request: Acquisition, to addresses: [SocketAddress]) {
        let beganAt = loop.now
        let deadlineAt = request.connectDeadlineAt ?? beganAt + target.settings.timeouts.connectAll
        request.connectDeadlineAt = deadlineAt
        let connector = Connector(
            addresses, of: target, trust, resources, until: deadlineAt, isHTTP1: !mayShare(request), loop: loop
        ) { [self] result in
            request.connector = nil
            switch result {
            case .failure(.local(let code)) where request.canReleaseDescriptors(after: code):
                connectAfterRelease(request, addresses)
            case .failure(let error): fail(request, error)
            case .success(let connected) where connected.trustEpoch != trustEpoch:
                // The files of the upstream's TLS have changed since the handshake began.
                connected.stream.close(on: loop)
                connect(request, to: addresses)
            case .success(let connected):
                counters.connectDuration.observe(from: beganAt, to: loop.now)
                adopt(connected, for: request)
            }
        }
        request.connector = connector
        connector.start()
    }

    /// No descriptor is left: closes the idle connections of all pools and shards, then tries again.
    private func connectAfterRelease(_ request: Acquisition, _ addresses: [SocketAddress]) {
        nonisolated(unsafe) let request = request
        DescriptorShortage.shared.release { [self] _ in
            loop.post { [self] in
                // Its client may have disconnected since.
                if request.isWanted { connect(request, to: addresses) }
            }
        }
    }

    private func adopt(_ connected: ConnectedStream, for request: Acquisition) {
        guard let slot = request.slot.take() else { return connected.stream.close(on: loop) }
        do {
            let connection = try UpstreamConnection(
                taking: connected.release(on: loop), slot: slot, trustEpoch: connected.trustEpoch, for: request.user,
                request.account, loop: loop, pool: self)
            if target.hasName, refreshDeadline.instant == .never { refreshAddresses() }
            serve(request, by: connection)
        } catch {
            fail(request, .local(ENOMEM))
        }
    }

    func fail(_ request: Acquisition, _ failure: UpstreamError) {
        loop.assertIsCurrent()
        let failure = target.reported(failure)
        request.slot = nil
        let followers = endOpening(request)
        schedule(.freed)
        reply(request, .failure(failure))
        for follower in followers { reply(follower, .failure(failure)) }
    }

    func reply(_ request: Acquisition, _ result: consuming Result<UpstreamLease, UpstreamError>) {
        loop.assertIsCurrent()
        request.complete(result)
    }
}
