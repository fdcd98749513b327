import LanyardEmulator
import TestSupport
import Testing

/// Apps by file and by control call.
@Suite struct ConfigurationTests {
    typealias Fixture = EmulatorFixture

    @Test(
        "a configuration that cannot be used says where and why",
        arguments: [
            (
                "    colour: blue",
                "line 2: unknown key colour; known are app_id, name, users, api_keys, providers"
            ),
            ("    allowed_request_origins: [example.com]", "example.com is no origin, such as https://*.example.com"),
            ("    functions: {f: {argument: 0, result: 1}}", "argument is a whole number from 1"),
            ("    providers: {email: {}}", "unknown key email; known are anon-user, local-userpass"),
            ("    providers: {local-userpass: {confirmation: maybe}}", "confirmation is automatic, email or function"),
            ("    providers: {local-userpass: {confirmation: function}}", "confirmation_function is missing"),
            (
                "    providers: {local-userpass: {reset: function, reset_function: f}}",
                "reset_function: app demo-abcde has no function f"
            ),
            ("    providers: {custom-function: {}}", "function is missing"),
            ("    providers: {custom-token: {}}", "one of keys, jwks, jwks_file is missing"),
            (
                "    providers: {custom-token: {keys: [{algorithm: HS512, secret: x}]}}",
                "algorithm is HS256, RS256 or ES256"
            ),
            (
                "    providers: {custom-token: {keys: [{algorithm: RS256, secret: x}]}}",
                "RS256 needs public_key or public_key_file"
            ),
            (
                "    providers: {custom-token: {keys: [{algorithm: ES256, public_key: x}]}}",
                "no PEM of an RSA or P-256 public key or certificate"
            ),
            ("    providers: {oauth2-google: {jwks: {keys: []}}}", "no key for HS256, RS256 or ES256 in the JWK set"),
            ("    providers: {oauth2-google: {jwks: {keys: [{kty: RSA, n: '*'}]}}}", "key 1: n is no base64url"),
            ("    providers: {oauth2-google: {jwks_file: none.json}}", "./none.json: cannot be read"),
            ("    providers: {oauth2-facebook: {tokens: {t: {name: x}}}}", "id is missing"),
            ("    functions: {f: {}}", "one of result, result_path, error, events is missing"),
            ("    functions: {f: {result: 1, error: x}}", "one of result, error is too many"),
            ("    functions: {f: {builtin: none}}", "no built-in function none; there are sum, echo"),
            ("    functions: {f: {builtin: sum, result: 1}}", "beside builtin only private may stand"),
            ("    functions: {f: {times: 0, result: 1}}", "times is a whole number from 1"),
            ("    users: [{email: a, password: b, confirmed: perhaps}]", "confirmed is true or false"),
            ("    name: [a]", "name is no text"), ("    name: a\n    name: b", "line 4: name is there twice"),
        ])
    func refused(text: String, problem: String) throws {
        let failure = #expect(throws: SeedReader.ReadError.self) { try SeedReader.parse(Fixture.app(text)) }
        #expect(failure?.description.contains(problem) == true, "\(failure?.description ?? "")")
        #expect(failure?.description.hasPrefix("line ") == true)
    }

    @Test("an app can be made and changed while the emulator runs; files can be named in a file alone")
    func control() async throws {
        let it = try await Fixture()
        let app =
            #"{"app_id":"more-fffff","users":[{"email":"m@example.com","password":"123456"}],"functions":{"f":{"result":1}}}"#
        #expect(try await it.call("POST", "/emulator/apps", app).status == 201)
        #expect(try await it.call("POST", "/emulator/apps", app).status == 200)
        let apps = try await it.control("GET", "/apps").array
        #expect(apps.map { $0["app_id"].string } == ["demo-abcde", "more-fffff"])
        #expect(apps[1]["name"].string == "more" && apps[1]["users"].int == 1)
        #expect(apps[1]["functions"] == .array([.string("f")]))
        #expect(apps[0]["providers"]["local-userpass"]["confirmation"].string == "automatic")
        let body = #"{"username":"m@example.com","password":"123456"}"#
        let path = "/api/client/v2.0/app/more-fffff/auth/providers/local-userpass/login"
        #expect(try await it.call("POST", path, body).status == 200)
        let provider = #"{"app":"more-fffff","provider":"local-userpass"}"#
        try await it.control("POST", "/providers/disable", provider)
        #expect(try await Fixture.error(it.call("POST", path, body))[1] == "InvalidSession")
        try await it.control("POST", "/providers/enable", provider)
        #expect(try await it.call("POST", path, body).status == 200)
        let file = #"{"app_id":"x","users":[{"email":"a","password_file":"/etc/hostname"}]}"#
        #expect(try await it.call("POST", "/emulator/apps", file).status == 400)
        #expect(try await it.call("POST", "/emulator/providers/enable", #"{"provider":"x"}"#).status == 400)
        #expect(try await it.call("GET", "/emulator/sessions?app=none").status == 404)
        await it.emulator.stop()
    }

    @Test("the first app is the one of the options, or the first of the file; it has the users beside the apps")
    func firstApp() async throws {
        let text = "users: [{email: a@example.com, password: '123456'}]\napps: [{app_id: x}, {app_id: y}]"
        for (chosen, expected) in [(nil, ["x", "y"]), ("y", ["y", "x"]), ("z", ["z", "x", "y"])]
            as [(String?, [String])]
        {
            let it = try await Fixture(yaml: text) { if let chosen { $0.appID = chosen } }
            let apps = try await it.control("GET", "/apps").array
            #expect(apps.map { $0["app_id"].string } == expected)
            #expect(apps.map { $0["users"].int } == expected.indices.map { $0 == 0 ? 1 : 0 })
            await it.emulator.stop()
        }
    }

    @Test("users are shown with all that belongs to them, calls with their path and app")
    func contents() async throws {
        let it = try await Fixture()
        try await it.control(
            "POST", "/users",
            #"{"email":"p@example.com","password":"123456","confirmed":false,"custom_data":{"a":1}}"#)
        _ = try await it.login()
        let users = try await it.control("GET", "/users").array
        #expect(users.map { $0["email"].string } == ["alice@example.com", "p@example.com"])
        #expect(users.map { $0["status"].string } == ["confirmed", "pending"])
        #expect(users[1]["user_id"] == .null && users[1]["custom_data"]["a"].int == 1)
        #expect(users[0]["identities"][0]["provider_type"].string == "local-userpass" && users[0]["sessions"].int == 1)
        let call = try #require(try await it.control("GET", "/calls").array.last)
        #expect(
            call["method"].string == "POST" && call["app"].string == "demo-abcde" && call["route"].string == "login")
        #expect(call["path"].string == Fixture.app + "/auth/providers/local-userpass/login")
        await it.emulator.stop()
    }
}
