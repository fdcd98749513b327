import Foundation
import LanyardEmulator
import TestSupport
import Testing

@Suite struct OAuthGrantTests {
    typealias Fixture = OAuthFixture

    @Test("a client logs in by Basic and by the form; the token opens the protected resource, which names the client")
    func clientCredentials() async throws {
        let it = try await Fixture()
        let basic = try await it.token("client_credentials", [("scope", "api")])
        #expect(basic.status == 200 && basic["cache-control"] == "no-store")
        let tokens = try basic.json
        #expect(
            Set(tokens.object.keys) == ["access_token", "token_type", "expires_in", "scope"],
            "no refresh token (RFC 6749 section 4.4.3)")
        #expect(tokens["token_type"].string == "Bearer" && tokens["expires_in"].int == 1800)
        let post = try await it.post(
            "/oauth/token",
            [("grant_type", "client_credentials"), ("client_id", "lanyard"), ("client_secret", "s3cret")])
        #expect(post.status == 200)
        let claims = try EmulatorFixture.claims(try #require(tokens["access_token"].string))
        #expect(claims["iss"].string == it.issuer && claims["sub"].string == "lanyard")
        #expect(claims["aud"].string == it.issuer && claims["scope"].string == "api")
        #expect(claims["exp"].int! - claims["iat"].int! == 1800)
        let echo = try await it.protected(tokens["access_token"].string)
        #expect(echo.status == 200)
        #expect(try echo.json["client_id"].string == "lanyard" && echo.json["scope"].string == "api")
        await it.emulator.stop()
    }

    @Test("what a client may not do has the error of RFC 6749 section 5.2 and a text that says why")
    func refusedClients() async throws {
        let it = try await Fixture()
        let grant = ("grant_type", "client_credentials")
        let form: [([(String, String)], String?, String)] = [
            ([grant], Fixture.basic("lanyard", "wrong"), "401 invalid_client"),
            ([grant], Fixture.basic("nobody", "s3cret"), "401 invalid_client"),
            ([grant], "Basic !!!", "401 invalid_client"), ([grant], "Bearer x", "401 invalid_client"),
            ([grant], nil, "401 invalid_client"), ([grant, ("client_id", "lanyard")], nil, "401 invalid_client"),
            ([grant, ("client_id", "device")], nil, "400 unauthorized_client"),
            ([grant, ("client_id", "device"), ("client_secret", "x")], nil, "401 invalid_client"),
            ([grant, ("client_secret", "s3cret")], Fixture.basic("lanyard", "s3cret"), "400 invalid_request"),
            ([grant, ("client_id", "device")], Fixture.basic("lanyard", "s3cret"), "400 invalid_request"),
            ([grant, ("client_assertion", "x")], nil, "401 invalid_client"),
            ([("client_id", "device")], nil, "400 invalid_request"),
            ([("grant_type", "implicit")], Fixture.basic("lanyard", "s3cret"), "400 unsupported_grant_type"),
            ([grant, ("scope", "nonsense")], Fixture.basic("lanyard", "s3cret"), "400 invalid_scope"),
            ([grant, ("scope", "a\"b")], Fixture.basic("lanyard", "s3cret"), "400 invalid_scope"),
            ([grant, ("resource", "no-uri")], Fixture.basic("lanyard", "s3cret"), "400 invalid_target"),
            ([grant, ("resource", "https://a#b")], Fixture.basic("lanyard", "s3cret"), "400 invalid_target"),
        ]
        for (fields, authorization, expected) in form {
            let response = try await it.post("/oauth/token", fields, authorization: authorization)
            #expect(try Fixture.error(response) == expected, "\(fields) \(response.bodyText)")
            #expect(try response.json["error_description"].string?.isEmpty == false)
            let isChallenged = response.status == 401 && authorization != nil
            #expect(response["www-authenticate"] == (isChallenged ? #"Basic realm="lanyard-emulator""# : nil))
        }
        let named = try await it.token("implicit").json["error_description"].string ?? ""
        #expect(named.contains("client_credentials") && named.contains(Fixture.deviceGrant), "\(named)")
        await it.emulator.stop()
    }

