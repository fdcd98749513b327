import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-rules.md 8: times that no key shortens. Side by side, since each mostly waits.
@Suite struct FixedTimeRuleTests {
    private static let shared = Task { try await HTTPBench.start() }

    @Test("8 An idle pooled connection is closed after 30 s")
    func pooled() async throws {
        let bench = try await Self.shared.value
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/hand"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        let start = ContinuousClock.now
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        #expect(try await client.response().status == 200)
        #expect(try await peer.rest() == ("", false))
        #expect(ContinuousClock.now - start >= .milliseconds(29_500))
    }

    @Test("8 A lingering close ends 2 s after the last byte", arguments: ["GET / HTTP/1.1\r\n\r\n", "\u{16}\u{3}"])
    func lingers(_ text: String) async throws {
        let bench = try await Self.shared.value
        let client = try await bench.connect()
        let start = ContinuousClock.now
        try await client.send(text)
        #expect(try await client.response().status == 400)
        #expect(try await client.rest() == ("", false))
        try await untilGone(client.localPort, bench)
        #expect(ContinuousClock.now - start >= .milliseconds(1900))
        #expect(ContinuousClock.now - start < .seconds(9))
    }

    @Test("8 A lingering close ends after 10 s in all, whatever still comes")
    func lingersLong() async throws {
        let bench = try await Self.shared.value
        let client = try RawClient(bench.lanyard.data)
        let start = ContinuousClock.now
        try client.send("GET / HTTP/1.1\r\n\r\n")
        let response = try client.response()
        #expect(response.status == 400)
        // A thread of its own: whatever else is tested meanwhile, two seconds never pass without a byte.
        Thread.detachNewThread {
            for _ in 0..<200 where (try? client.send("x")) != nil { Thread.sleep(forTimeInterval: 0.3) }
        }
        try await untilGone(client.socket.localPort, bench)
        #expect(ContinuousClock.now - start >= .milliseconds(9500))
        client.close()
    }

    /// Waits until no process holds the proxy's end of a connection.
    private func untilGone(_ port: UInt16, _ bench: HTTPBench) async throws {
        try await eventually("the connection is closed") {
            try KernelSocket.find(local: bench.lanyard.data.port, remote: port)?.isOwned != true
        }
    }
}
