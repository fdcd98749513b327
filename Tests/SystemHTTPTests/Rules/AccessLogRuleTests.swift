import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 20.2: one line for each request.
@Suite(.serialized) struct AccessLogRuleTests {
    private static let shared = Task {
        try await HTTPBench.startUnderClock {
            $0.routes = """
                {name: named, match: {path: /named}, upstream: "UP", request_id_header: X-Request-Id},
                {name: gone, match: {path: /gone}, upstream: "http://127.0.0.1:1"},
                {name: denied, match: {path: /denied}, upstream: "UP", deny: [{path: /denied/no}]},
                """
            $0.route = "upgrades: [websocket], timeouts: {upgraded_idle: 60s}, close_streams_on: [logout]"
        }
    }
    private let bench: HTTPBench
    private let clock: TestClock

    init() async throws {
        (bench, clock) = try await Self.shared.value
        try await bench.startOver()
    }

    /// The access line of the request with this path.
    private func line(_ path: String, in bench: HTTPBench? = nil) async throws -> JSON {
        let bench = bench ?? self.bench
        let line = try await bench.lanyard.process.event("access") { $0["path"].string == path }
        let text = bench.lines.filter { $0.event == "access" }.map(\.text).joined()
        #expect(!text.contains("hidden") && !text.contains(HTTPBench.token))
        return line
    }

    private static func request(_ target: String, _ fields: String = "", method: String = "GET") -> String {
        "\(method) \(target) HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n"
    }