    @Test(
        "damaged requests are invalid_request: a field twice, a broken escape, JSON, GET, a body of 3 MB, no such endpoint"
    )
    func damaged() async throws {
        let it = try await Fixture()
        let basic = Fixture.basic("lanyard", "s3cret")
        let good = "grant_type=client_credentials"
        for body in [good + "&" + good, good + "&scope=%zz", good + "&scope=%ff", good + "&scope=%2"] {
            let response = try await it.raw("POST", "/oauth/token", body, authorization: basic)
            #expect(try Fixture.error(response) == "400 invalid_request", "\(body)")
        }
        let json = try await RawClient.ask(
            it.endpoint, "POST", "/oauth/token",
            fields: [("Authorization", basic), ("Content-Type", "application/json")],
            body: #"{"grant_type":"client_credentials"}"#)
        #expect(try Fixture.error(json) == "400 invalid_request")
        let get = try await it.raw("GET", "/oauth/token")
        #expect(get.status == 405 && get["allow"] == "POST, OPTIONS")
        let long = try await it.raw(
            "POST", "/oauth/token", good + "&x=" + String(repeating: "x", count: 3 << 20), authorization: basic)
        #expect(try Fixture.error(long) == "413 invalid_request")
        let other = try await it.raw("POST", "/oauth/register", "x=1")
        #expect(try other.status == 404 && other.json["error_description"].string?.contains("introspect") == true)
        let host = try await RawClient.ask(it.endpoint, "GET", "/oauth/jwks", fields: [("X-Forwarded-Host", "a\"b")])
        #expect(try Fixture.error(host) == "400 invalid_request")
        #expect(try await it.token("client_credentials").status == 200)
        await it.emulator.stop()
    }

    @Test("the default client has a secret for itself, and needs none for its users")
    func demoClient() async throws {
        let it = try await Fixture { $0.oauth = OAuthSettings() }
        let own = try await it.post(
            "/oauth/token", [("grant_type", "client_credentials")], authorization: Fixture.basic("demo", "demo-secret"))
        #expect(own.status == 200)
        let public_ = [("client_id", "demo")]
        let refused = try await it.post("/oauth/token", public_ + [("grant_type", "client_credentials")])
        #expect(try Fixture.error(refused) == "401 invalid_client")
        let user = try await it.post(
            "/oauth/token",
            public_ + [
                ("grant_type", "password"), ("username", "alice@example.com"), ("password", "correct-horse"),
                ("scope", "anything goes"),
            ])
        #expect(try user.status == 200 && user.json["scope"].string == "anything goes")
        await it.emulator.stop()
    }

    @Test("a password logs a user in; a wrong one, another user, a disabled and a pending one are invalid_grant")
    func password() async throws {
        let it = try await Fixture()
        let tokens = try await it.password([
            ("scope", "openid email"), ("resource", "https://a.example"), ("audience", "b"),
        ])
        #expect(tokens["refresh_token"].string != nil && tokens["scope"].string == "openid email")
        let claims = try EmulatorFixture.claims(try #require(tokens["access_token"].string))
        #expect(claims["aud"].array.map(\.string) == ["https://a.example", "b"])
        let id = try EmulatorFixture.claims(try #require(tokens["id_token"].string))
        #expect(id["iss"].string == it.issuer && id["sub"] == claims["sub"] && id["aud"].string == "lanyard")
        #expect(id["email"].string == "alice@example.com")
        #expect(try await it.password()["id_token"].string == nil, "without the scope openid there is none")
        for (name, password) in [("alice@example.com", "wrong"), ("nobody", "correct-horse")] {
            let response = try await it.token("password", [("username", name), ("password", password)])
            #expect(try Fixture.error(response) == "400 invalid_grant")
        }
        #expect(try await Fixture.error(it.token("password", [("username", "x")])) == "400 invalid_request")
        try await it.control("POST", "/users/disable", #"{"user":"alice@example.com"}"#)
        let disabled = try await it.password()
        #expect(
            disabled["error"].string == "invalid_grant"
                && disabled["error_description"].string == "the user is disabled")
        await it.emulator.stop()
    }

    @Test("without rotation a refresh token stays; a refresh may ask for fewer scopes and resources, and not for more")
    func refresh() async throws {
        let it = try await Fixture()
        let first = try await it.password([
            ("scope", "api read"), ("resource", "https://a.example"), ("resource", "https://b.example"),
        ])
        let token = first["refresh_token"].string
        let plain = try await it.refresh(token).json
        #expect(plain["refresh_token"].string == nil && plain["scope"].string == "api read")
        let fewer = try await it.refresh(token, [("scope", "read"), ("resource", "https://b.example")]).json
        let claims = try EmulatorFixture.claims(try #require(fewer["access_token"].string))
        #expect(fewer["scope"].string == "read" && claims["aud"].string == "https://b.example")
        #expect(try await it.refresh(token).json["scope"].string == "api read", "the session keeps its scopes")
        #expect(try await Fixture.error(it.refresh(token, [("scope", "openid")])) == "400 invalid_scope")
        #expect(try await Fixture.error(it.refresh(token, [("resource", "https://c.example")])) == "400 invalid_target")
        let other = try await it.post(
            "/oauth/token", [("grant_type", "refresh_token"), ("client_id", "device"), ("refresh_token", token ?? "")])
        #expect(try Fixture.error(other) == "400 invalid_grant", "another client's")
        for junk in ["junk", "rt_a_b_c", (token ?? "") + "x"] {
            #expect(try await Fixture.error(it.refresh(junk)) == "400 invalid_grant")
        }
        #expect(try await Fixture.error(it.refresh(nil)) == "400 invalid_request")
        await it.emulator.stop()
    }

    @Test(
        "under grace the former token brings the same successor, until that is used; a refused request uses nothing up")
    func grace() async throws {
        let it = try await Fixture { $0.rotation = .grace }
        let first = try await it.password([("scope", "api")])["refresh_token"].string
        #expect(try await Fixture.error(it.refresh(first, [("scope", "read")])) == "400 invalid_scope")
        let second = try await it.refresh(first).json["refresh_token"].string
        #expect(second != nil && second != first)
        #expect(try await it.refresh(first).json["refresh_token"].string == second)
        let third = try await it.refresh(second).json["refresh_token"].string
        #expect(try await Fixture.error(it.refresh(first)) == "400 invalid_grant")
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":31}"#)
        #expect(try await Fixture.error(it.refresh(second)) == "400 invalid_grant", "the grace has ended")
        #expect(try await it.refresh(third).status == 200)
        await it.emulator.stop()
    }

    @Test("under one_use a repeated token ends the whole session")
    func oneUse() async throws {
        let it = try await Fixture { $0.rotation = .oneUse }
        let first = try await it.password()["refresh_token"].string
        let second = try await it.refresh(first).json["refresh_token"].string
        #expect(try await Fixture.error(it.refresh(first)) == "400 invalid_grant")
        #expect(try await Fixture.error(it.refresh(second)) == "400 invalid_grant")
        #expect(await it.emulator.sessions().map(\.end) == [.familyKilled])
        let total = await it.emulator.statistics().total
        #expect(total.familyKills == 1 && total.callsOfDeadSessions == 1 && total.logins == ["password": 1])
        await it.emulator.stop()
    }

    @Test("a refresh token of App Services is none here, and the other way round")
    func sides() async throws {
        let it = try await Fixture()
        let login = try await RawClient.ask(
            it.endpoint, "POST", EmulatorFixture.app + "/auth/providers/local-userpass/login",
            body: #"{"username":"alice@example.com","password":"correct-horse"}"#
        ).json
        #expect(try await Fixture.error(it.refresh(login["refresh_token"].string)) == "400 invalid_grant")
        #expect(try await it.protected(login["access_token"].string).status == 200)
        let tokens = try await it.password()
        for name in ["refresh_token", "access_token"] {
            let response = try await it.raw(
                "POST", EmulatorFixture.session, authorization: "Bearer \(tokens[name].string ?? "")")
            #expect(response.status == 401)
        }
        let profile = try await it.raw(
            "GET", EmulatorFixture.profile, authorization: "Bearer \(tokens["access_token"].string ?? "")")
        #expect(profile.status == 401)
        await it.emulator.stop()
    }

    @Test("many logins and refreshes at once are each served")
    func atOnce() async throws {
        let it = try await Fixture { $0.rotation = .oneUse }
        let token = try await it.password()["refresh_token"].string
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<8 { group.addTask { try await it.token("client_credentials").status } }
            for _ in 0..<4 { group.addTask { try await it.refresh(token).status } }
            return try await group.reduce(into: [Int]()) { $0.append($1) }
        }
        #expect(statuses.count(where: { $0 == 200 }) == 9, "of the refreshes with one token the first one counts")
        await it.emulator.stop()
    }
}
