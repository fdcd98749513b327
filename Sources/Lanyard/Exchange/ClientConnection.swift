import Glibc

/// One client's connection and the exchange that is under way on it: the thin shell around `Exchange`.
///
/// It reads, writes and keeps deadlines; what follows from what it sees is decided by the readers and by `Exchange`. Belongs to the shard's
/// queue. The parts: this file has its state and its events; `+Request` reads heads, `+Admission` judges them, `+Upstream` sends them on,
/// `+Response` brings the answer back, `+Ending` closes.
package final class ClientConnection: Watcher, UpstreamOwner, TokenBoard.Waiter, @unchecked Sendable {
    /// Where the connection stands between two requests.
    enum Phase {
        /// No byte of a request has come.
        case waiting
        /// Part of a head has come.
        case head
        /// A request is being answered.
        case exchange
        /// The last answer waits for the client to take it; then the end.
        case flushing
        /// Writing is over; what still comes is read and thrown away (http-requirements 9.8).
        case lingering
        case closed
    }

    let shard: Shard
    let rules: ListenerRules
    /// Counts against `connections_max`.
    let holdsSlot: Bool
    private var socket: OwnedDescriptor?
    /// The descriptor, lent while the connection is open.
    let raw: CInt
    private var watch: EventLoop.Watch?

    var phase = Phase.waiting
    var canRead = false
    var canWrite = true
    /// The client has ended its direction, or all: reading goes on until that end is met.
    var hasEnded = false
    var outbound = ByteQueue()
    /// Heads, request bodies, idling; also the lingering close.
    let inboundDeadline = Deadline()
    /// Token, response, the client's taking of it.
    let outboundDeadline = Deadline()
    /// Since when it waits for a request.
    private(set) var waitingSince = Instant.past
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
    /// Our own `100 Continue` is due if the upstream says nothing (http-requirements 11.2).
    var owesContinue = false

    // The answer.
    var upstream: UpstreamConnection?
    var acquisition: UpstreamPool.Request?
    var responseReader = ResponseReader()
    /// A response head that is not whole yet, and its field table.
    var partialHead = ByteQueue()
    var partialTable: FieldTable?
    var responseBody: ResponseBody?
    var sentStatus = 0
    /// The client learns the body's end from the connection's: a truncation must be a reset.
    var isDelimitedByClose = false

    init(
        taking socket: consuming OwnedDescriptor, shard: Shard, rules: ListenerRules, holdsSlot: Bool
    ) throws(Fault) {
        raw = socket.raw
        self.socket = consume socket
        self.shard = shard
        self.rules = rules
        self.holdsSlot = holdsSlot
        exchange = Exchange(RequestHead())
        super.init()
        inboundDeadline.owner = self
        outboundDeadline.owner = self
        watch = try shard.loop.watch(raw, for: [.read, .write, .readHangUp, .edge], by: self)
    }

    /// The first head is due within `header_timeout` of the accept.
    func begin() {
        waitingSince = shard.loop.now
        setInbound(shard.context.limits.headerTimeout)
        if shard.isDraining { drain() }
    }

    var isWaitingForRequest: Bool { phase == .waiting || phase == .head }

    // MARK: Events

    package override func ready(_ readiness: Readiness, on watch: EventLoop.Watch) {
        guard phase != .closed else { return }
        if !readiness.isDisjoint(with: [.error, .hangUp]) {
            hasEnded = true
            // While nothing is read, this is how a client's reset is noticed (http-requirements 9.5).
            if phase == .exchange || phase == .flushing || phase == .lingering { return abandon() }
        }
        if readiness.contains(.readHangUp) { hasEnded = true }
        if hasEnded || readiness.contains(.read) { canRead = true }
        if readiness.contains(.write) {
            canWrite = true
            if !outbound.isEmpty { flush() }
        }
        pump()
    }

    package override func resume() {
        pump()
        pumpResponse()
    }

    package override func due(_ deadline: Deadline) {
        if deadline === inboundDeadline { inboundDue() } else { outboundDue() }
    }

    package func upstreamReady(_ connection: UpstreamConnection) {
        guard connection === upstream else { return }
        if connection.canWrite, !connection.outbound.isEmpty { flushUpstream() }
        pumpResponse()
    }

    /// Reads while there is something to read and somebody to take it, up to a turn's share (http-requirements 20.5).
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
            case .lingering: share -= discardInput()
            case .flushing, .closed: return
            }
            if share <= 0 { return shard.loop.later(self) }
        }
    }

    // MARK: Deadlines

    func setInbound(_ duration: Duration) { shard.loop.set(inboundDeadline, at: shard.loop.now + duration) }
    func clearInbound() { shard.loop.set(inboundDeadline, at: .never) }
    func setOutbound(_ duration: Duration) { shard.loop.set(outboundDeadline, at: shard.loop.now + duration) }
    func clearOutbound() { shard.loop.set(outboundDeadline, at: .never) }

    private func inboundDue() {
        switch phase {
        case .waiting:
            // A drain's last look: what has arrived meanwhile is served.
            if shard.isDraining, !Socket.isQuiet(raw), !hasEnded {
                canRead = true
                return pump()
            }
            close()
        case .head: refuse(.requestTimeout)
        case .exchange: uploadDue()
        case .lingering: close()
        case .flushing, .closed: break
        }
    }

    private func outboundDue() {
        switch phase {
        case .exchange where isParked: tokenOverdue()
        case .exchange where !outbound.isEmpty: abandon()
        case .exchange:
            perform(exchange.timedOut(.upstreamResponseTimeout))
        case .flushing: abandon()
        case .waiting, .head:
            // An answered request whose bytes the client does not take, and which may pipeline more.
            if !outbound.isEmpty { abandon() }
        case .lingering, .closed: break
        }
    }

    // MARK: Between requests

    /// The connection is ready for the next request, which may have arrived already.
    func nextRequest() {
        phase = .waiting
        waitingSince = shard.loop.now
        reader = RequestReader()
        route = nil
        token = nil
        user = nil
        clearOutbound()
        setInbound(shard.context.limits.idleTimeout)
        if let buffer {
            if buffer.used < buffer.count {
                buffer.startOver()
            } else {
                shard.giveBack(buffer)
                self.buffer = nil
            }
        }
        if !outbound.isEmpty { setOutbound(.seconds(60)) }
        if shard.isDraining { drain() }
    }

    /// Closes after 500 ms of silence, if no request comes before.
    func drain() {
        guard phase == .waiting else { return }
        setInbound(.milliseconds(500))
    }

    /// Gives the descriptor back. Once.
    func releaseSocket() {
        if let watch { shard.loop.forget(watch) }
        watch = nil
        socket = nil
    }
}
