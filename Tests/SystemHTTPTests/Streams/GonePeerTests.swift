import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 9.5: peers that are gone, in streams that are quiet for as long as they like.
@Suite struct GonePeerTests {
    private static let head =
        "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    private static let event = "9\r\ndata: 1\n\n\r\n"
    private static let granting = "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    private static let upgrade =
        "GET /hand HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    private static let keys = "timeouts: {response_idle: none}, connections_max: 4"
    /// A probe after a second, and no second one.
    private static let quick = "keepalive_idle: 1s, keepalive_interval: 1s, keepalive_probes_max: 1"
    private static let canVanish: Bool = {
        guard let socket = try? RawSocket.listen(at: .tcp(0)),
            let client = try? RawSocket.connect(to: .tcp(socket.localPort))
        else { return false }
        return (try? client.vanish()) != nil
    }()

    /// Both ends of a stream that has had one event.
    private func stream(_ bench: HTTPBench, receiveBuffer: CInt? = nil) async throws -> (client: Wire, upstream: Wire) {
        let client = try await bench.connect(receiveBuffer: receiveBuffer)
        try await client.send(HTTPBench.plain("/hand/events"))
        let upstream = try await bench.accept()
        _ = try await upstream.head()
        try await upstream.send(Self.head + Self.event)
        #expect(try await client.head() == Self.head)
        #expect(try await client.read(Self.event.utf8.count) == Self.event)
        return (client, upstream)
    }

    /// Bytes of Lanyard's kernel that the client's kernel has not acknowledged.
    private static func unacknowledged(_ bench: HTTPBench, _ client: Wire) throws -> Int {
        try #require(try KernelSocket.find(local: bench.lanyard.data.port, remote: client.localPort)).sendQueue
    }

    private func tunnel(_ bench: HTTPBench) async throws -> (client: Wire, upstream: Wire) {
        let client = try await bench.connect()
        try await client.send(Self.upgrade)
        let upstream = try await bench.accept()
        _ = try await upstream.head()
        try await upstream.send(Self.granting)
        #expect(try await client.head() == Self.granting)
        return (client, upstream)
    }

