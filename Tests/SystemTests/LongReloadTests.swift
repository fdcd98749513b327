import TestSupport
import Testing

/// Reloads under load.
@Suite(.timeLimit(.minutes(5))) struct LongReloadTests {
    @Test("200 clients in a closed loop through 100 reloads, every third one wrong: no failed request")
    func crowd() async throws {
        let lanyard = try await ReloadedLanyard()
        let loop = ClosedLoop(clients: 200, lanyard.process.data, "/x", pause: .milliseconds(5))
        for round in 0..<100 {
            let level = ["info", "notice", "loud"][round % 3]
            try lanyard.configure("log: {level: \(level), access: false}")
            #expect(try await lanyard.reload().status == (level == "loud" ? 422 : 200))
        }
        let before = loop.tally.requests
        try await eventually("each client has had a response since", within: .seconds(60)) {
            loop.tally.requests > before + 600
        }
        let tally = try await loop.stop()
        #expect(tally.failed == 0, "\(tally.failures)")
    }
}
