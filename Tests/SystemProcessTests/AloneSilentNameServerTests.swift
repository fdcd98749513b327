import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// One user's identity service has a name that no name server resolves: whose calls wait for it?
/// Alone, since it counts what a closed loop gets through.
@Suite struct AloneSilentNameServerTests {
    @Test(
        "a name server that never answers for one user's identity service: other users log in and refresh as if nothing were",
        .enabled(if: SilentNameServer.isPossible, "needs root and a mount namespace of its own"))
    func silence() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "4s")
        let silence = try SilentNameServer()
        let lanyard = try await silence.start(before: emulator, lostUsers: 20)
        let start = ContinuousClock.now
        try await eventually("alice is logged in") {
            try await lanyard.get("/protected/x").status == 200
        }
        let loop = ClosedLoop(clients: 4, lanyard.data, "/protected/x", pause: .milliseconds(20))
        var threadsMost = 0
        while ContinuousClock.now - start < .seconds(25) {
            try await Task.sleep(for: .seconds(1))
            threadsMost = max(threadsMost, lanyard.process.threadCount)
            let response = try await lanyard.get("/lost/x")
            #expect(
                response.status == 503 && response.bodyText.contains("identity-unreachable"), "\(response.bodyText)")
        }
        let tally = try await loop.stop()
        #expect(tally.failed == 0, "\(tally.failures)")
        #expect(tally.requests > 1000 && tally.slowest < .seconds(1))
        #expect(silence.questions() > 0)
        // A refresh lies at 65 to 75 % of 4 s, so there are 8 or 9 in 25 s.
        let refreshes = try await emulator.calls("refresh")
        #expect(7...10 ~= refreshes, "\(refreshes) refreshes")
        // libcurl leaves a thread behind in each name resolution that it gives up; their number is bounded whatever the users' is.
        #expect(threadsMost <= 40, "\(threadsMost) threads")
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
