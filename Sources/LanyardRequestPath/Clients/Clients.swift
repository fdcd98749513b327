import Glibc
import LanyardFoundations
import LanyardSettings
import Logging
import Synchronization

/// The clients of one shard: which are admitted, which wait, and how they end. Belongs to the shard's queue.
package final class Clients: @unchecked Sendable {
    let core: ShardCore
    private var list = ClientList()
    /// Clients that wait for a request and may be closed for a new client.
    var waiting = WaitingClients() {
        didSet { waitingSince.store(waiting.since.nanoseconds, ordering: .relaxed) }
    }
    /// `waiting.since`, for the other shards.
    private let waitingSince = Atomic<Int64>(Instant.never.nanoseconds)
    /// Clients of this shard. Other shards read it to decide where a client goes.
    let load = Counter()
    /// Clients that other shards have handed over and that are not adopted yet.
    private let incoming = Atomic<Int>(0)
    /// The capability of each listener, and behind them those of brokers' callers; nil: there is none, or its file cannot be used, and
    /// nothing is admitted by it.
    private(set) var capabilities: [Secret?]
    /// The TLS of each listener; nil: its clients speak plain HTTP.
    private(set) var listenerTLS: [TLSServerContext?]
    /// Clients in their TLS handshake, of all listeners.
    let handshakes: HandshakeQueue
    /// Clients that their listener would not admit any more.
    private let admissionEnds: AdmissionEnds
    /// A route that was served so far has `close_streams_on`. Without one no publication looks at the clients.
    private var closesStreams: Bool
    /// nil: no drain has begun, or it has reported. Set late because only the caller of the drain knows what follows.
    private var whenEmpty: (@Sendable () -> Void)?

    /// - Parameters:
    ///   - capabilities: one for each listener.
    ///   - listenerTLS: one for each listener.
    init(
        _ core: ShardCore, _ configuration: ServedConfiguration, capabilities: [Secret?],
        listenerTLS: [TLSServerContext?]
    ) {
        self.core = core
        self.capabilities = capabilities
        self.listenerTLS = listenerTLS
        handshakes = HandshakeQueue(loop: core.loop, sessionsMax: configuration.limits.handshakesMax)
        admissionEnds = AdmissionEnds(loop: core.loop)
        closesStreams = configuration.closesStreams
    }

    private var loop: EventLoop { core.loop }
    private var context: ExchangeContext { core.context }

    // MARK: Admission

    /// Adopts a client's socket. At the connection limit the client that has waited longest is closed (http-connections.md
    /// 20.5).
    ///
    /// - Parameter others: shards that are asked if one of their clients has waited longer, or if no client waits here.
    func adopt(_ socket: consuming OwnedDescriptor, listener: Int, isTCP: Bool, others: ArraySlice<Clients>) {
        loop.assertIsCurrent()
        // Refused peers share the slots of refused clients, so that they cannot take those of others.
        let rules = core.served.configuration.rules[listener]
        let isPeer = isTCP || rules.callers.admits(socket.raw)
        guard let slot = isPeer ? slot(for: socket.raw, isTCP: isTCP, others: others) : rejectionSlot() else {
            let next = others.indices.min { others[$0].longestWait < others[$1].longestWait } ?? others.startIndex
            let rest = others[..<next] + others[(next + 1)...]
            return others[next].handOver(socket, listener: listener, isTCP: isTCP, others: rest)
        }
        do {
            let client = try ClientConnection(taking: socket, of: self, listener: listener, slot: slot)
            list.append(client)
            load.add()
            if !isPeer {
                client.rejectPeer()
            } else if client.membership.isAdmitted {
                client.begin()
            } else {
                client.rejectOverloaded()
            }
        } catch {
            core.log.log.warning(
                "a client's connection cannot be watched", metadata: ["event": "client.failed", "reason": "\(error)"])
        }
    }

    /// nil: no client waits here, or a client of another shard has waited longer; other shards can still be asked.
    private func slot(for raw: CInt, isTCP: Bool, others: ArraySlice<Clients>) -> ConnectionSlot? {
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
    var expectedLoad: Int { load.value + incoming.load(ordering: .relaxed) }

    /// Hands a client's socket over. From any queue, such as another shard's.
    func handOver(_ socket: consuming OwnedDescriptor, listener: Int, isTCP: Bool, others: ArraySlice<Clients>) {
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
        guard list.remove(client) else { return }
        // One that was served by a replaced configuration would keep that.
        if client.exchange.served === core.served { list.spares.keep(client.exchange) }
        load.add(-1)
        if client.membership.isAdmissionEnding { admissionEnds.remove(client) }
        // What still refers to the connection keeps no slot.
        client.membership.slot = .none
        if core.isDraining, list.all.isEmpty { reportEmpty() }
    }

    /// The exchange of a connection that begins.
    func exchange(onListener index: Int) -> ClientExchange {
        loop.assertIsCurrent()
        guard let spare = list.spares.take() else { return ClientExchange(of: core, listener: index) }
        spare.beginAnew(onListener: index)
        return spare
    }

    /// A stream with its exchange, for a connection of HTTP/2.
    func stream(onListener index: Int) -> ClientStream {
        loop.assertIsCurrent()
        guard let spare = list.spares.takeStream() else {
            return ClientStream(ClientExchange(of: core, listener: index), budget: context.buffers)
        }
        spare.exchange.beginAnew(onListener: index)
        return spare
    }

    /// The stream has ended. Its connection, or what waits in this turn, may still refer to it.
    func keep(_ stream: ClientStream) {
        loop.assertIsCurrent()
        stream.exchange.end()
        if stream.exchange.served === core.served { list.spares.keep(stream) }
    }

    private func closeLongestWaiting() -> Bool {
        guard let longest = waiting.first else { return false }
        longest.closeForNewClient()
        return true
    }

    // MARK: Ends

    /// From now on each response closes its connection. Idle connections close after 500 ms without a request
    /// (http-connections.md 20.1).
    func drain(then whenEmpty: @escaping @Sendable () -> Void) {
        loop.assertIsCurrent()
        core.isDraining = true
        self.whenEmpty = whenEmpty
        for client in list.all { client.drain() }
        if list.all.isEmpty { reportEmpty() }
    }

    /// Closes all connections.
    func abortAll() {
        loop.assertIsCurrent()
        for client in list.all { client.abandon() }
        admissionEnds.stop()
    }

    private func reportEmpty() {
        let report = whenEmpty
        whenEmpty = nil
        report?()
    }

    /// Ends what the sessions do not permit any more: tunnels (`close_upgraded_on`) and responses in progress (`close_streams_on`).
    func endSessions() {
        loop.assertIsCurrent()
        for exchange in Array(core.tunnels.values) { exchange.endTunnelOfEndedSession() }
        guard closesStreams else { return }
        for client in Array(list.all) { client.forEachExchange { $0.cutResponseOfEndedSession() } }
    }

    /// Another configuration is served. Requests in progress end with theirs.
    func adopt(_ configuration: ServedConfiguration) {
        loop.assertIsCurrent()
        for client in list.all { client.leaveFormerConfiguration() }
        list.spares.drop()
        handshakes.sessionsMax = configuration.limits.handshakesMax
        if configuration.closesStreams { closesStreams = true }
    }

    // MARK: Listeners

    /// Replaces a capability. A reload may add callers.
    func setCapability(_ capability: Secret?, ofListener index: Int) {
        loop.assertIsCurrent()
        while capabilities.count <= index { capabilities.append(nil) }
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
        let former = list.all.filter { $0.exchange.rules.tlsIndex == index }
        for client in former { client.endAdmission() }
        admissionEnds.add(
            former.filter { $0.membership.isAdmissionEnding }, until: loop.now + core.served.configuration.drainMax)
    }

    // MARK: Memory

    /// Optional memory is freed: releases replay copies (http-connections.md 8).
    func releaseReplayCopies() {
        loop.assertIsCurrent()
        for client in list.all { client.forEachExchange { $0.releaseReplayCopy() } }
    }

    /// Requests are refused for want of memory: gives up incomplete heads and trailer sections, the largest first, until optional
    /// memory need not be freed. Clients that send endless parts of them would otherwise block all others until a deadline.
    func giveUpPartialHeads() {
        loop.assertIsCurrent()
        let largestPartialHeads = list.all.filter { $0.partialBytes > 0 }.sorted {
            $0.partialBytes > $1.partialBytes
        }
        for client in largestPartialHeads {
            // What does not count is given up first of all: nothing else limits it.
            let isUncounted = client.stream.tlsSession?.buffers.partialRecord == .uncounted
            guard isUncounted || context.buffers.isUnder(.optionalFreed) else { continue }
            client.giveUpPartialHead()
        }
    }
}
