import LanyardEmulator
import TestSupport
import Testing

@Suite struct OAuthDeviceTests {
    typealias Fixture = OAuthFixture

    private static func begin(_ it: Fixture, _ form: [(String, String)] = []) async throws -> JSON {
        let response = try await it.post("/oauth/device_authorization", [("client_id", "device")] + form)
        guard response.status == 200 else { throw TestFailure(response.bodyText) }
        return try response.json
    }

    private static func poll(_ it: Fixture, _ login: JSON, _ form: [(String, String)] = []) async throws -> RawMessage {
        try await it.post(
            "/oauth/token",
            [
                ("grant_type", Fixture.deviceGrant), ("client_id", "device"),
                ("device_code", login["device_code"].string ?? ""),
            ] + form)
    }

    @Test("a login waits, is slowed down, is approved by a control call, and its code works once")
    func approved() async throws {
        let it = try await Fixture()
        let login = try await Self.begin(it, [("scope", "openid api")])
        let code = try #require(login["user_code"].string)
        #expect(code.wholeMatch(of: /[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}/) != nil, "\(code)")
        #expect(login["verification_uri"].string == it.issuer + "/device")
        #expect(login["verification_uri_complete"].string == it.issuer + "/device?user_code=\(code)")
        #expect(login["expires_in"].int == 600 && login["interval"].int == 5)
        #expect(try await Fixture.error(Self.poll(it, login)) == "400 authorization_pending")
        #expect(try await Fixture.error(Self.poll(it, login)) == "400 slow_down")
        #expect(try await it.control("GET", "/oauth/devices")[0]["interval"].int == 10)
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":11}"#)
        #expect(try await Fixture.error(Self.poll(it, login)) == "400 authorization_pending")
        let approved = try await it.control("POST", "/oauth/approve", #"{"user_code":"\#(code.lowercased())"}"#)
        #expect(approved["user"].string == "alice@example.com" && approved["client_id"].string == "device")
        let tokens = try await Self.poll(it, login).json
        #expect(tokens["scope"].string == "openid api" && tokens["id_token"].string != nil)
        #expect(tokens["refresh_token"].string != nil)
        #expect(try await it.protected(tokens["access_token"].string).status == 200)
        #expect(try await Fixture.error(Self.poll(it, login)) == "400 invalid_grant")
        let device = try await it.control("GET", "/oauth/devices")[0]
        #expect(device["state"].string == "used" && device["polls"].int == 5)
        #expect(device["device_code"] == .null, "it is a secret of the device")
        await it.emulator.stop()
    }

    @Test("without a code the newest login is approved; if none waits the control says so")
    func newest() async throws {
        let it = try await Fixture()
        let (first, second) = (try await Self.begin(it), try await Self.begin(it))
        try await it.control("POST", "/oauth/approve", "{}")
        #expect(try await Fixture.error(Self.poll(it, first)) == "400 authorization_pending")
        #expect(try await Self.poll(it, second).status == 200)
        try await it.control("POST", "/oauth/deny", "{}")
        #expect(try await Fixture.error(Self.poll(it, first)) == "400 access_denied")
        let none = try await RawClient.ask(it.endpoint, "POST", "/emulator/oauth/approve", body: "{}")
        #expect(try none.status == 404 && none.json["error"].string == "no device login waits")
        let unknown = try await RawClient.ask(it.endpoint, "POST", "/emulator/oauth/approve", body: #"{"user":"x"}"#)
        #expect(unknown.status == 404)
        await it.emulator.stop()
    }

    @Test("a code expires by the clock; an unknown one and another client's are invalid_grant")
    func expired() async throws {
        let it = try await Fixture()
        let login = try await Self.begin(it)
        let code = ("device_code", login["device_code"].string ?? "")
        #expect(try await Fixture.error(it.token(Fixture.deviceGrant, [code])) == "400 invalid_grant")
        #expect(try await Fixture.error(it.token(Fixture.deviceGrant, [("device_code", "x")])) == "400 invalid_grant")
        #expect(try await Fixture.error(it.token(Fixture.deviceGrant)) == "400 invalid_request")
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":601}"#)
        #expect(try await Fixture.error(Self.poll(it, login)) == "400 expired_token")
        #expect(try await it.control("GET", "/oauth/devices")[0]["state"].string == "expired")
        #expect(try await RawClient.ask(it.endpoint, "POST", "/emulator/oauth/approve", body: "{}").status == 404)
        await it.emulator.stop()
    }

    @Test("a challenge binds the code to its verifier (RFC 7636); another method than S256 is refused")
    func challenge() async throws {
        let it = try await Fixture()
        let login = try await Self.begin(
            it, [("code_challenge", Fixture.challenge), ("code_challenge_method", "S256")])
        try await it.control("POST", "/oauth/approve", "{}")
        let wrong = ("code_verifier", String(repeating: "w", count: 43))
        #expect(try await Fixture.error(Self.poll(it, login, [wrong])) == "400 invalid_grant")
        #expect(try await Fixture.error(Self.poll(it, login)) == "400 invalid_grant")
        #expect(try await Self.poll(it, login, [("code_verifier", Fixture.verifier)]).status == 200)
        let plain = try await it.post(
            "/oauth/device_authorization",
            [("client_id", "device"), ("code_challenge", Fixture.challenge), ("code_challenge_method", "plain")])
        #expect(try Fixture.error(plain) == "400 invalid_request")
        await it.emulator.stop()
    }

    @Test("the page shows the client, takes the code in any case, wants the password, and decides once")
    func page() async throws {
        let it = try await Fixture()
        let login = try await Self.begin(it, [("scope", "api")])
        let code = login["user_code"].string ?? ""
        let page = try await it.raw("GET", "/oauth/device?user_code=\(code)")
        #expect(page.status == 200 && page["content-type"] == "text/html; charset=utf-8")
        #expect(page.bodyText.contains("<b>device</b>") && page.bodyText.contains("scopes api"), "\(page.bodyText)")
        #expect(page.bodyText.contains("value=\"\(code)\""))
        #expect(page["x-frame-options"] == "DENY")
        let user = ("username", "alice@example.com"), password = ("password", "correct-horse")
        let wrong = try await it.post("/oauth/device", [("user_code", code), user, ("password", "x")])
        #expect(wrong.status == 401 && wrong.bodyText.contains("the user name or the password is wrong"))
        let unknown = try await it.post("/oauth/device", [("user_code", "<b>"), user, password])
        #expect(
            unknown.status == 400 && unknown.bodyText.contains("&lt;b&gt;") && !unknown.bodyText.contains("\"<b>\""))
        let letters = code.lowercased().filter { $0 != "-" }
        let done = try await it.post("/oauth/device", [("user_code", letters), user, password, ("action", "approve")])
        #expect(done.status == 200 && done.bodyText.contains("The device is logged in."), "\(done.bodyText)")
        #expect(try await it.post("/oauth/device", [("user_code", code), user, password]).status == 400)
        #expect(try await Self.poll(it, login).status == 200)
        let other = try await Self.begin(it)
        let refused = try await it.post(
            "/oauth/device", [("user_code", other["user_code"].string ?? ""), user, password, ("action", "deny")])
        #expect(refused.bodyText.contains("The login is refused."))
        #expect(try await Fixture.error(Self.poll(it, other)) == "400 access_denied")
        await it.emulator.stop()
    }

    @Test("a user who is disabled after the approval is not logged in")
    func disabled() async throws {
        let it = try await Fixture()
        let login = try await Self.begin(it)
        try await it.control("POST", "/oauth/approve", "{}")
        try await it.control("POST", "/users/disable", #"{"user":"alice@example.com"}"#)
        #expect(try await Fixture.error(Self.poll(it, login)) == "400 access_denied")
        await it.emulator.stop()
    }
}
