import Glibc
import LanyardFoundations

/// The client of a tunnel, as the tunnel uses it. It forwards its events and those of the upstream.
protocol TunnelClient: PausableReader {
    /// The socket of a client that has no stream.
    func withStream<Result>(_ work: (inout ByteStream) -> Result) -> Result
    /// Of HTTP/2; nil: the tunnel has the client's whole connection.
    var tunnelStream: (any TunnelStream)? { get }
    /// Sets when `TunnelRelay.due` is called.
    func setTunnelDeadline(_ instant: Instant)
    /// Closes both sides.
    func endTunnel(_ end: Tunnel.End)
}

/// A client's end of a tunnel that is a stream of its connection.
protocol TunnelStream: AnyObject {
    /// It takes further bytes: none is queued.
    var canTake: Bool { get }
    var queuedBytes: Int { get }
    /// False: the client is gone.
    func send(_ data: UnsafeRawBufferPointer, ends: Bool) -> Bool
    /// Hands on what waits, as far as the tunnel takes it.
    func deliver()
    func restartProgress()
    func hasProgress() -> Bool
}

/// Performs the actions of `Tunnel`: moves bytes between a client and an upstream after a 101.
///
/// Bytes of one side are sent to the other in the same turn. What is not taken is queued, at most one read (64 KiB),
/// and no more is read until it is sent. An idle tunnel owns no buffer. Belongs to the shard's queue; its client forwards the
/// events.
final class TunnelRelay<Client: TunnelClient> {
    /// Bytes of one turn, both directions together (http-connections.md 20.5).
    private static var turnBytesMax: Int { 256 << 10 }

    /// The account whose token the request for the upgrade carried.
    let account: AccountNumber
    private unowned let client: Client
    /// The client's end, of HTTP/2: its connection reads and sends; nil: the tunnel has the client's connection.
    private unowned let stream: (any TunnelStream)?
    private let upstream: UpstreamConnection
    private let memory: ShardMemory
    private let loop: EventLoop
    private var machine: Tunnel
    private var hasEnded = false
    private let writeTimeout: Duration
    /// When a side must have acknowledged some of its bytes; `.never`: no byte was sent since the last check.
    private var stallCheckAt = Instant.never
    /// Bytes that were sent to the client or queued for it.
    private(set) var clientBytes = 0
    /// The same to the upstream.
    private var upstreamBytes = 0

    init(
        _ client: Client, _ upstream: UpstreamConnection, account: AccountNumber, limits: Tunnel.Limits,
        _ memory: ShardMemory, on loop: EventLoop
    ) {
        self.account = account
        self.client = client
        stream = client.tunnelStream
        self.upstream = upstream
        self.memory = memory
        self.loop = loop
        machine = Tunnel(limits, at: loop.now)
        writeTimeout = limits.writeTimeout
        upstream.stream.restartProgress()
    }

    func resets(_ side: Tunnel.Side, by end: Tunnel.End) -> Bool {
        loop.assertIsCurrent()
        return machine.resets(side, by: end)
    }

    /// No more bytes are moved.
    func stop() {
        loop.assertIsCurrent()
        hasEnded = true
    }

    private func withStream<Result>(of side: Tunnel.Side, _ work: (inout ByteStream) -> Result) -> Result {
        switch side {
        case .client: client.withStream(work)
        case .upstream: work(&upstream.stream)
        }
    }

    /// The client's end if it is a stream.
    private func stream(of side: Tunnel.Side) -> (any TunnelStream)? { side == .client ? stream : nil }

    // MARK: Events

    /// Sends queued bytes and moves bytes that have arrived, up to one turn's share.
    func run() {
        loop.assertIsCurrent()
        for side in Tunnel.Side.allCases { flush(to: side) }
        for side in Tunnel.Side.allCases { detectReset(of: side) }
        var left = Self.turnBytesMax
        while !hasEnded, left > 0 {
            let moved = moveBytes(from: .client) + moveBytes(from: .upstream)
            if moved == 0 { break }
            left -= moved
        }
        guard !hasEnded else { return }
        armDeadline()
        if left <= 0 { loop.resumeLater(client) }
    }

    private func armDeadline() { client.setTunnelDeadline(min(machine.deadline, stallCheckAt)) }

    /// The deadline has passed.
    func due() {
        loop.assertIsCurrent()
        if loop.now >= stallCheckAt { checkAcknowledgements() }
        if !hasEnded, loop.now >= machine.deadline { handleMachineDeadline() }
        if !hasEnded { armDeadline() }
    }

    /// A side whose machine is gone acknowledges nothing, which shows while the kernel holds bytes for it
    /// (http-connections.md 9.5). It has at least the whole write timeout, and half of it more at most.
    private func checkAcknowledgements() {
        stallCheckAt = .never
        for side in Tunnel.Side.allCases where !hasEnded {
            // The connection of a stream has a time-out of its own.
            if stream(of: side) != nil { continue }
            if withStream(of: side, { $0.hasStalled() }) {
                perform(.close(.stuck))
                return
            }
            if withStream(of: side, { $0.awaitsAcknowledgement }) { stallCheckAt = loop.now + writeTimeout / 2 }
        }
    }

    private func handleMachineDeadline() {
        if client.isPaused { machine.handlePause(until: loop.now) }
        for side in Tunnel.Side.allCases where hasProgress(of: side) {
            machine.handleProgress(of: side, at: loop.now)
        }
        perform(machine.handleDeadline(at: loop.now))
    }

