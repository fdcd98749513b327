import TestSupport
import Testing

@testable import SystemTestSupport

/// "Why is Alice not logged in any more?": ends of sessions, told ahead and told apart.
@Suite struct SessionEndTests {
    private struct Bench {
        let emulator: EmulatorProcess
        let device: Device
        let running: DeviceProcess

        /// Alice is configured with her password; carol was logged in by an operator, once.
        static func start(
            rotation: String = "none", refreshTokens: String = "60d", under clock: TestClock? = nil
        ) async throws -> Bench {
            let emulator = try await EmulatorProcess.start(
                tokens: "30m", under: clock,
                arguments: ["--rotation", rotation, "--refresh-token-lifetime", refreshTokens])
            let device = try await Device.make(emulator, users: [Device.alice], rotation: rotation, under: clock)
            let running = try await device.start()
            try await running.untilReady()
            try await emulator.add("carol@example.com", password: "carol-secret-word")
            let credential = #"{"email_password":{"email":"carol@example.com","password":"carol-secret-word"}}"#
            try await running.admin.call(
                "POST", "/v1/users", #"{"name":"carol","identity":"demo","credential":\#(credential)}"#)
            return Bench(emulator: emulator, device: device, running: running)
        }

        func user(_ name: String) async throws -> JSON { try await running.admin.call("GET", "/v1/users/\(name)") }

        func reason(_ name: String) async throws -> String? {
            try await RawClient.ask(running.health, "GET", "/readyz/\(name)").json["checks"][0]["reason"].string
        }

        /// Alice is disabled or deleted at the service, and a refresh finds out: the line that tells of the refused login.
        func refusal(after change: String) async throws -> JSON {
            try await emulator.control("POST", change, #"{"user":"\#(Device.alice.email)"}"#)
            try await refresh("alice", until: "refused")
            return try await running.process.event("session.credential.refused")
        }

        /// Has the session found out, and waits for what becomes of it; what the operator who asked for the refresh was told.
        @discardableResult
        func refresh(_ name: String, until session: String) async throws -> RawMessage {
            let response = try await running.admin.ask("POST", "/v1/users/\(name)/refresh")
            do {
                try await eventually("\(name) is \(session)") {
                    try await user(name)["session"].string == session
                }
            } catch {
                throw TestFailure("\(error); it said:\n\(running.process.log)")
            }
            return response
        }
    }

    @Test(
        "the end of a refresh token is told 7 days, a day and an hour before, as a warning if an operator must log in then",
        arguments: [(7 * 86_400, "7_days"), (86_400, "1_day"), (3600, "1_hour")])
    func expiring(_ before: Int, _ reason: String) async throws {
        let clock = try TestClock()
        let bench = try await Bench.start(refreshTokens: "\(before + 60)s", under: clock)
        clock.stop()
        let isExpiring = { bench.running.process.lines.contains { $0.event == "session.refresh_token.expiring" } }
        // The processes have started in time that passed.
        try await clock.pass(.seconds(40))
        #expect(!isExpiring())
        try await clock.pass(.seconds(25))
        for (name, level) in [("alice", "info"), ("carol", "warning")] {
            let line = try await bench.running.process.event("session.refresh_token.expiring") {
                $0["user"].string == name
            }
            #expect(line["reason"].string == reason && line["level"].string == level, "\(line)")
            #expect(line["remedy"].string?.contains(name == "alice" ? "automatically" : "an operator") == true)
            let end = try #require(
                try await bench.running.metric("lanyard_refresh_token_expiry_timestamp_seconds", ["user": name]))
            #expect(abs(end - clock.now - Double(before)) < 15)
            let shown = try await bench.user(name)["refresh_token_expires_at"]
            #expect(abs((Timestamps.seconds(shown) ?? 0) - end) < 1)
        }
        clock.run()
        #expect(try await bench.running.process.terminate() == .code(143))
    }

