import Foundation
import Glibc
import LanyardEmulator
import LanyardFoundations
import TestSupport
import Testing

@Suite struct OAuthControlTests {
    typealias Fixture = OAuthFixture

    @Test(
        "the metadata stands at both places, names the issuer by the host that was asked, and endpoints that are there")
    func metadata() async throws {
        let it = try await Fixture()
        for path in ["/.well-known/oauth-authorization-server/oauth", "/oauth/.well-known/openid-configuration"] {
            let metadata = try await it.raw("GET", path).json
            #expect(metadata["issuer"].string == it.issuer && it.emulator.issuer == it.issuer)
            for (name, value) in metadata.object where name.hasSuffix("_endpoint") || name == "jwks_uri" {
                let text = try #require(value.string)
                #expect(text.hasPrefix(it.issuer + "/"))
                let response = try await it.raw("GET", String(text.dropFirst("http://\(it.endpoint)".count)))
                #expect(response.status != 404, "\(name)")
            }
            #expect(metadata["code_challenge_methods_supported"].array == [.string("S256")])
            #expect(metadata["authorization_response_iss_parameter_supported"] == .bool(true))
        }
        let relayed = try await RawClient.ask(
            it.endpoint, "GET", "/oauth/.well-known/openid-configuration",
            fields: [("X-Forwarded-Host", "idp.example"), ("X-Forwarded-Proto", "https")])
        #expect(try relayed.json["issuer"].string == "https://idp.example/oauth")
        await it.emulator.stop()
    }

    @Test("without an OAuth side its paths are 404, and its controls say so")
    func absent() async throws {
        let it = try await EmulatorFixture()
        #expect(it.emulator.issuer == nil)
        for path in [
            "/oauth/token", "/oauth/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/oauth",
        ] {
            #expect(try await it.call("GET", path).status == 404)
        }
        let control = try await it.call("GET", "/emulator/oauth/devices")
        #expect(try control.status == 409 && control.json["error"].string == "the emulator runs without --oauth")
        await it.emulator.stop()
    }

