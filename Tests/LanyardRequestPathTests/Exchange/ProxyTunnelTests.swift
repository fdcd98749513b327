import Foundation
import Glibc
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// Upgrades and the tunnels that follow, through a whole request path (http-rules.md 15).
@Suite(.timeLimit(.minutes(2))) struct ProxyTunnelTests {
    private static let asked =
        """
        GET /ws HTTP/1.1\r\nHost: up.test\r\nSec-WebSocket-Key: k\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Via: 1.1 lanyard-x\r\nAuthorization: Bearer \(ProxyBench.token)\r\n\r\n
        """

    @Test("an upgrade is asked for and granted anew, and bytes flow both ways", arguments: [false, true])
    func tunnel(_ isUnix: Bool) async throws {
        let tunnels = try TunnelBench(isUnix: isUnix)
        try await offPool { () throws in
            let client = try tunnels.connect()
            try client.send(TunnelBench.asking)
            let upstream = try tunnels.accept()
            #expect(try upstream.head().replacing(/lanyard-[0-9a-f]{8}/, with: "lanyard-x") == Self.asked)
            try upstream.send(
                """
                HTTP/1.1 101 Go\r\nContent-Length: 5\r\nkeep-alive: x\r\nUPGRADE: WebSocket\r\nDate: d\r\n\
                connection: upgrade, X-Hop\r\nX-Hop: 1\r\n\r\nhello
                """
            )
            #expect(
                try client.head()
                    == "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nDate: d\r\n\r\n")
            #expect(try client.read(5) == "hello")
            for index in 0..<20 {
                let (up, down) = ("up \(index) \r\n\r\n\0", "HTTP/1.1 200 OK\r\n\r\n\(index)")
                try client.send(up)
                #expect(try upstream.read(up.utf8.count) == up)
                try upstream.send(down)
                #expect(try client.read(down.utf8.count) == down)
            }
            #expect(tunnels.tunnels == 1)
            client.socket.close()
            #expect(try upstream.rest() == ("", false))
            upstream.socket.close()
        }
        try await eventually("the tunnel has ended") { tunnels.tunnels == 0 }
        #expect(tunnels.bench.count("lanyard_requests", ["code_class": "1xx", "origin": "upstream"]) == 1)
        #expect(tunnels.bench.count("lanyard_requests") == 1)
        #expect(tunnels.bench.count("lanyard_upstream_connections") == 0)
    }

    @Test("bytes behind the request are held until the 101, a half-closed client's too")
    func held() async throws {
        let tunnels = try TunnelBench()
        try await offPool { () throws in
            let client = try tunnels.connect()
            try client.send(TunnelBench.asking + "early" + String(repeating: "x", count: 100_000))
            client.socket.halfClose()
            let upstream = try tunnels.accept()
            _ = try upstream.head()
            // Whatever came before the 101 would have come with the head, or in this while.
            #expect(throws: TestFailure.self) { try upstream.socket.receive(within: .milliseconds(100)) }
            try upstream.send(TunnelBench.granting + "late")
            #expect(try client.head() == TunnelBench.granted)
            #expect(try upstream.read(100_005).hasPrefix("earlyxxx"))
            #expect(try upstream.rest() == ("", false))
            upstream.socket.close()
            #expect(try client.rest() == ("late", false))
        }
    }

    @Test(
        "a refused upgrade is an ordinary response, and what stood behind it the next request",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
            "HTTP/1.1 426 Upgrade\r\nUpgrade: a\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ])
    func refused(_ response: String) async throws {
        let tunnels = try TunnelBench()
        try await offPool { () throws in
            let client = try RawClient(tunnels.bench.endpoint)
            try client.send(TunnelBench.asking + "GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let upstream = try tunnels.accept()
            #expect(try upstream.head().hasPrefix("GET /ws "))
            try upstream.send(response)
            #expect([200, 426, 404].contains(try client.response().status))
            #expect(try upstream.head().hasPrefix("GET /next "))
            try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext")
            #expect(try client.response().bodyText == "next")
            #expect(tunnels.tunnels == 0)
        }
    }

    @Test(
        "a 426 says what to upgrade to, whether or not the upstream's Connection names the field",
        arguments: ["", "Connection: upgrade\r\n"])
    func upgradeRequired(_ named: String) async throws {
        let bench = try ProxyBench { _ in
            .text("HTTP/1.1 426 No\r\nUpgrade: a/1, b\r\n\(named)Content-Length: 0\r\n\r\n")
        }
        let response = try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(response.values("Upgrade") == ["a/1, b"])
        #expect(response.values("Connection") == ["Upgrade"])
    }

    @Test(
        "what does not qualify is an ordinary request without Upgrade",
        arguments: [
            "GET / HTTP/1.0\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrades\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket, h2c\r\nConnection: Upgrade\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket/13\r\nConnection: Upgrade\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nab",
            """
            POST / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n
            """,
        ])
    func ordinary(_ request: String) async throws {
        let bench = try ProxyBench { .response(body: $0.message.bodyText + "!") }
        let response = try await bench.ask(request)
        #expect(response.bodyText == (request.hasPrefix("POST") ? "ab!" : "!"))
        let seen = try #require(bench.upstream.requests.first)
        #expect(["Upgrade", "Connection", "HTTP2-Settings"].allSatisfy { seen[$0] == nil }, "\(seen.headText)")
    }

    @Test(
        "a 101 that was not asked for, or for another protocol, is 502 and the end of the upstream connection",
        arguments: [
            ("", TunnelBench.granting), ("Upgrade: foo\r\nConnection: upgrade\r\n", TunnelBench.granting),
            ("websocket", "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\n\r\n"),
            ("websocket", "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket2\r\n\r\n"),
            ("websocket", "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket, foo\r\n\r\n"),
            ("websocket", "HTTP/1.0 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
            ("websocket", "HTTP/1.1 101 Go\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"),
        ])
    func wrongGrant(_ asked: String, _ granted: String) async throws {
        let tunnels = try TunnelBench()
        try await offPool { () throws in
            let client = try RawClient(tunnels.bench.endpoint)
            let fields = asked == "websocket" ? "Upgrade: websocket\r\nConnection: Upgrade\r\n" : asked
            try client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
            let upstream = try tunnels.accept()
            _ = try upstream.head()
            try upstream.send(granted + "bytes")
            let response = try client.response()
            #expect(response.status == 502)
            #expect(try response.json["type"].string == "urn:lanyard:problem:upstream-invalid")
            #expect(response["Connection"] == nil)
            _ = try upstream.rest()
            #expect(tunnels.tunnels == 0)
            try client.send("GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n")
            let second = try tunnels.accept()
            #expect(try second.head().hasPrefix("GET /next "))
        }
    }

    @Test("another protocol is upgraded to where the route allows it, with its version")
    func otherProtocol() async throws {
        let tunnels = try TunnelBench(plan: { $0.route.upgrades = ["tcp", "Foo/2"] })
        try await offPool { () throws in
            for (asked, sent) in [("TCP", "tcp"), ("foo/2", "Foo/2")] {
                let client = try tunnels.connect()
                try client.send(
                    """
                    POST /attach HTTP/1.1\r\nHost: localhost\r\nConnection: TE, Upgrade\r\nTE: trailers\r\n\
                    Upgrade: \(asked)\r\nContent-Length: 0\r\n\r\n
                    """
                )
                let upstream = try tunnels.accept()
                let head = try upstream.head()
                #expect(
                    head.contains(
                        "Content-Length: 0\r\nTE: trailers\r\nUpgrade: \(sent)\r\nConnection: Upgrade, TE\r\n"))
                try upstream.send("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: \(asked)\r\n\r\nx")
                #expect(try client.head().contains("Upgrade: \(sent)\r\n"))
                #expect(try client.read(1) == "x")
            }
        }
    }

    /// Over unix sockets, where the kernel holds about 200 KiB and says that there is room when three quarters of them are gone.
    @Test(
        "a side that takes a little at a time gets everything, though none of it from us within the write or idle time",
        arguments: Tunnel.Side.allCases, [true, false])
    func slowSide(_ side: Tunnel.Side, _ isIdleTime: Bool) async throws {
        let tunnels = try TunnelBench(
            isUnix: true,
            plan: {
                $0.upstream.timeouts.write = isIdleTime ? .seconds(60) : .milliseconds(1500)
                $0.upstream.timeouts.upgradedIdle = isIdleTime ? .milliseconds(1500) : .seconds(60)
            })
        let size = 500_000
        let taken = try await offPool { () throws in
            let (client, upstream) = try tunnels.open()
            let (slow, source) = side == .client ? (client.socket, upstream.socket) : (upstream.socket, client.socket)
            Thread.detachNewThread {
                try? source.send([UInt8](repeating: 7, count: size), within: .seconds(30))
                source.halfClose()
            }
            var taken = 0
            for _ in 0..<40 {
                usleep(100_000)
                taken += try slow.receive(max: 8000).count
            }
            while case let count = try slow.receive(max: 1 << 18).count, count > 0 { taken += count }
            return taken
        }
        #expect(taken == size)
    }

    @Test("without memory for buffers a tunnel is not read, and goes on when there is some again")
    func withoutMemory() async throws {
        let tunnels = try TunnelBench()
        try await offPool { () throws in
            let (client, upstream) = try tunnels.open()
            let budget = tunnels.bench.path.buffers
            budget.add(budget.bytesMax)
            try client.send("up")
            try upstream.send("down")
            #expect(throws: TestFailure.self) { try client.reader.read(1, within: .milliseconds(300)) }
            #expect(throws: TestFailure.self) { try upstream.reader.read(1, within: .milliseconds(10)) }
            budget.release(budget.bytesMax)
            #expect(try client.read(4) == "down")
            #expect(try upstream.read(2) == "up")
        }
    }

    @Test("a tunnel that is not read for want of memory is not idle")
    func pauseIsNotIdle() async throws {
        let tunnels = try TunnelBench(plan: { $0.upstream.timeouts.upgradedIdle = .seconds(1) })
        try await offPool { () throws in
            let (client, upstream) = try tunnels.open()
            let budget = tunnels.bench.path.buffers
            budget.add(budget.bytesMax)
            try client.send("up")
            usleep(2_500_000)
            budget.release(budget.bytesMax)
            #expect(try upstream.read(2) == "up")
            #expect(try client.reader.readToAnyEnd(within: .seconds(5)).bytes == [])
        }
    }
}
