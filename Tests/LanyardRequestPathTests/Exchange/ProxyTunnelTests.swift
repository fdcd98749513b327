import Foundation
import Glibc
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// Upgrades and the tunnels that follow, through a whole request path (http-forwarding.md 15).
@Suite struct ProxyTunnelTests {
    private static let asked =
        """
        GET /ws HTTP/1.1\r\nHost: up.test\r\nSec-WebSocket-Key: k\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Via: 1.1 lanyard-x\r\nAuthorization: Bearer \(ProxyBench.token)\r\n\r\n
        """

    @Test("an upgrade is asked for and granted anew, and bytes flow both ways", arguments: [false, true])
    func tunnel(_ isUnix: Bool) async throws {
        let tunnels = try TunnelBench(isUnix: isUnix)
        do {
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

    @Test(
        "a parked upgrade with a body: head and body go with the token, then bytes that came in that time are the tunnel's"
    )
    func parked() async throws {
        let tunnels = try TunnelBench(plan: { ($0.publishes, $0.tokenWaitMax) = (false, .seconds(3600)) })
        let client = try tunnels.connect()
        let head = TunnelBench.asking.replacing("GET /ws", with: "POST /ws").dropLast()
        try client.send(head + "Content-Length: 4\r\n\r\nbo")
        try await eventually("it is parked") { tunnels.bench.count("lanyard_parked_requests") == 1 }
        try client.send("dyearly")
        tunnels.bench.publish(generation: 1)
        let upstream = try tunnels.accept()
        #expect(try upstream.head().contains("\r\nContent-Length: 4\r\nUpgrade: websocket\r\n"))
        #expect(try upstream.read(4) == "body")
        try upstream.send(TunnelBench.granting)
        #expect(try client.head() == TunnelBench.granted)
        #expect(try upstream.read(5) == "early")
    }

    @Test("without memory for buffers a tunnel is not read, and continues when there is some again")
    func withoutMemory() async throws {
        let tunnels = try TunnelBench()
        let (client, upstream) = try tunnels.open()
        let budget = tunnels.bench.path.buffers
        budget.add(budget.bytesMax)
        try client.send("up")
        try upstream.send("down")
        // Another client is answered after both have come.
        #expect(try RawClient(tunnels.bench.endpoint).exchange("GET", "/").status == 503)
        #expect(!client.hasInput && !upstream.hasInput)
        budget.release(budget.bytesMax)
        #expect(try client.read(4) == "down")
        #expect(try upstream.read(2) == "up")
    }

    @Test("a tunnel that is not read for want of memory is not idle")
    func pauseIsNotIdle() async throws {
        let (second, nanosecond) = (Duration.seconds(1), Duration.nanoseconds(1))
        let tunnels = try TunnelBench(plan: {
            $0.upstream.timeouts.upgradedIdle = second
            $0.timeStands = true
        })
        let (client, upstream) = try tunnels.open()
        let budget = tunnels.bench.path.buffers
        budget.add(budget.bytesMax)
        try client.send("up")
        tunnels.bench.pass(second * 2.5)
        #expect(upstream.socket.receiveNow(max: 1) == nil && client.socket.receiveNow(max: 1) == nil)
        budget.release(budget.bytesMax)
        // The proxy looks for memory every 10 ms.
        tunnels.bench.pass(.milliseconds(10))
        #expect(try upstream.read(2) == "up")
        tunnels.bench.pass(second - nanosecond)
        #expect(client.socket.receiveNow(max: 1) == nil)
        // Bytes that the peer has acknowledged since count as progress at the first look.
        tunnels.bench.pass(second + nanosecond)
        #expect(try client.reader.readToAnyEnd().bytes == [])
    }
}
