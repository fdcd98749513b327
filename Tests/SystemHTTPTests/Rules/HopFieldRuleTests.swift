import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 10: fields that do not travel, and what is injected.
@Suite(.serialized) struct HopFieldRuleTests {
    private static let shared = Task {
        try await HTTPBench.start { plan in
            plan.routes = """
                {name: pass, match: {path: /pass}, upstream: "UP", client_authorization: pass},
                {name: reject, match: {path: /reject}, upstream: "UP", client_authorization: reject},
                {name: key, match: {path: /key}, upstream: "UP", inject: {header: X-Api-Key, format: "{token}"}},
                {name: set, match: {path: /set}, upstream: "UP", request_id_header: X-Request-Id, \
                set_headers: {X-Team: blue, Accept-Encoding: identity}},
                {name: forwarding, match: {path: /forwarding}, upstream: "UP", forwarded: pass},

                """
        }
    }
    private static let tokenless = Task { try await HTTPBench.start { $0.hasToken = false } }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private func request(_ target: String, _ fields: [String], version: String = "1.1", body: String = "") -> String {
        let method = body.isEmpty ? "GET" : "POST"
        return "\(method) \(target) HTTP/\(version)\r\nHost: localhost\r\n" + fields.map { $0 + "\r\n" }.joined()
            + "\r\n" + body
    }

    /// What the upstream gets for these fields.
    private func forwarded(_ fields: [String], _ target: String = "/") async throws -> [String] {
        try await bench.startOver()
        let response = try await bench.ask(request(target, fields))
        return response.status == 200 ? bench.received : ["\(response.status)"]
    }

    /// The head that the client gets for an upstream's fields; a Date is among them and the body is `ok`.
    private func relayed(_ fields: [String], version: String = "1.1") async throws -> String {
        try await bench.startOver()
        let lines = fields.map { $0 + "\r\n" }.joined()
        bench.script { _ in .bytes(Wire.bytes("HTTP/1.1 200 OK\r\nDate: d\r\n\(lines)Content-Length: 2\r\n\r\nok")) }
        let client = try await bench.connect()
        try await client.send(request("/", [], version: version))
        return try await client.head()
    }

    private static func response(_ fields: [String], end: [String] = []) -> String {
        "HTTP/1.1 200 OK\r\nDate: d\r\n" + (fields + ["Content-Length: 2"] + end).map { $0 + "\r\n" }.joined() + "\r\n"
    }

    private static let hops = [
        "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "TE: gzip", "Upgrade: x",
        "Proxy-Authorization: Basic eDp5",
        "Proxy-Authenticate: Basic", "HTTP2-Settings: AAMAAABk", "keep-alive:", "PROXY-connection: x",
    ]

    @Test("10.1 Fields of one hop are dropped in both directions", arguments: hops)
    func hopByHop(_ field: String) async throws {
        #expect(try await forwarded(["A: 1", field, "B: 2"]) == [HTTPBench.forwarded("GET /", ["A: 1", "B: 2"])])
        #expect(try await relayed(["A: 1", field, "B: 2"]) == Self.response(["A: 1", "B: 2"]))
    }

    @Test("10.1 Every field that a Connection line names is dropped, before or behind it, in both directions")
    func nominated() async throws {
        for fields in [
            ["Connection: X-Hop", "X-Hop: 1"], ["X-Hop: 1", "Connection: x-hop"],
            ["x-hop: 1", "CONNECTION: ,a1,X-HOP,", "X-Hop: 2", "A1: 1"],
            ["Connection: keep-alive", "X-Hop: 1", "Connection: x-hop"], ["Connection: \t x-hop\t,", "X-Hop:"],
            ["Connection: X-Hop, X-Hop", "X-Hop: 1"], ["X_Hop!: 1", "Connection: X_Hop!"],
            ["Cookie: a", "Connection: cookie", "Set-Cookie: b", "Connection: set-cookie"],
            ["Connection: cache-control, content-type", "Content-Type: x", "Cache-Control: no-store"],
        ] {
            let all = ["X-Hopp: 1"] + fields + ["X-Ho: 1"]
            #expect(try await forwarded(all) == [HTTPBench.forwarded("GET /", ["X-Hopp: 1", "X-Ho: 1"])])
            #expect(try await relayed(all) == Self.response(["X-Hopp: 1", "X-Ho: 1"]))
        }
    }

