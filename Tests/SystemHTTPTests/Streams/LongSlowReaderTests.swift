import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// A thousand clients ask for a body that never ends and hardly read it.
@Suite(.serialized) struct LongSlowReaderTests {
    private static let readers = 1000
    private static let perConnection = 16 << 10
    /// At each turn every reader takes 1 KiB.
    private static let turns = 30
    /// From this turn on no more memory is taken.
    private static let turnsToSettle = 10
    /// What an allocator may do by itself.
    private static let jitter = 1 << 20

    @Test(
        """
        1,000 slow readers of an endless body: memory stays within buffer_bytes_max and 16 KiB each, does not grow \
        after ten turns of reading, and others are served
        """,
        .enabled("needs 12,000 descriptors") { Descriptors.raise(to: 12_000) },
        arguments: [(64, false), (16, false), (16, true)])
    func crowd(_ mebibytes: Int, isUnix: Bool) async throws {
        let upstream = try EndlessUpstream()
        let folder = try TemporaryFolder()
        let listener = isUnix ? "unix:\(folder.file("in"))" : "127.0.0.1:0"
        let lanyard = try await LanyardProcess.start(
            """
            routes: [{name: all, upstream: "\(upstream.address)"}]
            limits: {buffer_bytes_max: \(mebibytes)MiB}
            """, token: "stream-token", listener: "address: \"\(listener)\"")
        try await lanyard.untilReady()
        for _ in 0..<50 { #expect(try await lanyard.get("/other").status == 200) }
        let rest = lanyard.process.residentBytes
        let data = lanyard.data
        let crowd = try SlowReaders(Self.readers, of: data, "/endless")
        var sent = 0
        try await eventually("the senders wait") {
            try await lanyard.process.settle()
            let now = upstream.sent
            defer { sent = now }
            return now == sent
        }
        var settled = 0
        var most = 0
        var buffers = 0
        var slowest = Duration.zero
        for turn in 1...Self.turns {
            crowd.takeTurn(bytes: 1024)
            // What can be sent in place of it is on its way to the readers then.
            try await lanyard.process.settle()
            let now = lanyard.process.residentBytes
            most = max(most, now)
            if turn <= Self.turnsToSettle { settled = max(settled, now) }
            let asked = ContinuousClock.now
            let response = try await lanyard.get("/other")
            #expect(response.status == 200, "\(response.bodyText)")
            slowest = max(slowest, .now - asked)
            buffers = max(buffers, try await lanyard.metric("lanyard_buffer_bytes"))
        }
        let limit = mebibytes << 20 + Self.readers * Self.perConnection
        print(
            """
            slow readers, \(mebibytes) MiB\(isUnix ? ", unix" : ""): at rest \(rest), after ten turns \(settled), at most \
            \(most), buffers \(buffers), slowest \(slowest)
            """
        )
        // New requests are refused beyond seven eighths: a crowd of slow readers does not get there.
        #expect(buffers <= mebibytes << 20 / 8 * 7, "\(buffers) bytes of buffers")
        #expect(most - rest <= limit, "\(most - rest) bytes above rest")
        #expect(most <= settled + Self.jitter, "grew from \(settled) to \(most)")
        #expect(slowest < .seconds(2))
        // Slow is not stalled: every one of them is still there, and gets its bytes unless memory is so short that reading pauses.
        #expect(crowd.ended == 0)
        #expect(mebibytes < 64 || crowd.least > 20 * 1024, "\(crowd.least)")
        crowd.stop()
        try await lanyard.process.terminate()
    }
}
