import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 15.1 and 15.4 for requests that have a body, as `docker exec` sends them.
@Suite(.serialized) struct UpgradeBodyRuleTests {
    private static let shared = Task {
        try await HTTPBench.startUnderClock { $0.route = "upgrades: [tcp], body_bytes_max: 1KiB" }
    }
    private let bench: HTTPBench
    private let clock: TestClock

    init() async throws {
        (bench, clock) = try await Self.shared.value
        try await bench.startOver()
    }

    private static let upgrade = ["Connection: Upgrade", "Upgrade: tcp"]
    private static let proceed = "HTTP/1.1 100 Continue\r\n\r\n"
    private static let granting = "HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n"
    /// What `docker exec` sends to begin.
    private static let start = #"{"Detach":false,"Tty":false}"#

    private enum Framing: CaseIterable {
        case length, chunked

        var field: String { self == .length ? "Content-Length: 28" : "Transfer-Encoding: chunked" }
        /// The whole body on the wire.
        var body: String {
            self == .length ? UpgradeBodyRuleTests.start : "1c\r\n\(UpgradeBodyRuleTests.start)\r\n0\r\n\r\n"
        }
    }

    private static func head(
        _ framing: Framing, _ fields: [String] = [], line: String = "POST /hand/exec/7/start"
    ) -> String {
        let all = ["Host: localhost"] + fields + [framing.field] + upgrade
        return "\(line) HTTP/1.1\r\n" + all.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    private static func forwarded(_ framing: Framing, _ fields: [String] = []) -> String {
        HTTPBench.forwarded(
            "POST /hand/exec/7/start", fields + [framing.field, "Upgrade: tcp", "Connection: Upgrade"])
    }

    /// The upstream's end of the connection that a request has led to, its head and body read.
    private func accept(_ framing: Framing, _ fields: [String] = []) async throws -> Wire {
        let upstream = try await bench.accept()
        let head = bench.normalised(try await upstream.head()).replacing(/Host: [^\r]*/, with: "Host: up")
        #expect(head == Self.forwarded(framing, fields))
        #expect(try await upstream.read(framing.body.utf8.count) == framing.body)
        return upstream
    }

    /// Both directions carry bytes as they are, and each end reaches the other side.
    private func isTunnel(_ client: Wire, _ upstream: Wire) async throws {
        try await client.send("GET / HTTP/1.1\r\n\r\n\0")
        #expect(try await upstream.read(19) == "GET / HTTP/1.1\r\n\r\n\0")
        try await upstream.send("HTTP/1.1 200 OK\r\n\r\n")
        #expect(try await client.read(19) == "HTTP/1.1 200 OK\r\n\r\n")
        client.halfClose()
        #expect(try await upstream.rest() == ("", false))
        try await upstream.send("exit 0")
        upstream.close()
        #expect(try await client.rest() == ("exit 0", false))
    }

    @Test("15.1 The head of a request with a body asks for the upgrade, the body follows, then the tunnel begins")
    func dockerExec() async throws {
        for framing in Framing.allCases {
            let client = try await bench.connect()
            let fields = ["User-Agent: Docker-Client/27.0 (linux)", "Content-Type: application/json"]
            try await client.send(Self.head(framing, fields) + framing.body)
            let upstream = try await accept(framing, fields)
            try await upstream.send(
                "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\n"
                    + "Upgrade: tcp\r\n\r\nready")
            #expect(
                try await client.head()
                    == "HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n"
                    + "Content-Type: application/vnd.docker.raw-stream\r\n\r\n")
            #expect(try await client.read(5) == "ready")
            try await isTunnel(client, upstream)
        }
    }

