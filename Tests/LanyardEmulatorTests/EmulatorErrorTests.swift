import LanyardEmulator
import TestSupport
import Testing

@Suite struct EmulatorErrorTests {
    typealias Fixture = EmulatorFixture

    @Test(
        "a login that fails says so in the service's words",
        arguments: [
            (
                "local-userpass", #"{"username":"alice@example.com","password":"wrong"}"#,
                ["401", "InvalidPassword", "unauthorized"]
            ),
            (
                "local-userpass", #"{"username":"nobody@example.com","password":"x"}"#,
                ["401", "InvalidPassword", "unauthorized"]
            ),
            ("api-key", #"{"key":"x"}"#, ["401", "AuthError", "unauthorized"]),
            ("oauth2-google", "{}", ["401", "InvalidSession", "authentication via 'oauth2-google' is unsupported"]),
            ("local-userpass", "{", ["400", "BadRequest", "malformed JSON body"]),
        ])
    func login(provider: String, body: String, expected: [String]) async throws {
        let it = try await Fixture()
        let response = try await it.login(provider, body)
        #expect(try Fixture.error(response) == expected)
        #expect(response.values("content-type") == ["application/json"])
        let id = try #require(response["x-appservices-request-id"])
        #expect(try response.json["link"].string?.hasSuffix("/logs?co_id=\(id)") == true)
        await it.emulator.stop()
    }

    @Test("each call demands the right token")
    func tokenTypes() async throws {
        let it = try await Fixture()
        let (access, refresh) = try await it.tokens()
        let wrongType = ["401", "-", "invalid refresh token: incorrect token type"]
        for method in ["POST", "DELETE"] {
            #expect(try await Fixture.error(it.call(method, Fixture.session, bearer: access)) == wrongType)
            #expect(
                try await Fixture.error(it.call(method, Fixture.session, bearer: refresh + "x")) == [
                    "401", "-", "signature is invalid",
                ])
            #expect(
                try await Fixture.error(it.call(method, Fixture.session)) == ["401", "-", "must authenticate first"])
            #expect(
                try await Fixture.error(it.call(method, Fixture.session, bearer: ""))
                    == ["401", "-", "expected Authorization header with JWT (Bearer schema)"])
            #expect(
                try await Fixture.error(it.call(method, Fixture.session, bearer: "word"))
                    == ["401", "-", "token contains an invalid number of segments"])
        }
        #expect(
            try await Fixture.error(it.call("GET", Fixture.profile, bearer: refresh))
                == ["401", "InvalidSession", "invalid session: incorrect token type"])
        #expect(try await it.protected(refresh).status == 401)
        await it.emulator.stop()
    }

    @Test("an expired access token, an expired refresh token, a disabled user")
    func expiry() async throws {
        let it = try await Fixture {
            $0.accessTokenSeconds = 0.2
            $0.refreshTokenSeconds = 0.6
        }
        let (access, refresh) = try await it.tokens()
        try await eventually("the access token expires") {
            try await it.call("GET", Fixture.profile, bearer: access).status == 401
        }
        #expect(
            try await Fixture.error(it.call("GET", Fixture.profile, bearer: access))
                == ["401", "InvalidSession", "invalid session: access token expired"])
        try await eventually("the refresh token expires") { try await it.refresh(refresh).status == 401 }
        #expect(
            try await Fixture.error(it.refresh(refresh)) == [
                "401", "InvalidSession", "invalid session: refresh token expired",
            ])
        try await it.control("POST", "/users/disable", #"{"user":"alice@example.com"}"#)
        #expect(try await Fixture.error(it.login()) == ["401", "UserDisabled", "user disabled"])
        try await it.control("POST", "/users/enable", #"{"user":"alice@example.com"}"#)
        #expect(try await it.login().status == 200)
        await it.emulator.stop()
    }

    @Test("an unknown app and an unknown path are 404")
    func unknown() async throws {
        let it = try await Fixture()
        #expect(
            try await Fixture.error(it.call("GET", "/api/client/v2.0/app/nope/location"))
                == ["404", "-", "cannot find app using Client App ID 'nope'"])
        #expect(try await it.call("GET", "/api/client/v2.0/nothing").status == 404)
        #expect(try await it.call("GET", "/elsewhere").status == 404)
        await it.emulator.stop()
    }

    @Test("a weak registration is refused")
    func registration() async throws {
        let it = try await Fixture()
        let path = Fixture.app + "/auth/providers/local-userpass/register"
        #expect(
            try await Fixture.error(it.call("POST", path, #"{"email":"b@example.com","password":"12345"}"#))
                == ["400", "BadRequest", "password must be between 6 and 128 characters"])
        #expect(
            try await Fixture.error(it.call("POST", path, #"{"email":"","password":"123456"}"#))
                == ["400", "BadRequest", "email invalid"])
        await it.emulator.stop()
    }
}
