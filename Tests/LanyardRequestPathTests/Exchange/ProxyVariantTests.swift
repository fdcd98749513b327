import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// Routes that ask for different access tokens of one user (`routes[].token`).
@Suite struct ProxyVariantTests {
    private static let orders = TokenVariant(audience: "orders")
    private static let stock = TokenVariant(audience: "stock")

    private static func get(_ path: String) -> String { "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n" }

    /// A bench with the routes `/orders`, `/stock` and `/`, all of alice.
    private static func bench(
        script: @escaping RawServer.Script = { _ in .response(body: "ok") }
    ) throws -> ProxyBench {
        let bench = try ProxyBench(script: script, plan: { $0.route.user = "alice" })
        var settings = bench.settings
        for (path, variant) in [("orders", orders), ("stock", stock)] {
            var route = settings.routes[0]
            (route.route.name, route.route.path, route.route.token) = (path, "/\(path)", variant)
            settings.routes.append(route)
        }
        bench.apply(settings)
        return bench
    }

    private static func index(_ variant: TokenVariant, _ bench: ProxyBench) -> UserIndex {
        bench.names.index(of: "alice", variant: variant.key)
    }

    private static func publish(
        _ token: String, _ variant: TokenVariant, _ bench: ProxyBench, generation: UInt64 = 1,
        renewal: AccessToken.Renewal = .possible(from: .past)
    ) {
        let user = index(variant, bench)
        bench.path.publish(
            .token(
                AccessToken(
                    user: user, generation: generation, token: Tokens.secret(token), waitsFrom: .never,
                    usableUntil: .now + .seconds(600), renewal: renewal)), for: user)
        bench.settle()
    }

    private static func bearers(_ bench: ProxyBench) -> [String] {
        bench.upstream.requests.map { "\($0.target) \($0.values("Authorization").joined())" }
    }

    @Test("each route carries its own token of one user, and never another one: it waits for it, or is refused")
    func ownToken() async throws {
        let bench = try Self.bench()
        Self.publish("for.orders", Self.orders, bench)
        Self.publish("for.stock", Self.stock, bench)
        for path in ["/orders", "/stock", "/"] { #expect(try await bench.ask(Self.get(path)).status == 200) }
        #expect(
            Self.bearers(bench) == [
                "/orders Bearer for.orders", "/stock Bearer for.stock", "/ Bearer \(ProxyBench.token)",
            ])
        // Without its own token a route has none, whatever the user's other tokens are.
        bench.path.publish(.none(.credentialRefused(because: "invalid_target")), for: Self.index(Self.stock, bench))
        bench.settle()
        let refused = try await bench.ask(Self.get("/stock"))
        #expect(refused.status == 503 && refused.bodyText.contains("invalid_target"))
        #expect(try refused.json["user"].string == "alice")
        #expect(try await bench.ask(Self.get("/orders")).status == 200)
        bench.path.publish(.pending, for: Self.index(Self.orders, bench))
        bench.settle()
        async let waiting = bench.ask(Self.get("/orders"))
        try await eventually("it is parked") { bench.count("lanyard_parked_requests") == 1 }
        bench.publish(generation: 2)
        #expect(bench.count("lanyard_parked_requests") == 1)
        Self.publish("again.for.orders", Self.orders, bench, generation: 2)
        #expect(try await waiting.status == 200)
        #expect(Self.bearers(bench).contains("/orders Bearer again.for.orders"))
        #expect(bench.tokens.count == 1)
    }

    @Test(
        "a 401 is about the token that was sent: that variant is renewed, and the request sent once more with its next one"
    )
    func refused() async throws {
        let bench = try Self.bench { request in
            request.message["Authorization"] == "Bearer old.orders"
                ? .response(401, "Unauthorized", body: "") : .response(body: "ok")
        }
        Self.publish("old.orders", Self.orders, bench, generation: 7)
        Self.publish("for.stock", Self.stock, bench, generation: 7)
        let orders = Self.index(Self.orders, bench)
        let path = bench.path
        bench.tokens.onRefused.withLock {
            $0 = { generation in
                path.publish(
                    .token(
                        AccessToken(
                            user: orders, generation: generation + 1, token: Tokens.secret("new.orders"),
                            waitsFrom: .never, usableUntil: .now + .seconds(600))), for: orders)
            }
        }
        #expect(try await bench.ask(Self.get("/orders")).status == 200)
        #expect(bench.tokens.refusedUsers == [orders] && bench.tokens.refused == [7])
        #expect(Self.bearers(bench) == ["/orders Bearer old.orders", "/orders Bearer new.orders"])
        #expect(bench.count("lanyard_route_breaker_open", ["route": "orders"]) == 0)
    }

    @Test("a reload that changes a route's token: not one request after it carries the former one")
    func reload() async throws {
        let bench = try Self.bench()
        Self.publish("for.orders", Self.orders, bench)
        #expect(try await bench.ask(Self.get("/orders")).status == 200)
        var settings = bench.settings
        settings.routes[0].route.path = "/orders"
        settings.routes[0].route.token = Self.stock
        bench.apply(settings)
        async let waiting = bench.ask(Self.get("/orders"))
        try await eventually("it is parked") { bench.count("lanyard_parked_requests") == 1 }
        Self.publish("newer.for.orders", Self.orders, bench, generation: 2)
        #expect(bench.count("lanyard_parked_requests") == 1)
        Self.publish("for.stock", Self.stock, bench)
        #expect(try await waiting.status == 200)
        #expect(Self.bearers(bench) == ["/orders Bearer for.orders", "/orders Bearer for.stock"])
    }

    @Test("another account space of the user takes all its tokens along: those of before reach no request")
    func epoch() async throws {
        let bench = try Self.bench()
        Self.publish("for.orders", Self.orders, bench)
        let former = Self.index(Self.orders, bench)
        _ = bench.names.renew("alice")
        #expect(Self.index(Self.orders, bench) != former && bench.names.owner(of: former)?.number == 0)
        var settings = bench.settings
        settings.routes[0].route.token = Self.orders
        bench.apply(settings, active: nil)
        bench.path.publish(
            .token(
                AccessToken(
                    user: former, generation: 9, token: Tokens.secret("late"), waitsFrom: .never,
                    usableUntil: .now + .seconds(600))), for: former)
        bench.path.publish(.none(.loginRequired), for: Self.index(Self.orders, bench))
        bench.settle()
        #expect(try await bench.ask(Self.get("/orders")).status == 503)
        #expect(bench.upstream.requests.isEmpty)
    }

    @Test("the uses of a token are the responses to its routes alone")
    func uses() async throws {
        let bench = try Self.bench()
        Self.publish("for.orders", Self.orders, bench)
        let unused = TokenUses(responses: 0, successes: 0)
        #expect(bench.path.uses(of: Self.index(Self.orders, bench)) == unused)
        #expect(try await bench.ask(Self.get("/orders")).status == 200)
        #expect(try await bench.ask(Self.get("/")).status == 200)
        bench.settle()
        #expect(bench.path.uses(of: Self.index(Self.orders, bench)) == TokenUses(responses: 1, successes: 1))
        #expect(bench.path.uses(of: Self.index(Self.stock, bench)) == unused)
    }
}
