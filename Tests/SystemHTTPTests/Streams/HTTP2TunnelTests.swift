import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// WebSocket over HTTP/2 (http2-rules.md H5 to H7): an extended CONNECT becomes an upgrade. `deploy/check-http2 --filter websocket/` sends
/// what honest clients do not.
@Suite struct HTTP2TunnelTests {
    private static let key = "allowed_hosts: [\"localhost:80\"], websocket_over_http2: true"

    private static func start(_ configure: (inout HTTPBench.Plan) -> Void = { _ in }) async throws -> HTTPBench {
        try await HTTPBench.start {
            $0.listener = Self.key
            configure(&$0)
        }
    }

    private static func connect(to bench: HTTPBench) throws -> HTTP2Client {
        try HTTP2Client(RawSocket.connect(to: bench.lanyard.data), keeping: [bench])
    }

    /// An open tunnel: the client's stream and the upstream's end.
    private static func open(
        on bench: HTTPBench, _ client: HTTP2Client, _ path: String = "/hand"
    ) async throws -> (stream: Int32, upstream: Wire) {
        let stream = try client.tunnel(path)
        let upstream = try await bench.accept()
        try await upstream.send(WebSocketReply.granting(try await upstream.head()))
        try client.read { client.partial(stream).status != nil }
        #expect(client.partial(stream).status == 200)
        return (stream, upstream)
    }

    private static func openTunnels(_ bench: HTTPBench) async throws -> Int? {
        try await bench.values(of: "lanyard_upgraded_connections")[""]
    }

    @Test("H6 without the key nothing is announced, and an extended CONNECT is a stream error")
    func off() async throws {
        let bench = try await HTTPBench.start()
        let client = try Self.connect(to: bench)
        #expect(try client.response(client.request("GET", "/x", authority: "localhost:80")).status == 200)
        #expect(!client.mayConnect)
        #expect(try client.response(client.tunnel("/x")).resetCode == 1)
        #expect(try client.response(client.request("GET", "/x", authority: "localhost:80")).status == 200)
    }

