import Glibc
import LanyardFoundations

/// An established connection on its way to the connection that will own it.
final class ConnectedStream {
    /// What a connection needs before TLS may begin.
    enum ProxyProgress { case open, incomplete, failed(ProxyError) }

    var stream: ByteStream
    let address: SocketAddress
    let deadlineAt: Instant
    /// The socket is connected. The exchange with a proxy, or the handshake of TLS, may be in progress.
    var isConnected = false
    /// `ShardTrust.epoch` when the handshake began; 0 without TLS.
    var trustEpoch = 0
    /// The exchange of CONNECT; nil: none is needed, or the tunnel is open.
    private var tunnel: ProxyTunnel?
    /// The head of CONNECT was given to the socket.
    private var hasAsked = false
    /// Of `stream`, which closes it.
    private let descriptor: CInt

    /// - Parameter tunnel: what must open before TLS begins.
    init(
        taking socket: consuming OwnedDescriptor, to address: SocketAddress, through tunnel: ProxyTunnel?,
        budget: BufferBudget, deadlineAt: Instant
    ) {
        descriptor = socket.raw
        stream = ByteStream(taking: socket, budget: budget)
        self.tunnel = tunnel
        self.address = address
        self.deadlineAt = deadlineAt
    }

    /// Why it has failed when its time has ended.
    var timeout: UpstreamError {
        guard isConnected else { return .connectTimedOut(at: address) }
        return tunnel == nil ? .tls(.timedOut, at: address) : .proxy(.responseTimedOut, at: address)
    }

    /// The caller becomes the owner.
    func release(on loop: EventLoop) -> ByteStream { stream.handOver(on: loop) }

    /// Has `watcher` informed from here on, in place of the connector.
    func watch(on loop: EventLoop, by watcher: Watcher) throws(SystemError) {
        stream = stream.handOver(on: loop)
        try stream.watch(on: loop, by: watcher)
    }

    /// Asks the proxy for the tunnel, and reads its response as far as it has come.
    func continueTunnel() -> ProxyProgress {
        guard let request = tunnel?.request else { return .open }
        // What the proxy has sent before a failed write can still be read, and says more.
        if hasAsked { _ = stream.flush() } else { _ = request.withBytes { stream.send($0) } }
        hasAsked = true
        guard stream.canRead else { return .incomplete }
        return withUnsafeTemporaryAllocation(byteCount: 4 << 10, alignment: 1) { room in
            // Ends: a response has at most so many bytes.
            while true {
                if let progress = readResponse(by: room) { return progress }
            }
        }
    }

    /// Reads once. What stands behind the response stays in the socket, for TLS.
    ///
    /// - Returns: nil: more may have come.
    private func readResponse(by room: UnsafeMutableRawBufferPointer) -> ProxyProgress? {
        let count: Int
        switch Socket.peek(descriptor, into: room) {
        case .bytes(let peeked): count = peeked
        case .wouldBlock: return stream.isBroken ? .failed(.closed) : .incomplete
        case .end, .failed: return .failed(.closed)
        }
        switch tunnel?.receive(UnsafeRawBufferPointer(rebasing: room[..<count])) {
        case .incomplete: return take(count, by: room) ? nil : .failed(.closed)
        case .failed(let error): return .failed(error)
        case .open(let count):
            guard take(count, by: room) else { return .failed(.closed) }
            tunnel = nil
            return .open
        case nil: return .open
        }
    }

    private func take(_ count: Int, by room: UnsafeMutableRawBufferPointer) -> Bool {
        stream.receive(into: UnsafeMutableRawBufferPointer(rebasing: room[..<count])) == .bytes(count)
    }
}
