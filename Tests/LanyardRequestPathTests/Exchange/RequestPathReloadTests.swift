import Foundation
import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardRequestPath

/// What a reload leaves behind in the request path.
@Suite struct RequestPathReloadTests {
    private final class WeakTarget: @unchecked Sendable {
        weak var target: UpstreamTarget?
        init(_ target: UpstreamTarget) { self.target = target }
    }

    @Test("a replaced upstream is released when its last request has ended and its clients have moved on")
    func released() async throws {
        let gate = Milestone()
        let bench = try ProxyBench { request in
            if request.message.target == "/slow" { gate.wait(for: "the reloads") }
            return .response()
        } plan: {
            $0.shards = 2
            $0.timeStands = true
        }
        let clients = try (0..<8).map { _ in try RawClient(bench.endpoint) }
        let ask = { (path: String) in
            for client in clients { _ = try client.exchange("GET", path) }
        }
        try ask("/")
        let slow = try RawClient(bench.endpoint)
        try slow.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try bench.awaitRequests(9)
        var replaced = bench.path.targets.map(WeakTarget.init)
        for round in 1...50 {
            var settings = bench.settings
            settings.routes[0].upstream.timeouts.connect = .seconds(round)
            bench.apply(settings)
            replaced.append(WeakTarget(bench.path.targets[0]))
            if round % 10 == 0 { try ask("/") }
        }
        let present = replaced.removeLast()
        let held = replaced.removeFirst()
        try ask("/")
        try await eventually("all but the first are released") {
            bench.pass(.seconds(1))
            return replaced.allSatisfy { $0.target == nil }
        }
        #expect(held.target != nil && present.target != nil)
        gate.set()
        #expect(try slow.response().status == 200)
        slow.close()
        try await eventually("the first one is released") {
            bench.pass(.seconds(1))
            return held.target == nil
        }
        #expect(present.target === bench.path.targets[0])
        try ask("/")
    }

    @Test("without any client, what a reload has replaced is released by itself")
    func releasedWithoutClients() async throws {
        let bench = try ProxyBench(plan: { $0.timeStands = true })
        let former = WeakTarget(bench.path.targets[0])
        var settings = bench.settings
        settings.routes[0].upstream.connectionsMax = 7
        bench.apply(settings)
        bench.pass(.seconds(2))
        #expect(former.target == nil)
    }

