import Dispatch
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardRequestPath
@testable import LanyardSettings

/// The bound of a shard's idle upstream connections, over all its pools.
@Suite struct IdleConnectionTests {
    private let server: RawServer
    private let loop: EventLoop
    private let idle = IdleConnections(openMax: 3)
    private let pools: [UpstreamPool]
    private let leases = HeldLeases()

    init() throws {
        let server = try RawServer()
        let loop = try EventLoop(label: "test.idle")
        loop.start()
        let idle = idle
        pools = (0..<2).map { _ in
            let settings = UpstreamSettings(
                endpoint: .tcp(host: "127.0.0.1", port: server.endpoint.port, tls: false), authority: "up.test")
            return UpstreamPool(
                target: UpstreamTarget(settings, resolver: Resolver()), loop: loop, parked: SharedLimit(10),
                buffers: BufferBudget(1 << 20), idle: idle)
        }
        (self.server, self.loop) = (server, loop)
    }

    private func connection(_ pool: Int, for user: Int = 0, as account: UInt64 = 0) async throws -> UpstreamConnection {
        let (pool, leases) = (pools[pool], leases)
        return try await withCheckedThrowingContinuation { continuation in
            loop.post {
                _ = pool.connect(for: UserIndex(user), AccountNumber(account)) {
                    continuation.resume(with: leases.hold($0))
                }
            }
        }
    }

    private func giveBack(_ connection: UpstreamConnection) {
        loop.queue.sync { leases.giveBack(connection) }
    }

    private func takeIdle(_ pool: Int, for user: Int = 0, as account: UInt64 = 0) -> UpstreamConnection? {
        loop.queue.sync {
            guard let lease = pools[pool].takeFree(for: UserIndex(user), AccountNumber(account)) else { return nil }
            return leases.hold(lease)
        }
    }

    /// No event may come once the pools are gone.
    private func end() {
        loop.stop()
        loop.queue.sync {
            for pool in pools {
                leases.closeAll(of: pool)
                pool.finish()
            }
        }
    }

    @Test("beyond the bound the connection that is idle longest goes, whatever its pool; those in use do not")
    func oldestFirst() async throws {
        let used = try await connection(0)
        let (first, second) = (try await connection(0), try await connection(1))
        giveBack(first)
        giveBack(second)
        #expect(idle.evictionCount(.limit) == 0)
        // The fourth connection of the shard.
        let third = try await connection(1)
        #expect(idle.evictionCount(.limit) == 1)
        #expect(takeIdle(0) == nil)
        #expect(takeIdle(1) === second)
        let fourth = try await connection(0)
        #expect(idle.evictionCount(.limit) == 1)
        // All four are in use. The first to come to rest is one too many.
        giveBack(fourth)
        #expect(idle.evictionCount(.limit) == 2)
        #expect(takeIdle(0) == nil)
        giveBack(used)
        #expect(takeIdle(0) === used)
        #expect(pools.map(\.open.value) == [1, 2])
        #expect(pools.map(\.idleCount) == [0, 0])
        giveBack(third)
        end()
    }

    @Test("the last one used is taken first, of its own user only")
    func order() async throws {
        let (first, second) = (try await connection(0), try await connection(0))
        let other = try await connection(0, for: 7)
        for connection in [first, other, second] { giveBack(connection) }
        #expect(takeIdle(0, for: 3) == nil)
        #expect(takeIdle(0, for: 9) == nil)
        #expect(takeIdle(0) === second)
        #expect(takeIdle(0) === first)
        #expect(takeIdle(0) == nil)
        #expect(takeIdle(0, for: 7) === other)
        end()
    }

    @Test("an idle connection of another account of the user is closed and never reused")
    func accounts() async throws {
        let old = [try await connection(0, as: 1), try await connection(0, as: 1)]
        let other = try await connection(0, for: 7, as: 3)
        for connection in old + [other] { giveBack(connection) }
        #expect(takeIdle(0, as: 2) == nil)
        #expect(pools[0].idleCount == 1 && pools[0].open.value == 1)
        #expect(takeIdle(0, as: 1) == nil)
        #expect(takeIdle(0, for: 7, as: 3) === other)
        try await eventually("both are closed") { server.openCount == 1 }
        end()
    }

    @Test("one in the middle ends by itself, the others stay in order; a shortage closes all that are idle")
    func ends() async throws {
        let connections = [try await connection(0), try await connection(0), try await connection(0)]
        for connection in connections { giveBack(connection) }
        loop.queue.sync { pools[0].discard(connections[1]) }
        #expect(pools[0].idleCount == 2)
        #expect(takeIdle(0) === connections[2])
        giveBack(connections[2])
        let count = loop.queue.sync { idle.evictAll() }
        #expect(count == 2)
        #expect(idle.evictionCount(.shortage) == 2)
        #expect(pools[0].open.value == 0)
        try await eventually("all are closed") { server.openCount == 0 }
        end()
    }
}
