import TestSupport
import Testing

@testable import SystemTestSupport

/// Users that no login can help for now: what their requests are told, and what ends it.
@Suite struct RefusedUserTests {
    private static func lanyard(
        app: String, at emulator: EmulatorProcess, password: String, under clock: TestClock? = nil
    ) async throws -> LanyardProcess {
        try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: '\(app)', base_url: "http://\(emulator.endpoint)"}}}
            users:
              alice:
                identity: demo
                login: {email_password: {email: \(EmulatorProcess.email), password_file: '\(password)'}}
            routes: [{name: all, upstream: "http://\(emulator.endpoint)"}]
            """, under: clock)
    }

    /// The first response that is no wait for the login.
    private static func refusal(_ lanyard: LanyardProcess) async throws -> RawMessage {
        try await lanyard.process.event("session.credential.refused")
        let response = try await lanyard.get("/protected/x")
        #expect(response.status == 503 && response["Retry-After"] == nil)
        let problem = try response.json
        #expect(problem["type"].string == "urn:lanyard:problem:credential-refused")
        #expect(problem["user"].string == "alice" && problem["retryable"].bool == false)
        return response
    }

    @Test("a user whose secret file is missing is refused with the file's path, until the file appears")
    func missingFile() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "30m", under: clock)
        let folder = try TemporaryFolder()
        // What JSON must escape, too, belongs to a path.
        let path = folder.file(#"a "secret" \ file"#)
        let lanyard = try await Self.lanyard(app: EmulatorProcess.app, at: emulator, password: path, under: clock)
        let problem = try await Self.refusal(lanyard).json
        #expect(
            problem["detail"].string
                == "Lanyard cannot log this user in: \(path) does not exist; create it, it is read again by itself.")
        try folder.write(#"a "secret" \ file"#, "correct-horse")
        try await lanyard.untilReady(passing: clock)
        #expect(try await lanyard.get("/protected/x").status == 200)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("an app that the identity service does not know is named in the detail")
    func unknownApp() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let lanyard = try await Self.lanyard(app: "nobodys-app", at: emulator, password: emulator.passwordFile)
        let detail = try await Self.refusal(lanyard).json["detail"].string ?? ""
        #expect(detail.contains("404") && detail.contains("no app nobodys-app; check app_id and base_url"), "\(detail)")
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a refused password is told with the service's code, and never shown")
    func refusedPassword() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let folder = try TemporaryFolder()
        let path = try folder.write("password", "canary-horse")
        let lanyard = try await Self.lanyard(app: EmulatorProcess.app, at: emulator, password: path)
        let response = try await Self.refusal(lanyard)
        #expect(try response.json["detail"].string?.contains("401 InvalidPassword to the login") == true)
        #expect(!response.bodyText.contains("canary") && !lanyard.process.log.contains("canary"))
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a route's user that nothing configures: a warning at the start, and a refusal that blames no session")
    func nobody() async throws {
        let upstream = try RawServer()
        let folder = try TemporaryFolder()
        // The admin API may bring him; without it this would be no configuration.
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\", user: bob}]", token: "t",
            admin: "{address: \"unix:\(folder.file("admin"))\"}")
        let warning = try await lanyard.process.event("configuration.warning")
        #expect(warning["msg"].string?.contains("no user \"bob\" is configured") == true)
        let response = try await lanyard.get("/")
        #expect(response.status == 503 && response["Retry-After"] == nil)
        let problem = try response.json
        #expect(problem["type"].string == "urn:lanyard:problem:login-required")
        #expect(problem["user"].string == "bob")
        #expect(
            problem["detail"].string
                == "A route or broker names this user, and no such user is configured: add it to users, or correct the name."
        )
        #expect(try await lanyard.readiness().status == 503)
        #expect(upstream.connectionCount == 0)
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