    @Test("reloads more often than once a second release what they replace, also under clients without a request")
    func often() async throws {
        let bench = try ProxyBench(plan: {
            $0.shards = 2
            $0.timeStands = true
        })
        let idle = try (0..<8).map { _ in try RawClient(bench.endpoint) }
        for client in idle { #expect(try client.exchange("GET", "/").status == 200) }
        var replaced: [WeakTarget] = []
        for round in 1...20 {
            replaced.append(WeakTarget(bench.path.targets[0]))
            var settings = bench.settings
            settings.routes[0].upstream.timeouts.connect = .seconds(round)
            bench.apply(settings)
            bench.pass(.milliseconds(100))
        }
        // The upstream that the clients have used has an idle connection, which each review of a second looks at.
        #expect(replaced.dropFirst().allSatisfy { $0.target == nil })
        bench.pass(.seconds(1))
        #expect(replaced.allSatisfy { $0.target == nil })
        for client in idle { #expect(try client.exchange("GET", "/").status == 200) }
    }

    @Test("clients that a changed context would not admit end, at once or behind their request; others stay")
    func admission() async throws {
        let gate = Milestone()
        let bench = try ProxyBench { request in
            if request.message.target == "/slow" { gate.wait(for: "the other context") }
            return .response()
        } plan: {
            $0.hasTLS = true
        }
        let (idle, busy) = (try RawClient(bench.endpoint), try RawClient(bench.endpoint))
        #expect(try idle.exchange("GET", "/").status == 200)
        bench.path.setTLS(try TLSBench.server(), ofListener: 0)
        #expect(try idle.exchange("GET", "/").status == 200)
        try busy.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try bench.awaitRequests(3)
        bench.path.setTLS(try TLSBench.server(demanding: TLSBench.authority.pem), ofListener: 0)
        // The shard has the context before the next request can arrive.
        bench.path.shards[0].loop.perform {}
        #expect(throws: (any Error).self) { try idle.exchange("GET", "/") }
        gate.set()
        #expect(try busy.response().status == 200)
        #expect(throws: (any Error).self) { try busy.exchange("GET", "/") }
        try await eventually("no client is left") { bench.path.shards[0].load.value == 0 }
    }

    @Test("a handshake in progress that a changed context ends is counted, with its reason")
    func admissionInHandshake() async throws {
        let bench = try ProxyBench(plan: { $0.hasTLS = true })
        let shard = bench.path.shards[0]
        let client = try RawClient(bench.sides.listener)
        // A part of a hello.
        try client.send([0x16, 3, 1, 0, 0x50, 1, 0, 0, 0x4c] as [UInt8])
        try await eventually("the handshake has begun") {
            shard.loop.perform { shard.core.memory.tls.bufferCount } == 1
        }
        bench.path.setTLS(try TLSBench.server(demanding: TLSBench.authority.pem), ofListener: 0)
        try await eventually("no client is left") { shard.load.value == 0 }
        #expect(bench.count("lanyard_tls_handshakes", ["result": "admission_changed"]) == 1)
        #expect(bench.count("lanyard_tls_handshakes") == 1)
    }

    @Test("a listener's other context and the other routes come to a shard in one turn")
    func oneTurn() throws {
        let bench = try ProxyBench(plan: {
            $0.hasTLS = true
            $0.timeStands = true
        })
        let idle = try RawClient(bench.endpoint)
        #expect(try idle.exchange("GET", "/").status == 200)
        var settings = bench.settings
        settings.tokenWaitMax = .seconds(77)
        // The last client of a drain ends with the former context, in the turn of the shard in which the other one comes.
        let seen = Guarded<Duration?>(nil)
        bench.path.drain { [shard = bench.path.shards[0]] in
            let served = shard.served.configuration.tokenWaitMax
            seen.withLock { $0 = served }
        }
        bench.settle()
        bench.settle()
        #expect(seen.withLock { $0 == nil })
        bench.path.serve(
            bench.path.prepare(settings), active: ProxyBench.user,
            listenerTLS: [0: try TLSBench.server(demanding: TLSBench.authority.pem)])
        bench.settle()
        #expect(seen.withLock { $0 } == .seconds(77))
    }

    @Test("an exchange of a client that is not admitted any more ends after drain_max, and becomes no tunnel")
    func admissionOfExchange() async throws {
        let gate = Milestone()
        let stream = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
        let bench = try ProxyBench { request in
            switch request.message.target {
            case "/stream": RawResponse([.send(Array(stream.utf8))])
            case "/ws": RawResponse([.send(Array(TunnelBench.granting.utf8))]).after(gate, "the other context")
            default: .response()
            }
        } plan: {
            $0.hasTLS = true
            $0.timeStands = true
        }
        var settings = bench.settings
        settings.drainMax = .seconds(60)
        bench.apply(settings)
        let (streaming, upgrading) = (try RawClient(bench.endpoint), try RawClient(bench.endpoint))
        try streaming.send("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try upgrading.send(TunnelBench.asking)
        try bench.awaitRequests(2)
        let load = { bench.path.shards[0].load.value }
        bench.path.setTLS(try TLSBench.server(demanding: TLSBench.authority.pem), ofListener: 0)
        bench.pass(.zero)
        #expect(load() == 2)
        gate.set()
        let tunnels = { bench.count("lanyard_upgraded_connections") }
        try await eventually("the 101 has come") { load() == 1 || tunnels() == 1 }
        #expect(tunnels() == 0 && load() == 1)
        bench.pass(.seconds(60) - .nanoseconds(1))
        #expect(load() == 1)
        bench.pass(.nanoseconds(1))
        #expect(load() == 0)
        #expect(bench.count("lanyard_requests", ["code_class": "2xx", "origin": "upstream"]) == 1)
    }

    @Test(
        "a context admits the clients of another one if it trusts its authorities and has its names",
        arguments: [
            (nil, [], nil, [], true), (nil, [], "a", [], false), ("a", [], nil, [], true), ("a", [], "a", [], true),
            ("a", [], "ab", [], true), ("ab", [], "a", [], false), ("ab", [], "ba", [], true),
            ("a", [], "b", [], false),
            ("a", ["DNS:x"], "a", ["DNS:x"], true), ("a", [], "a", ["DNS:x"], false),
            ("a", ["DNS:x"], "a", ["DNS:y"], false),
        ] as [(String?, [String], String?, [String], Bool)])
    func admitted(
        _ former: String?, _ formerNames: [String], _ next: String?, _ nextNames: [String], _ admits: Bool
    ) throws {
        let authorities: [Character: String] = ["a": Self.authorities[0].pem, "b": Self.authorities[1].pem]
        let context = { (letters: String?, names: [String]) in
            try TLSBench.server(
                demanding: letters.map { $0.compactMap { authorities[$0] }.joined(separator: "\n") }, names: names)
        }
        #expect(try context(next, nextNames).admitsClients(of: context(former, formerNames)) == admits)
    }

    private static let authorities = [TestAuthority("A"), TestAuthority("B")]

    @Test("a lowered limit of connections closes no client for a new one that gets no place anyway")
    func lowered() async throws {
        let bench = try ProxyBench()
        let clients = try (0..<4).map { _ in try RawClient(bench.endpoint) }
        let ask = { (client: RawClient) in try client.exchange("GET", "/").status }
        for client in clients { #expect(try ask(client) == 200) }
        var settings = bench.settings
        settings.limits.connectionsMax = 2
        bench.apply(settings)
        for _ in 0..<3 {
            let refused = try RawClient(bench.endpoint)
            #expect(try refused.response().status == 503)
        }
        for client in clients { #expect(try ask(client) == 200) }
        for client in clients[..<3] { client.close() }
        try await eventually("there is room") { bench.path.shards[0].load.value == 1 }
        #expect(try ask(try RawClient(bench.endpoint)) == 200)
    }

    @Test("an upstream that stays keeps its connections, its circuit breaker and its counters")
    func kept() async throws {
        let bench = try ProxyBench()
        let client = try RawClient(bench.endpoint)
        for round in 0..<5 {
            #expect(try client.exchange("GET", "/").status == 200)
            var settings = bench.settings
            settings.routes[0].route.replayBodyMax = round
            settings.routes.append((RouteSettings(name: "other\(round)"), settings.routes[0].upstream))
            settings.routes[1].route.path = "/other"
            settings.routes.reverse()
            bench.apply(settings)
        }
        #expect(try client.exchange("GET", "/").status == 200)
        #expect(bench.upstream.connectionCount == 1)
        bench.settle()
        let requests = bench.path.samples().first { sample in
            sample.name == "lanyard_requests" && sample.labels.contains { $0.value == "all" }
                && sample.labels.contains { $0.value == "2xx" }
        }
        #expect(requests?.value == 6)
        // The same without series of each route, and nothing that is one route's alone.
        let sums = bench.path.samples(perRoute: false)
        #expect(sums.allSatisfy { sample in sample.labels.allSatisfy { $0.name != "route" } })
        let successes: [MetricSample.Label] = [.init("code_class", "2xx"), .init("origin", "upstream")]
        #expect(sums.filter { $0.name == "lanyard_requests" && $0.labels == successes }.map(\.value) == [6])
        let durations = sums.filter { $0.name == "lanyard_request_duration_seconds" && $0.suffix == "_count" }
        #expect(durations.map(\.value) == [6])
        let idle = sums.filter { $0.name == "lanyard_upstream_connections" && $0.labels == [.init("state", "idle")] }
        #expect(idle.map(\.value) == [1])
    }

    @Test("a reload that changes only the time-outs of an upstream applies them")
    func timeouts() throws {
        let bench = try ProxyBench()
        var settings = bench.settings
        settings.routes[0].upstream.timeouts.responseHeader = .seconds(7)
        bench.apply(settings)
        #expect(bench.path.targets.map(\.settings.timeouts.responseHeader) == [.seconds(7)])
    }

    @Test("a route and its user change in one turn: a request gets its own configuration's token, or a retryable 503")
    func users() async throws {
        let bench = try ProxyBench(plan: {
            ($0.route.user, $0.publishes, $0.tokenWaitMax) = ("alice", false, .seconds(3600))
        })
        let other = try RawServer(script: { _ in .response(body: "other") })
        let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        async let waiting = bench.ask(get)
        try await eventually("it is parked") { bench.count("lanyard_parked_requests") == 1 }
        let moved = bench.names.renew("alice")
        var settings = bench.settings
        settings.routes[0].upstream.endpoint = .tcp(host: "127.0.0.1", port: other.endpoint.port, tls: false)
        bench.apply(settings, active: moved)
        bench.publish(generation: 1)
        bench.path.publish(
            .token(
                AccessToken(
                    user: moved, generation: 1, token: Tokens.secret("moved"), waitsFrom: .never,
                    usableUntil: .now + .seconds(600))), for: moved)
        let refused = try await waiting
        #expect(refused.status == 503 && refused["Retry-After"] == "1")
        #expect(try refused.json["type"].string == "urn:lanyard:problem:identity-unreachable")
        #expect(try refused.json["retryable"].bool == true && refused.json["user"].string == "alice")
        #expect(try await bench.ask(get).bodyText == "other")
        #expect(other.requests.map { $0.values("Authorization") } == [["Bearer moved"]])
        #expect(bench.upstream.requests.isEmpty)
    }

    @Test("the active user of another configuration comes with its routes")
    func activeUser() async throws {
        let bench = try ProxyBench()
        let bob = bench.names.index(of: "bob")
        bench.path.publish(
            .token(
                AccessToken(
                    user: bob, generation: 1, token: Tokens.secret("of.bob"), waitsFrom: .never,
                    usableUntil: .now + .seconds(600))), for: bob)
        bench.apply(bench.settings, active: bob)
        let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        #expect(try await bench.ask(get).status == 200)
        bench.apply(bench.settings, active: nil)
        #expect(try await bench.ask(get).json["type"].string == "urn:lanyard:problem:no-active-user")
        #expect(bench.upstream.requests.map { $0.values("Authorization") } == [["Bearer of.bob"]])
    }

    @Test("a reload reaches every shard")
    func allShards() throws {
        let bench = try ProxyBench(plan: { $0.shards = 3 })
        var settings = bench.settings
        settings.limits.headerFieldsMax = 7
        bench.apply(settings)
        bench.settle()
        #expect(bench.path.shards.map(\.served.configuration.limits.headerFieldsMax) == [7, 7, 7])
    }
}
