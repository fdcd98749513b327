import LanyardFoundations
import LanyardSettings

/// One client's connection and its current exchange: the shell that performs the actions of `Exchange`.
///
/// It reads, writes and keeps deadlines. The readers and `Exchange` decide. Belongs to the shard's queue.
///
/// `RequestAdmission` decides what is forwarded.
///
/// Its parts own the state of the current exchange. A part does no I/O and knows no other part:
/// - `RequestIntake`: the request's bytes, and what was read of them.
/// - `UpstreamLeg`: the token, the connection, and how far the request's head has come.
/// - `ResponseRelay`: what was read of the response.
/// - `RequestReplay`: what a second sending of the request needs.
/// - `ClosingLimits`: limits of what is left to do behind a response.
///
/// This file has the phase, the stream, the deadlines and the events. The extensions let the parts work together:
/// - `+Handshake` makes the TLS handshake.
/// - `+Request` reads heads and bodies.
/// - `+Upstream` sends the request.
/// - `+Response` relays the response.
/// - `+Replay` handles a refused token.
/// - `+Upgrade` begins and ends a tunnel.
/// - `+Ending` sends Lanyard's own responses and closes.
package final class ClientConnection: Watcher, UpstreamOwner, TokenCache.Waiter, @unchecked Sendable {
    /// What the connection is doing.
    enum Phase {
        /// The TLS handshake is not complete.
        case handshake
        /// No byte of a request has arrived.
        case waiting
        /// Part of a head has arrived.
        case head
        /// A request is being processed.
        case exchange
        /// After a 101: raw bytes in both directions until the end.
        case tunnel
        /// The last response is queued for the client; then the connection ends.
        case flushing
        /// Writing is shut down; further input is discarded (http-rules.md 9.8).
        case lingering
        case closed
    }

    let shard: Shard
    /// What the current request began with.
    private(set) var served: ShardRoutes
    /// Of the connection's listener, as the current request began with them.
    private(set) var rules: ListenerRules
    /// Until the connection is closed.
    private var slot: ConnectionSlot
    var stream: ByteStream
    var phase: Phase {
        didSet { if waitingLinks.isListed, !isWaitingForRequest { shard.waiting.remove(self) } }
    }
    /// Links in the list of clients that may be closed for a new one.
    var waitingLinks = WaitingClients.Links()
    /// Reading from the client or the upstream is paused until memory is free.
    var isPaused = false
    /// The client's TLS handshake is in progress.
    var handshakePermit: HandshakePermit?
    /// The client waits for its turn in `Shard.handshakes`.
    var isQueuedForHandshake = false
    /// The client's certificate has one of the listener's `client_names`, or the listener has none.
    var isNamedClient = true
    /// The listener would not admit the client any more. Its exchange ends soon, and becomes no tunnel.
    private(set) var isAdmissionEnding = false
    /// Deadline for request heads, request bodies, idle connections and the lingering close.
    private let inboundDeadline = Deadline()
    /// Deadline for the token, the response, and the client's reading of it.
    private let outboundDeadline = Deadline()
    /// Deadline for the examination of a client that has ended its direction; nil: none has begun.
    private var endDeadline: Deadline?
    /// The client's end of its direction is known, and `endDeadline` is set if it needs one.
    private var isEndWatched = false
    /// When the silence of the upstream ends the response.
    private var responseIdleAt = Instant.never
    /// When the client must have acknowledged some of the response's bytes; `.never`: no byte was sent since the last
    /// check.
    private var stallCheckAt = Instant.never

    // The current exchange and its parts.
    var exchange = Exchange(RequestHead())
    var intake = RequestIntake()
    var upstream = UpstreamLeg()
    var relay: ResponseRelay
    var replay: RequestReplay
    var closing = ClosingLimits()
    var tunnel: TunnelRelay?

    init(
        taking socket: consuming OwnedDescriptor, shard: Shard, listener: Int, slot: consuming ConnectionSlot
    ) throws(SystemError) {
        stream = ByteStream(taking: socket, budget: shard.context.buffers)
        self.shard = shard
        served = shard.served
        rules = shard.served.configuration.rules[listener]
        self.slot = slot
        phase = rules.tlsIndex == nil ? .waiting : .handshake
        relay = ResponseRelay(budget: shard.context.buffers)
        replay = RequestReplay(budget: shard.context.buffers)
        super.init()
        inboundDeadline.owner = self
        outboundDeadline.owner = self
        try stream.watch(on: shard.loop, by: self)
    }

    /// The connection counts as a client's. Else it is refused.
    var isAdmitted: Bool {
        switch slot {
        case .client: true
        case .rejection: false
        case .none: false
        }
    }

    /// The connection is refused and closed at once.
    var isOverRejectionLimit: Bool {
        switch slot {
        case .none: true
        case .rejection: false
        case .client: false
        }
    }

    /// The shard does not count the connection any more. What still refers to it keeps no slot.
    func releaseSlot() { slot = .none }

    /// Begins to wait. The first head is due within `header_timeout` of the accept, whatever a TLS handshake takes of it.
    func begin() {
        beginWaiting()
        setInbound(shard.limits.headerTimeout)
    }

    /// No request is being processed.
    var isWaitingForRequest: Bool { phase == .waiting || phase == .head || phase == .handshake }

    /// The last response was sent whole. A client that still takes a response is not waiting, and is not closed for a
    /// new client.
    private func beginWaiting() { shard.waiting.append(self, at: shard.loop.now) }

    // MARK: Events

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        guard phase != .closed else { return }
        stream.record(readiness)
        if let tunnel { return tunnel.run() }
        // While nothing is read, a reset by the client shows only here (http-rules.md 9.5).
        if !readiness.isDisjoint(with: [.error, .hangUp]),
            phase == .exchange || phase == .flushing || phase == .lingering
        {
            return abandon()
        }
        if readiness.contains(.write), !stream.isFlushed { flush() }
        pump()
        if stream.hasEnded, phase == .exchange, !isEndWatched { watchEnd() }
    }

    package override func resume() {
        if let tunnel { return tunnel.run() }
        pump()
        pumpResponse()
    }

    package override func due(_ deadline: Deadline) {
        if deadline === inboundDeadline {
            inboundDue()
        } else if deadline === outboundDeadline {
            outboundDue()
        } else {
            endDue()
        }
    }

    package func upstreamReady(_ connection: UpstreamConnection) {
        guard connection === upstream.connection else { return }
        if let tunnel { return tunnel.run() }
        if connection.stream.canFlush { flushUpstream() }
        pumpResponse()
    }

    /// Reads while input is there and can be used, up to one turn's share (http-rules.md 20.5).
    func pump() {
        var share = 256 << 10
        while stream.canRead {
            switch phase {
            case .handshake: return awaitHandshakeTurn()
            case .waiting, .head:
                guard stream.isFlushed else { return }
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

    func setInbound(_ duration: Duration) { setInbound(at: shard.loop.now + duration) }
    func setInbound(at instant: Instant) { shard.loop.set(inboundDeadline, at: instant) }
    func clearInbound() { shard.loop.set(inboundDeadline, at: .never) }
    func setOutbound(_ duration: Duration) { shard.loop.set(outboundDeadline, at: shard.loop.now + duration) }
    func clearOutbound() { shard.loop.set(outboundDeadline, at: .never) }

    private func inboundDue() {
        switch phase {
        case .handshake: handshakeFailed(.timedOut)
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
        case .exchange where replay.held != nil: heldResponseTimedOut()
        case .exchange where upstream.isParked: tokenWaitTimedOut()
        case .exchange where !stream.isFlushed: clientWriteTimedOut()
        case .exchange where isPaused: awaitUpstreamAnew()
        case .exchange where exchange.response == .relaying && shard.loop.now < responseIdleAt: checkAcknowledgements()
        case .exchange: perform(exchange.timedOut(.upstreamResponseTimeout))
        case .flushing: clientWriteTimedOut()
        // The end of a response is queued; its request is over.
        case .waiting where !stream.isFlushed: clientWriteTimedOut()
        case .handshake, .waiting, .head, .tunnel, .lingering, .closed: break
        }
    }

    /// The upstream's bytes may be unread, because memory is short or the client slow: its timeout begins again.
    func awaitUpstreamAnew() {
        guard let route = intake.route else { return }
        let timeouts = timeouts(route)
        if exchange.response == .awaited { return setOutbound(timeouts.responseHeader) }
        awaitResponseBytes(timeouts.responseIdle)
    }

    /// All bytes of the response so far are with the kernel: the upstream's next byte is due within `idle`, and the
    /// client's acknowledgement within the write timeout.
    func awaitResponseBytes(_ idle: Duration?) {
        let now = shard.loop.now
        responseIdleAt = idle.map { now + $0 } ?? .never
        if stallCheckAt == .never { stallCheckAt = now + writeTimeout / 2 }
        shard.loop.set(outboundDeadline, at: min(responseIdleAt, stallCheckAt))
    }

    /// A client whose machine is gone acknowledges nothing, which shows while the kernel holds bytes for it
    /// (http-rules.md 9.5). It has at least the whole write timeout, and half of it more at most.
    private func checkAcknowledgements() {
        if stream.hasStalled() { return abandon() }
        stallCheckAt = stream.awaitsAcknowledgement ? shard.loop.now + writeTimeout / 2 : .never
        shard.loop.set(outboundDeadline, at: min(responseIdleAt, stallCheckAt))
    }

    // MARK: A client that has ended its direction

    /// The client still reads, or its process is gone: its kernel does not tell for a minute (http-rules.md 9.5).
    private func watchEnd() {
        isEndWatched = true
        guard let interval = shard.context.keepAlive.examinationInterval, stream.isTCP else { return }
        stream.probeOften(by: shard.context.keepAlive)
        let deadline = Deadline(of: self)
        endDeadline = deadline
        shard.loop.set(deadline, at: shard.loop.now + interval.first)
    }

    private func endDue() {
        guard let endDeadline, let interval = shard.context.keepAlive.examinationInterval else { return }
        if phase == .exchange, stream.isPeerOrphaned { return abandon() }
        shard.loop.set(endDeadline, at: shard.loop.now + interval.next)
    }

    /// Begins the write timeout: the client must take some bytes within it.
    func beginWriteTimeout() {
        stream.restartProgress()
        setOutbound(writeTimeout)
    }

    /// The client took no byte of our queue in that time, but possibly some of the kernel's buffer (http-rules.md 8.2).
    private func clientWriteTimedOut() {
        if stream.checkProgress().isProgress { setOutbound(writeTimeout) } else { abandon() }
    }

    // MARK: Between requests

    /// The request that begins is served by the present configuration.
    func adoptServedConfiguration() {
        guard served !== shard.served else { return }
        served = shard.served
        rules = served.configuration.rules[rules.index]
    }

    /// A client without a request does not keep the memory of a replaced configuration.
    func leaveFormerConfiguration() { if phase == .waiting { adoptServedConfiguration() } }

    /// The client would not be admitted any more: its connection ends, at once or behind the request in progress. The shard ends one that
    /// lasts too long.
    func endAdmission() {
        switch phase {
        case .handshake: if stream.isSecured { close() }
        case .waiting, .head: close()
        case .exchange:
            isAdmissionEnding = true
            exchange.closeClient()
        case .tunnel: endTunnel(.distrusted)
        case .flushing: isAdmissionEnding = true
        case .lingering, .closed: break
        }
    }

    /// Resets the state for the next request, which may have arrived already.
    func nextRequest() {
        phase = .waiting
        closing.setWriteTimeout(writeTimeout)
        stallCheckAt = .never
        intake.endRequest(in: shard)
        upstream.endRequest()
        if stream.isFlushed { return beginIdleTimeout() }
        clearInbound()
        beginWriteTimeout()
    }

    /// Begins the idle timeout: no byte of a response is queued.
    ///
    /// Before that, a client that reads slowly is neither idle nor drained (http-rules.md 8.2, 20.1).
    func beginIdleTimeout() {
        beginWaiting()
        stream.restartProgress()
        clearOutbound()
        setInbound(currentIdleTimeout)
    }

    /// During a drain: the time that a request may have been on its way.
    var currentIdleTimeout: Duration {
        shard.isDraining ? .milliseconds(500) : shard.limits.idleTimeout
    }

    /// Closes after 500 ms without a request. A TLS handshake that has begun keeps its time, which its steps may need.
    func drain() {
        let isSilent = phase == .handshake ? !hasBegunHandshake : phase == .waiting && stream.isFlushed
        if isSilent { setInbound(currentIdleTimeout) }
    }

    private func idleTimeoutExpired() {
        // During a drain: a request that has arrived meanwhile is processed.
        if shard.isDraining, !stream.staysIdle(), !stream.hasEnded {
            stream.expectInput()
            return pump()
        }
        switch stream.checkProgress() {
        case .empty: close()
        // The client has not taken all before: the idle timeout begins now.
        case .emptied: beginIdleTimeout()
        case .shrunk:
            closing.awaitKernelFlush(at: shard.loop.now)
            awaitKernelFlush()
        case .unchanged: if shard.loop.now >= closing.kernelFlushDeadline { abandon() } else { awaitKernelFlush() }
        }
    }

    /// The kernel still holds bytes of the last response. A close now would meet the client's next request with a
    /// reset, which discards them, and the end of the process may end its network. While the kernel's buffer shrinks,
    /// the connection stays open.
    private func awaitKernelFlush() { setInbound(min(currentIdleTimeout, .milliseconds(500))) }

    /// Closes the connection. Later calls do nothing.
    func close() {
        guard phase != .closed else { return }
        handshakePermit = nil
        phase = .closed
        shard.loop.drop(inboundDeadline)
        shard.loop.drop(outboundDeadline)
        if let endDeadline { shard.loop.drop(endDeadline) }
        intake.releaseBuffer(to: shard)
        stream.close(on: shard.loop)
        shard.remove(self)
    }
}
