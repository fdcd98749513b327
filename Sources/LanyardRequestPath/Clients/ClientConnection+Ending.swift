import LanyardFoundations
import LanyardSettings

/// What a connection does without a request: it waits for the next one, is refused as a whole, and ends.
extension ClientConnection {
    // MARK: Between requests

    /// A client without a request does not keep the memory of a replaced configuration.
    func leaveFormerConfiguration() {
        shard.loop.assertIsCurrent()
        bound.removeClosed()
        // Of HTTP/2 it is no request's.
        if state == .waiting || state == .multiplexed { exchange.adoptServedConfiguration() }
    }

    /// The client would not be admitted any more: its connection ends. The shard ends one that lasts too long.
    func endAdmission() {
        shard.loop.assertIsCurrent()
        switch state.admissionEnd(isSecured: stream.isSecured, isFlushed: stream.isFlushed) {
        case .atOnce: if state == .handshake { handleHandshakeFailure(.admissionChanged) } else { close() }
        case .byExchange:
            if exchange.state.isTunnel { return exchange.endTunnel(.distrusted) }
            membership.isAdmissionEnding = true
            if let http2 = clientProtocol.http2 {
                http2.forEachExchange { $0.endTunnel(.distrusted) }
                return http2.refuseStreams()
            }
            exchange.machine.closeClient()
        case .behindQueue:
            membership.isAdmissionEnding = true
            if state == .waiting { closeAfterFlush() }
        case .none: break
        }
    }

    /// Begins the idle timeout: no byte of a response is queued.
    ///
    /// Before that, a client that reads slowly is neither idle nor drained (http-connections.md 8.2, 20.1).
    func beginIdleTimeout() {
        beginWaiting()
        stream.restartProgress()
        begin(.idle, for: currentIdleTimeout)
    }

    /// During a drain: the time that a request may have been on its way.
    var currentIdleTimeout: Duration {
        shard.isDraining ? .milliseconds(500) : shard.limits.idleTimeout
    }

    /// Each exchange that has a request, or may get one.
    func forEachExchange(_ work: (ClientExchange) -> Void) {
        if let http2 = clientProtocol.http2 { http2.forEachExchange(work) } else { work(exchange) }
    }

    /// Closes after 500 ms without a request. A TLS handshake that has begun keeps its time, which its steps may need.
    func drain() {
        shard.loop.assertIsCurrent()
        switch state {
        case .handshake: if !hasBegunHandshake { begin(.handshake, for: currentIdleTimeout) }
        case .waiting: if stream.isFlushed { begin(.idle, for: currentIdleTimeout) }
        case .exchange: exchange.shortenTokenWait()
        case .multiplexed:
            forEachExchange { $0.shortenTokenWait() }
            clientProtocol.http2?.drain()
        case .head, .flushing, .lingering, .closed: break
        }
    }

