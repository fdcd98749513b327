import LanyardSettings
import TestSupport
import Testing

/// What reaches the upstream, on raw bytes.
@Suite struct ProxyFieldTests {
    private static let added = "Via: 1.1 lanyard-x\r\nAuthorization: Bearer \(ProxyBench.token)\r\n\r\n"

    @Test("a request is forwarded with Host first, its fields in order, Via, and the bearer last")
    func whole() async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask(
            "GET /a//b?c=%20&d HTTP/1.1\r\nB: 2\r\nHost: localhost\r\na: 1\r\nA: \t3 \r\nE:\r\nCookie: x; y\r\n\r\n")
        #expect(
            bench.received == [
                "GET /a//b?c=%20&d HTTP/1.1\r\nHost: up.test\r\nB: 2\r\na: 1\r\nA: 3\r\nE: \r\nCookie: x; y\r\n\(Self.added)"
            ])
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

    @Test("a request for a host that is not allowed is refused, and no connection is made for it")
    func foreignHost() async throws {
        let bench = try ProxyBench()
        let response = try await bench.ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        #expect(response.status == 421)
        #expect(bench.upstream.connectionCount == 0)
    }

    @Test("a field that Connection names is not forwarded")
    func nominated() async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask(
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: x-hop\r\nX-Hop: 1\r\nA: 1\r\n\r\n")
        #expect(bench.received == ["GET / HTTP/1.1\r\nHost: up.test\r\nA: 1\r\n\(Self.added)"])
    }

    @Test("the client's own Authorization is replaced by the token")
    func ownAuthorization() async throws {
        let bench = try ProxyBench()
        _ = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic eDp5\r\n\r\n")
        #expect(bench.received == ["GET / HTTP/1.1\r\nHost: up.test\r\n\(Self.added)"])
    }
}
