import TestSupport
import Testing

@testable import SystemTestSupport

/// "What can go wrong when a user logs in, and what it says."
@Suite struct LoginFaultTests {
    @Test("a login that ends in the account of another user who is logged in is refused, and revoked")
    func accountInUse() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let alice = try await bench.account("alice")
        let generation = try await bench.call("GET", "/users/alice").json["generation"]
        for response in [
            try await bench.add("alias", UsersBench.email("alice")),
            try await bench.call("POST", "/users/carol/login", #"{"credential":\#(UsersBench.email("alice"))}"#),
        ] {
            #expect(response.status == 409)
            #expect(UsersBench.problem(response) == "account-in-use")
            #expect(try response.json["user"].string == "alice")
        }
        try await eventually("both new sessions are revoked") {
            try await bench.emulator.control("GET", "/ledger")["total"]["revocations"].int == 2
        }
        #expect(try await bench.call("GET", "/users/alice").json["generation"] == generation)
        #expect(try await bench.users() == ["alice:active", "carol:logged_out", "robot:inactive"])
        #expect(try await bench.bearer() == alice)
        #expect(try await bench.call("POST", "/users/alice/refresh").status == 200)
    }

    @Test("a login that ends in the account of a user who is logged out is that user's login")
    func accountKnown() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let alice = try await bench.account("alice")
        #expect(try await bench.call("POST", "/users/alice/logout").status == 200)
        let response = try await bench.add("alias", UsersBench.email("alice"))
        #expect(response.status == 200)
        #expect(try response.json["name"].string == "alice")
        #expect(try response.json["state"].string == "active")
        #expect(try await bench.bearer() == alice)
        #expect(try await bench.users() == ["alice:active", "carol:logged_out", "robot:inactive"])
        #expect(try await bench.call("POST", "/users/alice/refresh").status == 200)
    }

    @Test("of two configured users with one account the second is refused, with the reason account_in_use")
    func twoConfigured() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let login = "{email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}"
        let lanyard = try await LanyardProcess.start(
            """
            identities: {demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}}
            users: {one: {identity: demo, login: \(login)}, two: {identity: demo, login: \(login)}}
            routes: [{name: one, upstream: "http://\(emulator.endpoint)", user: one}, \
            {name: two, match: {path: /two}, upstream: "http://\(emulator.endpoint)", user: two}]

            """)
        try await eventually("both have had their answers") {
            let checks = try await lanyard.readiness().json["checks"].array
            let reasons = Set(checks.prefix(2).compactMap { $0["reason"].string })
            return reasons == ["token_valid", "account_in_use"]
        }
        try await eventually("the second session is revoked") {
            try await emulator.control("GET", "/ledger")["total"]["revocations"].int == 1
        }
        #expect(try await emulator.calls("login") == 2)
    }

    @Test("two logins at once for one user: the second is told so")
    func atOnce() async throws {
        let clock = try TestClock()
        let bench = try await UsersBench.start(under: clock)
        try await bench.untilAlice()
        clock.stop()
        try await bench.emulator.control("POST", "/delays", #"{"route":"login","milliseconds":1500}"#)
        for (method, path, body) in [
            ("POST", "/users", #"{"name":"bob","identity":"demo","credential":\#(UsersBench.email("bob"))}"#),
            ("POST", "/users/carol/login", #"{"credential":\#(UsersBench.email("carol"))}"#),
            ("POST", "/users/alice/login", ""),
        ] {
            let calls = try await bench.emulator.calls("login")
            async let first = bench.call(method, path, body.isEmpty ? nil : body)
            try await eventually("the first is in progress") { try await bench.emulator.calls("login") == calls + 1 }
            let second = try await bench.call(method, path, body.isEmpty ? nil : body)
            #expect(UsersBench.problem(second) == "login-in-progress", "\(path)")
            try await clock.pass(.milliseconds(1500))
            #expect(try await first.status < 300)
        }
        #expect(try await bench.emulator.calls("login") == 4)
    }

    @Test("a refused credential, a disabled account and a silent service are told apart; nothing changes")
    func refused() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let wrong = try await bench.add("bob", UsersBench.email("bob", password: "wrong-one"))
        #expect(wrong.status == 422)
        #expect(UsersBench.problem(wrong) == "credential-refused")
        #expect(try wrong.json["error_code"].string == "InvalidPassword")
        try await bench.emulator.control("POST", "/users/disable", #"{"user":"bob@example.com"}"#)
        let disabled = try await bench.add("bob", UsersBench.email("bob"))
        #expect(try disabled.json["error_code"].string == "UserDisabled")
        // A user that is logged in stays so when another login of theirs fails.
        let alice = try await bench.call(
            "POST", "/users/alice/login", #"{"credential":\#(UsersBench.email("alice", password: "wrong-one"))}"#)
        #expect(UsersBench.problem(alice) == "credential-refused")
        try bench.gate.set(.refuse)
        bench.gate.cut()
        let down = try await bench.add("dave", UsersBench.email("dave"))
        #expect(down.status == 503)
        #expect(UsersBench.problem(down) == "identity-unreachable")
        #expect(try await bench.users() == ["alice:active", "carol:logged_out", "robot:inactive"])
        #expect(try await bench.bearer() == (try await bench.account("alice")))
        try bench.gate.set(.pass)
        try await bench.add("dave")
        for text in [UsersBench.password, "wrong-one"] { #expect(!bench.lanyard.process.log.contains(text)) }
    }

    @Test("bad names, unknown identities and credentials of the wrong kind or shape never reach the service")
    func bad() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let email = UsersBench.email("bob")
        let table: [(String, Int, String)] = [
            (#"{"name":"b/b","identity":"demo","credential":\#(email)}"#, 422, "invalid-value"),
            (#"{"name":"","identity":"demo","credential":\#(email)}"#, 422, "invalid-value"),
            (#"{"name":"alice","identity":"demo","credential":\#(email)}"#, 409, "name-in-use"),
            (#"{"name":"bob","identity":"nowhere","credential":\#(email)}"#, 404, "no-such-identity"),
            (#"{"name":"bob","identity":"fixed","credential":\#(email)}"#, 409, "not-supported"),
            (#"{"name":"bob","identity":"demo"}"#, 422, "invalid-value"),
            (#"{"name":"bob","identity":"demo","credential":{"password":{"x":1}}}"#, 422, "invalid-value"),
            (#"{"name":"bob","identity":"demo","credential":{"email_password":{"email":"b"}}}"#, 422, "invalid-value"),
            (#"{"name":"bob","identity":"demo","credential":{"api_key":{"key":7}}}"#, 422, "invalid-value"),
            (#"{"name":"bob","name":"bob","identity":"demo","credential":\#(email)}"#, 400, "malformed-request"),
            ("name=bob", 400, "malformed-request"),
        ]
        for (body, status, name) in table {
            let response = try await bench.call("POST", "/users", body)
            #expect(response.status == status, "\(body)")
            #expect(UsersBench.problem(response) == name, "\(body)")
        }
        #expect(try await bench.emulator.calls("login") == 1)
        #expect(try await bench.users() == ["alice:active", "carol:logged_out", "robot:inactive"])
    }
}
