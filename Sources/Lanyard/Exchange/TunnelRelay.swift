// Which of the two modules owns SHUT_WR depends on what was compiled first.
import CLanyard.Linux
import Glibc

/// The thin shell around `Tunnel`: moves bytes between a client and an upstream after a 101.
///
/// What one side sends goes to the other in the same turn; what that one does not take waits in its queue, at most one read (64 KiB), and
/// nothing more is read meanwhile. An idle tunnel owns no buffer. Belongs to the shard's queue; its client tells it of events.
final class TunnelRelay {
    /// Bytes of one turn, both directions together (http-rules.md 20.5).
    private static let turnBytesMax = 256 << 10

    /// As whom the upgrade was asked for; nil: nobody knows.
    let account: Int?
    private unowned let client: ClientConnection
    private let upstream: UpstreamConnection
    private let shard: Shard
    private var machine: Tunnel
    private var isOver = false
    /// What the kernel held for each side when it last took a byte of ours, or at the last look: a side that takes little at a time has that
    /// to empty first.
    private var kernelBytesForClient = 0
    private var kernelBytesForUpstream = 0

    init(_ client: ClientConnection, _ upstream: UpstreamConnection, account: Int?, limits: Tunnel.Limits) {
        self.account = account
        self.client = client
        self.upstream = upstream
        shard = client.shard
        machine = Tunnel(limits, at: client.shard.loop.now)
    }

    func resets(_ side: Tunnel.Side, by end: Tunnel.End) -> Bool { machine.resets(side, by: end) }

    /// Nothing is moved any more.
    func stop() { isOver = true }

    // MARK: Events

    /// Sends what waits and moves what has come, up to a turn's share.
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

    /// Since the last look. The first one at a side for which nothing waits here has nothing to compare with: what the kernel holds for it
    /// counts as moving until the next.
    private func hasKernelProgress(_ raw: CInt, _ before: inout Int) -> Bool {
        let held = Socket.unsentBytes(raw)
        defer { before = held }
        return held > 0 && before == 0 || held < before
    }

    // MARK: Bytes that the relay did not read itself

    /// Hands the client the shard's out buffer, the 101, and what came behind it.
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

    // MARK: Moving

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

    /// A side that is not read, because the other takes nothing or because it has ended, may have been reset (http-rules.md 9.5).
    private func detectResets() {
        if !isOver, client.hasEnded, !machine.wantsBytes(of: .client), Socket.pendingError(client.raw) != 0 {
            perform(machine.failed(.client))
        }
        if !isOver, upstream.hasEnded, !machine.wantsBytes(of: .upstream), Socket.pendingError(upstream.raw) != 0 {
            perform(machine.failed(.upstream))
        }
    }

    /// One read of the client. Returns how many bytes came.
    private func moveToUpstream() -> Int {
        guard !isOver, client.canRead, machine.wantsBytes(of: .client) else { return 0 }
        // Without memory for what the other side does not take, it waits in the socket (http-rules.md 8).
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

    /// One read of the upstream. Returns how many bytes came.
    private func moveToClient() -> Int {
        guard !isOver, upstream.canRead, machine.wantsBytes(of: .upstream) else { return 0 }
        // Without memory for what the other side does not take, it waits in the socket (http-rules.md 8).
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

    /// A read brought no bytes.
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
        case .shutDown(let side): shutdown(side == .client ? client.raw : upstream.raw, CInt(SHUT_WR))
        case .close(let end): client.endTunnel(end)
        }
    }
}
