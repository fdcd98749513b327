import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 15.1 to 15.5; http-forwarding.md 13.4, http-requests.md 4.4 and http-connections.md 8 as far as they are about
/// upgrades.
@Suite(.serialized) struct UpgradeRuleTests {
    private static let shared = Task {
        try await HTTPBench.start { $0.route = "upgrades: [websocket, tcp, Foo/2], close_upgraded_on: [logout]" }
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private static func asking(_ fields: String, line: String = "GET /hand", version: String = "1.1") -> String {
        "\(line) HTTP/\(version)\r\nHost: localhost\r\n\(fields)\r\n"
    }

    private static let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    private static let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    private static let granting =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3p\r\n\r\n"

    /// An open tunnel, by its two ends.
    private func open(
        on bench: HTTPBench? = nil, receiveBuffer: CInt? = nil
    ) async throws -> (client: Wire, upstream: Wire) {
        let bench = bench ?? self.bench
        let client = try await bench.connect(receiveBuffer: receiveBuffer)
        try await client.send(Self.asking(Self.upgrade + Self.key))
        let upstream = try await bench.accept()
        _ = try await upstream.head()
        try await upstream.send(Self.granting)
        #expect(try await client.head() == Self.granting)
        return (client, upstream)
    }

    private func openTunnels(_ bench: HTTPBench) async throws -> Int? {
        try await bench.values(of: "lanyard_upgraded_connections")[""]
    }

    // MARK: 15.1 to 15.3

    @Test("15.1 An upgrade is tried for each protocol that the route allows, in any case of letters")
    func asked() async throws {
        for (line, fields, sent) in [
            ("GET", "Upgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\n", "websocket"),
            ("GET", "Connection: x\r\nUPGRADE: tcp\r\nconnection: Upgrade\r\n", "tcp"),
            ("POST", "Upgrade: ,foo/2,\r\nConnection: Upgrade\r\nContent-Length: 0\r\n", "Foo/2"),
        ] {
            let client = try await bench.connect()
            try await client.send(Self.asking(fields, line: "\(line) /hand"))
            let upstream = try await bench.accept()
            let head = bench.normalised(try await upstream.head()).replacing(/Host: [^\r]*/, with: "Host: up")
            let framing = line == "POST" ? ["Content-Length: 0"] : []
            #expect(
                head
                    == HTTPBench.forwarded("\(line) /hand", framing + ["Upgrade: \(sent)", "Connection: Upgrade"]))
            try await upstream.send("HTTP/1.1 101 OK\r\nUpgrade: \(sent)\r\nConnection: Upgrade\r\n\r\n")
            #expect(
                try await client.head() == "HTTP/1.1 101 OK\r\nUpgrade: \(sent)\r\nConnection: Upgrade\r\n\r\n")
        }
    }

    @Test(
        "15.1 Any other request that speaks of an upgrade is ordinary, and its Upgrade is dropped",
        arguments: [
            ("GET", "Upgrade: websocket\r\n", "1.1", ""), ("GET", "Connection: Upgrade\r\n", "1.1", ""),
            ("GET", "Upgrade: websocket\r\nConnection: Upgrade\r\n", "1.0", ""),
            ("GET", "Upgrade: unknown\r\nConnection: Upgrade\r\n", "1.1", ""),
            ("GET", "Upgrade: websocket/13\r\nConnection: Upgrade\r\n", "1.1", ""),
            ("GET", "Upgrade: websocket, tcp\r\nConnection: Upgrade\r\n", "1.1", ""),
            ("GET", "Upgrade: websocket\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n", "1.1", ""),
            ("GET", "Upgrade:\r\nConnection: Upgrade\r\n", "1.1", ""),
            ("POST", "Upgrade: unknown\r\nConnection: Upgrade\r\nContent-Length: 4\r\n", "1.1", "body"),
            (
                "POST", "Upgrade: websocket\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n", "1.1",
                "4\r\nbody\r\n0\r\n\r\n"
            ),
        ])
    func ordinary(_ method: String, _ fields: String, _ version: String, _ body: String) async throws {
        let request = Self.asking(fields, line: "\(method) /x", version: version) + body
        #expect(try await bench.ask(request).status == 200)
        let framing =
            body.isEmpty ? [] : [body == "body" ? "Content-Length: 4" : "Transfer-Encoding: chunked"]
        #expect(bench.received == [HTTPBench.forwarded("\(method) /x", framing, via: version) + body])
    }

    @Test("4.4 A web page may not upgrade either")
    func origin() async throws {
        for field in ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
            try await bench.refuses(
                Self.asking("\(field)\r\n" + Self.upgrade + Self.key, line: "GET /x"), .origin)
        }
    }

    @Test("15.2 h2c is never forwarded, and no configuration can allow it")
    func h2c() async throws {
        for protocols in ["h2c", "H2C", "h2c, websocket", "websocket, h2c"] {
            try await bench.startOver()
            let fields = "Upgrade: \(protocols)\r\nHTTP2-Settings: AAMAAABk\r\nConnection: Upgrade, HTTP2-Settings\r\n"
            #expect(try await bench.ask(Self.asking(fields, line: "GET /x")).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("GET /x")])
        }
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        for name in ["h2c", "H2C", "h2", "TLS/1.3", "HTTP/2.0"] {
            let path = try folder.write(
                "lanyard.yaml",
                """
                identities: {fixed: {static: {token_file: token}}}
                users: {alice: {identity: fixed}}
                routes: [{upstream: "http://127.0.0.1:1", upgrades: [websocket, \(name)]}]

                """)
            let check = try ServerProcess("lanyard", ["check", "--config", path])
            #expect(try await check.waitForExit() == .code(78))
            #expect(check.log.contains("lanyard.yaml:3:"), "\(check.log)")
            #expect(check.log.contains("\"\(name)\" is not a protocol"), "\(check.log)")
        }
    }

    @Test(
        "15.3 A 101 has neither length nor coding, Sec-WebSocket fields pass, and bytes that came with it follow at once"
    )
    func granted() async throws {
        let client = try await bench.connect()
        try await client.send(Self.asking(Self.upgrade + Self.key + "Sec-WebSocket-Protocol: chat\r\n"))
        let upstream = try await bench.accept()
        let head = bench.normalised(try await upstream.head()).replacing(/Host: [^\r]*/, with: "Host: up")
        #expect(
            head
                == HTTPBench.forwarded(
                    "GET /hand",
                    [
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
                        "Sec-WebSocket-Protocol: chat", "Upgrade: websocket", "Connection: Upgrade",
                    ]))
        try await upstream.send(
            """
            HTTP/1.1 101 Ok\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\
            Sec-WebSocket-Accept: a\r\nSec-WebSocket-Protocol: chat\r\n\r\n\u{81}\u{2}hi
            """
        )
        #expect(
            try await client.head()
                == """
                HTTP/1.1 101 Ok\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: a\r\n\
                Sec-WebSocket-Protocol: chat\r\n\r\n
                """
        )
        #expect(try await client.read(4) == "\u{81}\u{2}hi")
        let coded = try await bench.connect()
        try await coded.send(Self.asking(Self.upgrade))
        let other = try await bench.accept()
        _ = try await other.head()
        try await other.send(
            "HTTP/1.1 101 Ok\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\nraw")
        #expect(try await coded.head() == "HTTP/1.1 101 Ok\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        #expect(try await coded.read(3) == "raw")
    }

    // MARK: 15.4

    @Test("15.4 Bytes behind the request reach no upstream before the 101, then they are the tunnel's")
    func held() async throws {
        let client = try await bench.connect()
        let early = String(repeating: "GET /early HTTP/1.1\r\n\r\n", count: 4000)
        try await client.send(Self.asking(Self.upgrade) + early)
        let upstream = try await bench.accept()
        #expect(try await upstream.head().hasSuffix("\r\n\r\n"))
        // Another client's request has gone all the way since.
        try await bench.fence()
        try await bench.lanyard.process.settle()
        #expect(!upstream.hasInput)
        try await upstream.send(Self.granting)
        #expect(try await client.head() == Self.granting)
        #expect(try await upstream.read(early.utf8.count) == early)
    }

    @Test("15.4 After any other final status they are the next request, on a connection in step")
    func refused() async throws {
        for response in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
            "HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 103 Hint\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
            "HTTP/1.1 426 No\r\nUpgrade: foo\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
        ] {
            try await bench.startOver()
            bench.script { $0.message.target == "/up" ? .text(response) : .response(body: $0.message.target) }
            let client = try await bench.connect()
            try await client.send(Self.asking(Self.upgrade, line: "GET /up") + HTTPBench.plain("/next"))
            var first = try await client.response()
            if first.status == 103 { first = try await client.response() }
            #expect(response.contains(" \(first.status) "))
            #expect(first["Connection"] == (first.status == 426 ? "Upgrade" : nil))
            #expect(try await client.response().bodyText == "/next")
            #expect(try await client.ask(HTTPBench.plain("/last")).bodyText == "/last")
            #expect(
                bench.received == [
                    HTTPBench.forwarded("GET /up", ["Upgrade: websocket", "Connection: Upgrade"])
                        + HTTPBench.forwarded("GET /next") + HTTPBench.forwarded("GET /last")
                ])
        }
        #expect(try await openTunnels(bench) == 0)
    }

    @Test("13.4 A 101 that no client asked for, or for another protocol, is dropped")
    func notAsked() async throws {
        let drop = "GET /drop"
        for (fields, response) in [
            ("", Self.granting), ("Upgrade: websocket\r\n", Self.granting),
            ("Upgrade: h2c\r\nConnection: Upgrade\r\n", Self.granting),
            (Self.upgrade, "HTTP/1.1 101 Ok\r\nConnection: Upgrade\r\n\r\n"),
            (Self.upgrade, "HTTP/1.1 101 Ok\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"),
            (Self.upgrade, "HTTP/1.1 101 Ok\r\nConnection: Upgrade\r\nUpgrade: websocket, tcp\r\n\r\n"),
            (Self.upgrade, "HTTP/1.1 101 Ok\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"),
        ] {
            try await bench.drops(response + "late", request: Self.asking(fields, line: drop))
        }
    }

    // MARK: 15.5

    @Test(
        "15.5 Raw bytes go both ways as they come; the tunnel is counted once, holds its connection and is never pooled"
    )
    func raw() async throws {
        let before = try await bench.values(of: "lanyard_requests_total", by: "code_class")["1xx"] ?? 0
        let (client, upstream) = try await open()
        let all = Wire.text((0...255).map { UInt8($0) })
        for _ in 0..<3 {
            try await client.send(all)
            #expect(try await upstream.read(256) == all)
            try await upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + all)
            #expect(try await client.read(38 + 256) == "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + all)
        }
        #expect(try await openTunnels(bench) == 1)
        #expect(try await bench.values(of: "lanyard_requests_total", by: "code_class")["1xx"] == before + 1)
        client.close()
        #expect(try await upstream.rest() == ("", false))
        upstream.close()
        try await eventually("the tunnel has ended") { try await openTunnels(bench) == 0 }
        #expect(try await bench.values(of: "lanyard_requests_total", by: "code_class")["1xx"] == before + 1)
        let next = try await bench.connect()
        try await next.send(HTTPBench.plain("/hand"))
        let fresh = try await bench.accept()
        #expect(try await fresh.head().hasPrefix("GET /hand "))
    }

    @Test("15.5 One side's end reaches the other behind its last byte; the other direction continues")
    func halfClose() async throws {
        for clientFirst in [true, false] {
            let (client, upstream) = try await open()
            let (first, second) = clientFirst ? (client, upstream) : (upstream, client)
            try await first.send("last words")
            first.halfClose()
            #expect(try await second.rest() == ("last words", false))
            try await second.send("go on")
            #expect(try await first.read(5) == "go on")
            second.halfClose()
            #expect(try await first.rest() == ("", false))
        }
        try await eventually("the tunnels have ended") { try await openTunnels(bench) == 0 }
    }

    @Test("15.5 A reset of one side closes the other, by a reset")
    func reset() async throws {
        for byClient in [true, false] {
            let (client, upstream) = try await open()
            let (first, second) = byClient ? (client, upstream) : (upstream, client)
            first.reset()
            #expect(try await second.rest() == ("", true))
        }
    }

    @Test("15.5 A reader that stands still holds up its writer, not memory, and loses nothing")
    func backPressure() async throws {
        let (client, upstream) = try await open()
        let block = [UInt8](repeating: 7, count: 1 << 20)
        let before = bench.lanyard.process.residentBytes
        let sent = Tally()
        let sender = Task {
            for _ in 0..<64 {
                try await upstream.send(block)
                sent.add()
            }
        }
        var last = -1
        try await eventually("the writer is held up") {
            try await bench.lanyard.process.settle()
            defer { last = sent.value }
            return sent.value == last
        }
        #expect(sent.value < 64)
        #expect(bench.lanyard.process.residentBytes - before < 4 << 20)
        for _ in 0..<64 { #expect(try await client.read(1 << 20) == Wire.text(block)) }
        try await sender.value
        client.close()
    }

    @Test("15.5 A reader that takes a little at a time is not cut, one that stands still is: by write, with a reset")
    func slowReader() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.route = "timeouts: {write: 64s}" }
        let size = 500_000
        let (moving, sender) = try await open(on: bench, receiveBuffer: 4096)
        var (unsent, unread) = (size, size)
        for _ in 0..<24 {
            unsent -= try await fill(sender, unsent, clock)
            try await clock.pass(.seconds(8))
            unread -= try await moving.read(2000).utf8.count
        }
        let rest = Task { [unsent] in try await sender.send([UInt8](repeating: 7, count: unsent)) }
        #expect(try await moving.read(unread) == Wire.text([UInt8](repeating: 7, count: unread)))
        try await rest.value
        try await moving.send("still")
        #expect(try await sender.read(5) == "still")

        let (standing, cut) = try await open(on: bench, receiveBuffer: 4096)
        _ = try await fill(cut, size, clock)
        try await bench.pass(.seconds(64), sparing: cut)
        try await bench.passAgain(.seconds(64)) { cut.hasInput }
        #expect(try await cut.rest() == ("", true))
        #expect(try await standing.rest().text.utf8.count < size)
    }

    /// Sends up to so many bytes, until Lanyard and the kernel take no more.
    private func fill(_ wire: Wire, _ count: Int, _ clock: TestClock) async throws -> Int {
        var sent = 0
        while sent < count {
            let more = try await wire.sendUntilFull(count - sent)
            if more == 0 { break }
            sent += more
            try await clock.settle()
        }
        return sent
    }

    @Test("15.5 A new token ends no tunnel; the end of the session ends those of a route that says logout")
    func logout() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.route = "close_upgraded_on: [logout, switch]" }
        let (client, upstream) = try await open(on: bench)
        try bench.writeToken("another.token")
        try await clock.pass(LanyardProcess.fileDelay)
        try await bench.startOver()
        #expect(try await bench.ask(HTTPBench.plain("/x")).status == 200)
        #expect(bench.received.joined().contains("Bearer another.token"))
        try await client.send("still here")
        #expect(try await upstream.read(10) == "still here")
        try bench.writeToken("")
        try await clock.pass(LanyardProcess.emptyFileDelay)
        #expect(try await client.rest() == ("", false))
        #expect(try await upstream.rest() == ("", false))
        #expect(try await openTunnels(bench) == 0)
    }

    @Test(
        "15.5 The end of the session closes tunnels by default, and not if close_upgraded_on is an empty list",
        arguments: ["", "close_upgraded_on: []"])
    func standard(_ keys: String) async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.route = keys }
        let (client, upstream) = try await open(on: bench)
        try bench.writeToken("")
        try await clock.pass(LanyardProcess.emptyFileDelay)
        #expect(try await bench.ask(HTTPBench.plain("/x")).status == 503)
        if keys.isEmpty {
            #expect(try await client.rest() == ("", false))
            #expect(try await upstream.rest() == ("", false))
        } else {
            try await client.send("still here")
            #expect(try await upstream.read(10) == "still here")
        }
    }

    @Test("15.5 A tunnel ends at upgraded_max_age, whatever moves")
    func age() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.route = "upgraded_max_age: 60s" }
        let (client, upstream) = try await open(on: bench)
        for _ in 0..<5 {
            try await relay("still", from: upstream, to: client)
            try await clock.pass(.milliseconds(11_900))
        }
        try await relay("still", from: upstream, to: client)
        try await clock.pass(.seconds(1))
        #expect(try await client.rest().text == "")
        #expect(try await upstream.rest().text == "")
        #expect(try await openTunnels(bench) == 0)
    }

    @Test("8 A tunnel without a byte for upgraded_idle is closed on both sides; any byte prolongs it")
    func idle() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.route = "timeouts: {upgraded_idle: 60s}" }
        let (client, upstream) = try await open(on: bench)
        for index in 0..<6 {
            try await clock.pass(.seconds(50))
            let (from, to) = index % 2 == 0 ? (client, upstream) : (upstream, client)
            try await relay(".", from: from, to: to)
        }
        try await bench.pass(.seconds(60), sparing: client)
        #expect(try await client.rest() == ("", false))
        #expect(try await upstream.rest() == ("", false))
    }

    @Test("20.1 A tunnel lives through a drain until drain_max, which resets it")
    func drain() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.rest = "shutdown: {drain_max: 60s}" }
        let (client, upstream) = try await open(on: bench)
        bench.lanyard.process.signal(15)
        try await bench.lanyard.process.event("shutdown.started")
        for _ in 0..<5 {
            try await relay("still", from: client, to: upstream)
            try await clock.pass(.milliseconds(11_800))
        }
        try await relay("still", from: client, to: upstream)
        try await clock.pass(.milliseconds(1200))
        #expect(try await client.rest() == ("", true))
        #expect(try await upstream.rest() == ("", true))
        clock.run()
        #expect(try await bench.lanyard.process.waitForExit() == .code(143))
    }

    /// Sends a text through the tunnel.
    private func relay(_ text: String, from sender: Wire, to receiver: Wire) async throws {
        try await sender.send(text)
        #expect(try await receiver.read(text.utf8.count) == text)
    }
}
