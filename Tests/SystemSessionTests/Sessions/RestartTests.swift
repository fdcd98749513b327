import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// What outlives the process: the sealed store, through the binary.
@Suite struct RestartTests {
    /// One Lanyard after the other on one store.
    private struct Bench {
        let emulator: EmulatorProcess
        let clock: TestClock
        let folder: TemporaryFolder
        var password: String
        var rotation = "none"
        var login = "offline: cached"

        init(
            tokens: String = "30m", rotation: String = "none", login: String = "offline: cached"
        ) async throws {
            clock = try TestClock()
            emulator = try await EmulatorProcess.start(
                tokens: tokens, under: clock, arguments: rotation == "none" ? [] : ["--rotation", rotation])
            folder = try TemporaryFolder()
            password = emulator.passwordFile
            self.rotation = rotation
            self.login = login
            try folder.write("key", "0123456789abcdef0123456789abcdef")
        }

        func start(upstream: RawEndpoint? = nil) async throws -> LanyardProcess {
            try await LanyardProcess.start(
                """
                identities:
                  demo:
                    app_services:
                      {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)", rotation: \(rotation)}
                users:
                  alice:
                    identity: demo
                    login: {email_password: {email: \(EmulatorProcess.email), password_file: \(password)}}
                store: {path: \(folder.file("store/sessions")), key_file: \(folder.file("key"))}
                login: {\(login)}
                routes:
                  - {name: all, match: {path: /}, upstream: "http://\(upstream ?? emulator.endpoint)"}
                """, under: clock)
        }

        /// A stop that leaves nothing behind, and one without notice.
        func end(_ lanyard: LanyardProcess, bySignal signal: CInt) async throws {
            lanyard.process.signal(signal)
            try await lanyard.process.waitForExit()
        }

        /// What the check `store` says.
        func storeCheck(_ lanyard: LanyardProcess) async throws -> String? {
            try await lanyard.readiness().json["checks"].array.first { $0["name"].string == "store" }?["reason"].string
        }
    }

    @Test("the first status that an operator gets after a restart has every stored user logged in")
    func firstStatus() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let device = try await Device.make(emulator, users: (0..<60).map { Device.User(name: "user\($0)") })
        let first = try await device.start()
        try await eventually("all are logged in") {
            try await first.admin.status().users.allSatisfy(\.isIn)
        }
        guard try await first.process.terminate() == .code(143) else { throw TestFailure("SIGTERM") }