    @Test("10.1 close names a field Close too, and Lanyard writes its own Connection")
    func close() async throws {
        let client = try await bench.connect()
        try await client.send(request("/", ["Close: 1", "Connection: close", "A: 1"]))
        let response = try await client.response()
        #expect(response.values("Connection") == ["close"])
        #expect(try await client.rest() == ("", false))
        #expect(bench.received == [HTTPBench.forwarded("GET /", ["A: 1"])])
        // An upstream's own options are its connection's.
        #expect(try await relayed(["Close: 1", "Connection: close", "A: 1"]) == Self.response(["A: 1"]))
        let old = Self.response(["A: 1"], end: ["Connection: close"])
        #expect(try await relayed(["A: 1", "Connection: keep-alive"], version: "1.0") == old)
    }

    @Test("10.2 What is added cannot be stripped by naming it, nor can a message's own Host and framing")
    func unstrippable() async throws {
        let names = "Connection: host, via, authorization, content-length, transfer-encoding, connection"
        let client = try await bench.connect()
        let fields = [names, "Content-Length: 3", "Via: 1.0 fred"]
        #expect(try await client.ask(request("/", fields, body: "abc")).status == 200)
        // Whether the members of Via that came may be named away is left to the sender; ours stays.
        let lines = bench.received.joined().components("\r\n")
        #expect(lines.filter { $0.hasPrefix("Host: ") } == ["Host: up"])
        #expect(lines.filter { $0.hasPrefix("Content-Length: ") } == ["Content-Length: 3"])
        #expect(lines.filter { $0.hasPrefix("Authorization: ") } == ["Authorization: Bearer \(HTTPBench.token)"])
        #expect(lines.contains { $0 == "Via: 1.1 lanyard-x" || $0.hasSuffix(", 1.1 lanyard-x") })
        #expect(bench.received.joined().hasSuffix("\r\n\r\nabc"))
        try await bench.startOver()
        let chunked = [names, "Transfer-Encoding: chunked"]
        #expect(try await client.ask(request("/", chunked, body: "3\r\nabc\r\n0\r\n\r\n")).status == 200)
        #expect(
            bench.received == [HTTPBench.forwarded("POST /", ["Transfer-Encoding: chunked"]) + "3\r\nabc\r\n0\r\n\r\n"])
        let set = "Connection: x-team, accept-encoding, x-request-id, x-api-key"
        #expect(
            try await forwarded([set], "/set").joined().contains(
                "\r\nX-Team: blue\r\nAccept-Encoding: identity\r\nX-Request-Id: "))
        #expect(try await forwarded([set], "/key").joined().contains("\r\nX-Api-Key: \(HTTPBench.token)\r\n"))
        // Responses.
        #expect(
            try await relayed(["A: 1", "Connection: content-length, transfer-encoding, close"])
                == Self.response(["A: 1"]))
        bench.script { _ in
            .text(
                "HTTP/1.1 200 OK\r\nDate: d\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
            )
        }
        try await client.send(HTTPBench.plain("/"))
        #expect(try await client.head() == "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n")
        #expect(try await client.read(12) == "2\r\nok\r\n0\r\n\r\n")
        bench.script { _ in .text("HTTP/1.1 200 OK\r\nDate: d\r\nConnection: date\r\nContent-Length: 0\r\n\r\n") }
        let dated = try await client.ask(HTTPBench.plain("/"))
        #expect(dated.values("Date").count == 1)
    }

    @Test(
        "10.3 The injected field reaches the upstream exactly once: pipelined, in HTTP/1.0, with a body, upgraded, retried"
    )
    func injected() async throws {
        let client = try await bench.connect()
        try await client.send(
            HTTPBench.plain("/1") + request("/2", ["Content-Length: 1"], body: "x")
                + request("/3", ["Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"])
                + request("/4", [], version: "1.0"))
        for _ in 1...4 { #expect(try await client.response().status == 200) }
        let requests = bench.requests
        #expect(requests.map(\.target) == ["/1", "/2", "/3", "/4"])
        for request in requests { #expect(request.values("Authorization") == ["Bearer \(HTTPBench.token)"]) }
        // A stale pooled connection: the retry carries it, too.
        try await bench.startOver()
        bench.script { $0.index == 1 ? .close : .response() }
        let fresh = try await HTTPBench.start()
        fresh.script { $0.index == 1 ? .close : .response() }
        // One client: the pooled connection is that of its shard.
        let asks = try await fresh.connect()
        #expect(try await asks.ask(HTTPBench.plain("/first")).status == 200)
        #expect(try await asks.ask(HTTPBench.plain("/retried")).status == 200)
        let retried = fresh.upstream.requests.filter { $0.target == "/retried" }
        #expect(
            retried.map { $0.values("Authorization") } == [
                ["Bearer \(HTTPBench.token)"], ["Bearer \(HTTPBench.token)"],
            ])
    }

    @Test(
        "10.3 Client copies of the injected field, any number, case or empty, are dropped and counted",
        arguments: [
            ["Authorization: Bearer evil"], ["authorization:"],
            ["AUTHORIZATION: Basic eA==", "authorization: Bearer evil"],
            ["Connection: authorization", "Authorization: evil"],
            ["Authorization: a", "A: 1", "Authorization: b", "Authorization: c"],
        ])
    func copies(_ fields: [String]) async throws {
        let before = try await bench.values(of: "lanyard_dropped_fields_total", by: "kind")["injected"] ?? 0
        let kept = fields.filter { $0 == "A: 1" }
        #expect(try await forwarded(fields) == [HTTPBench.forwarded("GET /", kept)])
        let copies = fields.count { $0.lowercased().hasPrefix("authorization") }
        let after = try await bench.values(of: "lanyard_dropped_fields_total", by: "kind")["injected"] ?? 0
        #expect(after - before == copies)
        #expect(try await forwarded(fields, "/key").joined().contains("X-Api-Key: \(HTTPBench.token)\r\n"))
    }

    @Test("10.3 client_authorization: reject refuses a client's own, pass leaves it as it is")
    func policies() async throws {
        for field in ["Authorization: x", "authorization:", "AUTHORIZATION: Bearer a\r\nAuthorization: b"] {
            try await bench.refuses(request("/reject", [field]), .authorization)
        }
        #expect(try await forwarded([], "/reject") == [HTTPBench.forwarded("GET /reject")])
        let own = HTTPBench.forwarded("GET /pass", ["authorization: Basic eA=="])
        let bearer = "Authorization: Bearer \(HTTPBench.token)\r\n"
        #expect(try await forwarded(["authorization: Basic eA=="], "/pass") == [own.replacing(bearer, with: "")])
        #expect(try await forwarded([], "/pass") == [HTTPBench.forwarded("GET /pass")])
    }

    @Test("10.3 Without a usable token the response is 503, and nothing is forwarded")
    func tokenless() async throws {
        let bench = try await Self.tokenless.value
        let refusal = Refusal(status: 503, type: "credential-refused", error: "proxy_internal_response", closes: false)
        let client = try await bench.connect()
        for fields in [[], ["Authorization: Bearer mine"]] {
            let response = try await client.ask(request("/", fields))
            #expect(try refusal.faults(of: response) == [])
        }
        #expect(bench.upstream.connectionCount == 0)
    }

    @Test("10.4 Look-alikes of what Lanyard injects, sets or drops are dropped and counted")
    func lookAlikes() async throws {
        for (target, field) in [
            ("/key", "X_Api_Key"), ("/key", "x.api.key"), ("/key", "X-Api_Key"), ("/key", "X~Api!Key"),
            ("/", "Lanyard_Token"),
            ("/", "lanyard.x"), ("/", "LANYARD_"), ("/set", "X_Team"), ("/set", "x*team"), ("/set", "Accept_Encoding"),
            ("/set", "X_Request_Id"), ("/", "X_Forwarded_For"), ("/", "X_Real_IP"), ("/", "x.forwarded.host"),
        ] {
            let before = try await bench.values(of: "lanyard_dropped_fields_total", by: "kind")["lookalike"] ?? 0
            let seen = try await forwarded(["A_b: 1", "\(field): evil", "\(field.lowercased()): evil"], target).joined()
            #expect(seen.hasPrefix("GET \(target) HTTP/1.1\r\nHost: up\r\nA_b: 1\r\nVia: "))
            #expect(!seen.contains("evil"))
            let after = try await bench.values(of: "lanyard_dropped_fields_total", by: "kind")["lookalike"] ?? 0
            #expect(after - before == 2, Comment(rawValue: field))
        }
        // What is not dropped has no look-alikes.
        #expect(
            try await forwarded(["X_Forwarded_For: a", "X_Team: b"], "/forwarding") == [
                HTTPBench.forwarded("GET /forwarding", ["X_Forwarded_For: a", "X_Team: b"])
            ])
    }

    @Test("10.4 A response shows neither the injected field nor Lanyard's own, however they are spelt")
    func responseLookAlikes() async throws {
        for (target, fields, count) in [
            (
                "/",
                "authorization: Bearer x\r\nAUTHORIZATION: y\r\nLanyard-Token: z\r\nlanyard_x: z\r\nLanyard.Y: z\r\n", 5
            ),
            ("/key", "X-Api-Key: x\r\nx_api.key: y\r\n", 2),
        ] {
            try await bench.startOver()
            bench.script { _ in
                .bytes(Wire.bytes("HTTP/1.1 200 OK\r\nDate: d\r\nA_b: 1\r\n\(fields)Content-Length: 0\r\n\r\n"))
            }
            let start = try await bench.values(of: "lanyard_dropped_fields_total", by: "kind")["lookalike"] ?? 0
            let client = try await bench.connect()
            try await client.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(try await client.head() == "HTTP/1.1 200 OK\r\nDate: d\r\nA_b: 1\r\nContent-Length: 0\r\n\r\n")
            let end = try await bench.values(of: "lanyard_dropped_fields_total", by: "kind")["lookalike"] ?? 0
            #expect(end - start == count)
        }
    }

    @Test(
        "10.4 Look-alikes of Host, framing and fields of one hop are refused",
        arguments: [
            "Content_Length", "content.length", "Transfer_Encoding", "TRANSFER~ENCODING", "Transfer!Encoding",
            "Keep_Alive",
            "Proxy_Connection", "Proxy_Authorization", "Proxy_Authenticate", "HTTP2_Settings", "http2'settings",
        ])
    func refusedLookAlikes(_ name: String) async throws {
        try await bench.refuses(request("/", ["\(name): 1"]))
        try await bench.refuses(request("/", ["A: 1", "\(name.lowercased()):"]))
    }

    @Test("10.5 All other fields pass unchanged both ways, and none is added but Via")
    func others() async throws {
        let request = [
            "Accept: */*", "accept-encoding: gzip;q=0, *", "User-Agent: x/1", "Range: bytes=0-1",
            "If-None-Match: W/\"a\", \"b\"",
            "If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT", "If-Range: \"a\"",
            "Cache-Control: no-cache, only-if-cached",
            "Pragma: no-cache", "Referer: http://x/?y", "Content-Type: text/x;charset=\"u\"", "Content-Encoding: br",
            "DNT: 1", "X-Custom_1: \u{e9}", "From: a@b", "Accept-Language: de", "Cookie: a=\"b\"; c", "Priority: u=1",
            "Digest: x", "Traceparent: 00-1-2-01", "X-Forward: 1", "Date: d", "Server: s", "Max-Forwards: 3",
        ]
        #expect(try await forwarded(request) == [HTTPBench.forwarded("GET /", request)])
        #expect(try await forwarded([]) == [HTTPBench.forwarded("GET /")])
        let response = [
            "WWW-Authenticate: Basic realm=\"x\", Bearer", "Allow: GET", "Location: http://else.test/", "Server: s",
            "Set-Cookie: a=b; Path=/; HttpOnly", "Set-Cookie: c=d", "ETag: W/\"x\"", "Age: 7", "Vary: *",
            "Warning: 199 - x",
            "Cache-Control: max-age=60", "Content-Encoding: gzip", "Accept-Ranges: bytes", "Via: 1.1 other",
            "Proxy-Status: other; error=x", "X-Custom_1: \u{e9}", "Content-Type: x",
            "Link: <a>",
            "Strict-Transport-Security: max-age=1", "Access-Control-Allow-Origin: *", "Content-Location: /x",
        ]
        #expect(try await relayed(response) == Self.response(response))
        #expect(try await relayed([]) == Self.response([]))
    }

    @Test("10.5 Nothing is cached, no body recoded, no redirect followed")
    func untouched() async throws {
        let bytes = "\u{1f}\u{8b}\u{8}\u{0}\u{0}\u{ff}"
        let cacheable =
            "HTTP/1.1 200 OK\r\nDate: d\r\nCache-Control: max-age=600, public\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\n"
        bench.script { _ in .bytes(Wire.bytes(cacheable + bytes)) }
        let client = try await bench.connect()
        for _ in 1...2 {
            try await client.send(HTTPBench.plain("/same"))
            #expect(try await client.head() == cacheable)
            #expect(try await client.read(6) == bytes)
        }
        #expect(bench.received.joined() == HTTPBench.forwarded("GET /same") + HTTPBench.forwarded("GET /same"))
        for status in [301, 302, 303, 307, 308] {
            try await bench.startOver()
            bench.script { _ in .response(status, "Moved", fields: [("Location", "/elsewhere")], body: "") }
            let response = try await client.ask(HTTPBench.plain("/moved"))
            #expect(response.status == status)
            #expect(response["Location"] == "/elsewhere")
            #expect(bench.received == [HTTPBench.forwarded("GET /moved")])
        }
        bench.script { _ in .text("HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n") }
        #expect(try await client.ask(request("/", ["If-None-Match: x"])).status == 304)
    }

    @Test("10.5 What the route asks for is added, in place of a client's own")
    func routeFields() async throws {
        let seen = try await forwarded(["x-team: red", "A: 1", "X-Request-Id: mine-1.x_Y"], "/set").joined()
        let lines = seen.components("\r\n")
        #expect(lines.prefix(4) == ["GET /set HTTP/1.1", "Host: up", "A: 1", "Via: 1.1 lanyard-x"])
        #expect(lines[4] == "X-Team: blue" && lines[5] == "Accept-Encoding: identity")
        #expect(lines.filter { $0.lowercased().hasPrefix("x-request-id: ") }.count == 1)
        let first = try await forwarded([], "/set").joined()
        let second = try await forwarded([], "/set").joined()
        #expect(first.contains("\r\nX-Request-Id: ") && first != second)
    }

    @Test("10.6 The token never goes to a client or into the log, and a Lanyard field of the upstream's is dropped")
    func secrecy() async throws {
        let client = try await bench.connect()
        var responses = ""
        for line in ["TRACE / HTTP/1.1", "GET /reject HTTP/1.1", "OPTIONS * HTTP/1.1", "GET /% HTTP/1.1"] {
            try await client.send("\(line)\r\nHost: localhost\r\nAuthorization: Bearer \(HTTPBench.token)\r\n\r\n")
            let response = try await client.response()
            responses += response.headText + response.bodyText
        }
        bench.script { _ in .text("HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n") }
        let broken = try await client.ask(HTTPBench.plain("/"))
        responses += broken.headText + broken.bodyText
        #expect(broken.status == 502)
        #expect(!responses.contains(HTTPBench.token))
        #expect(!bench.lanyard.process.log.contains(HTTPBench.token))
        #expect(!bench.lanyard.process.output.contains(HTTPBench.token))
        let fields = ["Lanyard-X: 1", "lanyard-token: x", "Lanyardy: 1"]
        #expect(try await relayed(fields) == Self.response(["Lanyardy: 1"]))
    }

    @Test(
        "10.6 A token of a file that is not a word of visible ASCII is refused when it is obtained",
        arguments: ["tok en", "tok\u{e9}n", "tok\ten", "to\u{7f}k"])
    func noToken(_ token: String) async throws {
        let folder = try TemporaryFolder()
        let upstream = try RawServer()
        let lanyard = try await LanyardProcess.start(
            """
            identities: {fixed: {static: {token_file: \(try folder.write("token", token))}}}
            users: {alice: {identity: fixed}}
            routes: [{upstream: "http://\(upstream.endpoint)"}]
            """)
        try await eventually("the token is refused") {
            try await lanyard.get("/").json["type"].string == "urn:lanyard:problem:credential-refused"
        }
        #expect(upstream.connectionCount == 0)
        #expect(!lanyard.process.log.contains(token))
    }

    @Test("10.6 A value with a control byte is refused in the configuration")
    func controls() async throws {
        let folder = try TemporaryFolder()
        for key in [
            "inject: {format: \"Bearer\\x01{token}\"}", "set_headers: {X: \"a\\r\\nB: 1\"}", "set_headers: {\"X:\": a}",
        ] {
            let path = try folder.write(
                "lanyard.yaml",
                """
                identities: {fixed: {static: {token_file: \(try folder.write("token", "t"))}}}
                users: {alice: {identity: fixed}}
                routes: [{upstream: "http://127.0.0.1:9", \(key)}]
                """)
            let process = try ServerProcess("lanyard", ["check", "--config", path])
            #expect(try await process.waitForExit() == .code(78), Comment(rawValue: process.log + process.output))
        }
    }
}

extension String {
    fileprivate func components(_ separator: String) -> [String] {
        split(separator: separator, omittingEmptySubsequences: false).map(String.init)
    }
}
