import Glibc
import LanyardEmulator
import LanyardFoundations
import TestSupport
import Testing

@Suite struct EmulatorLossTests {
    typealias Fixture = EmulatorFixture

    @Test(
        "a response can be lost after the service has rotated: the state has changed, the client never learns",
        arguments: ["answer_closed", "answer_cut", "answer_silent"])
    func lost(fault: String) async throws {
        let it = try await Fixture { $0.rotation = .grace }
        let (_, first) = try await it.tokens()
        try await it.control(
            "POST", "/faults", #"{"route":"refresh","fault":"\#(fault)","times":1,"milliseconds":50}"#)
        await #expect(throws: TestFailure.self) { try await it.refresh(first) }
        #expect(await it.emulator.sessions().first?.refreshTokenSerial == 2)
        #expect(try await it.refresh(first).json["refresh_token"].string != nil)
        let calls = await it.emulator.journal().filter { $0.route == "refresh" }
        #expect(calls.map(\.effect) == [.rotated, .repeatedWithinGrace])
        #expect(calls.map(\.delivery) == [.lost, .sent])
        #expect(calls.map(\.refreshTokenSerial) == [1, 1])
        await it.emulator.stop()
    }

    @Test("a response can be late once, and a call itself can be held back before its effect")
    func late() async throws {
        let it = try await Fixture()
        let (_, refresh) = try await it.tokens()
        try await it.control(
            "POST", "/faults", #"{"route":"refresh","fault":"answer_late","times":1,"milliseconds":400}"#)
        async let slow = it.refresh(refresh)
        try await eventually("the call has had its effect") { await it.emulator.sessions()[0].refreshes == 1 }
        #expect(await it.emulator.journal().last?.answeredAt == nil)
        #expect(try await slow.status == 201)
        try await it.control("POST", "/delays", #"{"route":"refresh","milliseconds":400,"before":true}"#)
        async let held = it.refresh(refresh)
        try await eventually("the call has arrived") { await it.emulator.journal().count == 3 }
        #expect(await it.emulator.sessions()[0].refreshes == 1)
        #expect(try await held.status == 201)
        #expect(await it.emulator.sessions()[0].refreshes == 2)
        await it.emulator.stop()
    }

    @Test("a stop ends calls that are kept silent")
    func stop() async throws {
        let it = try await Fixture()
        try await it.control("POST", "/faults", #"{"route":"login","fault":"answer_silent"}"#)
        let login = Task { try await it.login() }
        try await eventually("the login has had its effect") { await it.emulator.statistics().total.loginCount == 1 }
        await it.emulator.stop()
        await #expect(throws: TestFailure.self) { try await login.value }
    }

    @Test("the journal tells the calls in order, and can be read on from a number")
    func journal() async throws {
        let it = try await Fixture()
        let (access, refresh) = try await it.tokens()
        _ = try await it.refresh(refresh)
        _ = try await it.protected(access)
        _ = try await it.login("local-userpass", "{}")
        _ = try await it.call("DELETE", Fixture.session, bearer: refresh)
        _ = try await it.refresh(refresh)
        let calls = try await it.control("GET", "/journal").array
        #expect(calls.map { $0["route"].string } == ["login", "refresh", "login", "logout", "refresh"])
        #expect(
            calls.map { $0["effect"].string } == ["login", "refreshed", "none", "logged_out", "session_dead"])
        #expect(calls.map { $0["status"].int } == [200, 201, 400, 204, 401])
        #expect(calls.map { $0["account"].string }.filter { $0 == "alice@example.com" }.count == 4)
        #expect(Set(calls.compactMap { $0["session_id"].string }).count == 1)
        let times = calls.flatMap { [$0["arrived_at"].double!, $0["answered_at"].double!] }
        #expect(times == times.sorted())
        #expect(try await it.control("GET", "/journal?after=3").array.count == 2)
        await it.emulator.stop()
    }

    @Test("a moved clock dates answers and tokens, and lets tokens expire")
    func clock() async throws {
        let it = try await Fixture()
        let (access, refresh) = try await it.tokens()
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":1801}"#)
        #expect(try await Fixture.error(it.call("GET", Fixture.profile, bearer: access))[2].hasSuffix("expired"))
        let response = try await it.refresh(refresh)
        let claims = try Fixture.claims(response.json["access_token"].string!)
        #expect(abs(claims["iat"].int! - time(nil) - 1801) <= 2)
        let date = try #require(HTTPDate.read(response["date"] ?? ""))
        #expect(abs(Int(date.seconds) - time(nil) - 1801) <= 2)
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":5200000}"#)
        #expect(try await Fixture.error(it.refresh(refresh))[2] == "invalid session: refresh token expired")
        #expect(try await it.control("GET", "/sessions")[0]["live"] == .bool(false))
        await it.emulator.stop()
    }

    @Test("a deleted account has no session, no key and no login; its email is free again")
    func deleted() async throws {
        let it = try await Fixture {
            $0.seed.keys.append(.init(name: "own", key: "own-key", email: "alice@example.com"))
        }
        let (_, refresh) = try await it.tokens()
        try await it.control("POST", "/users/delete", #"{"user":"alice@example.com"}"#)
        #expect(
            try await Fixture.error(it.refresh(refresh))
                == ["401", "InvalidSession", "invalid session: failed to find refresh token"])
        #expect(try await Fixture.error(it.login()) == ["401", "InvalidPassword", "unauthorized"])
        #expect(try await it.login("api-key", #"{"key":"own-key"}"#).status == 401)
        #expect(await it.emulator.sessions().map(\.end) == [.accountDeleted])
        try await it.control("POST", "/users", #"{"email":"alice@example.com","password":"correct-horse"}"#)
        #expect(try await it.login().status == 200)
        await it.emulator.stop()
    }

    @Test("a disabled user's sessions end as such, a revoked one's as such")
    func ends() async throws {
        let it = try await Fixture()
        let (_, refresh) = try await it.tokens()
        try await it.control("POST", "/users/disable", #"{"user":"alice@example.com"}"#)
        #expect(try await Fixture.error(it.login()) == ["401", "UserDisabled", "user disabled"])
        #expect(
            try await Fixture.error(it.refresh(refresh))
                == ["401", "InvalidSession", "invalid session: failed to find refresh token"])
        try await it.control("POST", "/users/enable", #"{"user":"alice@example.com"}"#)
        _ = try await it.tokens()
        try await it.control("POST", "/sessions/revoke", "{}")
        #expect(await it.emulator.sessions().map(\.end) == [.disabled, .revoked])
        await it.emulator.stop()
    }
}
