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
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let silence = try SilentNameServer()
        let folder = try TemporaryFolder()
        let lost = (0..<3).map { "lost\($0)" }
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}
              silent: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://identity.example:7490"}}
            users:
              alice:
                identity: demo
                login: {email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}
            \(lost.map { "  \($0): {identity: silent, login: {anonymous: {}}}" }.joined(separator: "\n"))
            routes:
              - {name: alice, match: {path: /protected}, user: alice, upstream: "http://\(emulator.endpoint)"}
              - {name: lost, match: {path: /lost}, user: lost0, upstream: "http://\(emulator.endpoint)"}
            """, admin: "{address: \"unix:\(folder.file("admin.sock"))\"}", launcher: silence.launcher)
        let admin = AdminClient(endpoint: .unix(folder.file("admin.sock")))
        try await eventually("the silent name server is asked") { silence.questions() > 0 }
        try await eventually("alice is logged in") { try await lanyard.get("/protected/x").status == 200 }
        try await admin.call("POST", "/v1/users/alice/refresh")
        #expect(try await emulator.calls("refresh") == 1)
        #expect(try await lanyard.get("/protected/x").status == 200)
        // Whoever waits for the name is told so when wait_max has passed.
        let response = try await lanyard.get("/lost/x")
        #expect(response.status == 503 && response.bodyText.contains("identity-unreachable"), "\(response.bodyText)")
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