    @Test("H5 H6 the upstream gets an upgrade with a key of Lanyard's, and the client a 200 without what is HTTP/1.1's")
    func handshake() async throws {
        let bench = try await Self.start()
        let client = try Self.connect(to: bench)
        let before = try await bench.values(of: "lanyard_requests_total", by: "code_class")["1xx"] ?? 0
        let stream = try client.tunnel(
            "/hand/a?b",
            [("sec-websocket-protocol", "chat"), ("authorization", "Bearer own"), ("sec-websocket-key", "x")])
        let upstream = try await bench.accept()
        let head = try await upstream.head()
        let shown = bench.normalised(head).replacing(/Host: [^\r]*/, with: "Host: up")
            .replacing(/sec-websocket-key: [A-Za-z0-9+\/]{22}==/, with: "sec-websocket-key: k")
        #expect(
            shown
                == HTTPBench.forwarded(
                    "GET /hand/a?b",
                    [
                        "sec-websocket-key: k", "sec-websocket-version: 13", "sec-websocket-protocol: chat",
                        "Upgrade: websocket", "Connection: Upgrade",
                    ], via: "2.0"))
        #expect(!head.contains("AAAAAAAAAAAAAAAAAAAAAA=="))
        try await upstream.send(
            WebSocketReply.granting(head, "Sec-WebSocket-Protocol: chat\r\nContent-Length: 3\r\n") + "hi")
        try client.read { client.partial(stream).body.count == 2 }
        let response = client.partial(stream)
        #expect(client.mayConnect)
        #expect(response.status == 200 && response.body == Array("hi".utf8) && response.heads.count == 1)
        #expect(response.field("sec-websocket-protocol") == "chat" && response.field("date") != nil)
        for name in ["sec-websocket-accept", "connection", "upgrade", "content-length"] {
            #expect(response.field(name) == nil)
        }
        #expect(try await Self.openTunnels(bench) == 1)
        #expect(try await bench.values(of: "lanyard_requests_total", by: "code_class")["1xx"] == before + 1)
        try client.send(Array("bye".utf8), on: stream, ends: true)
        #expect(try await upstream.rest() == ("bye", false))
        upstream.close()
        #expect(try client.response(stream).hasEnded)
        try await eventually("the tunnel has ended") { try await Self.openTunnels(bench) == 0 }
    }

    @Test("H7 DATA behind the CONNECT waits for the 101, and reaches no upstream that refuses")
    func held() async throws {
        let bench = try await Self.start()
        let client = try Self.connect(to: bench)
        for isGranted in [true, false] {
            let stream = try client.tunnel("/hand", bytes: Array("early".utf8))
            let upstream = try await bench.accept()
            let head = try await upstream.head()
            // What was sent before this has been read.
            #expect(try client.response(client.request("GET", "/x", authority: "localhost:80")).status == 200)
            try await bench.lanyard.process.settle()
            #expect(!upstream.hasInput)
            if isGranted {
                try await upstream.send(WebSocketReply.granting(head))
                #expect(try await upstream.read(5) == "early")
                try client.cancel(stream)
                #expect(try await upstream.rest().wasReset)
            } else {
                try await upstream.send("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")
                let response = try client.response(stream)
                #expect(response.status == 403 && response.body == Array("no".utf8) && response.hasEnded)
                try await bench.lanyard.process.settle()
                #expect(!upstream.hasInput)
            }
        }
    }

    @Test(
        "H6 a 101 with the reply to another key, and a success in place of a 101, are no tunnels",
        arguments: [101, 200])
    func noAgreement(_ status: Int) async throws {
        let bench = try await Self.start()
        let client = try Self.connect(to: bench)
        let stream = try client.tunnel("/hand")
        let upstream = try await bench.accept()
        _ = try await upstream.head()
        try await upstream.send(
            status == 101 ? WebSocketReply.granting("") : "HTTP/1.1 200 Ok\r\nContent-Length: 2\r\n\r\nno")
        #expect(try client.response(stream).status == 502)
        #expect(try await upstream.rest().text == "")
        #expect(try await Self.openTunnels(bench) == 0)
    }

    @Test("H7 one side's end reaches the other behind its last byte, and a reset of one side ends the other at once")
    func ends() async throws {
        let bench = try await Self.start()
        let client = try Self.connect(to: bench)
        let (first, ending) = try await Self.open(on: bench, client)
        try await ending.send("last")
        ending.halfClose()
        try client.read { client.partial(first).hasEnded }
        #expect(client.partial(first).body == Array("last".utf8))
        try client.send(Array("go on".utf8), on: first, ends: true)
        #expect(try await ending.rest() == ("go on", false))

        let (second, reset) = try await Self.open(on: bench, client)
        reset.reset()
        #expect(try client.response(second).resetCode == 10)
        let (third, upstream) = try await Self.open(on: bench, client)
        try client.cancel(third)
        #expect(try await upstream.rest() == ("", true))
        try await eventually("the tunnels have ended") { try await Self.openTunnels(bench) == 0 }
        #expect(try client.response(client.request("GET", "/x", authority: "localhost:80")).status == 200)
    }

    @Test("H46 15.5 the end of the session ends tunnels, and the access line has it")
    func logout() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.listener = Self.key }
        let client = try Self.connect(to: bench)
        let (stream, upstream) = try await Self.open(on: bench, client, "/hand/ws")
        try bench.writeToken("another.token")
        try await clock.pass(LanyardProcess.fileDelay)
        try client.send(Array("still".utf8), on: stream, ends: false)
        #expect(try await upstream.read(5) == "still")
        try bench.writeToken("")
        try await clock.pass(LanyardProcess.emptyFileDelay)
        #expect(try await upstream.rest() == ("", false))
        #expect(try client.response(stream).hasEnded)
        let line = try await bench.lanyard.process.event("access") { $0["path"].string == "/hand/ws" }
        #expect(line["reason"].string == "tunnel-logout" && line["status"].int == 101 && line["method"].string == "GET")
        #expect(line["protocol"].string == "h2")
        #expect(try await Self.openTunnels(bench) == 0)
    }

    @Test("20.1 a tunnel lives through a drain until drain_max, which resets it")
    func drain() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock {
            $0.listener = Self.key
            $0.rest = "shutdown: {drain_max: 60s}"
        }
        let client = try Self.connect(to: bench)
        let (stream, upstream) = try await Self.open(on: bench, client)
        bench.lanyard.process.signal(SIGTERM)
        try client.read { client.goAways.count == 2 }
        try await clock.pass(.seconds(58))
        try client.send(Array("still".utf8), on: stream, ends: false)
        #expect(try await upstream.read(5) == "still")
        try await clock.pass(.seconds(3))
        #expect(try await upstream.rest() == ("", true))
    }
}
