import TestSupport
import Testing

@testable import SystemTestSupport

/// "The service's session was revoked; it has its password."
@Suite struct RevokedSessionTests {
    @Test("a revoked session is replaced by a silent login: no request fails")
    func silentLogin() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "120s", under: clock)
        let lanyard = try await LanyardProcess.start(emulator, under: clock)
        try await lanyard.untilReady()
        clock.stop()
        let clients = try (0..<5).map { _ in try RawClient(lanyard.data) }
        /// A request of each client at once.
        func ask() throws {
            for client in clients { try client.send("GET /protected/ HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n") }
            for client in clients {
                let response = try client.response()
                guard response.status == 200 else { throw TestFailure("\(response.status) \(response.bodyText)") }
            }
        }
        try ask()
        let revoked = try await emulator.control("POST", "/sessions/revoke", #"{"user":"\#(EmulatorProcess.email)"}"#)
        #expect(revoked["revoked"].int == 1)
        try await clock.pass(until: "the token of a second login is used", atMost: .seconds(120), grain: .seconds(5)) {
            try ask()
            let logins = try await emulator.issued().filter { $0["cause"].string == "login" }
            return logins.count == 2 && logins[1]["uses"].int ?? 0 > 0
        }
        // One more lifetime: the new session refreshes as the old one did.
        let before = try await emulator.issued().count
        try await clock.pass(until: "the new session refreshes", atMost: .seconds(120), grain: .seconds(5)) {
            try ask()
            return try await emulator.issued().count > before
        }
        let counts = try await emulator.control("GET", "/counts")
        #expect(counts["routes"]["login"]["calls"].int == 2)
        #expect(counts["routes"]["refresh"]["by_status"]["401"].int == 1)
        #expect(counts["protected"]["refused"] == .object([:]))
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
