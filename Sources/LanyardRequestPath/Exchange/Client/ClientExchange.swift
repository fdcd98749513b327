import LanyardFoundations
import LanyardSettings

/// One request of a client and its response: the shell that performs the actions of `Exchange`. The next request of an HTTP/1.1
/// connection has the same one.
///
/// It keeps deadlines, and sends to its client through `ClientSink`. The readers and `Exchange` decide. Belongs to the shard's queue,
/// which it checks for its parts, too.
///
/// `RequestAdmission` decides what is forwarded.
///
/// Its parts own the state of the request. A part does no I/O and knows no other part:
/// - `RequestInput`: the request's bytes, and what was read of them.
/// - `UpstreamAttempt`: the token, the connection, and how far the request's head has come.
/// - `ResponseRelay`: what was read of the response.
/// - `RequestReplay`: what a second sending of the request needs.
/// - `ExchangeWaits`: what each deadline is for.
///
/// This file has the state, the deadlines and the events. The extensions let the parts work together:
/// - `+Request` admits the request and forwards its body.
/// - `+Upstream` sends the request.
/// - `+Response` relays the response.
/// - `+Replay` handles a refused token.
/// - `+Upgrade` begins and ends a tunnel.
/// - `+Grant` hands a token to the client of a broker.
/// - `+Refusal` finds the form of Lanyard's own responses.
/// - `+Ending` sends them, and ends the exchange.
package final class ClientExchange: Watcher, UpstreamOwner, TokenCache.Waiter, TunnelClient, @unchecked Sendable {
    let shard: ShardCore
    /// Set once, by the connection.
    private var ownSink: ClientSink?
    private(set) var servedBy: ServedBy
    var state = ExchangeState.none
    var waits = ExchangeWaits()
    var machine = Exchange(RequestHead())
    var input = RequestInput()
    var upstream = UpstreamAttempt()
    var relay: ResponseRelay
    var replay: RequestReplay

    init(of shard: ShardCore, listener: Int) {
        self.shard = shard
        servedBy = ServedBy(shard.served, listener: listener)
        relay = ResponseRelay(budget: shard.context.buffers)
        replay = RequestReplay(budget: shard.context.buffers)
        super.init()
        waits.setOwner(self)
    }

    /// It was another connection's, which has closed: `end` has left nothing of that one.
    func beginAnew(onListener index: Int) {
        shard.loop.assertIsCurrent()
        servedBy = ServedBy(shard.served, listener: index)
        waits.beginAnew()
    }

    /// Before the first event.
    func connect(to sink: ClientSink) { ownSink = sink }

    @inline(__always) var sink: ClientSink { ownSink.unsafelyUnwrapped }
    var served: ShardRoutes { servedBy.routes }
    var rules: ListenerRules { servedBy.rules }

    /// The request that begins is served by the present configuration. Between requests: the memory of a replaced one is not kept.
    func adoptServedConfiguration() {
        guard servedBy.routes !== shard.served else { return }
        servedBy = ServedBy(shard.served, listener: servedBy.rules.index)
    }

    // MARK: Events

    package override func resume() {
        shard.loop.assertIsCurrent()
        switch state {
        case .tunnel(_, let tunnel): tunnel.run()
        case .forwarding, .refusing:
            sink.read()
            pumpResponse()
        // It has ended since, and so may its connection.
        case .none, .admission, .granting: break
        }
    }

    package override func due(_ deadline: Deadline) {
        shard.loop.assertIsCurrent()
        switch waits.take(deadline, on: shard.loop) {
        case .inbound(.none): sink.handleConnectionDeadline()
        case .outbound(.none), .token(nil): break
        case .inbound(.upload(let wait)): if let active = state.active { handleUploadTimeout(wait, of: active) }
        case .inbound(.heldBody): if let active = state.active { handleHeldBodyTimeout(of: active) }
        case .inbound(.refusedBody): finishRefusal()
        case .inbound(.tunnel): if case .tunnel(_, let tunnel) = state { tunnel.due() }
        case .outbound(.responseHead): if let active = state.active { handleResponseHeadTimeout(of: active) }
        case .outbound(.responseBody(let idleAt)):
            if let active = state.active { handleResponseBodyDeadline(idleAt, of: active) }
        case .outbound(.clientWrite): handleClientWriteTimeout()
        case .token(.first):
            if let active = state.active { handleTokenWaitTimeout(of: active) }
            if case .granting(let exchange) = state { handleTokenWaitTimeout(of: exchange) }
        case .token(.connection): handleCallTimeout()
        case .token(.other): if let active = state.active { handleHeldResponseTimeout(of: active) }
        }
    }

    package func handleUpstreamReadiness(_ connection: UpstreamConnection) {
        shard.loop.assertIsCurrent()
        guard connection === upstream.connection else { return }
        if case .tunnel(_, let tunnel) = state { return tunnel.run() }
        if connection.stream.canFlush { flushUpstream() }
        pumpResponse()
    }

    package func handleStream(_ stream: UpstreamStream) {
        shard.loop.assertIsCurrent()
        guard case .forwarding(let active) = state, stream === upstream.stream else { return }
        if !stream.isFlushed {
            if !input.body.isEnded, waits.inbound != .upload(.upstreamWrite) { updateSendTimeout(of: active) }
        } else if waits.inbound == .upload(.upstreamWrite) || wantsBody {
            continueUpload(of: active)
        }
        pumpResponse()
    }

    // MARK: Deadlines

    func begin(_ wait: InboundWait, for duration: Duration) {
        waits.begin(wait, until: shard.loop.now + duration, on: shard.loop)
    }
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
        // Of a stream: its own bytes, not those of others.
        if !sink.canTake, !sink.isStream || sink.queuedBytes > 0 { return handleClientWriteTimeout() }
        if isUpstreamPaused { return awaitUpstreamAnew(for: active) }
        perform(machine.handleTimeout(.upstreamResponseTimeout))
    }

    /// The upstream is not read for want of memory.
    private var isUpstreamPaused: Bool { isPaused || upstream.connection?.isPaused ?? false }

    private func handleResponseBodyDeadline(_ idleAt: Instant, of active: ActiveExchange) {
        if isUpstreamPaused { return awaitUpstreamAnew(for: active) }
        if shard.loop.now < idleAt { return checkAcknowledgements(idleAt) }
        perform(machine.handleTimeout(.upstreamResponseTimeout))
    }

    /// The upstream's bytes may be unread, because memory is short or the client slow: its timeout begins again.
    func awaitUpstreamAnew(for active: ActiveExchange) {
        if machine.response == .awaited { return begin(.responseHead, for: active.timeouts.responseHeader) }
        awaitResponseBytes(active.timeouts.responseIdle)
    }

    /// All bytes of the response so far are with the kernel: the upstream's next byte is due within `idle`, and the
    /// client's acknowledgement within the write timeout.
    func awaitResponseBytes(_ idle: Duration?) {
        let idleAt = idle.map { shard.loop.now + $0 } ?? .never
        waits.beginResponseBody(idleAt: idleAt, on: shard.loop)
    }

    /// A client whose machine is gone acknowledges nothing, which shows while the kernel holds bytes for it
    /// (http-connections.md 9.5). It has at least the whole write timeout, and half of it more at most.
    private func checkAcknowledgements(_ idleAt: Instant) {
        if sink.hasStalled() { return abandon(after: Self.writeTimeoutKey) }
        let stallAt = sink.awaitsAcknowledgement ? shard.loop.now + waits.writeTimeout / 2 : Instant.never
        waits.continueResponseBody(idleAt: idleAt, stallAt: stallAt, on: shard.loop)
    }

    /// Begins the write timeout: the client must take some bytes within it.
    func beginWriteTimeout() {
        sink.restartProgress()
        begin(.clientWrite, for: waits.writeTimeout)
    }

    /// The client took no byte of our queue in that time, but possibly some of the kernel's buffer (http-connections.md 8.2).
    private func handleClientWriteTimeout() {
        if sink.hasProgress() { return begin(.clientWrite, for: waits.writeTimeout) }
        abandon(after: state.isForwarding ? Self.writeTimeoutKey : nil)
    }

    private static let writeTimeoutKey = "routes[].timeouts.write"

    // MARK: An HTTP/1.1 connection between two requests

    /// Begins a wait of the connection, which has the deadline until the next request.
    func lendDeadline(until instant: Instant) { waits.begin(InboundWait.none, until: instant, on: shard.loop) }

    /// The exchange has ended, and the next request of the connection may have arrived already.
    func awaitNext() {
        state = .none
        endOutboundWait()
        waits.endResponse()
        input.endRequest(in: shard)
        upstream.endRequest()
    }

    /// The exchange has ended, and no request of the connection follows.
    func endLast() {
        state = .none
        endOutboundWait()
    }

    /// The same of a stream. What is queued of its response is still sent.
    func endStream() {
        endLast()
        endInboundWait()
        input.releaseBuffer(to: shard)
    }

    /// The connection is closed. Nothing of its client stays: no memory, and no token. The exchange may be kept for another client.
    func end() {
        state = .none
        waits.drop(on: shard.loop)
        input.releaseBuffer(to: shard)
        machine = Exchange(RequestHead())
        input = RequestInput(reusing: input.takeKept())
        upstream = UpstreamAttempt()
        relay = ResponseRelay(budget: shard.context.buffers)
        replay = RequestReplay(budget: shard.context.buffers)
    }

    // MARK: PausableReader

    var isPaused: Bool {
        get { waits.isPaused }
        set { waits.isPaused = newValue }
    }
}
