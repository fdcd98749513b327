import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// "The shift has ended: log out, here and over there, whatever the network does."
@Suite struct LogoutTests {
    private static func revocations(_ bench: UsersBench) async throws -> Int {
        try await bench.emulator.control("GET", "/ledger")["total"]["revocations"].int ?? -1
    }

    @Test("a logout ends the session here and at the service, and leaves no user active")
    func logout() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        try await bench.add("bob")
        let response = try await bench.call("POST", "/users/bob/logout")
        #expect(response.status == 200)
        let json = try response.json
        #expect((json["revoked"].bool, json["removed"].bool) == (true, false))
        #expect((json["state"].string, json["session"].string) == ("logged_out", "logged_out"))
        #expect(json["access_token_expires_at"] == .null)
        #expect(try await Self.revocations(bench) == 1)
        #expect(try await bench.bearer() == "no-active-user")
        #expect(try await bench.bearer("/bob/") == "login-required")
        #expect(try await bench.lanyard.readiness().status == 503)
        #expect(try await bench.status()["active_user"] == .null)
        #expect(UsersBench.problem(try await bench.call("POST", "/users/bob/activate")) == "not-logged-in")
        #expect(UsersBench.problem(try await bench.call("POST", "/users/bob/refresh")) == "not-logged-in")
        // Twice is once.
        #expect(try await bench.call("POST", "/users/bob/logout").json["revoked"].bool == true)
        #expect(try await Self.revocations(bench) == 1)
        #expect(try await bench.call("POST", "/users/alice/activate").status == 200)
        #expect(try await bench.bearer() == (try await bench.account("alice")))
    }

    @Test("a configured user that was logged out stays so, over a restart as well, until an operator logs it in")
    func configured() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "120s", under: clock)
        let device = try await Device.make(emulator, rest: "active_user: alice\n", under: clock)
        var running = try await device.start()
        try await running.untilReady()
        try await running.admin.call("POST", "/v1/users/alice/logout")
        for ending in [SIGKILL, SIGTERM, 0] {
            // Two tokens of another user: time enough for every login that would come by itself.
            let refreshes = try await emulator.calls("refresh")
            try await clock.pass(until: "bob's token has been renewed twice", grain: .seconds(5)) {
                try await emulator.calls("refresh") >= refreshes + 2
            }
            let status = try await running.admin.status()
            #expect(status.active == nil && status["alice"]?.session == "logged_out", "\(status.users)")
            #expect(try await emulator.calls("login") == 2)
            #expect(try await running.account(at: "/as/alice") == nil)
            guard ending != 0 else { break }
            running.process.signal(ending)
            try await running.process.waitForExit()
            running = try await device.start()
        }
        #expect(try await running.admin.call("POST", "/v1/users/alice/login")["state"].string == "active")
        let account = try await running.admin.status()["alice"]?.accountID
        #expect(try await running.account(at: "/") == account)
        #expect(try await emulator.calls("login") == 3)
        #expect(try await running.process.terminate() == .code(143))
    }

    @Test("with on_active_logout: next another user that is logged in takes over")
    func next() async throws {
        let bench = try await UsersBench.start("active_user: alice\non_active_logout: next\n")
        try await bench.untilAlice()
        try await bench.add("bob")
        #expect(try await bench.call("POST", "/users/bob/logout").status == 200)
        #expect(try await bench.status()["active_user"].string == "alice")
        #expect(try await bench.bearer() == (try await bench.account("alice")))
    }

    @Test("whether the service knows of a logout is said of that user, whatever it must still be told of another")
    func twiceBesideAnother() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        try await bench.add("bob")
        func logOut(_ name: String) async throws -> Bool? {
            try await bench.call("POST", "/users/\(name)/logout").json["revoked"].bool
        }
        #expect(try await logOut("bob") == true)
        try await bench.emulator.control("POST", "/faults", #"{"route":"logout","fault":"unavailable"}"#)
        #expect(try await logOut("alice") == false)
        #expect(try await logOut("bob") == true)
        #expect(try await logOut("alice") == false)
        try await bench.emulator.control("DELETE", "/faults")
        try await eventually("alice's end is told") { try await logOut("alice") == true }
    }

    @Test("while the service is down a logout holds here at once, and the service is told when it is back")
    func unreachable() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        try bench.gate.set(.refuse)
        bench.gate.cut()
        let response = try await bench.call("POST", "/users/alice/logout")
        #expect(response.status == 200)
        #expect(try response.json["revoked"].bool == false)
        #expect(try await bench.bearer() == "no-active-user")
        #expect(try await bench.call("POST", "/users/alice/logout").json["revoked"].bool == false)
        try await bench.lanyard.process.event("session.revoke.failed")
        try bench.gate.set(.pass)
        try await eventually("the service was told") { try await Self.revocations(bench) == 1 }
        try await bench.lanyard.process.event("session.revoke.succeeded")
        #expect(try await bench.call("POST", "/users/alice/logout").json["revoked"].bool == true)
    }

    @Test("a service that is silent does not keep an operator waiting")
    func silent() async throws {
        let clock = try TestClock()
        let bench = try await UsersBench.start(under: clock)
        try await bench.untilAlice()
        try bench.gate.set(.silence)
        clock.stop()
        // The service is silent until after the response.
        let client = try RawClient(bench.admin)
        try client.send("POST /v1/users/alice/logout HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        try await clock.pass(.seconds(4))
        #expect(!client.hasInput)
        try await clock.pass(.seconds(2))
        let response = try client.response()
        #expect(try response.status == 200 && response.json["revoked"].bool == false)
        clock.run()
    }

    @Test("a removed user is gone, its session ended at the service; its name may be given anew")
    func remove() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        for round in 1...3 {
            try await bench.add("bob")
            let response = try await bench.call("DELETE", "/users/bob")
            #expect(response.status == 204)
            #expect(response.body == [])
            #expect(UsersBench.problem(try await bench.call("GET", "/users/bob")) == "no-such-user")
            #expect(UsersBench.problem(try await bench.call("DELETE", "/users/bob")) == "no-such-user")
            #expect(try await bench.bearer("/bob/") == "login-required")
            try await eventually("the service was told") { try await Self.revocations(bench) == round }
        }
        #expect(try await bench.users() == ["alice:inactive", "carol:logged_out", "robot:inactive"])
        // Under the same name another account: nothing of the old one is left.
        #expect(try await bench.add("bob", UsersBench.email("dave")).status == 201)
        #expect(try await bench.bearer("/bob/") == (try await bench.account("bob")))
    }

    @Test("requests of a configured user that was removed hear of that, and of what brings it back")
    func removedConfigured() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator)
        let running = try await device.start()
        try await running.untilReady()
        #expect(try await running.admin.ask("DELETE", "/v1/users/alice").status == 204)
        func add(password: String) async throws -> Int {
            let credential = #"{"email_password":{"email":"\#(Device.alice.email)","password":"\#(password)"}}"#
            let body = #"{"name":"alice","identity":"demo","credential":\#(credential)}"#
            return try await running.admin.ask("POST", "/v1/users", body).status
        }
        for _ in 0..<2 {
            let response = try await RawClient.ask(running.data, "GET", "/as/alice")
            #expect(response.status == 503 && UsersBench.problem(response) == "login-required")
            let problem = try response.json
            #expect(problem["user"].string == "alice")
            let detail = problem["detail"].string ?? ""
            #expect(detail.contains("was removed") && detail.contains("restart"), "\(detail)")
            #expect(!detail.contains("no such user is configured"))
            // A login that comes to nothing makes it no less true.
            #expect(try await add(password: "wrong-secret-word") == 422)
        }
        #expect(try await add(password: Device.alice.password) == 201)
        #expect(try await running.account(at: "/as/alice") != nil)
        #expect(try await running.process.terminate() == .code(143))
    }

    @Test("a logout during a login wins: what the late response brings is revoked")
    func duringLogin() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        try await bench.emulator.control("POST", "/delays", #"{"route":"login","milliseconds":1500}"#)
        async let login = bench.call("POST", "/users/alice/login")
        try await eventually("the login is in progress") {
            try await bench.emulator.control("GET", "/counts")["routes"]["login"]["in_flight"].int == 1
        }
        #expect(try await bench.call("POST", "/users/alice/logout").status == 200)
        #expect(UsersBench.problem(try await login) == "not-logged-in")
        #expect(try await bench.bearer() == "no-active-user")
        // The old session and the late one.
        try await eventually("both are revoked") { try await Self.revocations(bench) == 2 }
        #expect(try await bench.users().first == "alice:logged_out")
    }
}
