import Glibc
import LanyardBroker
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging
import TestSupport
import Testing

/// Requests at the listener of a broker (fleet.md 2): their bodies, waits and ends.
@Suite struct ProxyGrantTests {
    private static let get = "GET /v1/token HTTP/1.1\r\nHost: localhost\r\n\r\n"
    private static let body = "grant_type=client_credentials"

    private static func head(
        _ length: Int, _ target: String = "/oauth2/token", _ fields: String = ""
    ) -> String {
        "POST \(target) HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            + "\(fields)Content-Length: \(length)\r\n\r\n"
    }

    private static let post = head(body.utf8.count) + body

    /// A broker whose callers are everyone, or this process's user at a unix socket.
    private static func bench(uids: [UInt32] = [], _ configure: (inout ProxyBench.Plan) -> Void = { _ in }) throws
        -> ProxyBench
    {
        var settings = BrokerSettings(index: 0)
        settings.serves = Set(BrokerSettings.Interface.allCases)
        var caller = BrokerSettings.Caller(users: ["alice"])
        caller.uids = uids
        settings.callers = [caller]
        let log = Logger(label: "bench") { _ in SwiftLogNoOpLogHandler() }
        return try ProxyBench(plan: {
            $0.publishes = false
            $0.tokenWaitMax = .seconds(3600)
            configure(&$0)
            $0.listener.broker = settings
            $0.granter = Broker(
                settings, capabilities: [nil], variants: [:], scopes: [:], issued: IssuedTokens(log: log))
        })
    }

    private static func parked(_ bench: ProxyBench) -> Int { bench.count("lanyard_parked_requests") }