    @Test("15.1 The body streams: a part of it that comes later, and a GET's, go upstream before the tunnel begins")
    func streamed() async throws {
        for framing in Framing.allCases {
            let client = try await bench.connect()
            let cut = framing.body.index(framing.body.startIndex, offsetBy: 10)
            try await client.send(Self.head(framing, line: "GET /hand") + framing.body[..<cut])
            let upstream = try await bench.accept()
            #expect(try await upstream.head().contains("\r\nUpgrade: tcp\r\n"))
            try await bench.fence()
            try await client.send(String(framing.body[cut...]))
            var body = ""
            while !body.hasSuffix("false}") { body += try await upstream.read(1) }
            if framing == .chunked { #expect(try await upstream.read(7) == "\r\n0\r\n\r\n") }
            try await upstream.send(Self.granting)
            #expect(try await client.head() == Self.granting)
            try await isTunnel(client, upstream)
        }
    }

    @Test("15.4 Bytes right behind the body reach no upstream before the 101, then they are the tunnel's")
    func held() async throws {
        for framing in Framing.allCases {
            let client = try await bench.connect()
            let early = String(repeating: "GET /early HTTP/1.1\r\n\r\n", count: 3000)
            try await client.send(Self.head(framing) + framing.body + early)
            let upstream = try await accept(framing)
            try await bench.fence()
            try await bench.lanyard.process.settle()
            #expect(!upstream.hasInput)
            try await upstream.send(Self.granting)
            #expect(try await client.head() == Self.granting)
            #expect(try await upstream.read(early.utf8.count) == early)
            try await isTunnel(client, upstream)
        }
    }

    @Test("15.4 A 101 before the end of the body is refused: 502, and both connections end")
    func tooEarly() async throws {
        for (framing, part) in [
            (Framing.length, ""), (.length, String(Self.start.dropLast())), (.chunked, ""),
            (.chunked, "1c\r\n\(Self.start)\r\n"), (.chunked, "1c\r\n\(Self.start)\r\n0\r\n"),
        ] {
            let client = try await bench.connect()
            try await client.send(Self.head(framing) + part)
            let upstream = try await bench.accept()
            _ = try await upstream.head()
            // A line end is one character.
            let sent = part.hasSuffix("0\r\n") ? String(part.dropLast(2)) : part
            #expect(try await upstream.read(sent.utf8.count) == sent)
            try await upstream.send(Self.granting + "raw")
            #expect(try Refusal.upstreamInvalid.closing.faults(of: try await client.response()) == [], "\(part)")
            #expect(try await upstream.rest().text == "", "\(part)")
            // The rest of the body is neither a request nor a tunnel's.
            try await client.send(String(framing.body.dropFirst(part.count)))
            #expect(try await client.rest() == ("", false), "\(part)")
        }
        #expect(try await bench.values(of: "lanyard_upgraded_connections")[""] == 0)
    }

    @Test("11.1 With Expect the upstream's 100 is relayed, or Lanyard sends one; then body, 101 and tunnel follow")
    func expected() async throws {
        for framing in Framing.allCases {
            for isSilent in [false, true] {
                let client = try await bench.connect()
                try await client.send(Self.head(framing, ["Expect: 100-continue"]))
                let upstream = try await bench.accept()
                let head = try await upstream.head()
                #expect(head.contains("\r\nExpect: 100-continue\r\n") && head.contains("\r\nUpgrade: tcp\r\n"))
                if isSilent { try await clock.pass(.seconds(2)) } else { try await upstream.send(Self.proceed) }
                #expect(try await client.head() == Self.proceed)
                try await client.send(framing.body)
                #expect(try await upstream.read(framing.body.utf8.count) == framing.body)
                try await upstream.send(Self.granting)
                #expect(try await client.head() == Self.granting)
                try await isTunnel(client, upstream)
            }
        }
    }

    @Test("11.3 A 101 in place of the 100 is one before the end of the body")
    func insteadOfContinue() async throws {
        let client = try await bench.connect()
        try await client.send(Self.head(.length, ["Expect: 100-continue"]))
        let upstream = try await bench.accept()
        _ = try await upstream.head()
        try await upstream.send(Self.granting)
        #expect(try Refusal.upstreamInvalid.closing.faults(of: try await client.response()) == [])
        #expect(try await upstream.rest().text == "")
    }

    @Test("15.4 An upstream that does not upgrade responds as ever, and the bytes behind the body are the next request")
    func ordinaryResponse() async throws {
        for framing in Framing.allCases {
            try await bench.startOver()
            bench.script { .response(body: "\($0.message.method) \($0.message.bodyText)") }
            let client = try await bench.connect()
            try await client.send(Self.head(framing, line: "POST /x") + framing.body + HTTPBench.plain("/next"))
            #expect(try await client.response().bodyText == "POST \(Self.start)")
            #expect(try await client.response().bodyText == "GET ")
            #expect(try await client.ask(HTTPBench.plain("/last")).bodyText == "GET ")
            let fields = [framing.field, "Upgrade: tcp", "Connection: Upgrade"]
            #expect(
                bench.received == [
                    HTTPBench.forwarded("POST /x", fields) + framing.body + HTTPBench.forwarded("GET /next")
                        + HTTPBench.forwarded("GET /last")
                ])
        }
    }

    @Test("8 body_bytes_max holds: an announced body goes nowhere, a chunked one never looks complete")
    func overLimit() async throws {
        let long = String(repeating: "x", count: 1025)
        let head = Self.head(.chunked, line: "POST /cut")
        try await bench.refuses(
            head.replacing("Transfer-Encoding: chunked", with: "Content-Length: 1025") + long, .contentTooLarge)
        try await bench.cuts(head + "401\r\n\(long)\r\n0\r\n\r\n", .contentTooLarge)
    }

