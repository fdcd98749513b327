import LanyardFoundations

/// Performs the actions of `Tunnel`: moves bytes between a client and an upstream after a 101.
///
/// Bytes of one side are sent to the other in the same turn. What is not taken is queued, at most one read (64 KiB),
/// and no more is read meanwhile. An idle tunnel owns no buffer. Belongs to the shard's queue; its client forwards the
/// events.
final class TunnelRelay {
    /// Bytes of one turn, both directions together (http-rules.md 20.5).
    private static let turnBytesMax = 256 << 10

    /// The account whose token the request for the upgrade carried.
    let account: AccountNumber
    private unowned let client: ClientConnection
    private let upstream: UpstreamConnection
    private let shard: Shard
    private var machine: Tunnel
    private var isOver = false

    init(_ client: ClientConnection, _ upstream: UpstreamConnection, account: AccountNumber, limits: Tunnel.Limits) {
        self.account = account
        self.client = client
        self.upstream = upstream
        shard = client.shard
        machine = Tunnel(limits, at: client.shard.loop.now)
        upstream.stream.restartProgress()
    }

    func resets(_ side: Tunnel.Side, by end: Tunnel.End) -> Bool { machine.resets(side, by: end) }

    /// No more bytes are moved.
    func stop() { isOver = true }

    // MARK: Events

    /// Sends queued bytes and moves bytes that have arrived, up to one turn's share.
    func run() {
        flush()
        detectResets()
        var left = Self.turnBytesMax
        while !isOver, left > 0 {
            let moved = moveToUpstream() + moveToClient()
            if moved == 0 { break }
            left -= moved
        }
        guard !isOver else { return }
        shard.loop.set(client.inboundDeadline, at: machine.deadline)
        if left <= 0 { shard.loop.resumeLater(client) }
    }

    /// The deadline has passed.
    func due() {
        if client.isPaused { machine.paused(until: shard.loop.now) }
        if client.stream.checkProgress().isProgress { machine.madeProgress(.client, at: shard.loop.now) }
        if upstream.stream.checkProgress().isProgress { machine.madeProgress(.upstream, at: shard.loop.now) }
        perform(machine.due(at: shard.loop.now))
        if !isOver { shard.loop.set(client.inboundDeadline, at: machine.deadline) }
    }

    // MARK: Sending

    /// Sends the client the shard's out buffer, which holds the 101, and the bytes behind it.
    func begin(_ after: UnsafeRawBufferPointer) {
        recordClientWrite(client.stream.send(shard.out.bytes, after))
    }

    func sendUpstream(_ bytes: UnsafeRawBufferPointer) {
        recordUpstreamWrite(upstream.stream.send(bytes))
    }

    private func sendClient(_ bytes: UnsafeRawBufferPointer) {
        recordClientWrite(client.stream.send(bytes))
    }

    // MARK: Moving bytes

    private func flush() {
        if client.stream.canFlush {
            let before = client.stream.taken
            let code = client.stream.flush()
            if code != 0 || client.stream.taken > before { recordClientWrite(code) }
        }
        guard !isOver, upstream.stream.canFlush else { return }
        let before = upstream.stream.taken
        let code = upstream.stream.flush()
        if code != 0 || upstream.stream.taken > before { recordUpstreamWrite(code) }
    }

    /// Detects a reset of a side that is not read, because the other takes no bytes or because it has ended
    /// (http-rules.md 9.5).
    private func detectResets() {
        if !isOver, client.stream.hasEnded, !machine.wantsBytes(of: .client), client.stream.pendingError != 0 {
            perform(machine.failed(.client))
        }
        if !isOver, upstream.stream.hasEnded, !machine.wantsBytes(of: .upstream), upstream.stream.pendingError != 0 {
            perform(machine.failed(.upstream))
        }
    }

    /// Reads from the client once. Returns the number of bytes.
    private func moveToUpstream() -> Int {
        guard !isOver, client.stream.canRead, machine.wantsBytes(of: .client) else { return 0 }
        // If no memory is left for bytes that the other side does not take, they stay in the socket (http-rules.md 8).
        guard let room = shard.room(for: client) else { return 0 }
        let received = client.stream.receive(into: room)
        guard case .bytes(let count) = received else {
            handleRead(received, of: .client)
            return 0
        }
        sendUpstream(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(shard.scratch)[0..<count]))
        return count
    }

    /// Reads from the upstream once. Returns the number of bytes.
    private func moveToClient() -> Int {
        guard !isOver, upstream.stream.canRead, machine.wantsBytes(of: .upstream) else { return 0 }
        // If no memory is left for bytes that the other side does not take, they stay in the socket (http-rules.md 8).
        guard let room = shard.room(for: client) else { return 0 }
        let received = upstream.stream.receive(into: room)
        guard case .bytes(let count) = received else {
            handleRead(received, of: .upstream)
            return 0
        }
        sendClient(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(shard.scratch)[0..<count]))
        return count
    }

    /// A read returned no bytes.
    private func handleRead(_ received: Socket.Received, of side: Tunnel.Side) {
        switch received {
        case .bytes: break
        case .wouldBlock: if machine.isBroken(side) { perform(machine.failed(side)) }
        case .end: perform(machine.ended(side))
        case .failed: perform(machine.failed(side))
        }
    }

    // MARK: Outcomes

    private func recordClientWrite(_ code: CInt) {
        if code == 0 {
            client.stream.restartProgress()
            return perform(machine.wrote(to: .client, waiting: client.stream.queuedBytes, at: shard.loop.now))
        }
        perform(machine.writeFailed(to: .client))
    }

    private func recordUpstreamWrite(_ code: CInt) {
        if code == 0 {
            upstream.stream.restartProgress()
            return perform(machine.wrote(to: .upstream, waiting: upstream.stream.queuedBytes, at: shard.loop.now))
        }
        perform(machine.writeFailed(to: .upstream))
    }

    private func perform(_ action: Tunnel.Action) {
        switch action {
        case .wait: break
        case .shutDown(let side):
            if side == .client { client.stream.endWriting() } else { upstream.stream.endWriting() }
        case .close(let end): client.endTunnel(end)
        }
    }
}
