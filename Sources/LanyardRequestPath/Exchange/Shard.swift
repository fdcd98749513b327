import Glibc
import LanyardFoundations
import LanyardSettings
import Logging
import Synchronization

/// One serial queue's share of the request path: its clients, pools, tokens and shared buffers.
///
/// All state belongs to `loop`'s queue.
package final class Shard: @unchecked Sendable {
    /// Buffers kept for the next request.
    private static let spareBuffersMax = 256

    package let index: Int
    package let loop: EventLoop
    package let context: ExchangeContext
    package let tokens: TokenCache
    /// What new requests are served by.
    package private(set) var served: ShardRoutes
    private let retired: RetiredRoutes
    /// Of all pools together.
    package let idleConnections: IdleConnections
    /// Memory of all TLS sessions.
    package let tls: TLSWorkspace
    package let counters: ShardCounters
    /// nil: the configuration has none.
    private(set) var accessLog: AccessLog?
    let log: Logger
    /// Which problem responses are logged at debug level.
    let debugRefusals = RefusalLog.debugThrottle()
    /// Lines about requests that meet the renewal of their token.
    let unrepeatableRequests = RefusalLog.renewalThrottle()
    /// Counts of log lines that were left out.
    let suppressed: SuppressedLines
    /// The capability of each listener; nil: it asks for none, or its file cannot be used, and every request is refused.
    private(set) var capabilities: [Secret?]
    /// The TLS of each listener; nil: its clients speak plain HTTP.
    private(set) var listenerTLS: [TLSServerContext?]
    /// Clients in their TLS handshake, of all listeners.
    let handshakes: HandshakeQueue
    /// The buffer for one read of any socket; its bytes are processed before the next read.
    let scratch: UnsafeMutableRawBufferPointer
    var out = HeadWriter()
    /// The table of the response head that is being read.
    var responseTable: FieldTable

    private let paused: PausedReaders
    /// Clients that their listener would not admit any more.
    private let admissionEnds: AdmissionEnds
    private var spareBuffers: [RequestBuffer] = []
    private var clients = ClientList()
    /// Clients that wait for a request and may be closed for a new client.
    var waiting = WaitingClients() {
        didSet { waitingSince.store(waiting.since.nanoseconds, ordering: .relaxed) }
    }
    /// `waiting.since`, for the other shards.
    private let waitingSince = Atomic<Int64>(Instant.never.nanoseconds)
    /// Clients with a tunnel.
    var tunnels: [ObjectIdentifier: ClientConnection] = [:]
    /// A route that was served so far has `close_streams_on`. Without one no publication looks at the clients.
    private var closesStreams: Bool
    /// Clients of this shard. Other shards read it to decide where a client goes.
    package let load = Counter()
    /// Clients that other shards have handed over and that are not adopted yet.
    private let incoming = Atomic<Int>(0)
    private var dateBytes = [UInt8](repeating: 0x20, count: HTTPDate.count)
    private var dateSecond: Int64 = -1
    private var requestNumber: UInt64
    package private(set) var isDraining = false
    /// nil: no drain has begun, or it has reported. Set late because only the caller of the drain knows what follows.
    private var whenEmpty: (@Sendable () -> Void)?

    /// - Parameters:
    ///   - configuration: served from the first request on.
    ///   - capabilities: one for each listener.
    ///   - listenerTLS: one for each listener.
    ///   - accessLines: where one line for each request goes; nil: none is written.
    package init(
        index: Int, loop: EventLoop, context: ExchangeContext, configuration: ServedConfiguration,
        source: any TokenSource, capabilities: [Secret?] = [],
        listenerTLS: [TLSServerContext?] = [], accessLines: AccessLines? = nil, evictionLog: EvictionLog, log: Logger
    ) {
        accessLog = accessLines.map(AccessLog.init)
        self.index = index
        self.loop = loop
        self.context = context
        self.log = log
        self.capabilities = capabilities
        self.listenerTLS = listenerTLS
        handshakes = HandshakeQueue(loop: loop, sessionsMax: configuration.limits.handshakesMax)
        responseTable = Self.responseTable(configuration, context)
        suppressed = SuppressedLines(loop: loop)
        admissionEnds = AdmissionEnds(loop: loop)
        retired = RetiredRoutes(loop: loop)
        tokens = TokenCache(source: source, on: loop)
        idleConnections = IdleConnections(on: loop, log: evictionLog)
        tls = TLSWorkspace(budget: context.buffers)
        served = ShardRoutes(configuration, pools: [], counters: [])
        counters = ShardCounters(countsHandshakes: listenerTLS.contains { $0 != nil })
        paused = PausedReaders(loop: loop, budget: context.buffers)
        scratch = .allocate(byteCount: ReadSize.large, alignment: 64)
        requestNumber = .random(in: .min ... .max)
        closesStreams = configuration.closesStreams
        served = makeRoutes(configuration, keeping: nil)
        idleConnections.setMax(idleConnectionsMax)
    }

    deinit { scratch.deallocate() }

    // MARK: Clients

    /// Adopts a client's socket. At the connection limit the client that has waited longest is closed (http-connections.md
    /// 20.5).
    ///
    /// - Parameter others: shards that are asked if one of their clients has waited longer, or if no client waits here.
    package func adopt(
        _ socket: consuming OwnedDescriptor, listener: Int, isTCP: Bool, others: ArraySlice<Shard>
    ) {
        loop.assertIsCurrent()
        // Refused peers share the slots of refused clients, so that they cannot take those of others.
        let rules = served.configuration.rules[listener]
        let isPeer = isTCP || rules.callers.admits(socket.raw)
        guard let slot = isPeer ? slot(for: socket.raw, isTCP: isTCP, others: others) : rejectionSlot() else {
            let next = others.indices.min { others[$0].longestWait < others[$1].longestWait } ?? others.startIndex
            let rest = others[..<next] + others[(next + 1)...]
            return others[next].handOver(socket, listener: listener, isTCP: isTCP, others: rest)
        }
        do {
            let client = try ClientConnection(taking: socket, shard: self, listener: listener, slot: slot)
            clients.append(client)
            load.add()
            if !isPeer {
                client.rejectPeer()
            } else if client.membership.isAdmitted {
                client.begin()
            } else {
                client.rejectOverloaded()
            }
        } catch {
            log.warning(
                "a client's connection cannot be watched", metadata: ["event": "client.failed", "reason": "\(error)"])
        }
    }

    /// nil: no client waits here, or a client of another shard has waited longer; other shards can still be asked.
    private func slot(for raw: CInt, isTCP: Bool, others: ArraySlice<Shard>) -> ConnectionSlot? {
        var peer: PeerPermit?
        let peers = context.peers
        if peers.isLimited, isTCP, let address = SocketAddress(filledBy: { getpeername(raw, $0, $1) == 0 }) {
            guard let permit = peers.acquire(address.host) else { return rejectionSlot() }
            peer = consume permit
        }
        if let permit = context.connections.acquire() { return .client(permit, peer) }
        let isLongestHere = others.allSatisfy { longestWait <= $0.longestWait }
        if isLongestHere, !context.connections.isExceeded, closeLongestWaiting(),
            let permit = context.connections.acquire()
        {
            return .client(permit, peer)
        }
        return others.isEmpty ? rejectionSlot() : nil
    }

    /// Since when the client waits that has waited longest here; `.never` if none waits. From any thread; another shard
    /// may read a value that is about to change.
    private var longestWait: Instant { Instant(nanoseconds: waitingSince.load(ordering: .relaxed)) }

    private func rejectionSlot() -> ConnectionSlot {
        if let permit = context.rejectionSlots.acquire() { .rejection(permit) } else { .none }
    }

    /// Clients adopted and on their way. From any thread. Without those on their way a slow shard would get far too
    /// many.
    package var expectedLoad: Int { load.value + incoming.load(ordering: .relaxed) }

    /// Hands a client's socket over. From any queue, such as another shard's.
    package func handOver(
        _ socket: consuming OwnedDescriptor, listener: Int, isTCP: Bool, others: ArraySlice<Shard>
    ) {
        incoming.add(1, ordering: .relaxed)
        context.arrivals.begin()
        let raw = socket.release()
        loop.post { [self] in
            adopt(OwnedDescriptor(taking: raw), listener: listener, isTCP: isTCP, others: others)
            incoming.subtract(1, ordering: .relaxed)
            context.arrivals.end()
        }
    }

    func remove(_ client: ClientConnection) {
        loop.assertIsCurrent()
        guard clients.remove(client) else { return }
        load.add(-1)
        if client.membership.isAdmissionEnding { admissionEnds.remove(client) }
        // What still refers to the connection keeps no slot.
        client.membership.slot = .none
        if isDraining, clients.all.isEmpty { reportEmpty() }
    }

    private func closeLongestWaiting() -> Bool {
        guard let longest = waiting.first else { return false }
        longest.closeForNewClient()
        return true
    }

    /// From now on each response closes its connection. Idle connections close after 500 ms without a request
    /// (http-connections.md 20.1).
    package func drain(then whenEmpty: @escaping @Sendable () -> Void) {
        loop.assertIsCurrent()
        isDraining = true
        self.whenEmpty = whenEmpty
        for client in clients.all { client.drain() }
        if clients.all.isEmpty { reportEmpty() }
    }

    /// Closes all connections. The loop is then stopped.
    package func abortAll() {
        loop.assertIsCurrent()
        for client in clients.all { client.abandon() }
        for pool in served.pools {
            pool.closeIdle()
            pool.finish()
        }
        retired.end()
        suppressed.stop()
        admissionEnds.stop()
    }

    private func reportEmpty() {
        let report = whenEmpty
        whenEmpty = nil
        report?()
    }

    // MARK: Reload (architecture-control.md 7.9)

    /// A configuration with this shard's pools and counters. Those of routes that stay are kept. From any thread.
    ///
    /// A route keeps its pool if it keeps its upstream, and its counters if it keeps its name.
    ///
    /// - Parameter active: the active user from the first request of this configuration on.
    func makeRoutes(
        _ configuration: ServedConfiguration, keeping former: ShardRoutes?, active: UserIndex? = nil
    ) -> ShardRoutes {
        let counters = configuration.routeList.map { route in
            former?.counters.first { $0.name == route.settings.name } ?? RouteCounters(route.settings.name)
        }
        let pools = zip(configuration.targets, counters).map { target, counters in
            former?.pools.first { $0.target === target }
                ?? UpstreamPool(
                    target: target, loop: loop, parked: context.parked, buffers: context.buffers, tls: tls,
                    idle: idleConnections, counters: counters.connections, keepAlive: context.keepAlive)
        }
        return ShardRoutes(configuration, pools: pools, counters: counters, active: active)
    }

    @inline(__always) var limits: LimitSettings { served.configuration.limits }
    @inline(__always) var headLimits: HeadLimits { served.configuration.headLimits }

    /// The present table is in use until its head is complete, or is too small.
    func renewResponseTable() {
        loop.assertIsCurrent()
        responseTable = Self.responseTable(served.configuration, context)
    }

    /// Has room for a trailer section, and for the `Connection` lines of its head.
    private static func responseTable(_ configuration: ServedConfiguration, _ context: ExchangeContext) -> FieldTable {
        FieldTable(capacity: 2 * configuration.responseLimits.fieldsMax, budget: context.buffers)
    }

    private var idleConnectionsMax: Int {
        max(limits.upstreamConnectionsMax / context.shardCount, 1)
    }

    /// Serves new requests by another configuration: its routes with its users and its active one, in this turn.
    /// Requests in progress end with theirs. Those that wait for a token of a user that is replaced are refused.
    func serve(_ routes: ShardRoutes) {
        loop.assertIsCurrent()
        for pool in served.pools where !routes.pools.contains(where: { $0 === pool }) { pool.retire() }
        retired.add(served)
        served = routes
        for client in clients.all { client.leaveFormerConfiguration() }
        idleConnections.setMax(idleConnectionsMax)
        spareBuffers.removeAll()
        handshakes.sessionsMax = limits.handshakesMax
        renewResponseTable()
        for case let user? in routes.configuration.routeList.map(\.user) + [routes.active] { tokens.add(user) }
        if routes.configuration.closesStreams { closesStreams = true }
        endSessions()
    }

    /// Ends what the sessions do not permit any more: tunnels (`close_upgraded_on`) and responses in progress (`close_streams_on`).
    func endSessions() {
        endTunnels()
        guard closesStreams else { return }
        for client in Array(clients.all) {
            if let cut = endOfResponse(client) { client.perform(client.exchange.handleSessionEnd(cut)) }
        }
    }

    /// Writes the lines of the access log there, in that format, from the next request on; nil: writes none.
    func setAccessLines(_ lines: AccessLines?) {
        loop.assertIsCurrent()
        // The rings stay the same: only on, off and the format can differ.
        if lines?.format != accessLog?.format { accessLog = lines.map(AccessLog.init) }
    }

    /// Replaces the capability of a listener.
    func setCapability(_ capability: Secret?, ofListener index: Int) {
        loop.assertIsCurrent()
        capabilities[index] = capability
    }

    /// Has new connections to a listener use this context. Others continue with the one that they began with, unless it has admitted
    /// clients that the new one would not admit: an authority was removed. Then they end, with an exchange in progress after `drain_max`
    /// at the latest.
    func setTLS(_ tls: TLSServerContext, ofListener index: Int) {
        loop.assertIsCurrent()
        let formerTLS = listenerTLS[index]
        listenerTLS[index] = tls
        guard let formerTLS, !tls.admitsClients(of: formerTLS) else { return }
        let former = clients.all.filter { $0.view.rules.tlsIndex == index }
        for client in former { client.endAdmission() }
        admissionEnds.add(
            former.filter { $0.membership.isAdmissionEnding }, until: loop.now + served.configuration.drainMax)
    }

    // MARK: Resources that exchanges share

    func acquireBuffer() -> RequestBuffer {
        loop.assertIsCurrent()
        return spareBuffers.popLast()
            ?? RequestBuffer(fieldsMax: limits.headerFieldsMax, budget: context.buffers)
    }

    func release(_ buffer: consuming RequestBuffer) {
        loop.assertIsCurrent()
        guard spareBuffers.count < Self.spareBuffersMax, buffer.capacity == RequestBuffer.firstCapacity,
            buffer.table.capacity == limits.headerFieldsMax, !context.buffers.isUnder(.optionalFreed)
        else { return }
        buffer.used = buffer.count
        buffer.compact()
        spareBuffers.append(buffer)
    }

    /// The buffer for one read; its bytes may have to be queued. nil: no memory is left, and the client pauses.
    @inline(__always)
    func room(
        for client: ClientConnection, upTo sizeMax: Int = ReadSize.standard
    ) -> UnsafeMutableRawBufferPointer? {
        loop.assertIsCurrent()
        let readSize = context.buffers.readSize(upTo: sizeMax)
        if readSize == ReadSize.large { return scratch }
        guard readSize == 0 else { return UnsafeMutableRawBufferPointer(rebasing: scratch[0..<readSize]) }
        if !client.membership.isPaused {
            client.membership.isPaused = true
            paused.add(client)
        }
        return nil
    }

    /// Optional memory is freed: releases spare buffers and replay copies (http-connections.md 8: replay copies go first).
    func releaseSpareMemory() {
        loop.assertIsCurrent()
        spareBuffers.removeAll()
        tls.releaseAll()
        for client in clients.all { client.releaseReplayCopy() }
    }

    /// Requests are refused for want of memory: gives up incomplete heads and trailer sections, the largest first, until optional
    /// memory need not be freed. Clients that send endless parts of them would otherwise block all others until a deadline.
    func giveUpPartialHeads() {
        loop.assertIsCurrent()
        let largestPartialHeads = clients.all.filter { $0.partialBytes > 0 }.sorted {
            $0.partialBytes > $1.partialBytes
        }
        for client in largestPartialHeads {
            // What does not count is given up first of all: nothing else limits it.
            let isUncounted = client.stream.tlsSession?.buffers.partialRecord == .uncounted
            guard isUncounted || context.buffers.isUnder(.optionalFreed) else { continue }
            client.giveUpPartialHead()
        }
    }

    /// Writes the `Date` of the current second.
    func writeDate(_ out: inout HeadWriter) {
        loop.assertIsCurrent()
        let second = WallTime.now.seconds
        if second != dateSecond {
            dateSecond = second
            dateBytes.withUnsafeMutableBufferPointer {
                HTTPDate.write(WallTime(seconds: second), into: $0.baseAddress!)
            }
        }
        out.write(dateBytes)
    }

    /// The id of the next request.
    func nextRequestID() -> RequestID {
        loop.assertIsCurrent()
        requestNumber &+= 0x9e37_79b9_7f4a_7c15
        var mixed = requestNumber
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return RequestID(mixed ^ mixed >> 31)
    }
}