    func handleIdleTimeout() {
        if let http2 = clientProtocol.http2, state == .multiplexed { return http2.refuseStreams() }
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
            waits.closing.awaitKernelFlush(until: shard.loop.now + exchange.waits.writeTimeout)
            awaitKernelFlush()
        case .unchanged:
            if shard.loop.now >= waits.closing.kernelFlushDeadline { abandon() } else { awaitKernelFlush() }
        }
    }

    /// The kernel still holds bytes of the last response. A close now would meet the client's next request with a
    /// reset, which discards them, and the end of the process may end its network. While the kernel's buffer shrinks,
    /// the connection stays open.
    private func awaitKernelFlush() { begin(.kernelFlush, for: min(currentIdleTimeout, .milliseconds(500))) }

    // MARK: Refused connections

    /// All connection slots are in use, and this client has waited longest. A TLS handshake that has begun is counted.
    func closeForNewClient() {
        shard.loop.assertIsCurrent()
        if state == .handshake, stream.isSecured {
            handleHandshakeFailure(.tooManyHandshakes)
        } else if let http2 = clientProtocol.http2 {
            http2.refuseStreams()
            http2.finishTurn()
            close()
        } else {
            close()
        }
    }

    /// All connection slots are in use: sends 503 and closes.
    func rejectOverloaded() {
        shard.loop.assertIsCurrent()
        shard.counters.countRejection(.limit)
        reject(
            .overloaded(
                "Too many client connections: limits.connections_max or limits.connections_per_peer_max is reached.",
                closes: true))
    }

    /// The client is none of the listener's `peers`: sends 403 and closes.
    func rejectPeer() {
        shard.loop.assertIsCurrent()
        reject(.peerNotAllowed)
    }

    /// Refuses the connection itself. Without a response if that would need a TLS handshake, which costs more than the connection.
    private func reject(_ problem: Problem) {
        if state == .handshake {
            exchange.recordRefusal(problem)
            return close()
        }
        exchange.refuse(problem)
        if membership.isOverRejectionLimit { close() }
    }

    // MARK: Memory

    /// Buffered bytes of an incomplete request head, response head or trailer section. A part of a TLS record counts as one of a head.
    var partialBytes: Int {
        switch state {
        case .waiting: stream.tlsSession?.partialRecordBytes ?? 0
        case .head: (exchange.input.buffer?.count ?? 0) + (stream.tlsSession?.partialRecordBytes ?? 0)
        case .exchange: exchange.partialBytes
        case .multiplexed: clientProtocol.http2?.partialBytes ?? 0
        case .handshake, .flushing, .lingering, .closed: 0
        }
    }

    /// Gives up the incomplete head or trailer section, because requests are refused for want of memory, and `partialBytes` is not 0.
    func giveUpPartialHead() {
        shard.loop.assertIsCurrent()
        switch state {
        // Nothing of the request can be read yet.
        case .waiting: close()
        case .head: exchange.refuse(.buffersFull)
        case .exchange: exchange.giveUpPartialHead()
        case .multiplexed: forEachExchange { if $0.partialBytes > 0 { $0.giveUpPartialHead() } }
        case .handshake, .flushing, .lingering, .closed: break
        }
    }

    // MARK: End of the connection

    /// The client has disconnected, or reads nothing. Nothing more is sent.
    func abandon() {
        shard.loop.assertIsCurrent()
        guard state != .closed else { return }
        if state == .exchange { return exchange.abandon() }
        // An orderly close would make a body that is delimited by the close look complete (http-forwarding.md 13.5).
        if exchange.relay.isDelimitedByClose, !stream.isFlushed || stream.isBroken { stream.resetOnClose() }
        close()
    }

    /// The listener would not admit the client any more, and its exchange has lasted too long since.
    func abandonDistrusted() {
        shard.loop.assertIsCurrent()
        switch state {
        case .exchange: exchange.abandonDistrusted()
        case .multiplexed:
            forEachExchange { $0.abandonDistrusted() }
            close()
        case .handshake, .waiting, .head, .flushing, .lingering, .closed: abandon()
        }
    }

    func closeAfterFlush() {
        let needsLinger = needsLinger
        state = .flushing
        exchange.endLast()
        bound.closeAll()
        endWait()
        if !stream.isFlushed { return beginWriteTimeout() }
        if needsLinger { beginLinger() } else { close() }
    }

    /// Bytes that a client's kernel takes before its process reads: a tenth of the least window that systems offer.
    private static let bytesWithoutLingerMax: UInt64 = 6 << 10

    /// Whether a close at once could destroy the response (http-connections.md 9.8). It could not if the client has asked for the close,
    /// has sent nothing behind its request, and has room for all that was sent to it. A `close_notify` of its TLS may still come.
    private var needsLinger: Bool {
        guard exchange.state.isHeadRead, !exchange.input.head.wantsKeepAlive, exchange.input.body.isEnded else {
            return true
        }
        return exchange.input.hasUnusedBytes || stream.canRead || stream.isSecured || stream.isBroken
            || stream.taken > Self.bytesWithoutLingerMax
    }

    /// Begins the lingering close (http-connections.md 9.8).
    func beginLinger() {
        stream.endWriting()
        state = .lingering
        begin(.linger, until: waits.closing.beginLinger(at: shard.loop.now))
        exchange.input.releaseBuffer(to: shard)
        if stream.hasEnded { stream.expectInput() }
        pump()
    }

    /// Discards the input of one read. Returns the number of bytes.
    func discardInput() -> Int {
        switch stream.receive(into: shard.memory.scratch) {
        case .bytes(let count):
            begin(.linger, until: waits.closing.lingerDeadline(at: shard.loop.now))
            return count
        case .wouldBlock: break
        case .end, .failed: close()
        }
        return 0
    }

    /// Closes the connection. Later calls do nothing.
    func close() {
        shard.loop.assertIsCurrent()
        guard state != .closed else { return }
        membership.handshakePermit = nil
        state = .closed
        waits.drop(on: shard.loop)
        clientProtocol.http2?.close()
        exchange.end()
        bound.closeAll()
        stream.close(on: shard.loop)
        clients.remove(self)
    }
}
