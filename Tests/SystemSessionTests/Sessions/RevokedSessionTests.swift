import TestSupport
import Testing

@testable import SystemTestSupport

/// "The service's session was revoked; it has its password."
@Suite struct RevokedSessionTests {
    @Test("a revoked session is replaced by a silent login: no request fails")
    func silentLogin() async throws {
        let emulator = try await EmulatorProcess.start(tokens: EmulatorProcess.life(seconds: 4))
        let lanyard = try await LanyardProcess.start(emulator)
        try await lanyard.untilReady()
        let loop = ClosedLoop(clients: 5, lanyard.data, "/protected/", pause: .milliseconds(20))
        try await eventually("requests pass") { loop.tally.requests > 20 }
        let revoked = try await emulator.control("POST", "/sessions/revoke", #"{"user":"\#(EmulatorProcess.email)"}"#)
        #expect(revoked["revoked"].int == 1)
        try await eventually("the token of a second login is used") {
            let logins = try await emulator.issued().filter { $0["cause"].string == "login" }
            return logins.count == 2 && logins[1]["uses"].int ?? 0 > 0
        }
        // One more lifetime: the new session refreshes as the old one did.
        let before = try await emulator.issued().count
        try await eventually("the new session refreshes") {
            try await emulator.issued().count > before
        }
        let tally = try await loop.stop()
        #expect(tally.failures == [])
        #expect(tally.requests > 50)
        let counts = try await emulator.control("GET", "/counts")
        #expect(counts["routes"]["login"]["calls"].int == 2)
        #expect(counts["routes"]["refresh"]["by_status"]["401"].int == 1)
        #expect(counts["protected"]["refused"] == .object([:]))
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
