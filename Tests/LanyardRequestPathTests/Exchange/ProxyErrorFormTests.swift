import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardRequestPath

/// Routes for clients of MCP: the form of Lanyard's own responses, longer waits, and no 401 (http-forwarding.md 17.6, http-connections.md
/// 19.5).
@Suite struct ProxyErrorFormTests {
    private static let call = #"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#
    private static let note = #"{"method":"notifications/initialized","jsonrpc":"2.0"}"#
    private static let reply = #"{"id":7,"result":{"method":"x"}}"#

    private static func request(_ method: String, _ fields: String = "", _ body: String = "") -> String {
        let length = method == "POST" ? "Content-Length: \(body.utf8.count)\r\n" : ""
        return "\(method) /mcp HTTP/1.1\r\nHost: localhost\r\n\(length)\(fields)\r\n\(body)"
    }

    /// A request path whose user has no session.
    private static func refusing(_ form: RouteSettings.ErrorForm = .auto) throws -> ProxyBench {
        let bench = try ProxyBench(plan: { ($0.publishes, $0.timeStands, $0.route.errors) = (false, true, form) })
        bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
        bench.settle()
        return bench
    }

    @Test("19.5 which requests get an error of JSON-RPC")
    func forms() async throws {
        let session = "Mcp-Session-Id: 1\r\n"
        let cases: [(RouteSettings.ErrorForm, String, String, String, Bool)] = [
            (.auto, "POST", "", Self.call, false), (.auto, "POST", session, Self.call, true),
            (.auto, "POST", "mcp-protocol-version: 1\r\n", Self.call, true), (.auto, "POST", "MCP-X: 1\r\n", "", true),
            (.auto, "POST", "Mcp: 1\r\nX-Mcp-A: 1\r\nMcpA: 1\r\n", Self.call, false),
            (.auto, "GET", session, "", false), (.auto, "DELETE", session, "", false),
            (.auto, "HEAD", session, "", false), (.auto, "PUT", session, "", false),
            (.auto, "POST", session, Self.note, false), (.auto, "POST", session, Self.reply, false),
            (.auto, "POST", session, "[\(Self.note),\(Self.reply)]", false),
            (.auto, "POST", session, "[\(Self.note),\(Self.call)]", true),
            (.auto, "POST", session, "{", true),
            // A name may be escaped, and a byte order mark may stand before the text.
            (.auto, "POST", session, #"{"\u0069d":1,"method":"x"}"#, true),
            (.auto, "POST", session, #"{"id":1,"m\u0065thod":"x"}"#, true),
            (.auto, "POST", session, #"{"m\u0065thod":"x"}"#, false),
            (.auto, "POST", session, #"{"id":1,"\u0065rror":{}}"#, false),
            (.auto, "POST", session, "\u{FEFF}" + Self.note, false),
            (.auto, "POST", session, "\u{FEFF}" + Self.call, true),
            (.auto, "POST", session, "\u{FEFF}[\(Self.note)]", false), (.auto, "POST", session, "\u{FEFF}", true),
            (.auto, "POST", "Mcp-Method: notifications/initialized\r\n", Self.call, false),
            (.auto, "POST", "Mcp-Method: tools/call\r\n", Self.note, true),
            (.jsonrpc, "POST", "", Self.call, true), (.jsonrpc, "POST", "", Self.note, false),
            (.jsonrpc, "GET", "", "", false),
            (.problem, "POST", session, Self.call, false),
        ]
        for (form, method, fields, body, isRPC) in cases {
            let bench = try Self.refusing(form)
            let response = try await bench.ask(Self.request(method, fields, body), method: method)
            let type = isRPC ? "application/json" : "application/problem+json"
            #expect(response.status == 503 && response["Content-Type"] == type, "\(form) \(method) \(fields) \(body)")
        }
    }

    @Test("19.5 the error has the detail as message, the problem as data, a null id, and the fields of the problem")
    func whole() async throws {
        let bench = try ProxyBench(plan: { ($0.publishes, $0.route.errors) = (false, .jsonrpc) })
        bench.path.publish(
            .none(.identityUnreachable(nextAttemptAt: .now + .seconds(1000), because: "why")), for: ProxyBench.user)
        bench.settle()
        let response = try await bench.ask(Self.request("POST", "", Self.call), method: "POST")
        let problem = try await bench.ask(Self.request("GET"))
        for field in ["Proxy-Status", "Cache-Control", "X-Should-Retry"] { #expect(response[field] == problem[field]) }
        #expect(response.status == 503 && response["Retry-After"].flatMap(Int.init) ?? 0 > 900)
        let json = try response.json
        #expect(json["jsonrpc"].string == "2.0" && json["id"] == .null && json["error"]["code"].int == -32_000)
        #expect(json["error"]["message"].string == "There is no usable token: why.")
        let data = json["error"]["data"]
        #expect(data["type"].string == "urn:lanyard:problem:identity-unreachable" && data["retryable"].bool == true)
        #expect(data["detail"].string == "There is no usable token: why." && data["user"].string == "alice")
    }

    @Test("19.5 so have refusals before a route is found, and failures behind a body that went upstream")
    func elsewhere() async throws {
        let bench = try ProxyBench(script: { _ in RawResponse([.close]) }) { $0.route.path = "/mcp" }
        let session = "Mcp-Session-Id: 1\r\n"
        let evil = "POST /mcp HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 0\r\n\(session)\r\n"
        let other = "POST /other HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\(session)\r\n"
        for (text, status, name) in [(evil, 421, "host-not-allowed"), (other, 404, "no-route")] {
            let response = try await bench.ask(text, method: "POST")
            let data = try response.json["error"]["data"]
            #expect(response.status == status && data["type"].string == "urn:lanyard:problem:\(name)")
        }
        let failed = try await bench.ask(Self.request("POST", session, Self.call), method: "POST")
        #expect(failed.status == 502)
        #expect(try failed.json["error"]["data"]["retryable"].bool == false)
        let note = try await bench.ask(Self.request("POST", session, Self.note), method: "POST")
        #expect(note["Content-Type"] == "application/problem+json")
        // A head that cannot be read has no fields.
        let unread = try await bench.ask("POST /mcp HTTP/1.1\r\n\(session)A B: 1\r\n\r\n", method: "POST")
        #expect(unread.status == 400 && unread["Content-Type"] == "application/problem+json")
    }

    @Test("19.5 a body that comes behind its head is read first, and the connection continues")
    func lateBody() async throws {
        let bench = try Self.refusing(.jsonrpc)
        try await bench.talk { client in
            for (body, isRPC) in [(Self.note, false), (Self.call, true), (Self.reply, false), (Self.call, true)] {
                let text = Self.request("POST", "", body)
                try client.send(String(text.dropLast(body.utf8.count)))
                bench.settle()
                #expect(!client.hasInput)
                try client.send(String(body.dropLast()))
                bench.settle()
                #expect(!client.hasInput)
                try client.send(String(body.suffix(1)))
                let response = try client.response(to: "POST")
                #expect(response.status == 503 && response["Connection"] == nil)
                #expect((response["Content-Type"] == "application/json") == isRPC, "\(body)")
            }
            // What follows in the same write is another request.
            try client.send(String(Self.request("POST", "", Self.note).dropLast(Self.note.utf8.count)))
            bench.settle()
            try client.send(Self.note + Self.request("GET"))
            #expect(try client.response(to: "POST")["Content-Type"] == "application/problem+json")
            #expect(try client.response(to: "GET").status == 503)
        }
        bench.settle()
        #expect(bench.count("lanyard_requests") == 6)
    }

    @Test(
        "19.5 a body that does not come is waited for a second, and an early end not at all", arguments: [true, false])
    func missingBody(_ ends: Bool) async throws {
        let bench = try ProxyBench(plan: { ($0.publishes, $0.timeStands, $0.route.errors) = (false, true, .jsonrpc) })
        bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
        bench.settle()
        try await bench.talk { client in
            try client.send("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
            if ends {
                client.halfClose()
            } else {
                bench.settle()
                bench.pass(.seconds(1) - .nanoseconds(1))
                #expect(!client.hasInput)
                bench.pass(.nanoseconds(1))
            }
            let response = try client.response(to: "POST")
            #expect(response["Content-Type"] == "application/json" && response["Connection"] == "close")
        }
        // What is long, or waits for a 100, is not waited for.
        for fields in ["Content-Length: 16385\r\n", "Content-Length: 9\r\nExpect: 100-continue\r\n"] {
            let response = try await bench.ask("POST /mcp HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n", method: "POST")
            #expect(response["Content-Type"] == "application/json")
        }
    }

    private static let chunkedHead = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

    /// In two chunks, with an extension and a trailer.
    private static func chunks(_ body: String) -> String {
        let (first, second) = (body.prefix(9), body.dropFirst(9))
        return "9;x=\"id\"\r\n\(first)\r\n\(String(second.utf8.count, radix: 16))\r\n\(second)\r\n0\r\nid: 1\r\n\r\n"
    }

    @Test("19.5 a chunked body is read as one with a length, in one write with its head or behind it")
    func chunkedBody() async throws {
        let bench = try Self.refusing(.jsonrpc)
        try await bench.talk { client in
            for (body, isRPC) in [
                (Self.note, false), (Self.call, true), (Self.reply, false), ("[\(Self.note)]", false),
            ] {
                let chunks = Self.chunks(body)
                let pieces = [
                    [Self.chunkedHead + chunks], [Self.chunkedHead, chunks],
                    [Self.chunkedHead] + chunks.map(String.init),
                ]
                for pieces in pieces {
                    for piece in pieces {
                        try client.send(piece)
                        bench.settle()
                    }
                    let response = try client.response(to: "POST")
                    #expect(response.status == 503 && response["Connection"] == nil)
                    #expect((response["Content-Type"] == "application/json") == isRPC, "\(body) \(pieces.count)")
                }
            }
            // What follows is another request.
            try client.send(Self.chunkedHead + Self.chunks(Self.note) + Self.request("GET"))
            #expect(try client.response(to: "POST")["Content-Type"] == "application/problem+json")
            #expect(try client.response(to: "GET").status == 503)
        }
        // One that is longer, or malformed, counts as a request.
        let long = String(Self.note.dropLast()) + ",\"a\":\"" + String(repeating: "a", count: 17_000) + "\"}"
        let padded = "1;" + String(repeating: "x", count: 1_000) + "\r\na\r\n"
        let unfinished = String(Self.chunks(long).dropLast(17))
        for body in [unfinished, "9\r\n\(Self.note)", "x", String(repeating: padded, count: 40)] {
            let response = try await bench.ask(Self.chunkedHead + body, method: "POST")
            #expect(
                response["Content-Type"] == "application/json" && response["Connection"] == "close", "\(body.prefix(9))"
            )
        }
    }

    @Test("19.5 a body of which no copy is kept was read on its way: the kind is known", arguments: [0, 100])
    func withoutCopy(_ most: Int) async throws {
        let bench = try ProxyBench(script: { _ in RawResponse([.close]) }) {
            ($0.route.errors, $0.route.replayBodyMax) = (.jsonrpc, most)
        }
        let pad =
            ",\"params\":{\"id\":[1,{\"id\":\"}\\\"\"}],\"x\":\"" + String(repeating: "x", count: 300_000) + "\"}}"
        for (body, isRPC) in [
            (Self.note, false), (Self.call, true), (Self.note.dropLast() + pad, false),
            (Self.call.dropLast() + pad, true),
        ] {
            let chunked = Self.chunkedHead + Self.chunks(body)
            for text in [Self.request("POST", "", body), chunked] {
                let response = try await bench.ask(text, method: "POST")
                #expect(response.status == 502)
                #expect((response["Content-Type"] == "application/json") == isRPC, "\(body.count)")
            }
        }
    }

    @Test("wait_max of a route: a request waits for an identity service that gives no token, and no longer")
    func waits() async throws {
        let bench = try ProxyBench(plan: {
            ($0.publishes, $0.timeStands, $0.tokenWaitMax, $0.route.waitMax) = (false, true, .seconds(5), .seconds(60))
        })
        let down = AccessToken.Availability.none(.identityUnreachable(nextAttemptAt: .never, because: "why"))
        bench.path.publish(down, for: ProxyBench.user)
        bench.settle()
        let parked = { bench.count("lanyard_parked_requests") }
        async let first = bench.ask(Self.request("GET"))
        try await eventually("it waits") { parked() == 1 }
        bench.pass(.seconds(30))
        bench.path.publish(down, for: ProxyBench.user)
        bench.settle()
        #expect(parked() == 1)
        bench.pass(.seconds(29))
        #expect(parked() == 1)
        bench.pass(.seconds(1))
        let refused = try await first
        #expect(refused.status == 503)
        #expect(try refused.json["detail"].string == "There is no usable token: why.")
        async let second = bench.ask(Self.request("GET"))
        try await eventually("it waits") { parked() == 1 }
        bench.publish(generation: 1)
        #expect(try await second.status == 200)
        // What no time mends is refused at once.
        bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
        bench.settle()
        #expect(try await bench.ask(Self.request("GET")).status == 503)
    }

    @Test("a drain ends the wait of a route: the request is refused, and none waits that comes later")
    func waitsNotDuringDrain() async throws {
        let bench = try ProxyBench(plan: {
            ($0.publishes, $0.timeStands, $0.route.waitMax) = (false, true, .seconds(60))
        })
        bench.path.publish(
            .none(.identityUnreachable(nextAttemptAt: .now + .seconds(1000), because: "why")), for: ProxyBench.user)
        bench.settle()
        async let waiting = bench.ask(Self.request("GET"))
        try await eventually("it waits") { bench.count("lanyard_parked_requests") == 1 }
        bench.drain()
        let refused = try await waiting
        #expect(refused.status == 503 && refused["Connection"] == "close")
        #expect(try refused.json["type"].string == "urn:lanyard:problem:identity-unreachable")
    }

    @Test("wait_max of a route is shorter, or none, as it says", arguments: [Duration.zero, .seconds(1)])
    func waitsLess(_ time: Duration) async throws {
        let bench = try ProxyBench(plan: {
            ($0.publishes, $0.timeStands, $0.route.waitMax) = (false, time > .zero, time)
            $0.tokenWaitMax = .seconds(3600)
        })
        async let response = bench.ask(Self.request("GET"))
        if time > .zero {
            try await eventually("it waits") { bench.count("lanyard_parked_requests") == 1 }
            bench.pass(time)
        }
        #expect(try await response.status == 503)
    }

    @Test("17.6 a second refusal is a problem if the route says so, and what is no 401 passes")
    func unauthorized() async throws {
        for (policy, status, expected) in [
            (RouteSettings.UnauthorizedPolicy.pass, 401, 401), (.problem, 401, 503), (.problem, 403, 403),
        ] {
            let bench = try ProxyBench(script: { _ in
                .response(status, "No", fields: [("WWW-Authenticate", "Bearer")], body: "no")
            }) {
                ($0.route.unauthorized, $0.route.refusals.statuses) = (policy, [401, 403])
            }
            bench.renews()
            let response = try await bench.ask(Self.request("POST", "", "body"), method: "POST")
            #expect(response.status == expected && bench.upstream.requests.count == 2)
            guard expected == 503 else { continue }
            #expect(response["WWW-Authenticate"] == nil && response["X-Should-Retry"] == "false")
            #expect(response["Proxy-Status"] == "lanyard; error=proxy_internal_response; received-status=401")
            let json = try response.json
            #expect(json["type"].string == "urn:lanyard:problem:token-refused" && json["user"].string == "alice")
            #expect(json["action"].string == "operator" && json["retryable"].bool == false)
            // While the breaker is open there is no replay, and no 401 either.
            let again = try await bench.ask(Self.request("POST", "", "body"), method: "POST")
            #expect(again.status == 503 && again.bodyText.contains("breaker open"))
        }
    }

    @Test("17.6 the 401 to a client's own Authorization beside Lanyard's token is the client's, also after a replay")
    func clientsOwnUnauthorized() async throws {
        func bench(_ status: Int = 401, _ configure: (inout RouteSettings) -> Void = { _ in }) throws -> ProxyBench {
            let bench = try ProxyBench(script: { _ in
                .response(status, "No", fields: [("WWW-Authenticate", "Basic realm=\"x\"")], body: "no")
            }) {
                ($0.route.injectHeader, $0.route.injectPrefix, $0.route.unauthorized) = ("X-Token", "", .problem)
                $0.route.refusals.statuses = [401, 407]
                configure(&$0.route)
            }
            bench.renews()
            return bench
        }
        for scheme in ["Basic YTpi", "Digest username=\"a\"", "Bearer own", ""] {
            let own = try bench()
            let response = try await own.ask(
                Self.request("POST", "authorization: \(scheme)\r\n", "body"), method: "POST")
            #expect(response.status == 401 && response["WWW-Authenticate"] == "Basic realm=\"x\"", "\(scheme)")
            #expect(own.upstream.requests.count == 2)
            // While the breaker is open there is no replay.
            #expect(try await own.ask(Self.request("GET", "Authorization: \(scheme)\r\n")).status == 401)
            #expect(try await own.ask(Self.request("GET")).status == 503)
        }
        let dropped = try bench()
        let named = "Authorization: Basic YTpi\r\nConnection: authorization\r\n"
        #expect(try await dropped.ask(Self.request("GET", named)).status == 503)
        let fixed = try bench { $0.setHeaders = [.init(name: "Authorization", value: "Basic eDp5")] }
        #expect(try await fixed.ask(Self.request("GET", "Authorization: Basic YTpi\r\n")).status == 503)
        let passed = try bench { $0.clientAuthorization = .pass }
        #expect(try await passed.ask(Self.request("GET", "Authorization: Basic YTpi\r\n")).status == 401)
        #expect(try await passed.ask(Self.request("GET", "X-Token: mine\r\n")).status == 401)
        // Lanyard's token was refused, and nothing of the client's.
        #expect(try await passed.ask(Self.request("GET")).status == 503)
        let proxy = try bench(407)
        #expect(try await proxy.ask(Self.request("GET")).status == 407)
    }

    @Test("17.6 without a replay there is no 401 either, and a client's own authorization is refused as it was")
    func unauthorizedWithoutReplay() async throws {
        let bench = try ProxyReplayTests.picky { $0.route.unauthorized = .problem }
        bench.publish(generation: 1, token: "token-1", renewal: .possible(from: .now + .seconds(100_000)))
        let response = try await bench.ask(Self.request("POST", "Mcp-Session-Id: 1\r\n", Self.call), method: "POST")
        #expect(response.status == 503 && response["Retry-After"] == "10")
        #expect(try response.json["error"]["message"].string?.contains("cooldown") == true)
        let own = try ProxyReplayTests.picky {
            ($0.route.unauthorized, $0.route.clientAuthorization) = (.problem, .pass)
        }
        #expect(try await own.ask(Self.request("GET", "Authorization: Bearer mine\r\n")).status == 401)
        #expect(try await own.ask(Self.request("GET")).status == 503)
        let held = try ProxyReplayTests.picky { $0.route.unauthorized = .problem }
        let path = held.path
        held.tokens.onRefused.withLock { $0 = { _ in path.publish(.none(.loginRequired), for: ProxyBench.user) } }
        let waited = try await held.ask(Self.request("GET"))
        #expect(waited.status == 503 && waited.bodyText.contains("token-refused"))
    }
}