        let second = try device.launch()
        let admin = AdminClient(endpoint: .unix(device.socketPath()))
        var users: [AdminStatus.User] = []
        try await eventually("the admin socket responds") {
            guard let status = try? await admin.status() else { return false }
            users = status.users
            return true
        }
        #expect(users.count == 60 && users.filter { !$0.isIn }.map(\.name) == [])
        guard try await second.terminate() == .code(143) else { throw TestFailure("SIGTERM") }
    }

    @Test("a restart keeps alice logged in: no login, no refresh, the same token", arguments: [SIGTERM, SIGKILL])
    func restart(_ signal: CInt) async throws {
        let bench = try await Bench()
        let first = try await bench.start()
        try await first.untilReady()
        #expect(try await bench.storeCheck(first) == "stored")
        try await bench.end(first, bySignal: signal)
        let second = try await bench.start()
        try await second.untilReady()
        #expect(try await second.get("/protected/").status == 200)
        let issued = try await bench.emulator.issued().count
        let refreshes = try await bench.emulator.calls("refresh")
        #expect(issued == 1 && refreshes == 0)
        #expect(try await bench.emulator.calls("login") == 1)
        try await bench.end(second, bySignal: SIGTERM)
    }

    @Test(
        "without a network Lanyard starts from the store, serves at once, and recovers by itself once its token has ended"
    )
    func offline() async throws {
        let bench = try await Bench(tokens: "300s")
        let witness = try TokenWitness(under: bench.clock)
        let first = try await bench.start(upstream: witness.server.endpoint)
        try await first.untilReady()
        #expect(try await first.get("/").status == 200)
        try await bench.end(first, bySignal: SIGKILL)
        let issued = try await bench.emulator.issued()
        let port = bench.emulator.endpoint.port
        // Its sessions end with the emulator; the one that comes later knows alice's password.
        try await bench.emulator.process.terminate()
        let second = try await bench.start(upstream: witness.server.endpoint)
        // At once: nothing is waited for but the listener.
        #expect(try await second.get("/").status == 200)
        #expect(witness.sightings.count == 1 && witness.sightings.first?.value.count == 2)
        #expect(try await second.readiness().status == 200)
        #expect(try await RawClient.ask(second.health, "GET", "/startupz").status == 200)
        try await bench.clock.pass(until: "the token has ended", grain: .seconds(4)) {
            let check = try await second.readiness().json["checks"].array.first { $0["name"].string == "session:alice" }
            return check?["reason"].string == "identity_unreachable"
        }
        try await second.process.event("session.expired")
        let refusal = try await second.get("/")
        #expect(refusal.status == 503 && UsersBench.problem(refusal) == "identity-unreachable")
        #expect(witness.expiredUses(issued: issued) == [] && witness.withoutToken == 0)
        let back = try await EmulatorProcess.start(tokens: "30m", under: bench.clock, port: port)
        try await bench.clock.pass(until: "the service is back", atMost: .seconds(600), grain: .seconds(1)) {
            try await second.readiness().status == 200
        }
        #expect(try await second.get("/").status == 200)
        #expect(try await back.calls("login") == 1)
        try await bench.end(second, bySignal: SIGTERM)
    }

    @Test("offline: never lets the stored token wait for one refresh")
    func never() async throws {
        let bench = try await Bench(login: "offline: never")
        let first = try await bench.start()
        try await first.untilReady()
        try await bench.end(first, bySignal: SIGTERM)
        let second = try await bench.start()
        try await second.untilReady()
        #expect(try await bench.emulator.calls("refresh") == 1)
        #expect(try await bench.emulator.calls("login") == 1)
        try await bench.end(second, bySignal: SIGTERM)
        try await bench.emulator.process.terminate()
        let third = try await bench.start()
        try await eventually("unreachable") { try await third.readiness().bodyText.contains("identity_unreachable") }
        #expect(try await RawClient.ask(third.health, "GET", "/startupz").status == 503)
        try await bench.end(third, bySignal: SIGTERM)
    }

    @Test("a wrong password is not tried again after a restart, until its file changes")
    func refused() async throws {
        var bench = try await Bench()
        bench.password = try bench.folder.write("password", "not-the-password\n")
        let first = try await bench.start()
        try await first.process.event("session.credential.refused")
        // The end waits until it is stored.
        try await bench.end(first, bySignal: SIGTERM)
        #expect(try await bench.emulator.calls("login") == 1)
        let second = try await bench.start()
        let line = try await second.process.event("session.credential.refused")
        #expect(line["error"].string?.contains("refused before") == true)
        #expect(try await bench.emulator.calls("login") == 1)
        try bench.folder.write("password", "correct-horse\n")
        try await bench.clock.pass(until: "the file is read", atMost: .seconds(10), grain: .seconds(1)) {
            try await second.readiness().status == 200
        }
        #expect(try await bench.emulator.calls("login") == 2)
        try await bench.end(second, bySignal: SIGTERM)
    }

    @Test("a rotating refresh token survives restarts without a further login", arguments: ["grace", "one_use"])
    func rotation(_ rotation: String) async throws {
        let bench = try await Bench(rotation: rotation)
        for _ in 0..<4 {
            let lanyard = try await bench.start()
            try await lanyard.untilReady()
            let before = try await bench.emulator.calls("refresh")
            try await bench.clock.pass(until: "two refreshes", grain: .seconds(60)) {
                try await bench.emulator.calls("refresh") >= before + 2
            }
            try await bench.end(lanyard, bySignal: SIGTERM)
        }
        #expect(try await bench.emulator.calls("login") == 1)
    }
}
