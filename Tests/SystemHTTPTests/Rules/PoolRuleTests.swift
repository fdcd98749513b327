import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 16: upstream connections.
@Suite(.serialized) struct PoolRuleTests {
    private static let shared = Task {
        // Ended at once: nothing listens there, until a test does. At an address of its own: a test beside this one may get the port.
        let dead = try RawServer(at: .loopback(11, 0))
        dead.stop()
        let bench = try await HTTPBench.start {
            // These tests count connections and reuse them from other clients: each shard has pools of its own.
            $0.shards = 1
            $0.users = ", bob: {identity: fixed}"
            $0.routes = """
                {name: alice, match: {path: /alice}, upstream: "UP", user: alice},
                {name: bob, match: {path: /bob}, upstream: "UP", user: bob},
                {name: twin, match: {path: /twin}, upstream: "UP", user: alice},
                {name: shared-alice, match: {path: /shared/alice}, upstream: "UP", user: alice, connections: shared},
                {name: shared-bob, match: {path: /shared/bob}, upstream: "UP", user: bob, connections: shared},
                {name: dead, match: {path: /dead}, upstream: "http://\(dead.endpoint)"},
                {name: silent, match: {path: /silent}, upstream: "UP", timeouts: {response_header: 300ms}},
                """
        }
        return (bench, dead.endpoint)
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value.0
        try await bench.startOver()
    }

    /// An upstream without idle connections of ours.
    private func emptyPools() async throws {
        bench.upstream.closeAll()
        try await eventually("the pools are empty") {
            try await bench.values(of: "lanyard_upstream_connections", by: "route").values.allSatisfy { $0 == 0 }
        }
        try await bench.startOver()
    }

    private func request(_ method: String, _ path: String, _ body: String? = nil) -> String {
        let framing = body.map { "Content-Length: \($0.utf8.count)\r\n\r\n\($0)" } ?? "\r\n"
        return "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n\(framing)"
    }

    // MARK: 16.1, 16.2

