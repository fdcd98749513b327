import TestSupport
import Testing

@testable import SystemTestSupport

/// One user's identity service has a name that no name server resolves: whose calls wait for it?
/// `AloneSilentNameServerTests` counts what a closed loop gets through, and threads.
@Suite struct SilentNameServerTests {
    @Test(
        "a name server that never answers for some users' identity service keeps no other user from login and refresh",
        .enabled(if: SilentNameServer.isPossible, "needs root and a mount namespace of its own"))
    func others() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "30m", under: clock)
        let silence = try SilentNameServer()
        let folder = try TemporaryFolder()
        let lanyard = try await silence.start(
            before: emulator, lostUsers: 3, admin: "{address: \"unix:\(folder.file("admin.sock"))\"}", under: clock)
        let admin = AdminClient(endpoint: .unix(folder.file("admin.sock")))
        try await eventually("the silent name server is asked") { silence.questions() > 0 }
        try await eventually("alice is logged in") { try await lanyard.get("/protected/x").status == 200 }
        try await admin.call("POST", "/v1/users/alice/refresh")
        #expect(try await emulator.calls("refresh") == 1)
        #expect(try await lanyard.get("/protected/x").status == 200)
        // A request that waits for the name is told so when wait_max has passed.
        clock.stop()
        let client = try RawClient(lanyard.data)
        try client.send("GET /lost/x HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n")
        try await clock.pass(until: "the response", atMost: .seconds(60)) { client.hasInput }
        let response = try client.response()
        client.close()
        clock.run()
        #expect(response.status == 503 && response.bodyText.contains("identity-unreachable"), "\(response.bodyText)")
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
