import Dispatch
import Synchronization
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardRequestPath
@testable import LanyardSettings

@Suite struct UpstreamPoolTests {
    private let server: RawServer
    private let loop: EventLoop
    private let pool: UpstreamPool
    private let leases = HeldLeases()

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

    /// The pools of several shards for one target.
    private final class Shards: Sendable {
        let pools: [UpstreamPool]
        let leases = HeldLeases()
        private let loops: [EventLoop]

        init(_ count: Int, _ endpoint: UpstreamSettings.Endpoint, connectionsMax: Int) throws {
            var settings = UpstreamSettings(endpoint: endpoint, authority: "up.test")
            settings.connectionsMax = connectionsMax
            settings.timeouts.connect = .seconds(20)
            let target = UpstreamTarget(settings, resolver: Resolver())
            let (parked, buffers) = (SharedLimit(1000), BufferBudget(1 << 20))
            loops = try (0..<count).map { try EventLoop(label: "test.pool.\($0)") }
            pools = loops.map { UpstreamPool(target: target, loop: $0, parked: parked, buffers: buffers) }
            for loop in loops { loop.start() }
        }

        /// No event may come once the pools are gone.
        func end() {
            for (pool, loop) in zip(pools, loops) {
                loop.stop()
                loop.queue.sync {
                    leases.closeAll(of: pool)
                    pool.finish()
                }
            }
        }

        /// Runs `work` on a pool's queue.
        func on<Value: Sendable>(_ number: Int, _ work: (UpstreamPool) -> Value) -> Value {
            let pool = pools[number]
            return loops[number].queue.sync { work(pool) }
        }

        /// The same, in the loop's own time.
        func post(_ number: Int, _ work: @escaping @Sendable (UpstreamPool) -> Void) {
            let pool = pools[number]
            loops[number].post { work(pool) }
        }