    @Test("20.2 A forwarded request: every member, no query, escapes")
    func forwarded() async throws {
        let isReleased = Milestone()
        bench.script { _ in .response(body: "twelve bytes").after(isReleased) }
        let client = try await bench.connect()
        try await client.send(Self.request("/named/a;b?key=hidden", "X-Request-Id: mine-1\r\n"))
        try await clock.pass(.seconds(5))
        isReleased.set()
        #expect(try await client.response().status == 200)
        let line = try await line("/named/a;b")
        #expect(line["level"].string == "info" && line["msg"].string == "request")
        #expect(line["time"].string?.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil)
        #expect(line["request_id"].string?.wholeMatch(of: /[0-9a-f]{16}/) != nil)
        #expect(line["client_request_id"].string == "mine-1")
        #expect(line["route"].string == "named" && line["user"].string == "alice")
        #expect(line["method"].string == "GET" && line["status"].int == 200 && line["origin"].string == "upstream")
        #expect(line["bytes"].int == 12 && line["retry"].int == 0 && line["replay"].int == 0)
        #expect(line["generation"].int == 1)
        #expect(line["duration_ms"].double == 5000)
        #expect(line["reason"].string == nil && line["side"].string == nil)

        let long = "/long/" + String(repeating: "x", count: 3000)
        _ = try await bench.ask(Self.request(long + "?key=hidden", method: "HEAD"), to: "HEAD")
        let cut = try await self.line(String(long.prefix(1024)) + "…")
        #expect(cut["method"].string == "HEAD" && cut["bytes"].int == 0)
        // The head's memory is released while a long response is relayed.
        let isWhole = Milestone()
        bench.script { _ in
            RawResponse([
                .send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n".utf8)),
                .perform { isWhole.wait(for: "the head has arrived") }, .send(Array("3\r\nend\r\n0\r\n\r\n".utf8)),
            ])
        }
        let reader = try await bench.connect()
        try await reader.send(Self.request("/named/slow?hidden", "X-Request-Id: mine-2\r\n"))
        _ = try await reader.head()
        try await clock.pass(.seconds(1))
        isWhole.set()
        #expect(try await reader.read(23) == "5\r\nfirst\r\n3\r\nend\r\n0\r\n\r\n")
        let slow = try await self.line("/named/slow")
        #expect(
            slow["bytes"].int == 8 && slow["client_request_id"].string == "mine-2" && slow["route"].string == "named")
    }

    @Test("20.2 A refused request: the problem, the side, and what could be read of it")
    func refused() async throws {
        for (target, fields, path, route, status, side, reason) in [
            ("/gone/x?hidden", "", "/gone/x", "gone", 502, "upstream", "upstream-unreachable"),
            ("/denied/no?hidden", "", "/denied/no", "denied", 403, "client", "denied-by-route"),
            ("/evil", "Origin: http://evil.test\r\n", "/evil", nil as String?, 403, "client", "origin-not-allowed"),
        ] {
            let response = try await bench.ask(Self.request(target, fields))
            #expect(response.status == status)
            let line = try await line(path)
            #expect(line["status"].int == status && line["origin"].string == "lanyard")
            #expect(line["side"].string == side && line["reason"].string == reason && line["route"].string == route)
            #expect(line["bytes"].int == response.body.count)
            #expect(line["request_id"].string == (try response.json["instance"].string))
        }
        try await bench.startOver()
        let malformed = try await bench.ask("GET /a\"\u{7f}\u{e9} HTTP/1.1\r\n bad\r\n\r\n")
        #expect(malformed.status == 400)
        let unread = try await bench.lanyard.process.event("access") {
            $0["reason"].string == "malformed-request"
        }
        #expect(unread["method"].string == nil && unread["path"].string == nil && unread["status"].int == 400)
        try await bench.lanyard.process.settle()
        for line in bench.lines where line.event == "access" {
            #expect(line.text.utf8.allSatisfy { (0x20..<0x7f).contains($0) })
        }
    }

    @Test("20.2 An aborted request: no status without a response, else the status and who cut it off")
    func aborted() async throws {
        let client = try await bench.connect()
        try await client.send(Self.request("/hand/alone"))
        let upstream = try await bench.accept()
        _ = try await upstream.head()
        client.reset()
        let alone = try await line("/hand/alone")
        #expect(alone["status"].int == nil && alone["origin"].string == "lanyard")
        #expect(alone["side"].string == "client" && alone["reason"].string == "client-gone")

        let second = try await bench.connect()
        try await second.send(Self.request("/hand/cut"))
        let short = try await bench.accept()
        _ = try await short.head()
        try await short.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        _ = try await second.head()
        short.close()
        let cut = try await line("/hand/cut")
        #expect(cut["status"].int == 200 && cut["origin"].string == "upstream" && cut["bytes"].int == 4)
        #expect(cut["side"].string == "upstream" && cut["reason"].string == "response-cut-off")
    }

    @Test("20.2 A response that response_idle or close_streams_on has cut: the side is Lanyard's, and the key is named")
    func cutByLanyard() async throws {
        for (path, reason, key) in [
            ("/hand/idle", "response-idle", "routes[].timeouts.response_idle"),
            ("/hand/logout", "response-logout", "routes[].close_streams_on"),
        ] {
            let client = try await bench.connect()
            try await client.send(Self.request(path))
            let upstream = try await bench.accept()
            _ = try await upstream.head()
            try await upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            _ = try await client.head()
            #expect(try await client.read(4) == "half")
            if reason == "response-idle" {
                try await clock.pass(.seconds(301))
            } else {
                try bench.writeToken("")
                try await clock.pass(LanyardProcess.emptyFileDelay)
            }
            #expect(try await client.rest().text == "")
            let line = try await line(path)
            #expect(line["status"].int == 200 && line["origin"].string == "upstream" && line["bytes"].int == 4)
            #expect(line["side"].string == "lanyard" && line["reason"].string == reason && line["key"].string == key)
        }
        try await bench.restoreToken()
    }

    @Test("20.2 An upgraded connection leaves its line at its end, with the bytes for the client")
    func tunnel() async throws {
        let client = try await bench.connect()
        try await client.send(Self.request("/hand/tunnel?hidden", "Upgrade: websocket\r\nConnection: Upgrade\r\n"))
        let upstream = try await bench.accept()
        _ = try await upstream.head()
        try await upstream.send("HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nabc")
        _ = try await client.head()
        try await client.send("up")
        try await upstream.send("defg")
        #expect(try await client.read(7) == "abcdefg")
        try await clock.pass(.seconds(61))
        try await bench.passAgain(.seconds(60)) { client.hasInput }
        let line = try await line("/hand/tunnel")
        #expect(line["status"].int == 101 && line["bytes"].int == 7 && line["generation"].int != nil)
        #expect(line["reason"].string == "tunnel-idle" && line["side"].string == "lanyard")
    }

    @Test("20.2 A request that was sent again with another token: replay, and the generation that was used")
    func renewed() async throws {
        let replays = try await ReplayBench.start()
        replays.refuses(first: { .response(401, "Unauthorized", body: "no") })
        let response = try await replays.ask("GET /again HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        #expect(response.contains("200 OK"))
        let line = try await replays.lanyard.process.event("access") { $0["path"].string == "/again" }
        #expect(line["replay"].int == 1 && line["retry"].int == 0 && line["generation"].int == 2)
        #expect(line["status"].int == 200 && line["reason"].string == nil)
    }

    @Test("20.2 Lines and counted requests are the same number, pipelined and kept connections included")
    func counts() async throws {
        let before = try await bench.values(of: "lanyard_requests_total").values.reduce(0, +)
        try await bench.startOver()
        let client = try await bench.connect()
        try await client.send((0..<50).map { Self.request("/many/\($0)") }.joined())
        for _ in 0..<50 { #expect(try await client.response().status == 200) }
        _ = try await bench.ask(Self.request("/denied/no"))
        // A request counts at its end, which comes after the response.
        try await bench.lanyard.process.settle()
        let after = try await bench.values(of: "lanyard_requests_total").values.reduce(0, +)
        #expect(after - before == 51)
        try await bench.lanyard.process.settle()
        let lines = bench.lines.filter { $0.event == "access" }
        #expect(Set(lines.compactMap { $0.json["request_id"].string }).count == 51)
    }

    @Test("20.2 A reader of the log that stops costs lines, which are counted, and no request")
    func slowReader() async throws {
        let folder = try TemporaryFolder()
        let upstream = try RawServer(requestsKeptMax: 0)
        let pipe = try NarrowPipe(in: folder)
        let (data, health) = (RawEndpoint.unix(folder.file("in")), RawEndpoint.unix(folder.file("health")))
        let arguments = [
            "run", "--upstream", "http://\(upstream.endpoint)", "--token-file", try folder.write("token", "t"),
            "--listen",
            "\(data)", "--health-address", "\(health)", "--admin-address", "off", "--shards", "1",
        ]
        let command = Launcher.shell(redirections: "2>\(pipe.path)") + [try Products.path("lanyard")] + arguments
        let lanyard = try ServerProcess(command[0], Array(command.dropFirst()))
        var log = ""
        try await eventually("it is ready") {
            log += pipe.take()
            return (try? await RawClient.ask(health, "GET", "/readyz"))?.status == 200
        }
        let count = 3000
        let client = try RawClient(data)
        defer { client.close() }
        let statuses = try (0..<count).map { _ in try client.exchange("GET", "/x", host: "localhost").status }
        #expect(statuses == Array(repeating: 200, count: count))
        func metric() async throws -> Int {
            let page = try await RawClient.ask(health, "GET", "/metrics").bodyText
            let line = page.split(separator: "\n").first { $0.hasPrefix("lanyard_log_lines_dropped_total ") }
            return line.flatMap { Double($0.split(separator: " ")[1]) }.map { Int($0) } ?? -1
        }
        let dropped = try await metric()
        #expect((1..<count).contains(dropped))
        func lines(_ event: String) -> [JSON] {
            log.split(separator: "\n").map { LogLine(String($0)) }.filter { $0.event == event }.map(\.json)
        }
        try await eventually("the reader continues, and all are accounted for") {
            log += pipe.take()
            return lines("access").count + lines("log.dropped").reduce(0) { $0 + ($1["lines"].int ?? 0) } == count
        }
        #expect(try await lanyard.terminate() == .code(143))
    }
}
