import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 20.5 and docs/use/monitoring.md: what the log and the metrics say of requests that Lanyard answers itself.
@Suite struct RefusalLogTests {
    private static func ask(_ lanyard: LanyardProcess, _ text: String) async throws -> RawMessage {
        try {
            let client = try RawClient(lanyard.data)
            defer { client.close() }
            try client.send(text)
            return try client.response()
        }()
    }

    @discardableResult
    private static func refusal(_ lanyard: LanyardProcess, _ reason: String) async throws -> JSON {
        try await lanyard.process.event("request.refused") { $0["reason"].string == reason }
    }

    @Test("each problem response leaves one line with request, user and cause, at the level that it deserves")
    func lines() async throws {
        let closed = try RawSocket.refusing()
        defer { closed.close() }
        let port = closed.localPort
        let lanyard = try await LanyardProcess.start(
            """
            routes:
              - {name: gone, match: {path: /gone}, upstream: "http://127.0.0.1:\(port)"}
              - {name: here, match: {path: /here}, upstream: "http://127.0.0.1:\(port)", deny: [{path: /here/no}]}

            """, token: "secret-token")
        try await lanyard.untilReady()
        let host = "Host: \(lanyard.data)"
        let gone = try await Self.ask(lanyard, "GET /gone/a?key=hidden HTTP/1.1\r\n\(host)\r\n\r\n")
        #expect(gone.status == 502 && !gone.bodyText.contains("\(port)"), "the client is not told the address")
        let line = try await Self.refusal(lanyard, "upstream-unreachable")
        #expect(line["level"].string == "warning" && line["status"].int == 502)
        #expect(line["method"].string == "GET" && line["path"].string == "/gone/a" && line["route"].string == "gone")
        #expect(line["user"].string == "alice" && line["host"].string == "\(lanyard.data)")
        let problem = try gone.json
        #expect(line["request_id"].string == problem["instance"].string)
        let cause = line["cause"].string ?? ""
        #expect(cause.contains("Connection refused") && cause.contains("127.0.0.1:\(port)"))

        _ = try await Self.ask(lanyard, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        let unknown = try await Self.refusal(lanyard, "host-not-allowed")
        #expect(unknown["level"].string == "info" && unknown["status"].int == 421)
        #expect(unknown["host"].string == "evil.test" && unknown["cause"].string?.contains("allowed_hosts") == true)

        _ = try await Self.ask(lanyard, "GET /here/no HTTP/1.1\r\n\(host)\r\n\r\n")
        let denied = try await Self.refusal(lanyard, "denied-by-route")
        #expect(denied["status"].int == 403 && denied["route"].string == "here")

        _ = try await Self.ask(lanyard, "GET / HTTP/1.1\r\n folded\r\n\(host)\r\n\r\n")
        let malformed = try await Self.refusal(lanyard, "malformed-request")
        #expect(malformed["status"].int == 400 && malformed["cause"].string?.isEmpty == false)
        try await lanyard.process.settle()
        for line in lanyard.process.lines {
            #expect(!line.text.contains("hidden") && !line.text.contains("secret-token"))
        }
    }

    @Test("a flood of one problem leaves a few lines a second and a count, and no other problem is silenced by it")
    func flood() async throws {
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://127.0.0.1:1\"}]\n", token: "t")
        try await lanyard.untilReady()
        let count = 400
        let fault = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
        do {
            let client = try RawClient(lanyard.data)
            defer { client.close() }
            for _ in 0..<count {
                try client.send(fault)
                let status = try client.response().status
                #expect(status == 421)
            }
        }
        _ = try await Self.ask(lanyard, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n")
        try await Self.refusal(lanyard, "malformed-request")
        func lines() -> [JSON] {
            lanyard.process.lines.filter {
                $0.event == "request.refused" && $0.json["reason"].string == "host-not-allowed"
            }
            .map(\.json)
        }
        // Nothing more is sent: a line of its own has the last count.
        try await eventually("all are accounted for") {
            lines().reduce(0) { $0 + ($1["request_id"].string == nil ? 0 : 1) + ($1["left_out"].int ?? 0) } == count
        }
        #expect(lines().last?["request_id"].string == nil && lines().last?["level"].string == "info")
        #expect(lines().count < count / 4)
    }

    @Test("durations by route and origin, and the time to connect, are in the metrics from the first request on")
    func durations() async throws {
        let upstream = try RawServer(at: .tcp(0), script: { _ in .response(body: "ok") })
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, match: {path: /x}, upstream: \"http://\(upstream.endpoint)\"}]\n", token: "t")
        try await lanyard.untilReady()
        for path in ["/x", "/x", "/none"] {
            _ = try await Self.ask(lanyard, "GET \(path) HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n")
        }
        let name = "lanyard_request_duration_seconds"
        // A shard counts a response after its last byte has gone: the client may ask for the page before that.
        var page = ""
        try await eventually("all three are counted") {
            page = try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
            return page.contains("\(name)_count{route=\"all\",origin=\"upstream\"} 2\n")
                && page.contains("\(name)_count{route=\"none\",origin=\"lanyard\"} 1\n")
        }
        #expect(page.contains("\(name)_bucket{route=\"all\",origin=\"upstream\",le=\"+Inf\"} 2\n"))
        #expect(!page.contains("\(name)_count{route=\"all\",origin=\"lanyard\"}"))
        #expect(page.contains("lanyard_upstream_connect_seconds_count{route=\"all\"} "))
    }

    @Test("a client is told why the identity service gives no token")
    func identity() async throws {
        let folder = try TemporaryFolder()
        let password = try folder.write("password", "x")
        let closed = try RawSocket.refusing()
        defer { closed.close() }
        let port = closed.localPort
        let lanyard = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: a, base_url: "http://127.0.0.1:\(port)"}}}
            users: {alice: {identity: demo, login: {email_password: {email: a@example.com, password_file: \(password)}}}}
            routes: [{name: all, upstream: "http://127.0.0.1:1"}]

            """)
        try await lanyard.process.event("session.login.failed")
        let response = try await Self.ask(lanyard, "GET / HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n")
        #expect(response.status == 503)
        let problem = try response.json
        #expect(problem["type"].string == "urn:lanyard:problem:identity-unreachable")
        let line = try await lanyard.process.event("session.login.failed")
        let cause = try #require(line["error"].string)
        #expect(problem["detail"].string == "There is no usable token: \(cause).", "\(response.bodyText)")
    }
}
