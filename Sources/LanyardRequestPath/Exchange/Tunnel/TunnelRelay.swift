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
    /// Bytes in the kernel's send buffer of each side when it last took a byte, or at the last check. A side that reads
    /// slowly empties that buffer first.
    private var kernelBytesForClient = 0
    private var kernelBytesForUpstream = 0

    init(_ client: ClientConnection, _ upstream: UpstreamConnection, account: AccountNumber, limits: Tunnel.Limits) {
        self.account = account
        self.client = client
        self.upstream = upstream
        shard = client.shard
        machine = Tunnel(limits, at: client.shard.loop.now)
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
        if hasKernelProgress(client.raw, &kernelBytesForClient) { machine.madeProgress(.client, at: shard.loop.now) }
        if hasKernelProgress(upstream.raw, &kernelBytesForUpstream) {
            machine.madeProgress(.upstream, at: shard.loop.now)
        }
        perform(machine.due(at: shard.loop.now))
        if !isOver { shard.loop.set(client.inboundDeadline, at: machine.deadline) }
    }

    /// Whether the kernel's buffer has shrunk since the last check. The first check has no earlier value: bytes in the
    /// buffer then count as progress.
    private func hasKernelProgress(_ raw: CInt, _ before: inout Int) -> Bool {
        let held = Socket.unsentBytes(raw)
        defer { before = held }
        return held > 0 && before == 0 || held < before
    }

    // MARK: Sending

    /// Sends the client the shard's out buffer, which holds the 101, and the bytes behind it.
    func begin(_ after: UnsafeRawBufferPointer) {
        let code = SocketWriter.send(
            client.raw, shard.out.bytes, after, "", queue: &client.outbound, canWrite: &client.canWrite)
        recordClientWrite(code)
    }

    func sendUpstream(_ bytes: UnsafeRawBufferPointer) {
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        let code = SocketWriter.send(
            upstream.raw, nothing, bytes, "", queue: &upstream.outbound, canWrite: &upstream.canWrite)
        recordUpstreamWrite(code)
    }

    private func sendClient(_ bytes: UnsafeRawBufferPointer) {
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        let code = SocketWriter.send(
            client.raw, nothing, bytes, "", queue: &client.outbound, canWrite: &client.canWrite)
        recordClientWrite(code)
    }

    // MARK: Moving bytes

    private func flush() {
        if !client.outbound.isEmpty, client.canWrite {
            let before = client.outbound.count
            let code = SocketWriter.flush(client.raw, queue: &client.outbound, canWrite: &client.canWrite)
            if code != 0 || client.outbound.count < before { recordClientWrite(code) }
        }
        guard !isOver, !upstream.outbound.isEmpty, upstream.canWrite else { return }
        let before = upstream.outbound.count
        let code = SocketWriter.flush(upstream.raw, queue: &upstream.outbound, canWrite: &upstream.canWrite)
        if code != 0 || upstream.outbound.count < before { recordUpstreamWrite(code) }
    }

    /// Detects a reset of a side that is not read, because the other takes no bytes or because it has ended
    /// (http-rules.md 9.5).
    private func detectResets() {
        if !isOver, client.hasEnded, !machine.wantsBytes(of: .client), Socket.pendingError(client.raw) != 0 {
            perform(machine.failed(.client))
        }
        if !isOver, upstream.hasEnded, !machine.wantsBytes(of: .upstream), Socket.pendingError(upstream.raw) != 0 {
            perform(machine.failed(.upstream))
        }
    }

    /// Reads from the client once. Returns the number of bytes.
    private func moveToUpstream() -> Int {
        guard !isOver, client.canRead, machine.wantsBytes(of: .client) else { return 0 }
        // If no memory is left for bytes that the other side does not take, they stay in the socket (http-rules.md 8).
        guard let room = shard.room(for: client) else { return 0 }
        let received = Socket.receive(client.raw, into: room)
        guard case .bytes(let count) = received else {
            client.canRead = false
            handleRead(received, of: .client)
            return 0
        }
        // Edge-triggered: a short read has emptied the socket, unless an end is known to follow.
        if count < room.count { client.canRead = client.hasEnded || machine.isBroken(.client) }
        sendUpstream(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(shard.scratch)[0..<count]))
        return count
    }

    /// Reads from the upstream once. Returns the number of bytes.
    private func moveToClient() -> Int {
        guard !isOver, upstream.canRead, machine.wantsBytes(of: .upstream) else { return 0 }
        // If no memory is left for bytes that the other side does not take, they stay in the socket (http-rules.md 8).
        guard let room = shard.room(for: client) else { return 0 }
        let received = Socket.receive(upstream.raw, into: room)
        guard case .bytes(let count) = received else {
            upstream.canRead = false
            handleRead(received, of: .upstream)
            return 0
        }
        if count < room.count { upstream.canRead = upstream.hasEnded || machine.isBroken(.upstream) }
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
            kernelBytesForClient = client.outbound.isEmpty ? 0 : Socket.unsentBytes(client.raw)
            return perform(machine.wrote(to: .client, waiting: client.outbound.count, at: shard.loop.now))
        }
        client.outbound.release()
        client.canRead = true
        perform(machine.writeFailed(to: .client))
    }

    private func recordUpstreamWrite(_ code: CInt) {
        if code == 0 {
            kernelBytesForUpstream = upstream.outbound.isEmpty ? 0 : Socket.unsentBytes(upstream.raw)
            return perform(machine.wrote(to: .upstream, waiting: upstream.outbound.count, at: shard.loop.now))
        }
        upstream.outbound.release()
        upstream.canRead = true
        perform(machine.writeFailed(to: .upstream))
    }

    private func perform(_ action: Tunnel.Action) {
        switch action {
        case .wait: break
        case .shutDown(let side): Socket.endWriting(side == .client ? client.raw : upstream.raw)
        case .close(let end): client.endTunnel(end)
        }
    }
}
