import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Hundreds of clients that send one byte of a head a second.
@Suite(.serialized) struct LongSlowSenderTests {
    private static let timeout = 8

    /// A lone request now and then takes so long while nothing else runs, at worst.
    private static let delayMax = Duration.milliseconds(500)

    @Test("500 half-sent heads delay no client, and each is cut with 408 at header_timeout, however steadily it drips")
    func heads() async throws {
        let upstream = try RawServer(requestsKeptMax: 0)
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)", rest: "limits: {header_timeout: \(Self.timeout)s}\n")
        let data = lanyard.data
        let loop = ClosedLoop(clients: 4, data, "/", pause: .milliseconds(10))
        let senders = try SlowSenders(500, to: data)
        try await eventually("all are cut") { senders.endings.count == 500 }
        let tally = try await loop.stop()
        #expect(tally.failed == 0, "\(tally.failures)")
        #expect(tally.requests > 500 && tally.slowest < Self.delayMax, "\(tally.requests), \(tally.slowest)")
        let times = senders.endings.map(\.after)
        // Looked at ten times a second.
        #expect(times.min()! >= .seconds(Self.timeout) - .milliseconds(50))
        #expect(times.max()! <= .seconds(Self.timeout + 2))
        #expect(senders.endings.allSatisfy { $0.words.hasPrefix("HTTP/1.1 408 ") })
        #expect(senders.endings.allSatisfy { $0.words.contains("\r\nConnection: close\r\n") })
        try await lanyard.process.terminate()
    }

    @Test(
        "when half-sent heads fill connections_max, each further client is served in place of the one that has waited longest"
    )
    func full() async throws {
        let clock = try TestClock()
        let upstream = try RawServer(requestsKeptMax: 0)
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)", rest: "limits: {connections_max: 300, header_timeout: 60s}\n",
            under: clock)
        // No head's time ends.
        clock.stop()
        let data = lanyard.data
        let senders = try SlowSenders(300, to: data)
        try await lanyard.process.settle()
        for _ in 0..<100 { #expect(try await lanyard.get("/further").status == 200) }
        try await eventually("the sender that made room has read its end") { !senders.endings.isEmpty }
        // Each client went again and left its place to the next.
        #expect(1...110 ~= senders.endings.count, "\(senders.endings.count)")
        #expect(senders.endings.allSatisfy { $0.words.isEmpty })
        senders.stop()
        clock.run()
        try await lanyard.process.terminate()
    }
}
