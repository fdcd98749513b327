import LanyardEmulator
import TestSupport
import Testing

@Suite struct EmulatorControlTests {
    typealias Fixture = EmulatorFixture

    @Test("calls are counted by route, status and user, and the counts can be reset")
    func counts() async throws {
        let it = try await Fixture()
        let (access, refresh) = try await it.tokens()
        for _ in 0..<3 { _ = try await it.refresh(refresh) }
        _ = try await it.refresh(access)
        _ = try await it.protected(access)
        let counts = try await it.control("GET", "/counts")
        #expect(counts["routes"]["refresh"]["calls"].int == 4)
        #expect(counts["routes"]["refresh"]["by_status"] == .object(["201": .number(3), "401": .number(1)]))
        let user = try #require(counts["users"].object.values.first)
        #expect(user["name"].string == "alice@example.com" && user["refresh"].int == 4 && user["login"].int == 1)
        try await it.control("DELETE", "/counts")
        #expect(try await it.control("GET", "/counts")["routes"]["refresh"]["calls"].int == 0)
        await it.emulator.stop()
    }

    @Test("distinct access tokens used at /protected are counted, and every refusal with its reason")
    func distinctTokens() async throws {
        let it = try await Fixture()
        let (first, refresh) = try await it.tokens()
        let second = try await it.refresh(refresh).json["access_token"].string!
        for token in [first, second, second] { #expect(try await it.protected(token).status == 200) }
        try await it.control("POST", "/tokens/expire")
        for token in [first, nil, "junk"] {
            let refused = try await it.protected(token)
            #expect(refused.status == 401)
            #expect(refused["www-authenticate"]?.contains(#"error="invalid_token""#) == true)
        }
        let protected = try await it.control("GET", "/counts")["protected"]
        #expect(protected["distinct_tokens"].int == 2)
        #expect(
            protected["refused"] == .object(["expired": .number(1), "missing": .number(1), "malformed": .number(1)]))
        let issued = try await it.control("GET", "/tokens").array
        #expect(issued.map { $0["cause"].string } == ["login", "refresh"])
        #expect(issued.map { $0["uses"].int } == [1, 2])
        await it.emulator.stop()
    }

    @Test(
        "a revoked session refuses its refresh token; access tokens stay valid unless the switch is set",
        arguments: [false, true])
    func revoke(endsAccessTokens: Bool) async throws {
        let it = try await Fixture()
        try await it.control("PUT", "/settings", #"{"revoke_ends_access_tokens":\#(endsAccessTokens)}"#)
        let (access, refresh) = try await it.tokens()
        #expect(try await it.control("POST", "/sessions/revoke", #"{"user":"alice@example.com"}"#)["revoked"].int == 1)
        #expect(try await it.refresh(refresh).status == 401)
        #expect(try await it.protected(access).status == (endsAccessTokens ? 401 : 200))
        await it.emulator.stop()
    }

    @Test(
        "a planned fault takes the place of the response as often as it says",
        arguments: [
            (#""fault":"server_error""#, 500, "application/json"),
            (#""fault":"unavailable","retry_after":7"#, 503, "application/json"),
            (#""fault":"html""#, 200, "text/html"), (#""fault":"malformed""#, 200, "application/json"),
            (#""fault":"empty_unauthorized""#, 401, nil), (#""fault":"gone""#, 410, "application/json"),
            (#""fault":"unknown_app""#, 404, "application/json"),
            (#""fault":"status","status":418"#, 418, "application/json"),
        ])
    func faults(fault: String, status: Int, type: String?) async throws {
        let it = try await Fixture()
        let (_, refresh) = try await it.tokens()
        try await it.control("POST", "/faults", #"{"route":"refresh","times":2,\#(fault)}"#)
        for _ in 0..<2 {
            let response = try await it.refresh(refresh)
            #expect(response.status == status)
            #expect(response["content-type"] == type)
            #expect(response["retry-after"] == (status == 503 ? "7" : nil))
        }
        #expect(try await it.refresh(refresh).status == 201)
        await it.emulator.stop()
    }

    @Test("a fault without a number stays until it is cleared, and * spares /protected")
    func lastingFault() async throws {
        let it = try await Fixture()
        let (access, refresh) = try await it.tokens()
        try await it.control("POST", "/faults", #"{"route":"*","fault":"gone"}"#)
        for _ in 0..<3 { #expect(try await it.refresh(refresh).status == 410) }
        #expect(try await it.protected(access).status == 200)
        try await it.control("DELETE", "/faults")
        #expect(try await it.refresh(refresh).status == 201)
        await it.emulator.stop()
    }

    @Test("answers of a route can be held back; other calls are answered in that time")
    func delays() async throws {
        let it = try await Fixture()
        let (access, refresh) = try await it.tokens()
        let held = 300
        try await it.control("POST", "/delays", #"{"route":"refresh","milliseconds":\#(held)}"#)
        let start = ContinuousClock.now
        #expect(try await it.refresh(refresh).status == 201)
        #expect(ContinuousClock.now - start >= .milliseconds(held - 10))
        try await it.control("POST", "/delays", #"{"route":"refresh","milliseconds":3600000}"#)
        let slow = Task { try await it.refresh(refresh) }
        #expect(try await it.protected(access).status == 200)
        slow.cancel()
        await it.emulator.stop()
    }

    @Test("lifetimes change for tokens given out afterwards")
    func lifetimes() async throws {
        let it = try await Fixture()
        let (_, refresh) = try await it.tokens()
        #expect(
            try await it.control("PUT", "/settings", #"{"access_token_seconds":3}"#)["access_token_seconds"].int == 3)
        let claims = try Fixture.claims(try await it.refresh(refresh).json["access_token"].string!)
        #expect(claims["exp"].int! - claims["iat"].int! == 3)
        #expect(try await it.call("PUT", "/emulator/settings", #"{"colour":1}"#).status == 400)
        await it.emulator.stop()
    }

    @Test("users and keys can be added and taken away")
    func usersAndKeys() async throws {
        let it = try await Fixture()
        try await it.control("POST", "/users", #"{"email":"carol@example.com","password":"123456"}"#)
        let key = try await it.control("POST", "/api-keys", #"{"name":"own","user":"carol@example.com"}"#)["key"]
            .string!
        let login = #"{"key":"\#(key)"}"#
        let byKey = try await it.login("api-key", login).json["user_id"]
        let byPassword = try await it.login("local-userpass", #"{"username":"carol@example.com","password":"123456"}"#)
            .json["user_id"]
        #expect(byKey == byPassword && byKey.string != nil)
        try await it.control("POST", "/api-keys/disable", #"{"name":"own"}"#)
        #expect(try await Fixture.error(it.login("api-key", login)) == ["401", "AuthError", "unauthorized"])
        await it.emulator.stop()
    }
}