    @Test("9.5 Clients that close free their upstream connections within a minute: the next request gets one")
    func closed() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.route = Self.keys }
        var upstreams: [Wire] = []
        for _ in 0..<4 {
            let (client, upstream) = try await stream(bench)
            client.close()
            upstreams.append(upstream)
        }
        try await clock.pass(.seconds(29))
        #expect(upstreams.allSatisfy { !$0.hasInput })
        try await clock.pass(.seconds(31))
        // What has come is looked at: a connection that is kept sends no end, however long it is waited for.
        let haveEnded = upstreams.allSatisfy { $0.hasInput }
        try #require(haveEnded)
        for upstream in upstreams { #expect(try await upstream.rest().text == "") }
        let (client, upstream) = try await stream(bench)
        client.close()
        upstream.close()
        let lines = bench.lines.filter { $0.event == "access" && $0.json["reason"].string == "client-gone" }
        #expect(lines.count == 4 && lines.allSatisfy { $0.json["status"].int == 200 })
    }

    @Test("9.5 A client that closes while its request waits for the response is noticed as well")
    func closedEarly() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.route = "timeouts: {response_header: 1h}" }
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/hand"))
        let upstream = try await bench.accept()
        _ = try await upstream.head()
        client.close()
        try await clock.pass(.seconds(29))
        #expect(!upstream.hasInput)
        try await clock.pass(.seconds(31))
        try #require(upstream.hasInput)
        #expect(try await upstream.rest().text == "")
    }

    @Test("9.4 A client that ends its direction and still reads gets its stream for as long as that lasts")
    func halfClosed() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.route = Self.keys }
        let (client, upstream) = try await stream(bench)
        client.halfClose()
        for _ in 0..<3 {
            try await clock.pass(.seconds(600), grain: .seconds(5))
            #expect(!upstream.hasInput && !client.hasInput)
            try await upstream.send(Self.event)
            #expect(try await client.read(Self.event.utf8.count) == Self.event)
        }
        try await upstream.send("0\r\n\r\n")
        #expect(try await client.rest() == ("0\r\n\r\n", false))
    }

    @Test(
        "9.5 A client that vanishes without a word is probed, and its stream or tunnel ends",
        .enabled("needs TCP_REPAIR") { Self.canVanish })
    func clientVanishes() async throws {
        let bench = try await HTTPBench.start {
            $0.route = Self.keys
            $0.limits = Self.quick
        }
        let (client, upstream) = try await stream(bench)
        try client.vanish()
        #expect(try await upstream.rest().text == "")
        let (tunnelled, other) = try await tunnel(bench)
        try tunnelled.vanish()
        #expect(try await other.rest().text == "")
    }

    @Test(
        "9.5 An upstream that vanishes is probed: a response in progress is cut, a tunnel and a pooled connection end",
        .enabled("needs TCP_REPAIR") { Self.canVanish })
    func upstreamVanishes() async throws {
        let bench = try await HTTPBench.start {
            $0.route = Self.keys
            $0.limits = Self.quick
        }
        let (client, upstream) = try await stream(bench)
        try upstream.vanish()
        #expect(try await client.rest().text == "")
        let (tunnelled, other) = try await tunnel(bench)
        try other.vanish()
        #expect(try await tunnelled.rest().text == "")
        let kept = try await bench.connect()
        try await kept.send(HTTPBench.plain("/hand"))
        let pooled = try await bench.accept()
        _ = try await pooled.head()
        try await pooled.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        #expect(try await kept.response().status == 200)
        try pooled.vanish()
        try await eventually("no connection is left in the pool") {
            try await bench.values(of: "lanyard_upstream_connections", by: "route")["hand"] == 0
        }
    }

    @Test("9.5 Connections of clients, upstreams and health are probed after 30 s by default, and never with none")
    func timers() async throws {
        for (limits, seconds) in [("", 30.0), ("keepalive_idle: 90s", 90), ("keepalive_idle: none", nil)] {
            let bench = try await HTTPBench.start { $0.limits = limits }
            let (client, upstream) = try await stream(bench)
            let probe = try await Wire.connect(to: bench.lanyard.health)
            let ends = [
                (bench.lanyard.data.port, client.localPort, seconds),
                (upstream.remotePort, upstream.localPort, seconds),
                (bench.lanyard.health.port, probe.localPort, 30),
            ]
            for (local, remote, seconds) in ends {
                let socket = try #require(try KernelSocket.find(local: local, remote: remote))
                guard let seconds else {
                    #expect(socket.secondsToProbe == nil, "\(limits)")
                    continue
                }
                let left = try #require(socket.secondsToProbe, "\(limits)")
                #expect(left > seconds - 10 && left <= seconds, "\(limits): \(left)")
            }
        }
    }

    @Test(
        "9.5 A client that acknowledges nothing for the write timeout is gone, although the kernel has all its bytes")
    func acknowledgesNothing() async throws {
        let (bench, _) = try await HTTPBench.startUnderClock { $0.route = Self.keys }
        let (client, upstream) = try await stream(bench, receiveBuffer: 4096)
        // More than the client's kernel takes, and less than Lanyard's.
        let text = String(repeating: "x", count: 30_000)
        try await upstream.send("7530\r\n\(text)\r\n")
        try await bench.pass(.seconds(60), sparing: upstream)
        // The checks are half of that time apart, and what the client's kernel takes late renews the time.
        try await bench.passAgain(.seconds(60)) { upstream.hasInput }
        try #require(upstream.hasInput)
        #expect(try await upstream.rest().text == "")
        client.close()
    }

    @Test("8.2 A client that reads in small steps is not gone: each step renews the time")
    func readsSlowly() async throws {
        let (bench, clock) = try await HTTPBench.startUnderClock { $0.route = Self.keys }
        let (client, upstream) = try await stream(bench, receiveBuffer: 4096)
        let text = String(repeating: "x", count: 30_000)
        try await upstream.send("7530\r\n\(text)\r\n")
        var read = try await client.read(6).utf8.count
        var unacknowledged = try Self.unacknowledged(bench, client)
        while unacknowledged > 0 {
            try await clock.pass(.seconds(25))
            // A step is what makes the client's kernel tell of more room: on loopback that is about its whole buffer.
            let before = unacknowledged
            while unacknowledged == before {
                read += try await client.read(min(1000, 30_008 - read)).utf8.count
                unacknowledged = try Self.unacknowledged(bench, client)
            }
        }
        #expect(try await client.read(30_008 - read).utf8.count == 30_008 - read)
        try await clock.pass(.seconds(300), grain: .seconds(5))
        #expect(!upstream.hasInput)
        try await upstream.send(Self.event)
        #expect(try await client.read(Self.event.utf8.count) == Self.event)
    }
}
