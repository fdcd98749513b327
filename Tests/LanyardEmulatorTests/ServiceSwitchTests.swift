import LanyardEmulator
import TestSupport
import Testing

/// What holds for every call: the end of the service, texts, limits, other apps, browsers, parts that are not emulated.
@Suite struct ServiceSwitchTests {
    typealias Fixture = EmulatorFixture

    private static let calls = [
        ("GET", "location"), ("POST", "auth/providers/anon-user/login"),
        ("POST", "auth/providers/local-userpass/reset/send"),
        ("POST", "functions/call"), ("GET", "functions/call"), ("PUT", "push/providers/gcm/registration"),
        ("GET", "auth/providers/oauth2-google/login"),
    ]
    private static let tokenCalls = [
        ("POST", "session"), ("DELETE", "session"), ("GET", "profile"), ("DELETE", "delete"), ("GET", "api_keys"),
        ("POST", "api_keys"), ("PUT", "api_keys/0/enable"),
    ]

    @Test("a service that has gone answers every call with 410, and an unknown app with 404")
    func gone() async throws {
        let it = try await Fixture { $0.isGone = true }
        let expected = ["410", "-", "Atlas App Services and Device Sync have reached EOL"]
        for (method, path) in Self.calls {
            #expect(try await Fixture.error(it.call(method, Fixture.app + "/" + path)) == expected, "\(path)")
        }
        for (method, path) in Self.tokenCalls {
            #expect(try await Fixture.error(it.call(method, "/api/client/v2.0/auth/" + path)) == expected, "\(path)")
        }
        #expect(try await it.call("GET", "/api/client/v2.0/app/never-abcde/location").status == 404)
        try await it.control("PUT", "/settings", #"{"gone":false}"#)
        #expect(try await it.login().status == 200)
        await it.emulator.stop()
    }

    @Test("the texts of before May 2024 come with a switch; statuses and codes are the same")
    func verbose() async throws {
        let it = try await Fixture { $0.verboseTexts = true }
        #expect(
            try await Fixture.error(it.login(email: "alice@example.com", "wrong-1"))
                == ["401", "InvalidPassword", "invalid username/password"])
        #expect(
            try await Fixture.error(it.login("api-key", #"{"key":"x"}"#)) == ["401", "AuthError", "invalid API key"])
        try await it.control("POST", "/users", #"{"email":"p@example.com","password":"123456","confirmed":false}"#)
        #expect(
            try await Fixture.error(it.login(email: "p@example.com", "123456"))
                == ["401", "AuthError", "confirmation required"])
        try await it.control("POST", "/users/confirm", #"{"user":"p@example.com"}"#)
        #expect(try await it.login(email: "p@example.com", "123456").status == 200)
        await it.emulator.stop()
    }

    @Test("more calls than a limit get 429 with the seconds to wait")
    func rateLimit() async throws {
        let it = try await Fixture()
        try await it.control("POST", "/rate-limits", #"{"route":"login","calls":2,"seconds":600}"#)
        for _ in 0..<2 { #expect(try await it.login().status == 200) }
        let limited = try await it.login()
        #expect(try Fixture.error(limited) == ["429", "-", "too many requests"])
        #expect((590...600).contains(Int(limited["retry-after"] ?? "") ?? 0))
        #expect(try await it.control("GET", "/rate-limits").array.count == 1)
        try await it.control("DELETE", "/rate-limits")
        #expect(try await it.login().status == 200)
        await it.emulator.stop()
    }

    @Test("maintenance can be planned like every fault")
    func maintenance() async throws {
        let it = try await Fixture()
        try await it.control("POST", "/faults", #"{"route":"login","fault":"maintenance","times":1}"#)
        #expect(try await Fixture.error(it.login()).prefix(2) == ["500", "MaintenanceInProgress"])
        #expect(try await it.login().status == 200)
        await it.emulator.stop()
    }

    @Test(
        "parts that are not emulated say so",
        arguments: [
            ("GET", Fixture.app + "/realm-sync"), ("POST", Fixture.app + "/graphql"),
            ("POST", "/app/demo-abcde/endpoint/data/v1/action/findOne"), ("GET", "/api/admin/v3.0/groups"),
        ])
    func notEmulated(method: String, path: String) async throws {
        let it = try await Fixture()
        let response = try await it.call(method, path)
        #expect(response.status == 501)
        #expect(try response.json["error"].string?.hasSuffix("is not emulated") == true)
        await it.emulator.stop()
    }

    @Test("a browser of any origin may call and read, with every field that it asks for")
    func browsers() async throws {
        let it = try await Fixture()
        let path = Fixture.app + "/auth/providers/anon-user/login"
        let preflight = try await RawClient.ask(
            it.endpoint, "OPTIONS", path,
            fields: [("Origin", "http://a"), ("Access-Control-Request-Headers", "authorization,x-more")])
        #expect(preflight.status == 204)
        #expect(preflight["access-control-allow-headers"] == "authorization,x-more")
        #expect(preflight["access-control-allow-origin"] == "*")
        for method in ["GET", "POST", "PUT", "DELETE"] {
            #expect(preflight["access-control-allow-methods"]?.contains(method) == true)
        }
        for response in [try await it.login("anon-user", "{}"), try await it.login("nothing", "{}")] {
            #expect(response["access-control-allow-origin"] == "*")
            #expect(response["access-control-expose-headers"]?.contains("x-appservices-request-id") == true)
        }
        await it.emulator.stop()
    }

    @Test(
        "with allowed_request_origins only pages of these may call and read; other programs send no Origin",
        arguments: [
            ("https://app.example.com", true), ("https://a.b.example.com", true), ("http://localhost:3000", true),
            ("HTTPS://App.Example.com", true), ("https://example.com", false), ("https://app.example.com.evil", false),
            ("http://app.example.com", false), ("http://localhost:3001", false), ("null", false),
        ])
    func origins(origin: String, isAllowed: Bool) async throws {
        let it = try await Fixture(
            yaml: Fixture.app(
                """
                    users:
                      - {email: alice@example.com, password: correct-horse}
                    allowed_request_origins: ["https://*.example.com", "http://localhost:3000"]
                """))
        let tokens = try await it.tokens()
        let login = Fixture.app + "/auth/providers/local-userpass/login"
        let body = #"{"username":"alice@example.com","password":"correct-horse"}"#
        for (method, path, bearer, content, status) in [
            ("OPTIONS", login, nil, nil, 204), ("POST", login, nil, body, 200),
            ("GET", Fixture.app + "/location", nil, nil, 200),
            ("OPTIONS", Fixture.session, nil, nil, 204), ("POST", Fixture.session, tokens.refresh, nil, 201),
            ("GET", Fixture.profile, tokens.access, nil, 200),
        ] as [(String, String, String?, String?, Int)] {
            let fields = [("Origin", origin)] + (bearer.map { [("Authorization", "Bearer \($0)")] } ?? [])
            let response = try await RawClient.ask(it.endpoint, method, path, fields: fields, body: content)
            #expect(response["access-control-allow-origin"] == (isAllowed ? origin : nil), "\(method) \(path)")
            if isAllowed {
                #expect(response.status == status && response["vary"] == "Origin", "\(method) \(path)")
            } else {
                #expect(try Fixture.error(response) == ["403", "-", "origin forbidden"], "\(method) \(path)")
            }
        }
        await it.emulator.stop()
    }

    @Test(
        "a response on a kept connection comes as soon as one on a new connection: its body does not wait for the head's receipt"
    )
    func keptConnection() async throws {
        let it = try await Fixture()
        let kept = try RawClient(it.endpoint)
        var (keptTimes, newTimes): ([Duration], [Duration]) = ([], [])
        for _ in 0..<25 {
            let start = ContinuousClock.now
            #expect(try kept.exchange("GET", Fixture.app + "/location").status == 200)
            let middle = ContinuousClock.now
            #expect(try RawClient(it.endpoint).exchange("GET", Fixture.app + "/location").status == 200)
            keptTimes.append(middle - start)
            newTimes.append(.now - middle)
        }
        // 41 ms to 1 ms without TCP_NODELAY.
        #expect(keptTimes.sorted()[12] < newTimes.sorted()[12] * 8, "\(keptTimes)")
        await it.emulator.stop()
    }

    @Test(
        "a disabled user's access token stays, its sessions end, its logins are refused; enabled again it is the same user"
    )
    func disabledUser() async throws {
        let it = try await Fixture()
        let login = try await it.login().json
        try await it.control("POST", "/users/disable", #"{"user":"alice@example.com"}"#)
        #expect(try await it.profile(login["access_token"].string)["user_id"] == login["user_id"])
        #expect(
            try await Fixture.error(it.refresh(login["refresh_token"].string!))
                == ["401", "InvalidSession", "invalid session: failed to find refresh token"])
        #expect(try await Fixture.error(it.login())[1] == "UserDisabled")
        try await it.control("POST", "/users/enable", #"{"user":"alice@example.com"}"#)
        #expect(try await it.login().json["user_id"] == login["user_id"])
        await it.emulator.stop()
    }

    @Test("a client that knows its device id keeps it, in both spellings; zeros are no id")
    func deviceIDs() async throws {
        let it = try await Fixture()
        let known = String(repeating: "ab", count: 12), zeros = String(repeating: "0", count: 24)
        for value in [#""\#(known)""#, #"{"$oid":"\#(known)"}"#] {
            let login = try await it.login("anon-user", #"{"options":{"device":{"deviceId":\#(value)}}}"#).json
            #expect(login["device_id"].string == known)
            let claims = try Fixture.claims(login["access_token"].string!)
            #expect(claims["baas_device_id"].string == known && claims["stitch_devId"].string == known)
        }
        let fresh = try await it.login("anon-user", #"{"options":{"device":{"deviceId":"\#(zeros)"}}}"#).json
        #expect(fresh["device_id"].string != zeros)
        await it.emulator.stop()
    }

    private static let twoApps = """
        apps:
          - app_id: one-aaaaa
            users: [{email: alice@example.com, password: first-password}]
            providers: {anon-user: {}, local-userpass: {}, api-key: {enabled: false}}
            push_services: [gcm]
          - app_id: two-bbbbb
            users: [{email: alice@example.com, password: second-password, disabled: true, custom_data: {n: 1}}]
            providers: {local-userpass: {}}
            push_services: [gcm]
        """

    @Test("apps have users and providers of their own, and a token is good for its app alone")
    func severalApps() async throws {
        let it = try await Fixture(yaml: Self.twoApps)
        func login(_ app: String, _ provider: String, _ body: String) async throws -> RawMessage {
            try await it.call("POST", "/api/client/v2.0/app/\(app)/auth/providers/\(provider)/login", body)
        }
        let body = #"{"username":"alice@example.com","password":"first-password"}"#
        let one = try await login("one-aaaaa", "local-userpass", body).json
        #expect(try await login("two-bbbbb", "local-userpass", body).status == 401)
        let second = body.replacing("first", with: "second")
        #expect(try await Fixture.error(login("two-bbbbb", "local-userpass", second))[1] == "UserDisabled")
        try await it.control("POST", "/users/enable", #"{"user":"alice@example.com","app":"two-bbbbb"}"#)
        let two = try await login("two-bbbbb", "local-userpass", second).json
        #expect(two["user_id"] != one["user_id"])
        #expect(try Fixture.claims(two["access_token"].string!)["user_data"]["n"]["$numberInt"].string == "1")
        for (provider, app) in [("anon-user", "two-bbbbb"), ("api-key", "one-aaaaa"), ("custom-token", "one-aaaaa")] {
            #expect(
                try await Fixture.error(login(app, provider, "{}"))
                    == ["401", "InvalidSession", "authentication via '\(provider)' is unsupported"])
        }
        let push = "/api/client/v2.0/app/two-bbbbb/push/providers/gcm/registration"
        let foreign = try await it.call("DELETE", push, bearer: one["access_token"].string)
        #expect(try Fixture.error(foreign).prefix(2) == ["401", "UserAppDomainMismatch"])
        #expect(try await it.profile(two["access_token"].string)["user_id"] == two["user_id"])
        #expect(try await it.control("GET", "/sessions?app=two-bbbbb").array.count == 1)
        #expect(try await it.control("GET", "/users?app=one-aaaaa").array.count == 1)
        await it.emulator.stop()
    }
}