        /// A connection on the shard `number`, which `then` gets on its queue; the error if there is none.
        func connect(_ number: Int, for user: Int, then: @escaping @Sendable (UpstreamConnection) -> Void) async throws
        {
            let (pool, leases) = (pools[number], leases)
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                loops[number].post {
                    if let lease = pool.takeFree(for: UserIndex(user), .unknown) {
                        then(leases.hold(lease))
                        return continuation.resume()
                    }
                    _ = pool.connect(for: UserIndex(user), .unknown) {
                        let result = leases.hold($0)
                        if case .success(let connection) = result { then(connection) }
                        continuation.resume(with: result.map { _ in })
                    }
                }
            }
        }
    }

    /// How deep calls are nested, and were at most.
    private final class Nesting: @unchecked Sendable {
        private var depth = 0
        private(set) var most = 0
        private(set) var calls = 0

        func enter(_ work: () -> Void) {
            depth += 1
            (most, calls) = (max(most, depth), calls + 1)
            work()
            depth -= 1
        }
    }

    /// A connection for a user, idle or fresh; the failure as an error.
    private func connection(for user: Int, from other: UpstreamPool? = nil) async throws -> UpstreamConnection {
        let (pool, leases) = (other ?? pool, leases)
        return try await withCheckedThrowingContinuation { continuation in
            loop.post {
                if let lease = pool.takeFree(for: UserIndex(user), .unknown) {
                    return continuation.resume(returning: leases.hold(lease))
                }
                _ = pool.connect(for: UserIndex(user), .unknown) { continuation.resume(with: leases.hold($0)) }
            }
        }
    }

    /// No event may come once the pool is gone.
    private func end() {
        loop.stop()
        loop.queue.sync {
            leases.closeAll(of: pool)
            pool.finish()
        }
    }

    private func giveBack(_ connection: UpstreamConnection) {
        let leases = leases
        loop.post { leases.giveBack(connection) }
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

    @Test("a lease that ends without being given back closes its connection: the next request gets a fresh one at once")
    func dropped() async throws {
        let first = try await connection(for: 0)
        loop.queue.sync { leases.close(first) }
        #expect(pool.open.value == 0 && pool.target.connections.count == 0)
        let next = try await connection(for: 0)
        #expect(next !== first && !next.isReused)
        giveBack(next)
        end()
    }

    @Test("who waits at the limit gets the next connection of the same user; another user a fresh one")
    func waiting() async throws {
        let first = try await connection(for: 0)
        async let same = connection(for: 0)
        try await eventually("it waits") { pool.target.waiting.count == 1 }
        giveBack(first)
        let handed = try await same
        #expect(handed === first)
        async let other = connection(for: 1)
        try await eventually("it waits, too") { pool.target.waiting.count == 1 }
        giveBack(handed)
        let fresh = try await other
        #expect(fresh !== first)
        #expect(pool.open.value == 1)
        end()
    }

    @Test("a connection that has ended is handed to no request")
    func ended() async throws {
        let first = try await connection(for: 0)
        async let waiting = connection(for: 0)
        try await eventually("it waits") { pool.target.waiting.count == 1 }
        try await eventually("the server has accepted it") { server.openCount == 1 }
        server.closeAll()
        try await eventually("the end is known") { loop.queue.sync { first.stream.hasEnded } }
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
        await #expect(throws: UpstreamError.connectionLimit) { try await connection(for: 0, from: pool) }
        #expect(pool.target.waiting.count == 0)
        loop.queue.sync { leases.closeAll(of: pool) }
        end()
        loop.queue.sync { pool.finish() }
    }

    private var endpoint: UpstreamSettings.Endpoint { .tcp(host: "127.0.0.1", port: server.endpoint.port, tls: false) }

    @Test("three shards compete for one connection in rounds with silence between them: each is served")
    func silentRounds() async throws {
        let shards = try Shards(3, endpoint, connectionsMax: 1)
        for round in 0..<300 {
            // A request that misses its wake-up gets an error when its time to connect has ended.
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<3 {
                    group.addTask {
                        let leases = shards.leases
                        try await shards.connect(number, for: (round + number) % 2) { connection in
                            if (round + number) % 3 == 0 {
                                leases.giveBack(connection)
                            } else {
                                leases.close(connection)
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
        #expect(shards.pools[0].target.waiting.count == 0)
        shards.end()
        end()
    }

    @Test("idle connections of another shard make room, one for each that waits")
    func idleElsewhere() async throws {
        let shards = try Shards(2, endpoint, connectionsMax: 3)
        let kept = Guarded<[UpstreamConnection]>([])
        for _ in 0..<3 { try await shards.connect(1, for: 0) { connection in kept.withLock { $0.append(connection) } } }
        shards.on(1) { _ in
            for connection in kept.withLock({ $0 }) { shards.leases.giveBack(connection) }
        }
        #expect(shards.pools[1].idleCount == 3)
        for _ in 0..<2 { try await shards.connect(0, for: 1) { _ in } }
        #expect(shards.pools[1].idleCount == 1)
        #expect(shards.pools[0].target.connections.count == 3)
        shards.end()
        end()
    }

    @Test("connections that are given back by whom they were handed to nest no calls, however many wait")
    func givenBackAtOnce() async throws {
        let shards = try Shards(1, endpoint, connectionsMax: 1)
        let first = Guarded<UpstreamConnection?>(nil)
        try await shards.connect(0, for: 0) { connection in first.withLock { $0 = connection } }
        let nesting = Nesting()
        shards.on(0) { pool in
            for _ in 0..<500 {
                _ = pool.connect(for: UserIndex(0), .unknown) { result in
                    let result = shards.leases.hold(result)
                    nesting.enter { if case .success(let connection) = result { shards.leases.giveBack(connection) } }
                }
            }
        }
        shards.post(0) { _ in first.withLock { $0.map(shards.leases.giveBack) } }
        try await eventually("all were served") { shards.on(0) { _ in nesting.calls == 500 } }
        #expect(nesting.most == 1)
        #expect(shards.on(0) { $0.open.value } == 1)
        shards.end()
        end()
    }

    @Test("dials that fail at once nest no calls, however many wait")
    func failAtOnce() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("up")
        let listener = try RawSocket.listen(at: .unix(path))
        let shards = try Shards(1, .unix(path: path), connectionsMax: 1)
        let first = Guarded<UpstreamConnection?>(nil)
        try await shards.connect(0, for: 0) { connection in first.withLock { $0 = connection } }
        listener.close()
        let nesting = Nesting()
        shards.on(0) { pool in
            for _ in 0..<500 {
                _ = pool.connect(for: UserIndex(0), .unknown) { _ in
                    // As a client does whose next request is here already.
                    nesting.enter {
                        guard nesting.calls < 1000 else { return }
                        _ = pool.connect(for: UserIndex(0), .unknown) { _ in nesting.enter {} }
                    }
                }
            }
        }
        shards.post(0) { _ in first.withLock { $0.map(shards.leases.close) } }
        try await eventually("all were answered") { shards.on(0) { _ in nesting.calls >= 1000 } }
        #expect(nesting.most <= 2)
        #expect(shards.pools[0].target.connections.count == 0)
        #expect(shards.pools[0].target.waiting.count == 0)
        shards.end()
        end()
    }
}
