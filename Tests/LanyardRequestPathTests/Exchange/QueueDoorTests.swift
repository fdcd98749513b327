import CLinux
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

#if DEBUG
/// What belongs to a shard's queue ends the process when another queue calls it.
@Suite struct QueueDoorTests {
    enum Door: String, CaseIterable, Codable { case connection, upstream, idle, tunnel }

    /// Both ends of a pair of sockets.
    private static func sockets() -> (CInt, CInt) {
        var ends: [CInt] = [-1, -1]
        let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        precondition(Glibc.socketpair(AF_UNIX, kind, 0, &ends) == 0)
        return (ends[0], ends[1])
    }

    /// A call of the door that does nothing but ask which queue it is on. On the shard's queue.
    private static func call(_ door: Door, of shard: Shard) throws -> @Sendable () -> Void {
        let (ofClient, ofUpstream) = sockets()
        let client = try ClientConnection(
            taking: OwnedDescriptor(taking: ofClient), of: shard.clients, listener: 0, slot: .none)
        if door == .connection { return { client.exchange.releaseReplayCopy() } }
        if door == .idle { return { _ = shard.idleConnections.evictAll() } }
        guard let permit = SharedLimit(1).acquire() else { throw TestFailure("no permit") }
        let upstream = try UpstreamConnection(
            taking: ByteStream(taking: OwnedDescriptor(taking: ofUpstream), budget: shard.core.context.buffers),
            slot: UpstreamSlot(permit, in: IdleConnections()), trustEpoch: 0, for: ProxyBench.user, .unknown,
            loop: shard.loop, pool: shard.served.pools[0])
        if door == .upstream { return { upstream.becomeActive() } }
        nonisolated(unsafe) let tunnel = TunnelRelay(
            client.exchange, upstream, account: .unknown, limits: Tunnel.Limits(), shard.core.memory, on: shard.loop)
        return {
            withExtendedLifetime((client, upstream)) { tunnel.stop() }
        }
    }

    @Test(
        "connections of clients and upstreams, and tunnels, end the process when another queue calls them",
        arguments: Door.allCases, [true, false])
    func foreignQueue(_ door: Door, _ isForeign: Bool) async {
        await #expect(processExitsWith: isForeign ? .failure : .exitCode(7)) {
            [door = door as Door, isForeign = isForeign as Bool] in
            let bench = try ProxyBench()
            let shard = bench.path.shards[0]
            let call = shard.loop.perform { Result { try Self.call(door, of: shard) } }
            guard case .success(let call) = call else { exit(0) }
            if isForeign { call() } else { shard.loop.perform(call) }
            exit(isForeign ? 0 : 7)
        }
    }
}
#endif