    @Test("15.5 A client that ends its direction behind the body keeps the other one; within the body it is refused")
    func halfClosed() async throws {
        for framing in Framing.allCases {
            let client = try await bench.connect()
            try await client.send(Self.head(framing) + framing.body + "last words")
            client.halfClose()
            let upstream = try await accept(framing)
            try await bench.fence()
            try await upstream.send(Self.granting)
            #expect(try await client.head() == Self.granting)
            #expect(try await upstream.rest() == ("last words", false))
            try await upstream.send("exit 0")
            upstream.close()
            #expect(try await client.rest() == ("exit 0", false))
            let cut = String(framing.body.dropLast(2))
            try await bench.cuts(Self.head(framing, line: "POST /cut") + cut, then: { $0.halfClose() })
        }
    }

    @Test("17.2 After a 401 the request is sent again with its upgrade and its body, and the tunnel carries the rest")
    func replayed() async throws {
        let replays = try await ReplayBench.start()
        for framing in Framing.allCases {
            let client = try await replays.connect()
            let head = Self.head(framing).replacing("Upgrade: tcp", with: "Upgrade: websocket")
            try await client.send(head + framing.body + "early")
            var heads: [String] = []
            for _ in 0..<2 {
                let upstream = try await replays.accept()
                heads.append(try await upstream.head())
                #expect(try await upstream.read(framing.body.utf8.count) == framing.body)
                if heads.count == 1 {
                    try await upstream.send("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")
                    continue
                }
                #expect(heads[0] != heads[1])
                #expect(replays.normalized(heads[0]) == replays.normalized(heads[1]))
                #expect(heads[1].contains("\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"))
                let granting = Self.granting.replacing("tcp", with: "websocket")
                try await upstream.send(granting)
                #expect(try await client.head() == granting)
                #expect(try await upstream.read(5) == "early")
                try await isTunnel(client, upstream)
            }
        }
    }
}

/// http-forwarding.md 15.1: an `Upgrade` that is dropped leaves its reason in the log.
@Suite(.serialized) struct DroppedUpgradeTests {
    private static let shared = Task { try await HTTPBench.start { $0.route = "upgrades: [websocket, tcp]" } }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    @Test(
        "15.1 The access line and an event say why an Upgrade was dropped",
        arguments: [
            ("Upgrade: tcp\r\nConnection: Upgrade\r\n", "1.0", "http-1.0", "info"),
            ("Upgrade: tcp\r\n", "1.1", "not-in-connection", "info"),
            ("Upgrade: tcp\r\nConnection: close\r\n", "1.1", "not-in-connection", "info"),
            ("Upgrade: websocket, tcp\r\nConnection: Upgrade\r\n", "1.1", "several-protocols", "info"),
            ("Upgrade: tcp\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n", "1.1", "several-protocols", "info"),
            ("Upgrade: ,\r\nConnection: Upgrade\r\n", "1.1", "no-protocol", "debug"),
            ("Upgrade: spdy/3\r\nConnection: Upgrade\r\n", "1.1", "not-allowed-by-route", "debug"),
            ("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n", "1.1", "not-allowed-by-route", "debug"),
            ("Upgrade: h2c\r\n", "1.0", "not-allowed-by-route", "debug"),
        ])
    func reasons(_ fields: String, _ version: String, _ reason: String, _ level: String) async throws {
        let request = "GET /x HTTP/\(version)\r\nHost: localhost\r\n\(fields)\r\n"
        #expect(try await bench.ask(request).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /x", via: version)])
        try await eventually("both lines are written") { bench.lines.contains { $0.event == "access" } }
        let lines = bench.lines
        #expect(lines.filter { $0.event == "access" }.map { $0.json["upgrade_dropped"].string } == [reason])
        let events = lines.filter { $0.event == "request.upgrade_dropped" }
        #expect(events.map { $0.json["reason"].string } == [reason])
        #expect(events.map { $0.json["level"].string } == [level])
        #expect(events.allSatisfy { $0.json["route"].string == "all" && $0.json["path"].string == "/x" })
    }

    @Test("15.1 A request without Upgrade, and one whose upgrade is asked for, leave no reason")
    func none() async throws {
        for fields in ["", "Connection: Upgrade\r\n", "Upgrade: TCP\r\nConnection: keep-alive, upgrade\r\n"] {
            try await bench.startOver()
            #expect(try await bench.ask("GET /x HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n").status == 200)
            try await eventually("its line is written") { bench.lines.contains { $0.event == "access" } }
            #expect(bench.lines.allSatisfy { !$0.text.contains("upgrade_dropped") })
        }
    }

    @Test("15.1 A flood of them leaves five events a second, all shards together")
    func flood() async throws {
        let (bench, _) = try await HTTPBench.startUnderClock()
        let client = try await bench.connect()
        for _ in 0..<50 {
            #expect(
                try await client.ask("GET /x HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n").status == 200)
        }
        try await bench.lanyard.process.settle()
        #expect(bench.lines.filter { $0.event == "request.upgrade_dropped" }.count == 5)
        #expect(bench.lines.filter { $0.event == "access" && $0.text.contains("upgrade_dropped") }.count == 50)
    }
}
