import Dispatch
import Synchronization
import TestSupport
import Testing

@testable import Lanyard

@Suite(.timeLimit(.minutes(1))) struct UpstreamPoolTests {
    private let server: RawServer
    private let loop: EventLoop
    private let pool: UpstreamPool

    init() throws {
        server = try RawServer()
        loop = try EventLoop(label: "test.pool")
        loop.start()
        pool = Self.pool(server, loop, wait: .seconds(20))
    }

    /// - Parameter wait: so long a request waits at the limit.
    private static func pool(_ server: RawServer, _ loop: EventLoop, wait: Duration) -> UpstreamPool {
        var settings = UpstreamSettings(
            endpoint: .tcp(host: "127.0.0.1", port: server.endpoint.port, tls: false), authority: "up.test")
        settings.connectionsMax = 1
        settings.timeouts.connect = wait
        let target = UpstreamTarget(settings, resolver: Resolver())
        return UpstreamPool(target: target, loop: loop, parked: SharedLimit(10), buffers: BufferBudget(1 << 20))
    }

    /// A connection for a user, idle or fresh; the failure as an error.
    private func connection(for user: Int, from other: UpstreamPool? = nil) async throws -> UpstreamConnection {
        let pool = other ?? pool
        return try await withCheckedThrowingContinuation { continuation in
            loop.post {
                if let idle = pool.takeIdle(for: UserIndex(user)) { return continuation.resume(returning: idle) }
                _ = pool.connect(for: UserIndex(user)) { continuation.resume(with: $0) }
            }
        }
    }

    /// No event may come once the pool is gone.
    private func end() {
        loop.stop()
        loop.queue.sync {}
    }

    private func giveBack(_ connection: UpstreamConnection) {
        let pool = pool
        loop.post { pool.giveBack(connection) }
    }

    @Test("an idle connection serves its own user again, and makes room for another at the limit")
    func users() async throws {
        let first = try await connection(for: 0)
        giveBack(first)
        let again = try await connection(for: 0)
        #expect(again === first)
        #expect(again.isReused)
        giveBack(again)
        let other = try await connection(for: 1)
        #expect(other !== first)
        #expect(!other.isReused)
        #expect(pool.open.value == 1)
        end()
    }

    @Test("who waits at the limit gets the next connection of the same user; another user a fresh one")
    func waiting() async throws {
        let first = try await connection(for: 0)
        async let same = connection(for: 0)
        try await eventually("it waits") { pool.target.waiting.load(ordering: .relaxed) == 1 }
        giveBack(first)
        let handed = try await same
        #expect(handed === first)
        async let other = connection(for: 1)
        try await eventually("it waits, too") { pool.target.waiting.load(ordering: .relaxed) == 1 }
        giveBack(handed)
        let fresh = try await other
        #expect(fresh !== first)
        #expect(pool.open.value == 1)
        end()
    }

    @Test("a connection that has ended is handed to nobody")
    func ended() async throws {
        let first = try await connection(for: 0)
        async let waiting = connection(for: 0)
        try await eventually("it waits") { pool.target.waiting.load(ordering: .relaxed) == 1 }
        try await eventually("the server has accepted it") { server.openCount == 1 }
        server.closeAll()
        try await eventually("the end is known") { loop.queue.sync { first.hasEnded } }
        giveBack(first)
        let fresh = try await waiting
        #expect(fresh !== first)
        giveBack(fresh)
        end()
    }

    @Test("who waits too long is told that the limit is why")
    func tooLong() async throws {
        let pool = Self.pool(server, loop, wait: .milliseconds(200))
        _ = try await connection(for: 0, from: pool)
        await #expect(throws: UpstreamFailure.connectionLimit) { try await connection(for: 0, from: pool) }
        #expect(pool.target.waiting.load(ordering: .relaxed) == 0)
        end()
    }
}