    private func hasProgress(of side: Tunnel.Side) -> Bool {
        stream(of: side)?.hasProgress() ?? withStream(of: side) { $0.checkProgress().isProgress }
    }

    // MARK: Sending

    /// The client was sent that the tunnel is open, and bytes behind that.
    ///
    /// - Parameters:
    ///   - code: 0, or `errno` of a failed write.
    ///   - count: of these bytes.
    func begin(_ code: CInt, _ count: Int) -> TunnelProgress {
        loop.assertIsCurrent()
        clientBytes = count
        return recordWrite(to: .client, code)
    }

    @discardableResult
    func send(_ bytes: UnsafeRawBufferPointer, to side: Tunnel.Side) -> TunnelProgress {
        loop.assertIsCurrent()
        if side == .client { clientBytes &+= bytes.count } else { upstreamBytes &+= bytes.count }
        if let stream = stream(of: side) {
            return recordWrite(to: side, stream.send(bytes, ends: false) ? 0 : EPIPE)
        }
        return recordWrite(to: side, withStream(of: side) { $0.send(bytes) })
    }

    private func flush(to side: Tunnel.Side) {
        guard !hasEnded else { return }
        if let stream = stream(of: side) {
            if stream.queuedBytes < machine.waiting(for: side) { recordWrite(to: side, 0) }
            return
        }
        let before = withStream(of: side) { $0.canFlush ? $0.taken : nil }
        guard let before else { return }
        let code = withStream(of: side) { $0.flush() }
        if code != 0 || withStream(of: side, { $0.taken }) > before { recordWrite(to: side, code) }
    }

    /// - Parameter code: 0, or `errno` of a failed write.
    @discardableResult
    private func recordWrite(to side: Tunnel.Side, _ code: CInt) -> TunnelProgress {
        guard code == 0 else { return perform(machine.handleWriteFailure(to: side)) }
        let waiting = restartProgress(of: side)
        if stallCheckAt == .never { stallCheckAt = loop.now + writeTimeout / 2 }
        return perform(machine.handleWrite(to: side, waiting: waiting, at: loop.now))
    }

    /// Returns the number of bytes that wait for this side.
    private func restartProgress(of side: Tunnel.Side) -> Int {
        if let stream = stream(of: side) {
            stream.restartProgress()
            return stream.queuedBytes
        }
        return withStream(of: side) { stream in
            stream.restartProgress()
            return stream.queuedBytes
        }
    }

    // MARK: Reading

    /// The client's stream may hand on what has come.
    var wantsStream: Bool { stream != nil && !hasEnded && machine.wantsBytes(of: .client) }

    /// Bytes of the client's stream have come, as far as `wantsStream`.
    ///
    /// - Parameter ends: they are the last ones.
    func receive(_ bytes: UnsafeRawBufferPointer, ends: Bool) {
        loop.assertIsCurrent()
        if !bytes.isEmpty { send(bytes, to: .upstream) }
        if ends, !hasEnded { perform(machine.handleEnd(of: .client)) }
        guard !hasEnded else { return }
        armDeadline()
        // What the upstream has sent before is still read.
        if machine.isBroken(.upstream) { loop.resumeLater(client) }
    }

    /// Detects a reset of a side that is not read, because the other takes no bytes or because it has ended
    /// (http-connections.md 9.5).
    private func detectReset(of side: Tunnel.Side) {
        guard !hasEnded, stream(of: side) == nil, !machine.wantsBytes(of: side) else { return }
        if withStream(of: side, { $0.hasEnded && $0.pendingError != 0 }) { perform(machine.handleFailure(of: side)) }
    }

    /// Reads from a side once and sends the bytes to the other one. Returns their number.
    private func moveBytes(from side: Tunnel.Side) -> Int {
        guard !hasEnded, machine.wantsBytes(of: side) else { return 0 }
        if let stream = stream(of: side) {
            let before = upstreamBytes
            stream.deliver()
            return upstreamBytes &- before
        }
        guard withStream(of: side, { $0.canRead }), side == .client || stream?.canTake ?? true else { return 0 }
        // If no memory is left for bytes that the other side does not take, they stay in the socket (http-connections.md 8).
        guard let room = memory.room(for: client) else { return 0 }
        switch withStream(of: side, { $0.receive(into: room) }) {
        case .bytes(let count):
            send(UnsafeRawBufferPointer(rebasing: room[0..<count]), to: side.other)
            return count
        case .wouldBlock: if machine.isBroken(side) { perform(machine.handleFailure(of: side)) }
        case .end: perform(machine.handleEnd(of: side))
        case .failed: perform(machine.handleFailure(of: side))
        }
        return 0
    }

    // MARK: Outcomes

    @discardableResult
    private func perform(_ action: Tunnel.Action) -> TunnelProgress {
        switch action {
        case .wait: break
        case .shutDown(let side):
            if let stream = stream(of: side) {
                _ = stream.send(UnsafeRawBufferPointer(start: nil, count: 0), ends: true)
            } else {
                withStream(of: side) { $0.endWriting() }
            }
        case .close(let end):
            client.endTunnel(end)
            return .ended
        }
        return .continues
    }
}

/// Whether a tunnel continues after bytes were sent.
enum TunnelProgress {
    case continues
    /// Both sides are closed.
    case ended
}