    @Test(
        "16.1 No connection serves two users; routes of one user with the same upstream have one, other limits another")
    func keys() async throws {
        try await emptyPools()
        for _ in 0..<3 {
            for path in ["/alice", "/bob", "/twin", "/silent"] {
                #expect(try await bench.ask(HTTPBench.plain(path)).status == 200)
            }
        }
        let targets = bench.received.map { Set($0.matches(of: #/GET (\S+)/#).map { String($0.1) }) }
        #expect(Set(targets) == [["/alice", "/twin"], ["/bob"], ["/silent"]] && targets.count == 3, "\(targets)")
        let open = try await bench.values(of: "lanyard_upstream_connections", by: "route").filter { $0.value > 0 }
        #expect(Set(open.keys) == ["alice", "silent"], "the first route with the upstream names it: \(open)")
    }

    @Test("16.1 Users of routes with connections: shared have connections in common, and with no other route")
    func shared() async throws {
        try await emptyPools()
        for _ in 0..<3 {
            for path in ["/shared/alice", "/alice", "/shared/bob", "/bob"] {
                #expect(try await bench.ask(HTTPBench.plain(path)).status == 200)
            }
        }
        let targets = bench.received.map { Set($0.matches(of: #/GET (\S+)/#).map { String($0.1) }) }
        #expect(
            Set(targets) == [["/shared/alice", "/shared/bob"], ["/alice"], ["/bob"]] && targets.count == 3, "\(targets)"
        )
    }

    @Test("16.1 The connection that was used last is reused first")
    func lastFirst() async throws {
        let (first, second) = (try await bench.connect(), try await bench.connect())
        try await first.send(HTTPBench.plain("/hand/1"))
        let one = try await bench.accept()
        _ = try await one.head()
        try await second.send(HTTPBench.plain("/hand/2"))
        let two = try await bench.accept()
        _ = try await two.head()
        let done = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        try await two.send(done)
        #expect(try await second.response().status == 200)
        try await one.send(done)
        #expect(try await first.response().status == 200)
        for number in 3..<6 {
            try await second.send(HTTPBench.plain("/hand/\(number)"))
            #expect(try await one.head().hasPrefix("GET /hand/\(number) "))
            try await one.send(done)
            #expect(try await second.response().status == 200)
        }
        one.close()
        two.close()
    }

    @Test("16.2 An end, a reset or any byte on an idle connection closes it and reaches no client")
    func watched() async throws {
        let forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
        let late = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        let deeds: [@Sendable (Wire) async throws -> Void] = [
            { $0.halfClose() }, { $0.reset() }, { try await $0.send("x") }, { try await $0.send(late) },
            { try await $0.send(forged) }, { $0.close() },
        ]
        for deed in deeds {
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain("/hand"))
            let peer = try await bench.accept()
            _ = try await peer.head()
            try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            #expect(try await client.response().status == 200)
            try await deed(peer)
            try await eventually("the idle connection is closed") {
                try await bench.values(of: "lanyard_upstream_connections", by: "route")["hand"] == 0
            }
            try await client.send(HTTPBench.plain("/hand/next"))
            let fresh = try await bench.accept()
            #expect(try await fresh.head().hasPrefix("GET /hand/next "))
            try await fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmine")
            #expect(try await client.response().bodyText == "mine")
        }
    }

    @Test("16.2 Bytes behind urgent data of TCP, before which a read stops, reach no client either")
    func urgentData() async throws {
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        let client = try await bench.connect()
        // Their ends stay open: an end would be reported.
        var peers: [Wire] = []
        for number in 0..<5 {
            try await client.send(HTTPBench.plain("/hand/\(number)"))
            let peer = try await bench.accept()
            peers.append(peer)
            _ = try await peer.head()
            // All of it is in the socket when Lanyard reads.
            let process = bench.lanyard.process
            process.signal(SIGSTOP)
            try await eventually("it stands still") { Set(process.threadStates) == ["T"] }
            try await peer.send(ok, urgent: 0x21, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
            process.signal(SIGCONT)
            #expect(try await client.response().bodyText.isEmpty)
        }
    }

    @Test("16.2 A connection is looked at again just before reuse, so that even a POST finds no closed one")
    func secondLook() async throws {
        let client = try await bench.connect()
        try await client.send(request("POST", "/hand/0", "x"))
        var peer = try await bench.accept()
        for number in 1...40 {
            _ = try await peer.request()
            try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            #expect(try await client.response().status == 200)
            peer.close()
            try await client.send(request("POST", "/hand/\(number)", "x"))
            peer = try await bench.accept()
        }
        peer.close()
    }

    // MARK: 16.3, 16.4

    @Test(
        "16.3 Pooled again only after a response complete by length or chunks, without close, from HTTP/1.1 or a kept 1.0"
    )
    func pooled() async throws {
        let ok = "HTTP/1.1 200 OK\r\n"
        for (method, text, isKept) in [
            ("GET", ok + "Content-Length: 2\r\n\r\nok", true), ("GET", ok + "Content-Length: 0\r\n\r\n", true),
            ("GET", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true),
            ("GET", ok + "Connection: keep-alive\r\nContent-Length: 0\r\n\r\n", true),
            ("HEAD", ok + "Content-Length: 2\r\n\r\n", true), ("GET", "HTTP/1.1 204 No Content\r\n\r\n", true),
            ("GET", "HTTP/1.1 304 Not Modified\r\n\r\n", true),
            ("GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", true),
            ("GET", "HTTP/1.1 500 Bad\r\nContent-Length: 2\r\n\r\nno", true),
            ("GET", ok + "Connection: close\r\nContent-Length: 2\r\n\r\nok", false),
            ("GET", ok + "Connection: Close\r\nContent-Length: 2\r\n\r\nok", false),
            ("GET", ok + "Connection: x\r\nConnection: y, close\r\nContent-Length: 2\r\n\r\nok", false),
            ("HEAD", ok + "Connection: close\r\n\r\n", false),
            ("GET", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", false),
            ("GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false),
            ("GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 2\r\n\r\nok", false),
            ("GET", ok + "Content-Length: 2\r\n\r\nok?", false),
        ] {
            try await emptyPools()
            bench.script { $0.message.target == "/first" ? .text(text) : .response() }
            let name = Comment(rawValue: "\(method) \(text)")
            #expect(try await bench.ask(request(method, "/first"), to: method).status > 0, name)
            #expect(try await bench.ask(HTTPBench.plain("/second")).status == 200, name)
            #expect(bench.received.count == (isKept ? 1 : 2), name)
            if !isKept {
                try await eventually("the connection is closed") { bench.upstream.openCount == 1 }
            }
        }
    }

    @Test("16.4 Refused before a byte was written is 502 connection_refused, and there is no ban after an outage")
    func outage() async throws {
        let place = try await Self.shared.value.1
        let refused = Refusal(
            status: 502, type: "upstream-unreachable", error: "connection_refused", closes: false)
        for _ in 0..<3 {
            for method in ["GET", "POST"] {
                let client = try await bench.connect()
                let response = try await client.ask(request(method, "/dead"))
                #expect(try refused.faults(of: response) == [])
                #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
            }
        }
        let back = try RawServer(at: place)
        #expect(try await bench.ask(request("POST", "/dead", "abc")).status == 200)
        #expect(back.requests.map(\.bodyText) == ["abc"])
        back.stop()
    }

    @Test(
        "16.4 An address that refuses is followed by the next one, for any method",
        .enabled(if: MountNamespace.isPossible, "needs root and a mount namespace of its own"))
    func nextAddress() async throws {
        let folder = try TemporaryFolder(shared: true)
        try folder.write("hosts", "127.0.0.7 two.test\n127.0.0.1 two.test\n127.0.0.8 two.test\n", mode: 0o644)
        try folder.write("nsswitch.conf", "hosts: files\n", mode: 0o644)
        let upstream = try RawServer()
        let own = try await HTTPBench.start {
            $0.launcher = MountNamespace.launcher(
                ["hosts", "nsswitch.conf"].map { (folder.file($0), "/etc/" + $0) })
            $0.routes = """
                {name: two, match: {path: /two}, upstream: "http://two.test:\(upstream.endpoint.port)", unsafe_plain: true},
                {name: none, match: {path: /none}, upstream: "http://none.test:80", unsafe_plain: true},
                """
        }
        for method in ["GET", "POST", "PATCH", "FOO"] {
            #expect(
                try await own.ask("\(method) /two HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").status
                    == 200)
            upstream.closeAll()
        }
        #expect(upstream.requests.map(\.method) == ["GET", "POST", "PATCH", "FOO"])
        // 16.7: an unknown name.
        let unknown = Refusal(status: 502, type: "upstream-unreachable", error: "dns_error", closes: false)
        let response = try await own.ask(HTTPBench.plain("/none"))
        #expect(try unknown.faults(of: response) == [])
    }

    @Test(
        "16.4 An address that stays silent is followed by the next one after 250 ms",
        .enabled(if: MountNamespace.isPossible, "needs root and a mount namespace of its own"))
    func silentAddress() async throws {
        let folder = try TemporaryFolder(shared: true)
        try folder.write("hosts", "127.0.0.7 two.test\n127.0.0.1 two.test\n", mode: 0o644)
        try folder.write("nsswitch.conf", "hosts: files\n", mode: 0o644)
        let upstream = try RawServer(at: .loopback(7, 0))
        // The resolver puts this one first, because it shares more bits with the source address (RFC 6724 §6, rule 9).
        let silent = RawEndpoint.tcp(upstream.endpoint.port)
        // The kernel drops what comes behind a full backlog, and one connection fills a backlog of 0.
        let listener = try RawSocket.listen(at: silent, backlog: 0)
        let filling = try RawSocket.connect(to: silent)
        let (own, clock) = try await HTTPBench.startUnderClock {
            $0.launcher = MountNamespace.launcher(
                ["hosts", "nsswitch.conf"].map { (folder.file($0), "/etc/" + $0) })
            let address = "http://two.test:\(upstream.endpoint.port)"
            $0.routes =
                "{name: two, match: {path: /two}, upstream: \"\(address)\", unsafe_plain: true, timeouts: {connect: 1h}},"
        }
        let client = try await own.connect()
        try await client.send(HTTPBench.plain("/two"))
        try await clock.pass(.milliseconds(240))
        #expect(upstream.connectionCount == 0)
        try await clock.pass(.milliseconds(40))
        #expect(try await client.response().status == 200)
        withExtendedLifetime((listener, filling)) {}
    }

    // MARK: 16.5, 16.6

    /// Lets a pooled connection end when `/stale` has come on it, without a response or behind `bytes`.
    private func stale(
        _ method: String, _ body: String?, after bytes: String = "", by end: RawResponse.Step, always: Bool = false
    )
        async throws -> (response: RawMessage, tries: Int)
    {
        try await emptyPools()
        bench.script { request in
            guard request.message.target == "/stale", always || request.index > 0 else { return .response() }
            return RawResponse([.send(Array(bytes.utf8)), end])
        }
        #expect(try await bench.ask(HTTPBench.plain("/prime")).status == 200)
        let response = try await bench.ask(request(method, "/stale", body), to: method)
        return (response, bench.received.joined().matches(of: #/ \/stale /#).count)
    }

    @Test("16.5 A reused connection that ends after our bytes and before its own: one retry, for idempotent methods")
    func retried() async throws {
        for end in [RawResponse.Step.close, .reset] {
            for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
                for body in [nil, "held"] {
                    let (response, tries) = try await stale(method, body, by: end)
                    #expect(response.status == 200, "\(method) \(body ?? "")")
                    #expect(tries == 2, "\(method) \(body ?? "")")
                    let seen = bench.received.filter { $0.contains(" /stale ") }
                    #expect(seen.allSatisfy { body == nil || $0.hasSuffix(body!) })
                }
            }
            // Once only: the fresh connection's end is final.
            let (response, tries) = try await stale("GET", nil, by: end, always: true)
            #expect(try Refusal.upstreamTerminated.faults(of: response) == [])
            #expect(tries == 2)
        }
    }

    @Test("16.6 POST, PATCH and unknown methods are never repeated once a byte was written")
    func neverRepeated() async throws {
        for end in [RawResponse.Step.close, .reset] {
            for method in ["POST", "PATCH", "FOO", "get", "MKCOL"] {
                for body in [nil, "held"] {
                    let (response, tries) = try await stale(method, body, by: end)
                    #expect(try Refusal.upstreamTerminated.faults(of: response) == [], "\(method)")
                    #expect(tries == 1, "\(method)")
                }
            }
        }
    }

    @Test("16.6 Nothing is repeated after a response byte came, or after failing on a fresh connection")
    func notAfterBytes() async throws {
        for bytes in ["H", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"] {
            let (response, tries) = try await stale("GET", nil, after: bytes, by: .close)
            #expect(try Refusal.upstreamIncomplete.faults(of: response) == [])
            #expect(tries == 1)
        }
        try await emptyPools()
        bench.script { _ in .close }
        let response = try await bench.ask(HTTPBench.plain("/fresh"))
        #expect(try Refusal.upstreamTerminated.faults(of: response) == [])
        #expect(bench.received.count == 1)
    }

    // MARK: 16.7

    @Test("16.7 The status and the error of Proxy-Status name the cause")
    func causes() async throws {
        try await bench.drops("", then: [.close], .upstreamTerminated)
        try await bench.drops("", then: [.reset], .upstreamTerminated)
        try await bench.drops("HTTP/1.1 200 OK\r\n", then: [.close], .upstreamIncomplete)
        try await bench.drops("rubbish\r\n\r\n", .upstreamInvalid)
        bench.script { _ in RawResponse([]) }
        let silent = try await bench.ask(HTTPBench.plain("/silent"))
        #expect(try Refusal.upstreamTimeout.faults(of: silent) == [])
    }

    @Test(
        "16.7 A name that no name server tells in time is 504 dns_timeout, and holds up no other route",
        .enabled(if: SilentNameServer.isPossible, "needs root and a mount namespace of its own"))
    func nameTimeout() async throws {
        let silence = try SilentNameServer()
        let own = try await HTTPBench.start {
            $0.launcher = silence.launcher
            $0.routes =
                "{name: lost, match: {path: /lost}, upstream: \"http://lost.example:80\", unsafe_plain: true},"
        }
        let refusal = Refusal(status: 504, type: "upstream-timeout", error: "dns_timeout", closes: false)
        let client = try await own.connect()
        for method in ["GET", "POST"] {
            try await client.send(request(method, "/lost"))
            #expect(try await own.ask(HTTPBench.plain("/other")).status == 200)
            let response = try await client.response()
            #expect(try refusal.faults(of: response) == [])
        }
        #expect(silence.questions() > 0)
        #expect(try await client.ask(HTTPBench.plain("/next")).status == 200)
    }
}
