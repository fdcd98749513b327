import Glibc

/// One client's connection and the exchange that is under way on it: the thin shell around `Exchange`.
///
/// It reads, writes and keeps deadlines; what follows from what it sees is decided by the readers and by `Exchange`. Belongs to the shard's
/// queue. The parts: this file has its state and its events; `+Request` reads heads, `+Admission` judges them, `+Upstream` sends them on,
/// `+Response` brings the answer back, `+Upgrade` makes a tunnel of it where it may, `+Ending` closes.
package final class ClientConnection: Watcher, UpstreamOwner, TokenCache.Waiter, @unchecked Sendable {
    /// Where the connection stands between two requests.
    enum Phase {
        /// No byte of a request has come.
        case waiting
        /// Part of a head has come.
        case head
        /// A request is being answered.
        case exchange
        /// After a 101: raw bytes both ways until the end.
        case tunnel
        /// The last answer waits for the client to take it; then the end.
        case flushing
        /// Writing is over; what still comes is read and thrown away (http-rules.md 9.8).
        case lingering
        case closed
    }

    /// What a connection counts against.
    enum ConnectionSlot {
        /// `connections_max`, and `connections_per_peer_max` of a peer.
        case slot(String?)
        /// It is turned away, and one of those that may linger.
        case rejectionSlot
        /// It is turned away at once.
        case none
    }

    let shard: Shard
    let rules: ListenerRules
    let place: ConnectionSlot
    private var socket: OwnedDescriptor?
    /// The descriptor, lent while the connection is open.
    let raw: CInt
    private var watch: EventLoop.Watch?

    /// Who the client is, asked for once by routes that tell their upstream.
    lazy var peer = ForwardedPeer(raw)
    var phase = Phase.waiting {
        didSet { if waitingLinks.isListed, !isWaitingForRequest { shard.waiting.remove(self) } }
    }
    /// Its place among the clients that may be closed for a new one.
    var waitingLinks = WaitingClients.Links()
    var canRead = false
    var canWrite = true
    /// Its reading, of either side, waits for memory.
    var isPaused = false
    /// The client has ended its direction, or all: reading goes on until that end is met.
    var hasEnded = false
    /// What the kernel held for the client, or for the upstream, when the time began in which that side must take something: a side that
    /// takes little at a time has the kernel's buffer to empty before it can take a byte of ours.
    private var kernelBytesForClient = 0
    var kernelBytesForUpstream = 0
    /// Between two requests: when it must have taken some of what the kernel holds.
    private var kernelFlushDeadline = Instant.never
    /// How long it may take nothing of what belongs to no route: the end of an answer keeps the time of its own.
    var tailTimeout = ClientConnection.standardWriteTimeout
    var outbound: ByteQueue
    /// How much of a response one read may bring: little for a client that stalls.
    var readSizeMax = Shard.scratchBytes
    /// Heads, request bodies, idling; also the lingering close.
    let inboundDeadline = Deadline()
    /// Token, response, the client's taking of it.
    let outboundDeadline = Deadline()
    var lingerEnd = Instant.never

    // The request in hand.
    var buffer: RequestBuffer?
    var reader = RequestReader()
    /// The parse loop is at work further up: an answer given meanwhile returns to it.
    var isParsing = false
    var requests = 0
    var head = RequestHead()
    var target = RequestTarget.root
    var route: Route?
    var body = RequestBody(.none)
    var exchange: Exchange
    var requestID = ""
    var user: UserIndex?
    var token: AccessToken?
    var isParked = false
    /// The length of what was sent upstream with the head, while some of it waits; else 0.
    var unsentHeadBytes = 0
    /// Our own `100 Continue` is due if the upstream says nothing (http-rules.md 11.2).
    var isContinueDue = false
    /// The protocol that the request may be upgraded to, as its route spells it.
    var upgrade: [UInt8]?
    var tunnel: TunnelRelay?

    // The answer.
    var upstream: UpstreamConnection?
    var acquisition: UpstreamPool.Acquisition?
    var responseReader = ResponseReader()
    /// A response head that is not whole yet, and its field table; behind a body, its trailer section.
    var partialHead: ByteQueue
    var partialTable: FieldTable?
    var responseBody: ResponseBody?
    var sentStatus = 0
    // A replay (http-rules.md 17).
    var replayBody: ReplayBody
    /// What decides about a replay; nothing is read from the upstream meanwhile.
    var held: HeldResponse?
    /// The route's token went with the request; false where the client's own authorization passed.
    var hasSentToken = false
    /// Why the answer that is relayed was not replayed.
    var replayObstacle: RefusedResponse.ReplayObstacle?
    /// The client learns the body's end from the connection's: a truncation must be a reset.
    var isDelimitedByClose = false

    init(
        taking socket: consuming OwnedDescriptor, shard: Shard, rules: ListenerRules, place: ConnectionSlot
    ) throws(SystemError) {
        raw = socket.raw
        self.socket = consume socket
        self.shard = shard
        self.rules = rules
        self.place = place
        outbound = ByteQueue(budget: shard.context.buffers)
        partialHead = ByteQueue(budget: shard.context.buffers)
        exchange = Exchange(RequestHead())
        replayBody = ReplayBody(budget: shard.context.buffers)
        super.init()
        inboundDeadline.owner = self
        outboundDeadline.owner = self
        watch = try shard.loop.watch(raw, for: [.read, .write, .readHangUp, .edge], by: self)
    }

    /// The first head is due within `header_timeout` of the accept.
    func begin() {
        beginWaiting()
        setInbound(shard.context.limits.headerTimeout)
    }

    var isWaitingForRequest: Bool { phase == .waiting || phase == .head }

    /// It has got all of the last answer. Whoever still takes one does not wait yet, and is not closed for a new client.
    private func beginWaiting() { shard.waiting.append(self) }

    // MARK: Events

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        guard phase != .closed else { return }
        if !readiness.isDisjoint(with: [.error, .hangUp]) {
            hasEnded = true
            // While nothing is read, this is how a client's reset is noticed (http-rules.md 9.5).
            if phase == .exchange || phase == .flushing || phase == .lingering { return abandon() }
        }
        if readiness.contains(.readHangUp) { hasEnded = true }
        if hasEnded || readiness.contains(.read) { canRead = true }
        if readiness.contains(.write) {
            canWrite = true
            if !outbound.isEmpty, phase != .tunnel { flush() }
        }
        if let tunnel { return tunnel.run() }
        pump()
    }

    package override func resume() {
        if let tunnel { return tunnel.run() }
        pump()
        pumpResponse()
    }

    package override func due(_ deadline: Deadline) {
        if deadline === inboundDeadline { inboundDue() } else { outboundDue() }
    }

    package func upstreamReady(_ connection: UpstreamConnection) {
        guard connection === upstream else { return }
        if let tunnel { return tunnel.run() }
        if connection.canWrite, !connection.outbound.isEmpty { flushUpstream() }
        pumpResponse()
    }

    /// Reads while there is something to read and somebody to take it, up to a turn's share (http-rules.md 20.5).
    func pump() {
        var share = 256 << 10
        while canRead {
            switch phase {
            case .waiting, .head:
                guard outbound.isEmpty else { return }
                share -= readHead()
            case .exchange:
                guard wantsBody else { return }
                share -= readBody()
                if isPaused { return }
            case .lingering: share -= discardInput()
            case .flushing, .tunnel, .closed: return
            }
            if share <= 0 { return shard.loop.resumeLater(self) }
        }
    }

    // MARK: Deadlines

    func setInbound(_ duration: Duration) { shard.loop.set(inboundDeadline, at: shard.loop.now + duration) }
    func clearInbound() { shard.loop.set(inboundDeadline, at: .never) }
    func setOutbound(_ duration: Duration) { shard.loop.set(outboundDeadline, at: shard.loop.now + duration) }
    func clearOutbound() { shard.loop.set(outboundDeadline, at: .never) }

    private func inboundDue() {
        switch phase {
        case .waiting: idleTimeoutExpired()
        case .head: refuse(.requestTimeout)
        case .exchange: uploadTimedOut()
        case .tunnel: tunnel?.due()
        case .lingering: close()
        case .flushing, .closed: break
        }
    }

    private func outboundDue() {
        switch phase {
        case .exchange where held != nil: heldResponseTimedOut()
        case .exchange where isParked: tokenWaitTimedOut()
        case .exchange where !outbound.isEmpty: clientWriteTimedOut()
        case .exchange where isPaused: awaitUpstreamAnew()
        case .exchange: perform(exchange.timedOut(.upstreamResponseTimeout))
        case .flushing: clientWriteTimedOut()
        // The end of an answer waits, whose request is over.
        case .waiting where !outbound.isEmpty: clientWriteTimedOut()
        case .waiting, .head, .tunnel, .lingering, .closed: break
        }
    }

    /// What the upstream has sent may wait unread for want of memory: its time begins anew.
    private func awaitUpstreamAnew() {
        guard let route else { return }
        let timeouts = timeouts(route)
        if exchange.response == .awaited { return setOutbound(timeouts.responseHeader) }
        if let idle = timeouts.responseIdle { setOutbound(idle) }
    }

    /// The client must take something within the write time-out.
    func beginWriteTimeout() {
        kernelBytesForClient = Socket.unsentBytes(raw)
        setOutbound(writeTimeout)
    }

    /// It took no byte of ours in that time; perhaps some of the kernel's (http-rules.md 8.2).
    private func clientWriteTimedOut() {
        if Socket.unsentBytes(raw) < kernelBytesForClient { beginWriteTimeout() } else { abandon() }
    }

    // MARK: Between requests

    /// The connection is ready for the next request, which may have arrived already.
    func nextRequest() {
        phase = .waiting
        reader = RequestReader()
        requestID = ""
        tailTimeout = writeTimeout
        route = nil
        token = nil
        user = nil
        upgrade = nil
        if let buffer {
            if buffer.used < buffer.count {
                buffer.compact()
            } else {
                shard.giveBack(buffer)
                self.buffer = nil
            }
        }
        if outbound.isEmpty { return beginIdleTimeout() }
        clearInbound()
        beginWriteTimeout()
    }

    /// Nothing of an answer waits here any more. Before, a client that is slow to take it is not idle, and it is not drained
    /// (http-rules.md 8.2, 20.1).
    func beginIdleTimeout() {
        beginWaiting()
        kernelBytesForClient = 0
        clearOutbound()
        setInbound(currentIdleTimeout)
    }

    /// A drain's is the time that a request may have been on its way.
    private var currentIdleTimeout: Duration {
        shard.isDraining ? .milliseconds(500) : shard.context.limits.idleTimeout
    }

    /// Closes after 500 ms of silence, if no request comes before.
    func drain() {
        guard phase == .waiting, outbound.isEmpty else { return }
        setInbound(currentIdleTimeout)
    }

    private func idleTimeoutExpired() {
        // A drain's last look: what has arrived meanwhile is served.
        if shard.isDraining, !Socket.isQuiet(raw), !hasEnded {
            canRead = true
            return pump()
        }
        let held = Socket.unsentBytes(raw)
        if held > 0 { return awaitKernelFlush(of: held) }
        // If it had not taken all before, its silence begins now.
        if kernelBytesForClient > 0 { beginIdleTimeout() } else { close() }
    }

    /// The kernel still holds some of the last answer. Were the connection closed now, the client's next request would be answered by a
    /// reset that takes the rest away; and where the process ends its network may go with it. As long as some of it moves, it is looked at again.
    private func awaitKernelFlush(of held: Int) {
        if kernelBytesForClient == 0 || held < kernelBytesForClient {
            kernelBytesForClient = held
            kernelFlushDeadline = shard.loop.now + tailTimeout
        } else if shard.loop.now >= kernelFlushDeadline {
            return abandon()
        }
        setInbound(min(currentIdleTimeout, .milliseconds(500)))
    }

    /// Gives the descriptor back. Once.
    func releaseSocket() {
        if let watch { shard.loop.forget(watch) }
        watch = nil
        socket = nil
    }
}
