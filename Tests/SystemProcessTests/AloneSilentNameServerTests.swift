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
        let windows = RefreshWindows(tokenSeconds: 4)
        let emulator = try await EmulatorProcess.start(tokens: "\(windows.tokenSeconds)s")
        let silence = try SilentNameServer()
        let lanyard = try await silence.start(before: emulator, lostUsers: 20)
        try await eventually("alice is logged in") {
            try await lanyard.get("/protected/x").status == 200
        }
        let loop = ClosedLoop(clients: 4, lanyard.data, "/protected/x", pause: .milliseconds(20))
        var threadsMost = 0
        let tally = try await [loop].run(untilEach: "refresh", times: 8, requests: 120) {
            threadsMost = max(threadsMost, lanyard.process.threadCount)
            let response = try await lanyard.get("/lost/x")
            #expect(
                response.status == 503 && response.bodyText.contains("identity-unreachable"), "\(response.bodyText)")
            return try await emulator.calls("refresh")
        }[0]
        #expect(tally.failed == 0, "\(tally.failures)")
        #expect(tally.slowest < .seconds(1))
        #expect(silence.questions() > 0)
        // libcurl leaves a thread behind in each name resolution that it gives up; their number is bounded whatever the users' is.
        #expect(threadsMost <= 40, "\(threadsMost) threads")
        #expect(try await lanyard.process.terminate() == .code(143))
        windows.expectOneCallEach(
            try await emulator.control("GET", "/counts")["routes"], try await emulator.issued())
    }
}
