import LanyardFoundations
import LanyardSettings

/// A client that speaks HTTP/2: how its connection begins, waits and reads. `HTTP2Receiver` has the frames.
extension ClientConnection: PausableReader {
    /// What a client sends first (RFC 9113 §3.4).
    private static let preface: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    /// No request has come, and the listener speaks HTTP/2 without TLS.
    var mayBeginFrames: Bool {
        clientProtocol.requests == 0 && !stream.isSecured && exchange.rules.acceptsPreface
    }

    /// What has come may become the preface: a client of HTTP/2 reads no response in text.
    var hasPartialPreface: Bool {
        guard mayBeginFrames, let buffer = exchange.input.buffer else { return false }
        return isPreface(buffer.bytes, atLeast: 4)
    }

    /// - Parameter countMin: bytes that must have come.
    private func isPreface(_ bytes: Bytes, atLeast countMin: Int = 1) -> Bool {
        let preface = Bytes(start: Self.preface.utf8Start, count: Self.preface.utf8CodeUnitCount)
        let common = min(bytes.count, preface.count)
        return common >= countMin && bytes[run: 0..<common].elementsEqual(preface[run: 0..<common])
    }

    /// The first bytes have come. If they are the preface, or its beginning, they are HTTP/2's (H2).
    ///
    /// - Returns: false: they are a request of HTTP/1.1.
    func beginFrames() -> Bool {
        guard let buffer = exchange.input.buffer, isPreface(buffer.bytes) else { return false }
        guard buffer.count >= Self.preface.utf8CodeUnitCount else {
            if state == .waiting {
                state = .head
                follow(with: .head)
            }
            return true
        }
        beginMultiplexing(with: UnsafeRawBufferPointer(buffer.bytes))
        exchange.input.releaseBuffer(to: shard)
        return true
    }

    /// The client speaks HTTP/2 from here on.
    ///
    /// - Parameter bytes: what was read of it.
    func beginMultiplexing(with bytes: UnsafeRawBufferPointer) {
        guard let receiver = HTTP2Receiver(of: self) else { return close() }
        clientProtocol = .http2(receiver)
        state = .multiplexed
        follow(with: .idle)
        receiver.receive(bytes)
        if shard.isDraining { receiver.drain() }
    }

    /// Reads frames once. Returns the number of bytes.
    func readFrames() -> Int { clientProtocol.http2?.read() ?? 0 }

    /// A first stream begins.
    func endIdleWait() {
        clients.waiting.remove(self)
        // In a drain it is the time of a client that acknowledges nothing.
        if waits.wait == .idle, !shard.isDraining { endWait() }
    }

    /// No stream is open.
    func beginIdleTimeoutUnlessWaiting() {
        guard !membership.waitingLinks.isListed else { return }
        beginIdleTimeout()
    }

    /// The socket takes nothing: the client must take some bytes within the write timeout.
    func beginWriteTimeoutUnlessWaiting() { if waits.wait != .clientWrite { beginWriteTimeout() } }

    /// The socket has taken all.
    func handleFramesFlush() {
        guard let receiver = clientProtocol.http2 else { return }
        if waits.wait == .clientWrite { endWait() }
        receiver.handleFlush()
        if receiver.streams.isEmpty {
            beginIdleTimeout()
        } else if shard.isDraining {
            begin(.idle, for: currentIdleTimeout)
        }
    }

    var isPaused: Bool {
        get { exchange.isPaused }
        set { exchange.isPaused = newValue }
    }
}
