import LanyardFoundations
import LanyardSettings

/// One client's connection and its current exchange: the shell that performs the actions of `Exchange`.
///
/// It reads, writes and keeps deadlines. The readers and `Exchange` decide. Belongs to the shard's queue, which it
/// checks for its parts and its stream, too.
///
/// `RequestAdmission` decides what is forwarded.
///
/// Its parts own the state of the current exchange. A part does no I/O and knows no other part:
/// - `RequestInput`: the request's bytes, and what was read of them.
/// - `UpstreamAttempt`: the token, the connection, and how far the request's head has come.
/// - `ResponseRelay`: what was read of the response.
/// - `RequestReplay`: what a second sending of the request needs.
///
/// Three parts are the connection's: `ClientWaits` has what each deadline is for, `ShardMembership` what the shard's
/// limits and lists know, and `BoundUpstreams` the upstream connections on which the client has authenticated itself.
///
/// This file has the state, the stream, the deadlines and the events. The extensions let the parts work together:
/// - `+Handshake` makes the TLS handshake.
/// - `+Request` reads heads and bodies.
/// - `+Upstream` sends the request.
/// - `+Response` relays the response.
/// - `+Replay` handles a refused token.
/// - `+Upgrade` begins and ends a tunnel.
/// - `+Ending` sends Lanyard's own responses and closes.
package final class ClientConnection: Watcher, UpstreamOwner, TokenCache.Waiter, @unchecked Sendable {
    let shard: Shard
    /// What the current request began with.
    private(set) var view: ServedView
    var membership: ShardMembership
    var stream: ByteStream
    var state: ConnectionState {
        didSet { if membership.waitingLinks.isListed, !state.isWaitingForRequest { shard.waiting.remove(self) } }
    }
    var waits = ClientWaits()

    // The current exchange and its parts.
    var exchange = Exchange(RequestHead())
    var input = RequestInput()
    var upstream = UpstreamAttempt()
    var relay: ResponseRelay
    var replay: RequestReplay
    /// Of the connection: upstream connections that belong to this client.
    var bound = BoundUpstreams()

    init(
        taking socket: consuming OwnedDescriptor, shard: Shard, listener: Int, slot: consuming ConnectionSlot
    ) throws(SystemError) {
        stream = ByteStream(taking: socket, budget: shard.context.buffers)
        self.shard = shard
        view = ServedView(shard.served, listener: listener)
        membership = ShardMembership(slot)
        state = view.rules.tlsIndex == nil ? .waiting : .handshake
        relay = ResponseRelay(budget: shard.context.buffers)
        replay = RequestReplay(budget: shard.context.buffers)
        super.init()
        waits.setOwner(self)
        try stream.watch(on: shard.loop, by: self)
    }

    var served: ShardRoutes { view.routes }

    /// Begins to wait. The first head is due within `header_timeout` of the accept, whatever a TLS handshake takes of it.
    func begin() {
        shard.loop.assertIsCurrent()
        beginWaiting()
        begin(state.isHandshake ? .handshake : .idle, for: shard.limits.headerTimeout)
    }

    /// The last response was sent whole. A client that still takes a response is not waiting, and is not closed for a
    /// new client.
    private func beginWaiting() { shard.waiting.append(self, at: shard.loop.now) }

    // MARK: Events

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        shard.loop.assertIsCurrent()
        guard !state.isClosed else { return }
        stream.record(readiness)
        if case .tunnel(_, let tunnel) = state { return tunnel.run() }
        // While nothing is read, a reset by the client shows only here (http-connections.md 9.5).
        if !readiness.isDisjoint(with: [.error, .hangUp]), state.endsOnReset { return abandon() }
        if readiness.contains(.write), !stream.isFlushed { flush() }
        pump()
        if stream.hasEnded, state.isExchange, !waits.isEndKnown { watchEnd() }
    }

    package override func resume() {
        shard.loop.assertIsCurrent()
        if case .tunnel(_, let tunnel) = state { return tunnel.run() }
        pump()
        pumpResponse()
    }

    package override func due(_ deadline: Deadline) {
        shard.loop.assertIsCurrent()
        switch waits.take(deadline, on: shard.loop) {
        case .inbound(.none), .outbound(.none), .token(nil): break
        case .inbound(.handshake): handleHandshakeFailure(.timedOut)
        case .inbound(.head): refuse(.requestTimeout)
        case .inbound(.idle), .inbound(.kernelFlush): handleIdleTimeout()
        case .inbound(.upload(let wait)): if let active = state.forwarding { handleUploadTimeout(wait, of: active) }
        case .inbound(.heldBody): if let active = state.forwarding { handleHeldBodyTimeout(of: active) }
        case .inbound(.refusedBody): finishRefusal()
        case .inbound(.tunnel): if case .tunnel(_, let tunnel) = state { tunnel.due() }
        case .inbound(.linger): close()
        case .outbound(.responseHead): if let active = state.forwarding { handleResponseHeadTimeout(of: active) }
        case .outbound(.responseBody(let idleAt)):
            if let active = state.forwarding { handleResponseBodyDeadline(idleAt, of: active) }
        case .outbound(.clientWrite): handleClientWriteTimeout()
        case .token(.first): if let active = state.forwarding { handleTokenWaitTimeout(of: active) }
        case .token(.other): if let active = state.forwarding { handleHeldResponseTimeout(of: active) }
        case .examination: handleEndDeadline()
        }
    }

    package func handleUpstreamReadiness(_ connection: UpstreamConnection) {
        shard.loop.assertIsCurrent()
        guard connection === upstream.connection else { return }
        if case .tunnel(_, let tunnel) = state { return tunnel.run() }
        if connection.stream.canFlush { flushUpstream() }
        pumpResponse()
    }

    /// Reads while input is there and can be used, up to one turn's share (http-connections.md 20.5).
    func pump() {
        var share = 256 << 10
        while stream.canRead {
            switch state {
            case .handshake: return awaitHandshakeTurn()
            case .waiting, .head:
                guard stream.isFlushed else { return }
                share -= readHead()
            case .exchange(let active):
                guard wantsBody else { return }
                share -= readBody(of: active)
                if membership.isPaused { return }
            case .refusing: share -= readRefusedBody()
            case .lingering: share -= discardInput()
            case .admission, .flushing, .tunnel, .closed: return
            }
            if share <= 0 { return shard.loop.resumeLater(self) }
        }
    }

    // MARK: Deadlines

    func begin(_ wait: InboundWait, for duration: Duration) { begin(wait, until: shard.loop.now + duration) }
    func begin(_ wait: InboundWait, until instant: Instant) { waits.begin(wait, until: instant, on: shard.loop) }
    func endInboundWait() { waits.endInbound(on: shard.loop) }
    func begin(_ wait: OutboundWait, for duration: Duration) {
        waits.begin(wait, until: shard.loop.now + duration, on: shard.loop)
    }
    func endOutboundWait() { waits.endOutbound(on: shard.loop) }
    func begin(_ wait: TokenWait, for duration: Duration) {
        waits.begin(wait, until: shard.loop.now + duration, owner: self, on: shard.loop)
    }

    private func handleResponseHeadTimeout(of active: ActiveExchange) {
        // The upstream is not read while interim responses are queued for the client.
        if !stream.isFlushed { return handleClientWriteTimeout() }
        if membership.isPaused { return awaitUpstreamAnew(for: active) }
        perform(exchange.handleTimeout(.upstreamResponseTimeout))
    }

    private func handleResponseBodyDeadline(_ idleAt: Instant, of active: ActiveExchange) {
        if membership.isPaused { return awaitUpstreamAnew(for: active) }
        if shard.loop.now < idleAt { return checkAcknowledgements(idleAt) }
        perform(exchange.handleTimeout(.upstreamResponseTimeout))
    }

    /// The upstream's bytes may be unread, because memory is short or the client slow: its timeout begins again.
    func awaitUpstreamAnew(for active: ActiveExchange) {
        if exchange.response == .awaited { return begin(.responseHead, for: active.timeouts.responseHeader) }
        awaitResponseBytes(active.timeouts.responseIdle)
    }

    /// All bytes of the response so far are with the kernel: the upstream's next byte is due within `idle`, and the
    /// client's acknowledgement within the write timeout.
    func awaitResponseBytes(_ idle: Duration?) {
        let idleAt = idle.map { shard.loop.now + $0 } ?? .never
        waits.beginResponseBody(idleAt: idleAt, stallInterval: writeTimeout / 2, on: shard.loop)
    }

    /// A client whose machine is gone acknowledges nothing, which shows while the kernel holds bytes for it
    /// (http-connections.md 9.5). It has at least the whole write timeout, and half of it more at most.
    private func checkAcknowledgements(_ idleAt: Instant) {
        if stream.hasStalled() { return abandon(after: Self.writeTimeoutKey) }
        let stallAt = stream.awaitsAcknowledgement ? shard.loop.now + writeTimeout / 2 : Instant.never
        waits.continueResponseBody(idleAt: idleAt, stallAt: stallAt, on: shard.loop)
    }

    // MARK: A client that has ended its direction

    /// The client still reads, or its process is gone: its kernel does not tell for a minute (http-connections.md 9.5).
    private func watchEnd() {
        guard let interval = shard.context.keepAlive.examinationInterval, stream.isTCP else {
            return waits.noteEnd(examining: nil, at: .never, on: shard.loop)
        }
        stream.probeOften(by: shard.context.keepAlive)
        waits.noteEnd(examining: self, at: shard.loop.now + interval.first, on: shard.loop)
    }

    private func handleEndDeadline() {
        guard let interval = shard.context.keepAlive.examinationInterval else { return }
        if state.isExchange, stream.isPeerOrphaned { return abandon() }
        waits.examineAgain(at: shard.loop.now + interval.next, on: shard.loop)
    }

    /// Begins the write timeout: the client must take some bytes within it.
    func beginWriteTimeout() {
        stream.restartProgress()
        begin(.clientWrite, for: writeTimeout)
    }

    /// The client took no byte of our queue in that time, but possibly some of the kernel's buffer (http-connections.md 8.2).
    private func handleClientWriteTimeout() {
        if stream.checkProgress().isProgress { return begin(.clientWrite, for: writeTimeout) }
        abandon(after: state.isExchange ? Self.writeTimeoutKey : nil)
    }

    private static let writeTimeoutKey = "routes[].timeouts.write"

    // MARK: Between requests

    /// The request that begins is served by the present configuration.
    func adoptServedConfiguration() {
        guard view.routes !== shard.served else { return }
        view = ServedView(shard.served, listener: view.rules.index)
    }

    /// A client without a request does not keep the memory of a replaced configuration.
    func leaveFormerConfiguration() {
        shard.loop.assertIsCurrent()
        if state.isWaiting { adoptServedConfiguration() }
    }

    /// The client would not be admitted any more: its connection ends. The shard ends one that lasts too long.
    func endAdmission() {
        shard.loop.assertIsCurrent()
        switch state.admissionEnd(isSecured: stream.isSecured, isFlushed: stream.isFlushed) {
        case .atOnce: if state.isHandshake { handleHandshakeFailure(.admissionChanged) } else { close() }
        case .behindExchange:
            membership.isAdmissionEnding = true
            exchange.closeClient()
        case .behindQueue:
            membership.isAdmissionEnding = true
            if state.isWaiting { closeAfterFlush() }
        case .tunnel: endTunnel(.distrusted)
        case .none: break
        }
    }

    /// Resets the state for the next request, which may have arrived already.
    func nextRequest() {
        state = .waiting
        waits.endResponse()
        input.endRequest(in: shard)
        upstream.endRequest()
        if stream.isFlushed { return beginIdleTimeout() }
        endInboundWait()
        beginWriteTimeout()
    }

    /// Begins the idle timeout: no byte of a response is queued.
    ///
    /// Before that, a client that reads slowly is neither idle nor drained (http-connections.md 8.2, 20.1).
    func beginIdleTimeout() {
        beginWaiting()
        stream.restartProgress()
        endOutboundWait()
        begin(.idle, for: currentIdleTimeout)
    }

    /// During a drain: the time that a request may have been on its way.
    var currentIdleTimeout: Duration {
        shard.isDraining ? .milliseconds(500) : shard.limits.idleTimeout
    }

    /// Closes after 500 ms without a request. A TLS handshake that has begun keeps its time, which its steps may need.
    func drain() {
        shard.loop.assertIsCurrent()
        if state.isHandshake, !hasBegunHandshake { begin(.handshake, for: currentIdleTimeout) }
        if state.isWaiting, stream.isFlushed { begin(.idle, for: currentIdleTimeout) }
        if case .exchange(let active) = state { shortenTokenWait(of: active) }
    }

    private func handleIdleTimeout() {
        // During a drain: a request that has arrived since is processed.
        if shard.isDraining, stream.hasPendingInput(), !stream.hasEnded {
            stream.expectInput()
            return pump()
        }
        switch stream.checkProgress() {
        case .empty: close()
        // The client has not taken all before: the idle timeout begins now.
        case .emptied: beginIdleTimeout()
        case .shrunk:
            waits.closing.awaitKernelFlush(at: shard.loop.now)
            awaitKernelFlush()
        case .unchanged:
            if shard.loop.now >= waits.closing.kernelFlushDeadline { abandon() } else { awaitKernelFlush() }
        }
    }

    /// The kernel still holds bytes of the last response. A close now would meet the client's next request with a
    /// reset, which discards them, and the end of the process may end its network. While the kernel's buffer shrinks,
    /// the connection stays open.
    private func awaitKernelFlush() { begin(.kernelFlush, for: min(currentIdleTimeout, .milliseconds(500))) }

    /// All connection slots are in use, and this client has waited longest. A TLS handshake that has begun is counted.
    func closeForNewClient() {
        shard.loop.assertIsCurrent()
        if state.isHandshake, stream.isSecured { handleHandshakeFailure(.tooManyHandshakes) } else { close() }
    }

    /// Closes the connection. Later calls do nothing.
    func close() {
        shard.loop.assertIsCurrent()
        guard !state.isClosed else { return }
        membership.handshakePermit = nil
        state = .closed
        waits.drop(on: shard.loop)
        bound.closeAll()
        input.releaseBuffer(to: shard)
        stream.close(on: shard.loop)
        shard.remove(self)
    }
}
