import TestSupport
import Testing

@testable import SystemTestSupport

/// A secret file that every user of the machine can read.
@Suite struct OpenSecretFileTests {
    /// The warnings that name `path`.
    private static func warnings(_ lanyard: LanyardProcess, of path: String) -> [String] {
        lanyard.process.lines.filter { $0.json["level"].string == "warning" && $0.text.contains(path) }
            .map { $0.event ?? "" }
    }

    private static func lanyard(
        _ emulator: EmulatorProcess, _ password: String, _ token: String, under clock: TestClock? = nil
    ) async throws -> LanyardProcess {
        // Two accounts that have one password: two users of one account cannot both be logged in.
        try await emulator.control("POST", "/users", #"{"email":"again@example.com","password":"correct-horse"}"#)
        func login(_ email: String) -> String { "{email_password: {email: \(email), password_file: \(password)}}" }
        return try await LanyardProcess.start(
            """
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}
              fixed: {static: {token_file: \(token)}}
            users:
              alice: {identity: demo, login: \(login(EmulatorProcess.email))}
              again: {identity: demo, login: \(login("again@example.com"))}
              robot: {identity: fixed}
            routes:
              - {name: a, match: {path: /a}, upstream: "http://127.0.0.1:9", user: alice}
              - {name: b, match: {path: /b}, upstream: "http://127.0.0.1:9", user: again}
              - {name: c, match: {path: /c}, upstream: "http://127.0.0.1:9", user: robot}
            """, under: clock)
    }

    @Test("is warned of once, however many users share it and whichever process reads it")
    func atTheStart() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let folder = try TemporaryFolder()
        let password = try folder.write("password", "correct-horse", mode: 0o644)
        let token = try folder.write("token", "a-token", mode: 0o644)
        let lanyard = try await Self.lanyard(emulator, password, token)
        try await lanyard.untilReady()
        #expect(Self.warnings(lanyard, of: password) == ["configuration.warning"])
        #expect(Self.warnings(lanyard, of: token) == ["configuration.warning"])
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("is warned of once, too, when it appears later")
    func later() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "30m", under: clock)
        let folder = try TemporaryFolder()
        let password = folder.file("password")
        let token = folder.file("token")
        let lanyard = try await Self.lanyard(emulator, password, token, under: clock)
        for user in ["alice", "again", "robot"] {
            try await lanyard.process.event("session.credential.refused") { $0["user"].string == user }
        }
        try folder.write("password", "correct-horse", mode: 0o644)
        try folder.write("token", "a-token", mode: 0o644)
        try await lanyard.untilReady(passing: clock)
        try await settled(lanyard.process)
        let event = "identity.secret_file_world_readable"
        #expect(Self.warnings(lanyard, of: password).filter { $0 == event }.count == 1)
        #expect(Self.warnings(lanyard, of: token).filter { $0 == event }.count == 1)
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
