import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 8: times that no key shortens, by the clock.
@Suite struct FixedTimeRuleTests {
    private let clock: TestClock
    private let bench: HTTPBench

    init() async throws {
        let clock = try TestClock()
        self.clock = clock
        bench = try await HTTPBench.start { $0.clock = clock }
        clock.stop()
    }

    @Test("8 An idle client is closed after 120 s by default: later than the 90 s and 118 s of usual clients")
    func idleClient() async throws {
        let client = try await bench.connect()
        #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
        try await bench.pass(.seconds(120), sparing: client)
        #expect(try await client.rest() == ("", false))
    }

    @Test("8 An idle probe is closed after 130 s: a scrape each 60 s or 120 s meets no close")
    func idleProbe() async throws {
        let scraper = try await Wire.connect(to: bench.lanyard.health)
        let scrape = "GET /livez HTTP/1.1\r\nHost: \(bench.lanyard.health)\r\n\r\n"
        for interval in [0, 60, 120] {
            try await clock.pass(.seconds(interval))
            #expect(try await scraper.ask(scrape).status == 200, "after \(interval) s")
        }
        try await bench.pass(.seconds(130), sparing: scraper)
        #expect(try await scraper.rest() == ("", false))
    }

    @Test("8 An idle pooled connection is closed after 29.5 s: earlier than the 30 s of usual servers")
    func pooled() async throws {
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/hand"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        #expect(try await client.response().status == 200)
        try await clock.pass(.milliseconds(29_450))
        #expect(!peer.hasInput)
        try await clock.pass(.milliseconds(500))
        #expect(try await peer.rest() == ("", false))
    }

    @Test("8 A lingering close ends 2 s after the last byte", arguments: ["GET / HTTP/1.1\r\n\r\n", "\u{16}\u{3}"])
    func lingers(_ text: String) async throws {
        let client = try await bench.connect()
        try await client.send(text)
        #expect(try await client.response().status == 400)
        #expect(try await client.rest() == ("", false))
        try await clock.pass(.milliseconds(1500))
        #expect(try isOpen(client.localPort))
        try await client.send("x")
        try await clock.pass(.milliseconds(1900))
        #expect(try isOpen(client.localPort))
        try await clock.pass(.milliseconds(200))
        #expect(try !isOpen(client.localPort))
    }

    @Test("8 A lingering close ends after 10 s in all, whatever still comes")
    func lingersLong() async throws {
        let client = try await bench.connect()
        try await client.send("GET / HTTP/1.1\r\n\r\n")
        #expect(try await client.response().status == 400)
        for _ in 0..<9 {
            try await clock.pass(.seconds(1))
            try await client.send("x")
        }
        try await clock.pass(.milliseconds(900))
        #expect(try isOpen(client.localPort))
        try await clock.pass(.milliseconds(200))
        #expect(try !isOpen(client.localPort))
    }

    /// Whether a process holds the proxy's end of a client's connection.
    private func isOpen(_ port: UInt16) throws -> Bool {
        try KernelSocket.find(local: bench.lanyard.data.port, remote: port)?.isOwned == true
    }
}
