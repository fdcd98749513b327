import LanyardFoundations
import LanyardSettings

/// One client's connection: its socket, its TLS, and what it waits for while no exchange does.
///
/// It reads the bytes and hands them to its exchange, which decides what is done with them. Belongs to the shard's queue, which it checks
/// for its parts and its stream, too.
///
/// Its parts do no I/O and know no other part: `ConnectionWaits` has what the deadline is for, `ShardMembership` what the shard's limits
/// and lists know, and `BoundUpstreams` the upstream connections on which the client has authenticated itself.
///
/// This file has the state, the stream and the events. The extensions:
/// - `+Handshake` makes the TLS handshake.
/// - `+HTTP1` reads requests of HTTP/1.1.
/// - `+Ending` waits between two requests, and closes.
package final class ClientConnection: Watcher, @unchecked Sendable {
    let clients: Clients
    let shard: ShardCore
    var membership: ShardMembership
    var stream: ByteStream
    var state: ConnectionState {
        didSet { if membership.waitingLinks.isListed, !state.isWaitingForRequest { clients.waiting.remove(self) } }
    }
    var waits = ConnectionWaits()
    var clientProtocol = ClientProtocol.http1(HTTP1Receiver())
    /// Upstream connections that belong to this client.
    var bound = BoundUpstreams()
    /// The one exchange of an HTTP/1.1 connection.
    let exchange: ClientExchange

    init(
        taking socket: consuming OwnedDescriptor, of clients: Clients, listener: Int, slot: consuming ConnectionSlot
    ) throws(SystemError) {
        let shard = clients.core
        stream = ByteStream(taking: socket, budget: shard.context.buffers)
        self.clients = clients
        self.shard = shard
        membership = ShardMembership(slot)
        state = shard.served.configuration.rules[listener].tlsIndex == nil ? .waiting : .handshake
        exchange = clients.exchange(onListener: listener)
        super.init()
        exchange.connect(to: ClientSink(self))
        try stream.watch(on: shard.loop, by: self)
    }

    /// Begins to wait. The first head is due within `header_timeout` of the accept, whatever a TLS handshake takes of it.
    func begin() {
        shard.loop.assertIsCurrent()
        beginWaiting()
        begin(state == .handshake ? .handshake : .idle, for: shard.limits.headerTimeout)
    }

    /// The last response was sent whole. A client that still takes a response is not waiting, and is not closed for a
    /// new client.
    func beginWaiting() { clients.waiting.append(self, at: shard.loop.now) }

    // MARK: Events

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        shard.loop.assertIsCurrent()
        guard state != .closed else { return }
        stream.record(readiness)
        if state == .exchange, exchange.state.isTunnel { return exchange.resume() }
        if state == .multiplexed, stream.hasEnded { stream.expectInput() }
        // While nothing is read, a reset by the client shows only here (http-connections.md 9.5).
        if !readiness.isDisjoint(with: [.error, .hangUp]), endsOnReset { return abandon() }
        if readiness.contains(.write), !stream.isFlushed { flush() }
        pump()
        if stream.hasEnded, state == .exchange, exchange.state.isForwarding, !waits.isEndKnown { watchEnd() }
    }

    /// A reset by the client ends the connection at once.
    private var endsOnReset: Bool {
        switch state {
        case .exchange: exchange.state.endsOnReset
        case .multiplexed, .flushing, .lingering: true
        case .handshake, .waiting, .head, .closed: false
        }
    }

    package override func resume() {
        shard.loop.assertIsCurrent()
        if case .http2(let receiver) = clientProtocol, state == .multiplexed { receiver.finishTurn() }
        pump()
    }

    package override func due(_ deadline: Deadline) {
        shard.loop.assertIsCurrent()
        handleEndDeadline()
    }

    /// The deadline of the present wait has passed.
    func handleWait() {
        let wait = waits.wait
        waits.wait = .none
        switch wait {
        case .none: break
        case .handshake: handleHandshakeFailure(.timedOut)
        case .head:
            if let receiver = clientProtocol.http2 { return receiver.handleHeaderTimeout() }
            if hasPartialPreface { close() } else { exchange.refuse(.requestTimeout) }
        case .idle, .kernelFlush: handleIdleTimeout()
        case .clientWrite: handleClientWriteTimeout()
        case .linger: close()
        }
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
            case .exchange:
                switch exchange.wantedInput {
                case .none, .tunnel: return
                case .body:
                    share -= readBody()
                    if exchange.isPaused { return }
                case .refusedBody: share -= readRefusedBody()
                }
            case .multiplexed:
                let count = readFrames()
                if count == 0 { return }
                share -= count
            case .lingering: share -= discardInput()
            case .flushing, .closed: return
            }
            if share <= 0 { return shard.loop.resumeLater(self) }
        }
    }

    /// Sends the bytes that are queued for the client. When all are sent, reading continues.
    private func flush() {
        guard stream.flush() == 0 else { return abandon() }
        if !stream.isFlushed {
            // The client took some bytes: the write timeout begins again.
            return state == .exchange ? exchange.beginWriteTimeout() : beginWriteTimeout()
        }
        switch state {
        case .flushing: beginLinger()
        case .exchange: exchange.handleClientFlush()
        case .multiplexed: handleFramesFlush()
        case .waiting:
            beginIdleTimeout()
            parse()
        case .handshake, .head, .lingering, .closed: break
        }
    }

    // MARK: Deadlines

    func begin(_ wait: ConnectionWait, for duration: Duration) { begin(wait, until: shard.loop.now + duration) }
    func begin(_ wait: ConnectionWait, until instant: Instant) {
        waits.wait = wait
        exchange.lendDeadline(until: instant)
    }
    /// The next wait has the deadline of the one before.
    func follow(with wait: ConnectionWait) { waits.wait = wait }
    func endWait() { begin(.none, until: .never) }

    /// Begins the write timeout: the client must take some bytes within it.
    func beginWriteTimeout() {
        stream.restartProgress()
        begin(.clientWrite, for: exchange.waits.writeTimeout)
    }

    /// The client took no byte of our queue in that time, but possibly some of the kernel's buffer (http-connections.md 8.2).
    private func handleClientWriteTimeout() {
        if stream.checkProgress().isProgress { return begin(.clientWrite, for: exchange.waits.writeTimeout) }
        abandon()
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
        if state == .exchange, exchange.state.isForwarding, stream.isPeerOrphaned { return abandon() }
        waits.examineAgain(at: shard.loop.now + interval.next, on: shard.loop)
    }
}
