import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 19: Lanyard's own responses.
@Suite(.serialized) struct OwnResponseRuleTests {
    private static let minute = Duration.seconds(60)
    /// Its clock stands.
    private static let shared = Task {
        try await HTTPBench.startUnderClock { plan in
            plan.limits = "header_timeout: 60s, header_fields_max: 16, request_line_bytes_max: 1KiB"
            plan.route = "timeouts: {response_header: 60s}"
            plan.routes = """
                {name: guarded, match: {path: /guarded}, upstream: "UP", client_authorization: reject, forwarded: reject, \
                deny: [{path: /guarded/admin}], body_bytes_max: 3B},
                {name: narrow, match: {path: /narrow}, upstream: "UP", connections_max: 1, \
                timeouts: {connect: 60s, response_header: 1h}},
                {name: pass, match: {path: /pass}, upstream: "UP", client_authorization: pass},
                {name: dead, match: {path: /dead}, upstream: "http://127.0.0.1:1"},

                """
        }.bench
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private func request(_ line: String, _ fields: String..., body: String = "") -> String {
        "\(line) HTTP/1.1\r\nHost: localhost\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n" + body
    }

    @Test("19.1 A problem is problem+json with its fields in one head, and instance is the request's id")
    func whole() async throws {
        let client = try await bench.connect()
        let response = try await client.ask(request("GET /guarded/admin"))
        let date = try #require(response["Date"])
        #expect(
            date.wholeMatch(of: /(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z][a-z] \d{4} \d\d:\d\d:\d\d GMT/) != nil)
        #expect(
            response.headText
                == "HTTP/1.1 403 Denied by route\r\nContent-Type: application/problem+json\r\nContent-Length: "
                + "\(response.body.count)\r\nDate: \(date)\r\nCache-Control: no-store\r\n"
                + "Proxy-Status: lanyard; error=http_request_denied\r\nX-Should-Retry: false\r\n\r\n")
        let problem = try response.json
        #expect(problem["type"].string == "urn:lanyard:problem:denied-by-route")
        #expect(problem["status"].int == 403)
        #expect(problem["title"].string == "Denied by route")
        #expect(problem["detail"].string?.isEmpty == false && problem["message"].string == problem["detail"].string)
        let id = try #require(problem["instance"].string)
        try await bench.lanyard.process.event("request.refused") { $0["request_id"].string == id }
        let second = try await client.ask(request("GET /guarded/admin"))
        let secondID = try second.json["instance"].string
        #expect(secondID != id)
        // So has one whose head cannot be read.
        #expect(try await client.ask("GET\r\n").json["instance"].string != secondID)
    }

    @Test("19.1 No byte of the request is echoed")
    func noEcho() async throws {
        let mark = "eChOeD"
        for (text, closes) in [
            (request("GET /\(mark)%"), false), (request("GET /guarded/admin/\(mark)"), false),
            (request("GET /\(mark)/../hand"), false),
            (request("GET /guarded", "Authorization: \(mark)"), false), (request("GET / \(mark)"), true),
            ("GET / HTTP/1.1\r\nHost: \(mark).test\r\n\r\n", false),
            (request("GET /", "Origin: http://\(mark)"), false),
            (request("GET /", "\(mark) : x"), true), (request("GET /", "X: \(mark)\u{0}"), true),
            (request("\(mark)\u{1}"), true),
            (request("POST /", "Expect: \(mark)", "Content-Length: 1"), true),
            (request("OPTIONS /", "Max-Forwards: \(mark)"), false),
            (request("GET \(mark)"), true), (request("GET /", "Content-Length: \(mark)"), true),
            (request("GET /", "Transfer-Encoding: \(mark)"), true), (request("GET http://\(mark)@localhost/"), true),
        ] {
            let client = try await bench.connect()
            let response = try await client.ask(text)
            #expect(response.status >= 400)
            #expect((response["Connection"] == "close") == closes, Comment(rawValue: text))
            #expect(!response.headText.contains(mark) && !response.bodyText.contains(mark), Comment(rawValue: text))
        }
    }

    @Test("19.1 HEAD gets the same head without body, and its connection continues")
    func head() async throws {
        let client = try await bench.connect()
        for line in ["/guarded/admin", "/%", "/x/../hand", "/dead"] {
            let full = try await client.ask(request("GET \(line)"))
            let bare = try await client.ask(request("HEAD \(line)"), to: "HEAD")
            func lines(_ response: RawMessage) -> [String] {
                response.fields.filter { $0.name != "Date" }.map { "\($0.name): \($0.value)" }
            }
            #expect(lines(full) == lines(bare))
            #expect(full.startLine == bare.startLine)
        }
        #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
        // So does one whose head cannot be read, once its method is known.
        for (fields, version, status) in [
            ("A B: 1\r\n\r\n", "1.1", 400), ("Host: b\r\n\r\n", "1.1", 400), ("\r\n", "2.0", 505),
            ("Transfer-Encoding: gzip\r\n\r\n", "1.1", 501), (String(repeating: "A: 1\r\n", count: 17), "1.1", 431),
            ("A: 1\r\n", "1.1", 408),
        ] {
            let client = try await bench.connect()
            try await client.send("HEAD / HTTP/\(version)\r\nHost: localhost\r\n\(fields)")
            try await bench.pass(status == 408 ? Self.minute : nil, sparing: client)
            let response = try await client.response(to: "HEAD")
            #expect(response.status == status)
            #expect(Int(response["Content-Length"] ?? "") ?? 0 > 0)
            #expect(try await client.rest() == ("", false), "\(status)")
        }
    }

    @Test("19.2 Each type of refusal has its status, its reason and its error")
    func refusals() async throws {
        try await bench.refuses(request("GET /", "A B: 1"), .malformed)
        try await bench.refuses(request("GET /x/../hand"), .ambiguous)
        try await bench.refuses(request("GET /", "Origin: null"), .origin)
        try await bench.refuses(request("GET /guarded", "Forwarded: for=x"), .forwarded)
        try await bench.refuses(request("GET /guarded", "Authorization: x"), .authorization)
        try await bench.refuses(request("GET /guarded/admin"), .denied)
        try await bench.refuses("GET / HTTP/1.1\r\nHost:", .timeout, behind: false, after: Self.minute)
        try await bench.refuses(request("POST /guarded", "Content-Length: 4", body: "abcd"), .contentTooLarge)
        try await bench.refuses("GET /\(String(repeating: "a", count: 1024))", .lineTooLong)
        try await bench.refuses(request("POST /", "Content-Length: 1", "Expect: x", body: "a"), .expectation)
        try await bench.refuses("GET / HTTP/1.1\r\nHost: evil\r\n\r\n", .host)
        try await bench.refuses(request("GET /", String(repeating: "A: 1\r\n", count: 16)), .fieldsTooLarge)
        try await bench.refuses(request("POST /", "Transfer-Encoding: gzip"), .notImplemented)
        try await bench.refuses("GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", .versionNotSupported)
        let narrow = try await HTTPBench.start { plan in
            plan.path = "/only"
            plan.routes = "{name: reader, match: {path: /reader, methods: [GET, HEAD]}, upstream: UP},\n"
        }
        let response = try await narrow.refuses(request("eChOeD /reader"), .method)
        #expect(response["Allow"] == "GET, HEAD")
        #expect(!response.bodyText.contains("eChOeD"))
        try await narrow.refuses(request("GET /other"), .noRoute)
    }

    @Test("19.3 Failures of the upstream are 502 and 504, each with its type and error")
    func upstreamFailures() async throws {
        try await bench.drops("junk\r\n\r\n")
        try await bench.drops("HTTP/1.1 200 OK\r\nContent-Le", then: [.close], .upstreamIncomplete)
        let client = try await bench.connect()
        let dead = try await client.ask(request("GET /dead"))
        #expect(
            try Refusal(status: 502, type: "upstream-unreachable", error: "connection_refused", closes: false).faults(
                of: dead)
                == [])
        let fresh = try await HTTPBench.start()
        fresh.script { _ in .close }
        #expect(try Refusal.upstreamTerminated.faults(of: await fresh.ask(HTTPBench.plain("/"))) == [])
        try await client.send(HTTPBench.plain("/hand"))
        let peer = try await bench.accept()
        try await bench.pass(Self.minute, sparing: client)
        #expect(try Refusal.upstreamTimeout.faults(of: await client.response()) == [])
        #expect(try await peer.rest().text.hasPrefix("GET /hand "))
        try await bench.startOver()
        #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
        let own = try #require(bench.requests.last?["Via"])
        let loop = try await client.ask(request("GET /", "Via: 1.1 a, \(own)"))
        #expect(
            try Refusal(status: 502, type: "loop", error: "proxy_loop_detected", closes: false).faults(of: loop) == [])
    }

    private static func unavailable(_ type: String, retries: Bool = false) -> Refusal {
        Refusal(status: 503, type: type, error: "proxy_internal_response", closes: false, hasRetryAfter: retries)
    }

    /// Asks once the problem is the awaited one, and continues with the same connection.
    private func asks(_ lanyard: LanyardProcess, _ refusal: Refusal) async throws -> RawMessage {
        let client = try await Wire.connect(to: lanyard.data)
        let text = "GET / HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n"
        try await eventually("the problem is \(refusal.type)") {
            try await client.ask(text).json["type"].string == "urn:lanyard:problem:\(refusal.type)"
        }
        let response = try await client.ask(text)
        #expect(try refusal.faults(of: response) == [])
        return response
    }

    @Test(
        "19.3 Without a usable token the response is 503 with the session's reason; only what mends itself says when to try again"
    )
    func sessionFailures() async throws {
        let upstream = try RawServer()
        let route = "routes: [{upstream: \"http://\(upstream.endpoint)\"}]"
        let folder = try TemporaryFolder()
        // Without the admin API, which may bring users and logins, these two would be no configurations.
        let inactive = try await LanyardProcess.start(route, admin: "{address: \"unix:\(folder.file("a"))\"}")
        _ = try await asks(inactive, Self.unavailable("no-active-user"))
        let loginless = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: demo-abcde, base_url: "http://127.0.0.1:1"}}}
            users: {alice: {identity: demo}}
            \(route)
            """, admin: "{address: \"unix:\(folder.file("b"))\"}")
        #expect(try await asks(loginless, Self.unavailable("login-required")).json["user"].string == "alice")
        let refused = try await LanyardProcess.start(
            """
            identities: {fixed: {static: {token_file: \(try folder.write("token", "no token"))}}}
            users: {alice: {identity: fixed}}
            \(route)
            """)
        #expect(try await asks(refused, Self.unavailable("credential-refused")).json["user"].string == "alice")
        let unreachable = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: demo-abcde, base_url: "http://127.0.0.1:1"}}}
            users: {alice: {identity: demo, login: {anonymous: {}}}}
            refresh: {wait_max: 200ms}
            \(route)
            """)
        let response = try await asks(unreachable, Self.unavailable("identity-unreachable", retries: true))
        #expect(Int(response["Retry-After"] ?? "") ?? 0 >= 1)
        #expect(upstream.connectionCount == 0)
    }

    @Test("19.3 overloaded and shutting-down say when to try again")
    func transientFailures() async throws {
        let silent = try RawServer { _ in RawResponse([]) }
        let isReleased = Milestone()
        bench.script { request in request.message.target == "/narrow/1" ? .response().after(isReleased) : .response() }
        let first = try await bench.connect()
        try await first.send(HTTPBench.plain("/narrow/1"))
        try await eventually("the only connection is in use") { bench.received.joined().contains("/narrow/1") }
        let second = try await bench.connect()
        try await second.send(HTTPBench.plain("/narrow/2"))
        try await bench.pass(Self.minute, sparing: second)
        let overloaded = try await second.response()
        #expect(
            try Refusal(
                status: 503, type: "overloaded", error: "connection_limit_reached", closes: false, hasRetryAfter: true
            ).faults(of: overloaded) == [])
        isReleased.set()
        #expect(try await first.response().status == 200)

        // A login that gets no response: requests wait for it, and a drain lets no more of them wait.
        let lanyard = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: demo-abcde, base_url: "http://\(silent.endpoint)"}}}
            users: {alice: {identity: demo, login: {anonymous: {}}}}
            routes: [{upstream: "http://\(silent.endpoint)"}]
            shards: 1
            """)
        let idle = try await Wire.connect(to: lanyard.data)
        #expect(try await idle.ask("OPTIONS * HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n").status == 200)
        let late = try await Wire.connect(to: lanyard.data)
        try await late.send("GET / HTTP/1.1\r\nHost: ")
        lanyard.process.signal(15)
        // Idle ones are closed by the drain: it has begun.
        #expect(try await idle.rest() == ("", false))
        let response = try await late.ask("\(lanyard.data)\r\n\r\n")
        #expect(try Self.unavailable("shutting-down", retries: true).closing.faults(of: response) == [])
        #expect(try await late.rest() == ("", false))
    }

    @Test("19.4 error says whose fault it was; an upstream's own Proxy-Status stays")
    func proxyStatus() async throws {
        let client = try await bench.connect()
        bench.script { _ in
            .response(
                503, "Busy", fields: [("Proxy-Status", "cdn; error=connection_timeout"), ("proxy-status", "edge")])
        }
        let relayed = try await client.ask(HTTPBench.plain("/"))
        #expect(relayed.status == 503)
        #expect(relayed.values("Proxy-Status") == ["cdn; error=connection_timeout", "edge"])
        // Where Lanyard has something to say of a relayed response, it stands behind the upstream's own.
        bench.script { _ in .response(401, "No", fields: [("Proxy-Status", "cdn; error=x"), ("A", "1")]) }
        let refused = try await client.ask(HTTPBench.plain("/pass"))
        #expect(refused.status == 401 && refused.bodyText == "ok")
        let members = refused.values("Proxy-Status")
        #expect(members.first == "cdn; error=x")
        #expect(members.dropFirst().first?.hasPrefix("lanyard; received-status=401") == true)
        // The errors of each kind are those of the tests of http-connections.md 19.2 and 19.3; here one of each.
        for (text, error) in [
            (request("GET /%"), "http_request_error"), (request("GET /guarded/admin"), "http_request_denied"),
            (request("GET /", "Origin: null"), "http_request_denied"), (request("GET /dead"), "connection_refused"),
        ] {
            #expect(try await client.ask(text)["Proxy-Status"] == "lanyard; error=\(error)")
        }
    }
}
