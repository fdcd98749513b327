import LanyardFoundations

/// The client of a tunnel, as the tunnel uses it. It forwards its events and those of the upstream.
protocol TunnelClient: PausableReader {
    func withStream<Result>(_ work: (inout ByteStream) -> Result) -> Result
    /// Sets when `TunnelRelay.due` is called.
    func setTunnelDeadline(_ instant: Instant)
    /// Closes both sides.
    func endTunnel(_ end: Tunnel.End)
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

    init(
        _ client: Client, _ upstream: UpstreamConnection, account: AccountNumber, limits: Tunnel.Limits,
        _ memory: ShardMemory, on loop: EventLoop
    ) {
        self.account = account
        self.client = client
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
            if withStream(of: side, { $0.hasStalled() }) {
                perform(.close(.stuck))
                return
            }
            if withStream(of: side, { $0.awaitsAcknowledgement }) { stallCheckAt = loop.now + writeTimeout / 2 }
        }
    }

    private func handleMachineDeadline() {
        if client.isPaused { machine.handlePause(until: loop.now) }
        for side in Tunnel.Side.allCases where withStream(of: side, { $0.checkProgress().isProgress }) {
            machine.handleProgress(of: side, at: loop.now)
        }
        perform(machine.handleDeadline(at: loop.now))
    }

    // MARK: Sending

    /// Sends the client the 101 and the bytes behind it.
    func begin(_ head: UnsafeRawBufferPointer, _ after: UnsafeRawBufferPointer) -> TunnelProgress {
        loop.assertIsCurrent()
        clientBytes = after.count
        return recordWrite(to: .client, client.withStream { $0.send(head, after) })
    }

    @discardableResult
    func send(_ bytes: UnsafeRawBufferPointer, to side: Tunnel.Side) -> TunnelProgress {
        loop.assertIsCurrent()
        if side == .client { clientBytes &+= bytes.count }
        return recordWrite(to: side, withStream(of: side) { $0.send(bytes) })
    }

    private func flush(to side: Tunnel.Side) {
        guard !hasEnded else { return }
        let before = withStream(of: side) { $0.canFlush ? $0.taken : nil }
        guard let before else { return }
        let code = withStream(of: side) { $0.flush() }
        if code != 0 || withStream(of: side, { $0.taken }) > before { recordWrite(to: side, code) }
    }

    /// - Parameter code: 0, or `errno` of a failed write.
    @discardableResult
    private func recordWrite(to side: Tunnel.Side, _ code: CInt) -> TunnelProgress {
        guard code == 0 else { return perform(machine.handleWriteFailure(to: side)) }
        let waiting = withStream(of: side) { stream in
            stream.restartProgress()
            return stream.queuedBytes
        }
        if stallCheckAt == .never { stallCheckAt = loop.now + writeTimeout / 2 }
        return perform(machine.handleWrite(to: side, waiting: waiting, at: loop.now))
    }

    // MARK: Reading

    /// Detects a reset of a side that is not read, because the other takes no bytes or because it has ended
    /// (http-connections.md 9.5).
    private func detectReset(of side: Tunnel.Side) {
        guard !hasEnded, !machine.wantsBytes(of: side) else { return }
        if withStream(of: side, { $0.hasEnded && $0.pendingError != 0 }) { perform(machine.handleFailure(of: side)) }
    }

    /// Reads from a side once and sends the bytes to the other one. Returns their number.
    private func moveBytes(from side: Tunnel.Side) -> Int {
        guard !hasEnded, machine.wantsBytes(of: side), withStream(of: side, { $0.canRead }) else { return 0 }
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
        case .shutDown(let side): withStream(of: side) { $0.endWriting() }
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
