import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// Clients and upstreams that go, stand still, or response early.
@Suite struct ProxyEndTests {
    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    @Test("a unix upstream that is missing is 502, one that is there serves; a unix listener takes any Host")
    func unix() async throws {
        let folder = try TemporaryFolder()
        let bench = try ProxyBench(
            at: .unix(folder.file("up.sock")),
            plan: { $0.listener = ListenerSettings(address: .unix(path: folder.file("in.sock"))) })
        #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: anything:1\r\n\r\n").bodyText == "ok")
        #expect(bench.upstream.requests[0]["Host"] == "up.test")
        let missing = try ProxyBench(plan: {
            $0.usesUpstream = false
            $0.upstream.endpoint = .unix(path: folder.file("none.sock"))
        })
        let statuses = try await missing.talk { client in
            try client.send(String(repeating: Self.get, count: 50))
            return try (0..<50).map { _ in try client.response().status }
        }
        #expect(statuses == Array(repeating: 502, count: 50))
    }

    @Test("every request is counted once, also one whose client went in the middle of the response")
    func counted() async throws {
        let bench = try ProxyBench {
            $0.message.target == "/large"
                ? .large(64 << 20) : $0.message.target == "/odd" ? .response(799) : .response()
        }
        try await bench.talk { client throws in
            for _ in 0..<3 { #expect(try client.exchange("GET", "/").status == 200) }
            #expect(try client.exchange("GET", "/odd").status == 799)
            #expect(try client.exchange("GET", "/", host: "evil").status == 421)
            try client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            _ = try client.read(1_000)
            client.reset()
        }
        try await eventually("the connection is given up") { bench.count("lanyard_upstream_connections") == 0 }
        #expect(bench.count("lanyard_requests") == 6)
        #expect(bench.count("lanyard_requests", ["code_class": "other", "origin": "upstream"]) == 1)
        #expect(bench.count("lanyard_requests", ["code_class": "2xx", "origin": "upstream", "route": "all"]) == 4)
        #expect(bench.count("lanyard_requests", ["code_class": "4xx", "origin": "lanyard"]) == 1)
        #expect(bench.count("lanyard_requests") == 6)
        #expect(bench.count("lanyard_rejected_requests", ["reason": "host"]) == 1)
    }

    /// How far a response has come when its client goes.
    enum PendingState: CaseIterable { case parked, silent, interim, held }

    @Test(
        "a request whose client goes before the response is counted once, without a class",
        arguments: PendingState.allCases)
    func countedWithoutResponse(_ state: PendingState) async throws {
        let bench = try ProxyBench { _ in
            switch state {
            case .parked, .silent: RawResponse([])
            case .interim: .text("HTTP/1.1 103 Hint\r\n\r\n")
            case .held: .response(401, "Who?")
            }
        } plan: {
            if state == .parked { ($0.publishes, $0.tokenWaitMax) = (false, .seconds(60)) }
            if state == .held { $0.tokenWaitMax = .seconds(60) }
        }
        // The refresh that the 401 asks for never ends.
        bench.tokens.onRefused.withLock { [path = bench.path] in
            $0 = { old in
                path.publish(
                    ProxyBench.availability(old, ProxyBench.token, renewal: .inProgress), for: ProxyBench.user)
            }
        }
        try await bench.talk { client throws in
            try client.send(Self.get)
            switch state {
            case .parked, .held: try blockUntil("it is parked") { bench.count("lanyard_parked_requests") > 0 }
            case .silent: try blockUntil("it is asked") { !bench.upstream.requests.isEmpty }
            case .interim: _ = try client.read(10)
            }
            client.reset()
        }
        try await eventually("the client is gone") { bench.path.shards[0].load.value == 0 }
        #expect(
            bench.count("lanyard_requests", ["code_class": "none", "origin": "lanyard", "route": "all"]) == 1)
        #expect(bench.count("lanyard_requests") == 1)
    }

    @Test("an upstream's name is resolved beside the shard, for however many requests at once")
    func named() async throws {
        let server = try RawServer()
        let bench = try ProxyBench(plan: {
            $0.usesUpstream = false
            // No address to Lanyard, and 127.0.0.1 to every resolver (inet_aton(3)).
            $0.upstream.endpoint = .tcp(host: "127.1", port: server.endpoint.port, tls: false)
        })
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<20 { group.addTask { try await bench.ask(Self.get).status } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses == Array(repeating: 200, count: 20))
        #expect(server.requests.count == 20)
    }
}
