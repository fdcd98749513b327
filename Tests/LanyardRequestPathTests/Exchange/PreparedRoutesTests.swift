import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardRequestPath

/// What a reload prepares beside what is served: it is served as it was built, or it leaves nothing behind.
@Suite struct PreparedRoutesTests {
    /// Objects that a dropped reload has built.
    private final class Remains: @unchecked Sendable {
        weak var routes: ShardRoutes?
        weak var target: UpstreamTarget?
        weak var pool: UpstreamPool?

        init(_ built: PreparedRoutes.Built) {
            routes = built.routes[0]
            target = built.configuration.targets[0]
            pool = built.routes[0].pools[0]
        }

        var areGone: Bool { routes == nil && target == nil && pool == nil }
    }

    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    /// Everything of the bench's settings is another one, and the route has a user that nothing knows.
    private static func other(_ bench: ProxyBench) -> RequestPath.Settings {
        var settings = bench.settings
        settings.routes[0].route.user = "carol"
        settings.routes[0].upstream.dns.timeout = .seconds(50)
        settings.limits.connectionsMax = 3
        settings.limits.parkedRequestsMax = 4
        return settings
    }

    @Test(
        "what was prepared is served as it is: nothing is built in the turn of the sessions, however many routes there are"
    )
    func prepared() throws {
        let bench = try ProxyBench(plan: { $0.shards = 2 })
        var settings = bench.settings
        for number in 0..<200 {
            settings.routes.append(settings.routes[0])
            settings.routes[number + 1].route.name = "route\(number)"
            settings.routes[number + 1].route.path = "/\(number)"
            settings.routes[number + 1].upstream.connectionsMax = 5000 + number
        }
        let prepared = bench.path.prepare(settings)
        let built = try #require(prepared.built.withLock { $0 })
        #expect(built.configuration.routeList.count == 201 && built.newTargets == Array(1...200))
        let targets = bench.path.serve(prepared, active: ProxyBench.user)
        bench.settle()
        // What a configuration and a shard have of each route never changes: the same objects hold the same routes, targets and pools.
        let expected = built.routes.map { ObjectIdentifier($0) }
        #expect(bench.path.served.withLock { $0.map { ObjectIdentifier($0) } } == expected)
        #expect(bench.path.shards.map { ObjectIdentifier($0.served) } == expected)
        #expect(built.routes.allSatisfy { $0.configuration === built.configuration })
        #expect(targets.map { ObjectIdentifier($0) } == built.configuration.targets.map { ObjectIdentifier($0) })
        #expect(prepared.built.withLock { $0 == nil }, "it is served once")
    }

    @Test("what was prepared and is not served changes nothing, and is released")
    func dropped() async throws {
        let bench = try ProxyBench()
        #expect(try await bench.ask(Self.get).status == 200)
        let (shard, path) = (bench.path.shards[0], bench.path)
        func state() -> [Int] {
            [
                bench.names.count, shard.loop.postCount, path.clientConnections.max, path.parkedRequests.max,
                path.resolver.serverSeconds, path.targets.count,
            ]
        }
        let (before, served) = (state(), ObjectIdentifier(shard.served))
        var settings = Self.other(bench)
        // One upstream stays, with its connection.
        settings.routes.append(bench.settings.routes[0])
        settings.routes[0].route.name = "first"
        settings.routes[1].route.path = "/second"
        var remains: Remains?
        do {
            let prepared = path.prepare(settings)
            let built = try #require(prepared.built.withLock { $0 })
            #expect(built.newTargets == [0] && built.routes[0].pools[1] === shard.served.pools[0])
            remains = Remains(built)
        }
        #expect(remains?.areGone == true)
        #expect(state() == before && ObjectIdentifier(shard.served) == served)
        #expect(try await bench.ask(Self.get).status == 200)
        #expect(bench.upstream.connectionCount == 1)
    }

    @Test("names, limits and the time of lookups change when it is served")
    func served() async throws {
        let bench = try ProxyBench()
        let prepared = bench.path.prepare(Self.other(bench))
        let count = bench.names.count
        bench.path.serve(prepared, active: ProxyBench.user)
        bench.settle()
        #expect(bench.names.count == count + 1 && bench.path.resolver.serverSeconds == 20)
        #expect(bench.path.clientConnections.max == 3 && bench.path.parkedRequests.max == 4)
        // A user that nothing configures is refused at once.
        let refused = try await bench.ask(Self.get)
        #expect(refused.status == 503)
        #expect(try refused.json["type"].string == "urn:lanyard:problem:login-required")
        #expect(try refused.json["user"].string == "carol")
    }

    @Test(
        "a reload that another one has overtaken is built again after what is served now: it keeps no retired connection"
    )
    func overtaken() async throws {
        let bench = try ProxyBench()
        #expect(try await bench.ask(Self.get).status == 200)
        let former = bench.path.targets[0]
        let late = bench.path.prepare(bench.settings)
        let built = try #require(late.built.withLock { $0 })
        #expect(built.configuration.targets[0] === former && built.newTargets.isEmpty)
        var settings = bench.settings
        settings.routes[0].upstream.timeouts.connect = .seconds(7)
        bench.apply(settings)
        let served = bench.path.targets[0]
        bench.path.serve(late, active: ProxyBench.user)
        bench.settle()
        #expect(bench.path.targets[0] !== former && bench.path.targets[0] !== served)
        let client = try RawClient(bench.endpoint)
        defer { client.close() }
        for _ in 0..<3 { #expect(try client.exchange("GET", "/").status == 200) }
        #expect(bench.upstream.connectionCount == 2, "the first one's, and one that is kept")
    }

    @Test("a user that gets another index while a reload is prepared has it in the reload's routes")
    func movedUser() async throws {
        let bench = try ProxyBench(plan: { ($0.route.user, $0.publishes) = ("alice", false) })
        let prepared = bench.path.prepare(bench.settings)
        let moved = bench.names.renew("alice")
        bench.path.serve(prepared, active: nil)
        bench.path.publish(
            .token(
                AccessToken(
                    user: moved, generation: 1, token: Tokens.secret("moved"), waitsFrom: .never,
                    usableUntil: .now + .seconds(600))), for: moved)
        bench.settle()
        #expect(try await bench.ask(Self.get).status == 200)
        #expect(bench.upstream.requests.map { $0.values("Authorization") } == [["Bearer moved"]])
    }

    @Test("kinds of tokens get their indexes in the order of the routes")
    func variants() throws {
        let bench = try ProxyBench(plan: { $0.route.user = "alice" })
        var settings = bench.settings
        for (name, audience) in [("b", "stock"), ("a", "orders"), ("c", "stock")] {
            var route = settings.routes[0]
            (route.route.name, route.route.path, route.route.token) = (
                name, "/\(name)", TokenVariant(audience: audience)
            )
            settings.routes.append(route)
        }
        bench.apply(settings)
        let routes = try #require(bench.path.served.withLock { $0.first }).configuration.routeList
        let (stock, orders) = (bench.names.count - 2, bench.names.count - 1)
        #expect(routes.map { $0.user?.number } == [0, stock, orders, stock])
    }
}