    @Test(
        "each fault takes the place of a response, in the form of this side",
        arguments: [
            (#""fault":"server_error""#, 500, "server_error"),
            (#""fault":"unavailable","retry_after":7"#, 503, "temporarily_unavailable"),
            (#""fault":"too_many_requests","retry_after":7"#, 429, "temporarily_unavailable"),
            (#""fault":"maintenance""#, 500, "server_error"), (#""fault":"unknown_app""#, 401, "invalid_client"),
            (#""fault":"status","status":400,"body":"{\"error\":\"invalid_grant\"}""#, 400, "invalid_grant"),
            (#""fault":"gone""#, 410, "Atlas App Services and Device Sync have reached EOL"),
            (#""fault":"empty_unauthorized""#, 401, nil), (#""fault":"html""#, 200, nil),
            (#""fault":"malformed""#, 200, nil),
        ])
    func faults(fault: String, status: Int, error: String?) async throws {
        let it = try await Fixture { $0.rotation = .oneUse }
        let token = try await it.password()["refresh_token"].string
        try await it.control("POST", "/faults", #"{"route":"oauth_refresh","times":1,\#(fault)}"#)
        let response = try await it.refresh(token)
        #expect(response.status == status)
        if let error { #expect(try response.json["error"].string == error) }
        #expect(response["retry-after"] == (fault.contains("retry_after") ? "7" : nil))
        #expect(try await it.token("client_credentials").status == 200, "another route")
        #expect(try await it.refresh(token).status == 200, "the call had no effect")
        await it.emulator.stop()
    }

    @Test(
        "a response can be lost after the token has rotated, or come late",
        arguments: ["answer_closed", "answer_cut", "answer_silent", "answer_late"])
    func lost(fault: String) async throws {
        let it = try await Fixture { $0.rotation = .grace }
        let token = try await it.password()["refresh_token"].string
        try await it.control(
            "POST", "/faults", #"{"route":"oauth_refresh","fault":"\#(fault)","times":1,"milliseconds":50}"#)
        if fault == "answer_late" {
            #expect(try await it.refresh(token).status == 200)
        } else {
            await #expect(throws: TestFailure.self) { try await it.refresh(token) }
        }
        #expect(await it.emulator.sessions().first?.refreshTokenSerial == 2)
        #expect(try await it.refresh(token).json["refresh_token"].string != nil)
        let calls = await it.emulator.journal().filter { $0.route == "oauth_refresh" }
        #expect(calls.map(\.effect) == [.rotated, .repeatedWithinGrace])
        #expect(calls.map(\.delivery) == [fault == "answer_late" ? .sent : .lost, .sent])
        await it.emulator.stop()
    }

    @Test("journal, sessions, statistics, tokens and counts have the calls of this side")
    func contents() async throws {
        let it = try await Fixture()
        let tokens = try await it.password([("scope", "api")])
        _ = try await it.refresh(tokens["refresh_token"].string)
        _ = try await it.token("client_credentials")
        _ = try await it.token("password", [("username", "alice@example.com"), ("password", "x")])
        _ = try await it.protected(tokens["access_token"].string)
        let calls = await it.emulator.journal()
        #expect(calls.map(\.route) == ["oauth_login", "oauth_refresh", "oauth_login", "oauth_login"])
        #expect(calls.map(\.effect) == [.login, .refreshed, .login, .none])
        #expect(calls.map(\.account) == ["alice@example.com", "alice@example.com", "lanyard", "alice@example.com"])
        #expect(calls.allSatisfy { $0.appID == "lanyard" } && calls.map(\.status) == [200, 200, 200, 400])
        let session = try await it.control("GET", "/sessions?app=lanyard")[0]
        #expect(session["kind"].string == "password" && session["app"].string == "lanyard")
        #expect(session["refreshes"].int == 1 && session["live"] == .bool(true))
        let accounts = try await it.control("GET", "/ledger")["accounts"]
        #expect(accounts["lanyard"]["logins"]["client_credentials"].int == 1)
        #expect(accounts["alice@example.com"]["refreshes"].int == 1)
        let issued = try await it.control("GET", "/tokens").array
        #expect(issued.map { $0["cause"].string } == ["login", "refresh", "login"])
        #expect(issued[0]["client_id"].string == "lanyard" && issued[0]["scope"].string == "api")
        #expect(issued[0]["uses"].int == 1 && issued[2]["session_id"] == .null)
        let counts = try await it.control("GET", "/counts")
        #expect(counts["routes"]["oauth_login"]["by_status"] == .object(["200": .number(2), "400": .number(1)]))
        await it.emulator.stop()
    }

    @Test("the clock moves tokens and responses, and users and tokens are ended by the controls of both sides")
    func ends() async throws {
        let it = try await Fixture()
        let tokens = try await it.password(),
            robot = try await it.token("client_credentials").json["access_token"].string
        try await it.control("POST", "/tokens/expire", #"{"user":"lanyard"}"#)
        #expect(try await it.protected(robot).status == 401)
        #expect(try await it.protected(tokens["access_token"].string).status == 200)
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":1801}"#)
        #expect(try await it.protected(tokens["access_token"].string).status == 401)
        let renewed = try await it.refresh(tokens["refresh_token"].string)
        let claims = try EmulatorFixture.claims(try renewed.json["access_token"].string ?? "")
        #expect(abs(claims["iat"].int! - time(nil) - 1801) <= 2)
        let date = try #require(HTTPDate.read(renewed["date"] ?? ""))
        #expect(abs(Int(date.seconds) - time(nil) - 1801) <= 2)
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":5200000}"#)
        #expect(
            try await it.refresh(tokens["refresh_token"].string).json["error_description"].string
                == "the refresh token has expired")
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":0}"#)
        try await it.control("POST", "/sessions/revoke", #"{"user":"alice@example.com"}"#)
        #expect(try await Fixture.error(it.refresh(tokens["refresh_token"].string)) == "400 invalid_grant")
        let other = try await it.password()["refresh_token"].string
        try await it.control("POST", "/users/delete", #"{"user":"alice@example.com"}"#)
        #expect(try await Fixture.error(it.refresh(other)) == "400 invalid_grant")
        #expect(await it.emulator.sessions().map(\.end) == [.revoked, .accountDeleted])
        await it.emulator.stop()
    }

    @Test("settings of any size are used: a life of 1e300 s, an interval of 1e300 s, a clock far away")
    func extremes() async throws {
        let it = try await Fixture()
        let settings = #"{"access_token_seconds":1e300,"device_code_seconds":1e300,"device_interval_seconds":1e300}"#
        try await it.control("PUT", "/settings", settings)
        #expect(try await it.token("client_credentials").json["expires_in"].double == 1e300)
        let device = try await it.post("/oauth/device_authorization", [("client_id", "device")]).json
        #expect(device["expires_in"].double == 1e300 && device["interval"].double == 1e300)
        #expect(try await it.control("GET", "/oauth/devices").array.count == 1)
        let zero = #"{"access_token_seconds":0.5,"device_interval_seconds":0}"#
        try await it.control("PUT", "/settings", zero)
        #expect(try await it.token("client_credentials").json["expires_in"].int == 0)
        await it.emulator.stop()
    }

    @Test("clients are added, replaced and deleted; the list has no secret")
    func clients() async throws {
        let it = try await Fixture()
        let grant = [("grant_type", "client_credentials")]
        let body = #"{"client_id":"new","secret":"one","grants":["client_credentials"],"scopes":["read"]}"#
        #expect(try await RawClient.ask(it.endpoint, "POST", "/emulator/oauth/clients", body: body).status == 201)
        #expect(try await it.post("/oauth/token", grant, authorization: Fixture.basic("new", "one")).status == 200)
        let password = [("grant_type", "password"), ("username", "x"), ("password", "y")]
        let refused = try await it.post("/oauth/token", password, authorization: Fixture.basic("new", "one"))
        #expect(try Fixture.error(refused) == "400 unauthorized_client")
        try await it.control("POST", "/oauth/clients", #"{"client_id":"new","secret":"two"}"#)
        #expect(try await it.post("/oauth/token", grant, authorization: Fixture.basic("new", "one")).status == 401)
        #expect(try await it.post("/oauth/token", grant, authorization: Fixture.basic("new", "two")).status == 200)
        let list = try await RawClient.ask(it.endpoint, "GET", "/emulator/oauth/clients")
        #expect(!list.bodyText.contains("two") && list.bodyText.contains(#""client_id":"new""#))
        try await it.control("POST", "/oauth/clients/delete", #"{"client_id":"new"}"#)
        #expect(try await it.post("/oauth/token", grant, authorization: Fixture.basic("new", "two")).status == 401)
        for body in [
            #"{"client_id":""}"#, #"{"secret":"x"}"#, #"{"client_id":"a","secret_file":"/etc/passwd"}"#,
            #"{"client_id":"a","grants":["implicit"]}"#,
        ] {
            #expect(
                try await RawClient.ask(it.endpoint, "POST", "/emulator/oauth/clients", body: body).status == 400,
                "\(body)")
        }
        await it.emulator.stop()
    }

    @Test("a snapshot has sessions, codes, devices and the key; a reset ends all tokens")
    func snapshot() async throws {
        let it = try await Fixture()
        let tokens = try await it.password(), code = try await it.browse()["code"]
        let snapshot = try await RawClient.ask(it.endpoint, "GET", "/emulator/snapshot").bodyText
        let other = try await Fixture()
        #expect(try await other.protected(tokens["access_token"].string).status == 401)
        try await other.control("PUT", "/snapshot", snapshot)
        #expect(try await other.protected(tokens["access_token"].string).status == 200)
        #expect(try await other.refresh(tokens["refresh_token"].string).status == 200)
        #expect(try await other.redeem(code).status == 200)
        let fresh = try await other.password()
        try await other.control("POST", "/reset")
        #expect(try await other.protected(fresh["access_token"].string).status == 401)
        #expect(try await Fixture.error(other.refresh(fresh["refresh_token"].string)) == "400 invalid_grant")
        #expect(try await other.token("client_credentials").status == 200)
        await it.emulator.stop()
        await other.emulator.stop()
    }

    @Test(
        "a configuration that cannot be used names the line and what would do",
        arguments: [
            ("oauth: {colour: blue}", "unknown key colour"),
            ("oauth: {clients: [{secret: x}]}", "client_id is missing"),
            ("oauth: {clients: [{client_id: a}, {client_id: a}]}", "client a is there twice"),
            ("oauth: {clients: [{client_id: a, grants: [implicit]}]}", "implicit is none of"),
            ("oauth: {clients: [{client_id: a, secret: \"\"}]}", "printable ASCII"),
            ("oauth: {clients: [{client_id: a, redirect_uris: [here]}]}", "here is no absolute URI"),
            ("oauth: {scopes: [\"a b\"]}", "a b is no scope"), ("oauth: {signing_key: x}", "no PEM of a private key"),
            ("oauth: {subject_jwks: {keys: []}}", "no key"),
        ])
    func configuration(yaml: String, problem: String) throws {
        let error = #expect(throws: SeedReader.ReadError.self) { try SeedReader.parse(yaml) }
        #expect(error?.description.hasPrefix("line 1: ") == true, "\(String(describing: error))")
        #expect(error?.description.contains(problem) == true, "\(String(describing: error))")
    }
}