    @Test("a user who was disabled: the session is dead, the login is refused, and the words say why")
    func disabled() async throws {
        let bench = try await Bench.start()
        let line = try await bench.refusal(after: "/users/disable")
        let dead = try await bench.running.process.event("session.dead")
        #expect(dead["status"].int == 401 && dead["error"].string?.contains("session was revoked") == true, "\(dead)")
        #expect(line["error_code"].string == "UserDisabled" && line["status"].int == 401, "\(line)")
        let lastError = try await bench.user("alice")["last_error"].string
        #expect(lastError?.contains("the user is disabled at the service") == true)
        #expect(try await bench.reason("alice") == "credential_refused")
        #expect(try await bench.running.metric("lanyard_session_state", ["user": "alice", "state": "refused"]) == 1)
        let response = try await RawClient.ask(bench.running.data, "GET", "/as/alice")
        #expect(response.status == 503 && UsersBench.problem(response) == "credential-refused")
        #expect(try await bench.running.process.terminate() == .code(143))
    }

    @Test("an account that was deleted: the login is refused as a wrong password is, and the words name both")
    func deleted() async throws {
        let bench = try await Bench.start()
        let line = try await bench.refusal(after: "/users/delete")
        #expect(line["error_code"].string == "InvalidPassword", "\(line)")
        #expect(try await bench.user("alice")["last_error"].string?.contains("its account was deleted") == true)
        #expect(try await bench.reason("alice") == "credential_refused")
        #expect(try await bench.running.process.terminate() == .code(143))
    }

    @Test("a session that was revoked: with a credential a login mends it, without one an operator is asked for")
    func revoked() async throws {
        let bench = try await Bench.start()
        try await bench.emulator.control("POST", "/sessions/revoke", "{}")
        try await bench.refresh("alice", until: "valid")
        try await eventually("alice has the token of a second login") {
            try await bench.user("alice")["generation"].int == 2
        }
        let dead = try await bench.running.process.event("session.dead") { $0["user"].string == "alice" }
        #expect(dead["error"].string?.contains("the session was revoked or has ended") == true, "\(dead)")
        #expect(try await bench.user("alice")["last_error"] == .null)
        #expect(try await bench.emulator.calls("login") == 3)

        try await bench.refresh("carol", until: "login_required")
        try await bench.running.process.event("session.login.required") { $0["user"].string == "carol" }
        let said = try await bench.user("carol")["last_error"].string
        #expect(said?.contains("the session was revoked or has ended") == true)
        #expect(try await bench.reason("carol") == "login_required")
        #expect(
            try await bench.running.metric("lanyard_session_state", ["user": "carol", "state": "login_required"]) == 1)
        #expect(try await bench.emulator.calls("login") == 3)
        #expect(try await bench.running.process.terminate() == .code(143))
    }

    @Test(
        "a lost response where refresh tokens are good for one use: without a credential an operator is asked for, and told why"
    )
    func outcomeUnknown() async throws {
        let bench = try await Bench.start(rotation: "one_use")
        try await bench.emulator.control("POST", "/faults", #"{"route":"refresh","fault":"answer_cut","times":1}"#)
        let told = try await bench.refresh("carol", until: "login_required")
        #expect(told.status == 503 && UsersBench.problem(told) == "login-required", "\(told.bodyText)")
        let problem = try told.json
        #expect(problem["retryable"].bool == false && told["Retry-After"] == nil, "\(problem)")
        #expect(problem["user"].string == "carol" && problem["detail"].string?.contains("log in") == true, "\(problem)")
        let line = try await bench.running.process.event("session.refresh.outcome_unknown")
        #expect(line["user"].string == "carol" && line["reason"].string == "outcome_unknown", "\(line)")
        #expect(try await bench.reason("carol") == "outcome_unknown")
        #expect(try await bench.user("carol")["last_error"].string != nil)
        let total = try await bench.emulator.control("GET", "/ledger")["total"]
        #expect(total["family_kills"].int == 0 && total["refreshes"].int == 1, "\(total)")
        // Over a restart as well.
        try await bench.running.kill()
        let again = try await bench.device.start()
        try await eventually("carol is not logged in, and it is said why") {
            let page = try await RawClient.ask(again.health, "GET", "/readyz/carol").json
            return ["outcome_unknown", "login_required"].contains(page["checks"][0]["reason"].string)
        }
        #expect(try await again.process.terminate() == .code(143))
    }
}
