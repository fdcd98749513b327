import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// "I switched to Bob, then the machine was restarted": what a process leaves for the next one beside the tokens.
@Suite struct RememberedTests {
    @Test(
        "who is active is remembered over a crash and a stop, until active_user in the configuration says something else"
    )
    func active() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let device = try await Device.make(emulator, rest: "active_user: alice\n")
        var running = try await device.start()
        try await running.untilReady()
        let first = try await running.admin.status()
        let bob = try #require(first["bob"]?.accountID), alice = try #require(first["alice"]?.accountID)
        #expect(try await running.account(at: "/") == alice)

        try await running.admin.call("POST", "/v1/users/bob/activate")
        try await running.kill()
        running = try await device.start()
        #expect(try await running.account(at: "/") == bob)
        #expect(try await running.admin.status().active == "bob")
        let page = try await running.metrics()
        #expect(page.filter { $0.name == "lanyard_active_user_info" }.map { $0.labels["user"] } == ["bob"])

        // Under the same configuration an operator goes back to alice; then the configuration changes its mind.
        try await running.admin.call("POST", "/v1/users/alice/activate")
        #expect(try await running.process.terminate() == .code(143))
        device.set(rest: "active_user: bob\n")
        running = try await device.start()
        #expect(try await running.account(at: "/") == bob)
        #expect(try await running.admin.status().active == "bob")
        #expect(try await emulator.calls("login") == 2)
        #expect(try await running.process.terminate() == .code(143))
    }

    @Test("a refused user is refused after a restart as well: no token, and no call", arguments: [SIGKILL, SIGTERM])
    func refused(_ ending: CInt) async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let device = try await Device.make(emulator, users: [Device.alice])
        var running = try await device.start()
        try await running.untilReady()
        let account = try #require(try await running.account(at: "/as/alice"))
        try await emulator.control("POST", "/users/disable", #"{"user":"\#(Device.alice.email)"}"#)
        let refusal = try await running.admin.ask("POST", "/v1/users/alice/refresh")
        #expect(UsersBench.problem(refusal) == "credential-refused", "\(refusal.bodyText)")
        try await running.process.event("session.credential.refused")
        #expect(try await running.account(at: "/as/alice") == nil)
        running.process.signal(ending)
        try await running.process.waitForExit()

        running = try await device.start()
        try await running.process.event("session.credential.refused")
        // The line is written before the state is published.
        let admin = running.admin
        try await eventually("the status says so") { try await admin.status()["alice"]?.session == "refused" }
        let response = try await RawClient.ask(running.data, "GET", "/as/alice")
        #expect(response.status == 503 && UsersBench.problem(response) == "credential-refused")
        #expect(!running.process.log.contains("session.restored"), "\(running.process.log)")
        #expect(try await emulator.calls("login") == 2)

        // Mended over there: an operator logs in, and that holds.
        try await emulator.control("POST", "/users/enable", #"{"user":"\#(Device.alice.email)"}"#)
        try await running.admin.call("POST", "/v1/users/alice/login")
        #expect(try await running.account(at: "/as/alice") == account)
        try await running.kill()
        running = try await device.start()
        #expect(try await running.account(at: "/as/alice") == account)
        #expect(try await emulator.calls("login") == 3)
        #expect(try await running.process.terminate() == .code(143))
    }

    @Test("a revocation that the service could not be told is told by the next process", arguments: [SIGKILL, SIGTERM])
    func revocation(_ ending: CInt) async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "30m", under: clock)
        let device = try await Device.make(emulator, under: clock)
        let first = try await device.start()
        try await first.untilReady()
        try await emulator.control("POST", "/faults", #"{"route":"logout","fault":"unavailable"}"#)
        #expect(try await first.admin.call("POST", "/v1/users/alice/logout")["revoked"].bool == false)
        try await first.process.event("session.revoke.failed")
        first.process.signal(ending)
        try await first.process.waitForExit()

        let second = try await device.start()
        try await second.process.event("session.revoke.failed")
        #expect(try await emulator.control("GET", "/ledger")["total"]["revocations"].int == 0)
        try await emulator.control("DELETE", "/faults")
        try await clock.pass(until: "the service is told", atMost: .seconds(60)) {
            second.process.lines.contains { $0.event == "session.revoke.succeeded" }
        }
        #expect(try await emulator.control("GET", "/ledger")["total"]["revocations"].int == 1)
        let ends = try await emulator.control("GET", "/sessions").array.map { $0["end"].string ?? "none" }
        #expect(ends.sorted() == ["logout", "none"])
        #expect(try await second.admin.status()["alice"]?.session == "logged_out")
        #expect(try await second.process.terminate() == .code(143))

        // And nothing of it is left to be told.
        let third = try await device.start()
        #expect(try await third.admin.call("POST", "/v1/users/alice/logout")["revocation"].string == "none")
        #expect(try await emulator.control("GET", "/ledger")["total"]["calls_of_dead_sessions"].int == 0)
        #expect(try await third.process.terminate() == .code(143))
    }

    @Test("the store's key and a password may be systemd credentials; without them the start says which is missing")
    func systemdCredentials() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let folder = try TemporaryFolder()
        let credentials = try TemporaryFolder()
        try credentials.write("store-key", String(repeating: "k", count: 32))
        try credentials.write("alice", "correct-horse\n")
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            admin: {address: "unix:\(folder.file("admin.sock"))"}
            store: {path: \(folder.file("state/sessions")), key_credential: store-key}
            identities: {demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}}
            users: {alice: {identity: demo, login: {email_password: {email: \(EmulatorProcess.email), password_credential: alice}}}}
            routes: [{name: all, upstream: "http://\(emulator.endpoint)/protected"}]

            """)
        func launch(_ environment: [String: String]) throws -> ServerProcess {
            try ServerProcess("lanyard", ["run", "--config", path], environment: environment)
        }
        for _ in 0..<2 {
            let process = try launch(["CREDENTIALS_DIRECTORY": credentials.path])
            let running = try await DeviceProcess(process, AdminClient(endpoint: .unix(folder.file("admin.sock"))))
            try await running.untilReady()
            #expect(try await running.check("store")["reason"].string == "stored")
            #expect(try await running.account(at: "/") != nil)
            #expect(try await process.terminate() == .code(143))
        }
        #expect(try await emulator.calls("login") == 1)

        let without = try launch([:])
        #expect(try await without.waitForExit() == .code(78))
        #expect(without.log.contains("LoadCredential=store-key:"), "\(without.log)")
        let empty = try launch(["CREDENTIALS_DIRECTORY": folder.path])
        #expect(try await empty.waitForExit() == .code(78))
        #expect(empty.log.contains("store-key"), "\(empty.log)")
    }
}