    @Test("requests for a token wait until there is one, which is asked for once, and no upstream sees them")
    func resumed() async throws {
        let bench = try Self.bench()
        let texts = try await withThrowingTaskGroup(of: String.self) { group in
            for index in 0..<20 {
                group.addTask { try await bench.ask(index % 2 == 0 ? Self.get : Self.post, method: "GET").bodyText }
            }
            try await eventually("all are parked") { Self.parked(bench) == 20 }
            #expect(bench.tokens.count == 1)
            bench.publish(generation: 1)
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(texts.count == 20 && texts.allSatisfy { $0.contains("\"access_token\":\"\(ProxyBench.token)\"") })
        #expect(bench.tokens.count == 1 && Self.parked(bench) == 0 && bench.upstream.connectionCount == 0)
    }

    @Test("a token that ends soon is not given out: the request waits for the next one")
    func shortLived() async throws {
        let bench = try Self.bench { $0.timeStands = true }
        bench.publish(generation: 1, usableUntil: bench.now + .seconds(3) - .nanoseconds(1))
        async let response = bench.ask(Self.get)
        try await eventually("it is parked") { Self.parked(bench) == 1 }
        #expect(bench.tokens.count == 1)
        bench.publish(generation: 2, usableUntil: bench.now + .seconds(40))
        let json = try await response.json
        #expect(json["generation"].int == 2 && json["expires_in"].int == 36)
    }

    @Test("who has waited long enough is refused in the form of its interface, and its connection continues")
    func overdue() async throws {
        let bench = try Self.bench { $0.timeStands = true }
        for (request, name, text) in [
            (Self.get, "type", "urn:lanyard:problem:identity-unreachable"),
            (Self.post, "error", "temporarily_unavailable"),
        ] {
            // In the end it is usable, and not long enough to be given out.
            bench.publish(generation: 1, waitsFrom: bench.now, usableUntil: bench.now + .seconds(3602))
            try await bench.talk { client in
                try client.send(request)
                try blockUntil("it is parked") { Self.parked(bench) == 1 }
                bench.pass(.seconds(3600))
                let response = try client.response()
                #expect(response.status == 503 && response["Retry-After"] == "1")
                #expect(try response.json[name].string == text)
                #expect(Self.parked(bench) == 0)
                bench.publish(generation: 2)
                #expect(try client.exchange("GET", "/v1/token").status == 200)
            }
        }
    }

    @Test("a user without a session is refused with its cause, in RFC 6749's form at the token endpoint")
    func refused() async throws {
        let bench = try Self.bench()
        bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
        bench.settle()
        let problem = try await bench.ask(Self.get)
        #expect(try problem.status == 503 && problem.json["type"].string == "urn:lanyard:problem:login-required")
        let error = try await bench.ask(Self.post, method: "POST")
        #expect(try error.status == 400 && error.json["error"].string == "invalid_grant")
    }

    @Test("a client that resets its connection does not wait any longer")
    func reset() async throws {
        let bench = try Self.bench()
        let client = try RawClient(bench.endpoint)
        try client.send(Self.post)
        try await eventually("it is parked") { Self.parked(bench) == 1 }
        client.reset()
        try await eventually("it is gone") { Self.parked(bench) == 0 }
        bench.publish(generation: 1)
        #expect(try await bench.ask(Self.get).status == 200)
    }

    @Test("a body may come in any pieces, with its length or in chunks, and the next request behind it")
    func pieces() async throws {
        let bench = try Self.bench { $0.publishes = true }
        let chunked =
            Self.head(0).replacing("Content-Length: 0", with: "Transfer-Encoding: chunked")
            + Self.body.map { "1;x\r\n\($0)\r\n" }.joined() + "0\r\nX-T: 1\r\n\r\n"
        try await bench.talk { client in
            for text in [Self.post, chunked] {
                for byte in text.utf8 { try client.send([byte]) }
                #expect(try client.response().status == 200)
                try client.send(text + text + Self.get)
                for _ in 0..<3 { #expect(try client.response().status == 200) }
            }
        }
    }

    @Test(
        "a body of 16 KiB is read; a longer one is refused in the form of the token endpoint", arguments: [true, false])
    func length(_ isChunked: Bool) async throws {
        let bench = try Self.bench { $0.publishes = true }
        for (count, status) in [(16_384, 200), (16_385, 413)] {
            let body = Self.body + "&x=" + String(repeating: "a", count: count - Self.body.utf8.count - 3)
            let text =
                isChunked
                ? Self.head(0).replacing("Content-Length: 0", with: "Transfer-Encoding: chunked")
                    + "\(String(count, radix: 16))\r\n\(body)\r\n0\r\n\r\n" : Self.head(count) + body
            let response = try await bench.ask(text, method: "POST")
            #expect(response.status == status, "\(count)")
            if status == 413 {
                #expect(try response.json["error"].string == "invalid_request")
                #expect(response["Connection"] == "close")
            }
        }
    }

    @Test("a body that stops, or comes byte by byte, has ten seconds")
    func slowBody() async throws {
        let bench = try Self.bench {
            $0.publishes = true
            $0.timeStands = true
        }
        try await bench.talk { client in
            try client.send(Self.head(Self.body.utf8.count) + "grant")
            try bench.fence()
            bench.pass(.seconds(10) - .nanoseconds(1))
            #expect(!client.hasInput)
            try client.send("_")
            try bench.fence()
            bench.pass(.nanoseconds(1))
            let response = try client.response()
            #expect(try response.status == 408 && response.json["error"].string == "invalid_request")
            #expect(response["Connection"] == "close")
        }
    }

    @Test("a reload between head and body: the rows of one configuration never meet the capabilities of another")
    func reload() async throws {
        let bench = try Self.bench { $0.publishes = true }
        try await bench.talk { client in
            try client.send(Self.head(Self.body.utf8.count) + "grant")
            try bench.fence()
            bench.apply(bench.settings)
            try client.send(String(Self.body.dropFirst("grant".count)))
            let response = try client.response()
            #expect(try response.status == 503 && response.json["error"].string == "temporarily_unavailable")
            try client.send(Self.post)
            #expect(try client.response().status == 200)
        }
    }

    @Test("a body that ends early is no request")
    func cutBody() async throws {
        let bench = try Self.bench { $0.publishes = true }
        try await bench.talk { client in
            try client.send(Self.head(Self.body.utf8.count) + "grant_type=client_credential")
            client.halfClose()
            let response = try client.response()
            #expect(try response.status == 400 && response.json["error"].string == "invalid_request")
        }
        #expect(bench.count("lanyard_parked_requests") == 0)
    }

    @Test("a client that waits for 100 gets it before its body, unless the body is too long")
    func expectation() async throws {
        let bench = try Self.bench { $0.publishes = true }
        let expects = "Expect: 100-continue\r\n"
        try await bench.talk { client in
            try client.send(Self.head(Self.body.utf8.count, "/oauth2/token", expects))
            #expect(try client.reader.readResponse(to: "POST").status == 100)
            try client.send(Self.body)
            #expect(try client.reader.readResponse(to: "POST").status == 200)
        }
        let refused = try await bench.talk { client in
            try client.send(Self.head(16_385, "/oauth2/token", expects))
            return try client.reader.readResponse(to: "POST").status
        }
        #expect(refused == 413)
    }

    @Test("who waits when the drain begins gets its token; who comes later is refused, and both connections close")
    func drain() async throws {
        let bench = try Self.bench()
        let (waiting, late) = (try RawClient(bench.endpoint), try RawClient(bench.endpoint))
        defer {
            waiting.close()
            late.close()
        }
        try waiting.send(Self.get)
        try late.send(Self.head(Self.body.utf8.count) + "grant_type=")
        try await eventually("it is parked") { Self.parked(bench) == 1 }
        try bench.fence()
        bench.drain()
        try late.send("client_credentials")
        let refused = try late.response(to: "POST")
        #expect(try refused.status == 503 && refused.json["error"].string == "temporarily_unavailable")
        #expect(refused["Connection"] == "close")
        bench.publish(generation: 1)
        let response = try waiting.response()
        #expect(response.status == 200 && response["Connection"] == "close")
    }

    @Test("a refusal that a caller reports forces one refresh; a report about another caller's user forces none")
    func report() async throws {
        let bench = try Self.bench { $0.publishes = true }
        let target = "/v1/token/refused"
        try await bench.talk { client in
            for user in ["bob", "carol"] {
                let text = #"{"user":"\#(user)","generation":1}"#
                try client.send(Self.head(text.utf8.count, target) + text)
                #expect(try client.response(to: "POST").status == 403)
            }
            #expect(bench.tokens.refused == [])
            let text = #"{"user":"alice","generation":1}"#
            for _ in 0..<3 {
                try client.send(Self.head(text.utf8.count, target) + text)
                let response = try client.response(to: "POST")
                #expect(response.status == 202 && response.bodyText == "{}\n")
            }
        }
        #expect(bench.tokens.refused == [1])
    }

    @Test("no page may ask, not even of the broker's own origin; CONNECT ends the connection")
    func others() async throws {
        let bench = try Self.bench {
            $0.publishes = true
            $0.listener.allowedHosts = nil
        }
        let host = "\(bench.endpoint)"
        func ask(_ field: String) async throws -> RawMessage {
            try await bench.ask("GET /v1/token HTTP/1.1\r\nHost: \(host)\r\n\(field)\r\n")
        }
        #expect(try await ask("").status == 200)
        for field in ["Origin: null\r\n", "Origin: http://\(host)\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
            let response = try await ask(field)
            #expect(response.status == 403 && !response.bodyText.contains(ProxyBench.token), "\(field)")
        }
        let response = try await bench.ask("CONNECT \(host) HTTP/1.1\r\nHost: \(host)\r\n\r\n")
        #expect(response.status == 405 && response["Connection"] == "close")
    }

    @Test("the user of the process at the other end of a unix socket decides", arguments: [true, false])
    func unixUser(_ isListed: Bool) async throws {
        let folder = try TemporaryFolder()
        let bench = try Self.bench(uids: [isListed ? getuid() : getuid() + 1]) {
            $0.publishes = true
            $0.listener.address = .unix(path: folder.file("broker.sock"))
        }
        #expect(try await bench.ask(Self.get).status == (isListed ? 200 : 403))
        #expect(try await bench.ask(Self.post, method: "POST").status == (isListed ? 200 : 400))
    }
}
