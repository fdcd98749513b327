import LanyardSettings
import TestSupport
import Testing

/// What reaches the upstream, on raw bytes.
@Suite(.timeLimit(.minutes(1))) struct ProxyFieldTests {
    private static let added = "Via: 1.1 lanyard-x\r\nAuthorization: Bearer \(ProxyBench.token)\r\n\r\n"

    @Test("a request goes on with Host first, its fields in order, Via, and the bearer last")
    func whole() async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask(
            "GET /a//b?c=%20&d HTTP/1.1\r\nB: 2\r\nHost: localhost\r\na: 1\r\nA: \t3 \r\nE:\r\nCookie: x; y\r\n\r\n")
        #expect(
            bench.received == [
                "GET /a//b?c=%20&d HTTP/1.1\r\nHost: up.test\r\nB: 2\r\na: 1\r\nA: 3\r\nE: \r\nCookie: x; y\r\n\(Self.added)"
            ])
    }

    @Test(
        "a client's own Authorization never arrives, whatever its case, number and place",
        arguments: [
            "Authorization: Bearer evil", "AUTHORIZATION: Basic eA==\r\nauthorization: Bearer evil", "Authorization:",
            "Connection: authorization\r\nAuthorization: evil", "Authorization_: evil\r\nAuthorization: evil",
        ])
    func clientAuthorization(_ fields: String) async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n\r\n")
        let seen = bench.upstream.requests[0].values("authorization")
        #expect(seen == ["Bearer \(ProxyBench.token)"])
        #expect(bench.received[0].hasPrefix("GET / HTTP/1.1\r\nHost: up.test\r\n"))
        #expect(bench.count("lanyard_dropped_fields", ["kind": "injected"]) > 0)
    }

    @Test("fields of one hop and fields that Connection names are dropped, in front of it and behind it")
    func hopByHop() async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask(
            """
            GET / HTTP/1.1\r\nX-Before: 1\r\nHost: localhost\r\nConnection: x-before, X-After,, keep-alive\r\n\
            Connection: x-third\r\nX-After: 1\r\nX-Third: 1\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nTE: trailers\r\n\
            Upgrade: h2c\r\nProxy-Authorization: x\r\nProxy-Authenticate: x\r\nHTTP2-Settings: x\r\nTrailer: x\r\n\
            X-Fourth: kept\r\n\r\n
            """)
        #expect(bench.received == ["GET / HTTP/1.1\r\nHost: up.test\r\nX-Fourth: kept\r\n\(Self.added)"])
    }

    @Test("close names a field Close too")
    func closeField() async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\nClose: 1\r\nConnection: close\r\n\r\n")
        #expect(bench.received == ["GET / HTTP/1.1\r\nHost: up.test\r\n\(Self.added)"])
    }

    @Test("what frames, routes and authorizes cannot be nominated away")
    func nominated() async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask(
            """
            POST / HTTP/1.1\r\nHost: localhost\r\nConnection: host, content-length, via, authorization\r\n\
            Via: 1.0 a\r\nContent-Length: 003\r\n\r\nabc
            """)
        #expect(
            bench.received == [
                """
                POST / HTTP/1.1\r\nHost: up.test\r\nVia: 1.0 a\r\nVia: 1.1 lanyard-x\r\nContent-Length: 3\r\n\
                Authorization: Bearer \(ProxyBench.token)\r\n\r\nabc
                """
            ])
    }

    @Test("our member of Via stands behind those that came, with the client's version")
    func via() async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask("GET / HTTP/1.0\r\nVia: 1.1 a\r\nA: 1\r\nVia: 1.1 b, 1.1 c\r\nB: 1\r\n\r\n")
        #expect(
            bench.received[0].hasPrefix(
                "GET / HTTP/1.1\r\nHost: up.test\r\nVia: 1.1 a\r\nA: 1\r\nVia: 1.1 b, 1.1 c\r\nVia: 1.0 lanyard-x\r\nB: 1\r\n"
            ))
    }

    @Test("our own pseudonym in Via is a loop: 502, nothing forwarded")
    func loop() async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        let own = try #require(bench.upstream.requests[0]["Via"])
        for via in [own, "1.1 a, \(own), 1.1 b", "HTTP/\(own.uppercased()) (comment)"] {
            let response = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\nVia: \(via)\r\n\r\n")
            #expect(response.status == 502)
            #expect(response["Proxy-Status"]?.contains("proxy_loop_detected") == true)
        }
        #expect(bench.upstream.requests.count == 1)
    }

    @Test(
        "look-alikes of what we inject, forward or drop are dropped",
        arguments: [
            "Authorization_", "X_Forwarded_For", "X_Real_IP", "Forwarded", "X-Forwarded-Proto", "X-Real-IP",
            "Lanyard_Token", "Lanyard-Capability", "Lanyard.x",
        ])
    func lookAlikes(_ name: String) async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\(name): 1\r\nA_b: 1\r\n\r\n")
        let kept = name == "Authorization_" ? "\(name): 1\r\n" : ""
        #expect(bench.received == ["GET / HTTP/1.1\r\nHost: up.test\r\n\(kept)A_b: 1\r\n\(Self.added)"])
    }

    @Test("fields that the route sets replace a client's own, look-alikes included, in both directions of likeness")
    func fixed() async throws {
        let bench = try ProxyBench(plan: {
            $0.route.setHeaders = [.init(name: "X-Team", value: "blue"), .init(name: "X_Odd", value: "1")]
            $0.route.requestIDHeader = "X-Request-Id"
            $0.route.injectHeader = "X_Api_Key"
            $0.route.injectPrefix = ""
        })
        _ = try await bench.ask(
            """
            GET / HTTP/1.1\r\nHost: localhost\r\nx-team: red\r\nX_Team: red\r\nX-Odd: 2\r\nX_odd: 2\r\n\
            X-Request-ID: not mine\r\nX_Request_Id: mine\r\nX-Api-Key: evil\r\nx_api_key: evil\r\nA: 1\r\n\r\n
            """)
        let request = bench.upstream.requests[0]
        #expect(
            request.fields.map { $0.name.lowercased() } == [
                "host", "a", "via", "x-team", "x_odd", "x-request-id", "x_api_key",
            ])
        #expect(request["X-Team"] == "blue")
        #expect(request["X_Odd"] == "1")
        #expect(request["X-Request-Id"]?.count == 16)
        #expect(request["X_Api_Key"] == ProxyBench.token)
    }

    @Test(
        "a route with an upstream path replaces the matched prefix's literal bytes, and no more",
        arguments: [
            ("/api", "/v1", "/api/x%2Fy?z=//", "/v1/x%2Fy?z=//"), ("/api", "/v1/", "/api/x", "/v1/x"),
            ("/api", "/v1", "/api", "/v1"),
            ("/api", "/v1/", "/api", "/v1/"), ("/api", "/", "/api/x", "/x"), ("/api", "/", "/api?q", "/?q"),
            ("/", "/v1", "/x", "/v1/x"),
            ("/api", "/v1", "/%61pi/x", "/v1/x"), ("/api/", "/v1", "/api//x", "/v1//x"), ("/", "/", "/x", "/x"),
        ])
    func mapped(_ prefix: String, _ base: String, _ target: String, _ expected: String) async throws {
        let bench = try ProxyBench(plan: { ($0.route.path, $0.route.upstreamPath) = (prefix, base) })
        let response = try await bench.ask("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(response.status == 200)
        #expect(bench.upstream.requests.first?.target == expected)
    }

    @Test(
        "absolute-form goes on in origin-form",
        arguments: [("http://localhost", "/"), ("HTTP://LOCALHOST:80/a?b", "/a?b"), ("http://localhost?q", "/?q")])
    func absolute(_ target: String, _ expected: String) async throws {
        let bench = try ProxyBench()
        #expect(try await bench.ask("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200)
        #expect(bench.upstream.requests.first?.target == expected)
    }

    @Test("the client's valid Host goes on where the route says so")
    func clientHost() async throws {
        let bench = try ProxyBench(plan: { $0.route.host = .client })
        _ = try await bench.ask("GET / HTTP/1.1\r\nA: 1\r\nHost: LocalHost\r\n\r\n")
        #expect(bench.received == ["GET / HTTP/1.1\r\nHost: LocalHost\r\nA: 1\r\n\(Self.added)"])
    }

    @Test("Max-Forwards counts down on OPTIONS and passes elsewhere")
    func maxForwards() async throws {
        let bench = try ProxyBench()
        try await bench.talk { client throws in
            #expect(try client.exchange("OPTIONS", "/", fields: [("Max-Forwards", "7")]).status == 200)
            #expect(try client.exchange("GET", "/", fields: [("Max-Forwards", "0")]).status == 200)
            #expect(try client.exchange("OPTIONS", "/", fields: [("Max-Forwards", "0")])["Content-Length"] == "0")
            #expect(try client.exchange("OPTIONS", "/", fields: [("Max-Forwards", "x")]).status == 400)
        }
        #expect(bench.upstream.requests.map { $0["Max-Forwards"] } == ["6", "0"])
    }

    @Test("what comes back: fields of one hop are dropped, Date is added, all else passes unchanged")
    func response() async throws {
        let bench = try ProxyBench { request in
            .text(
                """
                HTTP/1.1 418 I'm  a teapot\r\nConnection: x-hop, content-length\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\n\
                Proxy-Authenticate: x\r\nUpgrade: x\r\nTrailer: t\r\nLanyard-X: 1\r\nset-cookie: a\r\nSet-Cookie: b\r\n\
                Server: s\r\nWWW-Authenticate: w\r\nContent-Length: 02\r\nVia: 1.1 other\r\n\(request.index == 0 ? "Date: d\r\n" : "")\r\nhi
                """)
        }
        try await bench.talk { client throws in
            try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let first = try client.response()
            #expect(
                first.headText
                    == """
                    HTTP/1.1 418 I'm  a teapot\r\nset-cookie: a\r\nSet-Cookie: b\r\nServer: s\r\nWWW-Authenticate: w\r\n\
                    Via: 1.1 other\r\nDate: d\r\nContent-Length: 2\r\n\r\n
                    """)
            #expect(first.bodyText == "hi")
            try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(try client.response()["Date"]?.hasSuffix(" GMT") == true)
        }
    }
}
