import LanyardEmulator
import TestSupport
import Testing

/// A user's own API keys.
@Suite struct APIKeyTests {
    typealias Fixture = EmulatorFixture

    private static let path = "/api/client/v2.0/auth/api_keys"

    private func keys(
        _ it: Fixture, _ method: String, _ path: String, _ token: String?, _ body: String? = nil
    ) async throws -> RawMessage { try await it.call(method, Self.path + path, bearer: token, body) }

    @Test("a key is made, listed, disabled, enabled, logs in as its owner, and is deleted")
    func life() async throws {
        let it = try await Fixture()
        let login = try await it.login().json
        let refresh = login["refresh_token"].string
        let created = try await keys(it, "POST", "", refresh, #"{"name":"my-key_1"}"#)
        #expect(created.status == 201)
        let key = try created.json
        let id = try #require(key["_id"].string), secret = try #require(key["key"].string)
        #expect(
            secret.count == 64 && id.count == 24 && key["disabled"].bool == false && key["name"].string == "my-key_1")
        let listed = JSON.object(["_id": .string(id), "name": .string("my-key_1"), "disabled": .bool(false)])
        #expect(try await keys(it, "GET", "", refresh).json == .array([listed]))
        #expect(try await keys(it, "GET", "/\(id)", refresh).json == listed)
        let byKey = try await it.login("api-key", #"{"key":"\#(secret)"}"#).json
        #expect(byKey["user_id"] == login["user_id"])
        #expect(try Fixture.claims(byKey["refresh_token"].string!)["baas_identity"]["id"].string == id)
        let own = try await keys(it, "DELETE", "/\(id)", byKey["refresh_token"].string)
        #expect(own.status == 403)
        for _ in 0..<2 { #expect(try await keys(it, "PUT", "/\(id)/disable", refresh).status == 204) }
        #expect(try await keys(it, "GET", "/\(id)", refresh).json["disabled"].bool == true)
        #expect(
            try await Fixture.error(it.login("api-key", #"{"key":"\#(secret)"}"#)) == [
                "401", "AuthError", "unauthorized",
            ])
        for _ in 0..<2 { #expect(try await keys(it, "PUT", "/\(id)/enable", refresh).status == 204) }
        #expect(try await it.login("api-key", #"{"key":"\#(secret)"}"#).status == 200)
        #expect(try await keys(it, "DELETE", "/\(id)", refresh).status == 204)
        #expect(
            try await Fixture.error(keys(it, "GET", "/\(id)", refresh)) == [
                "404", "APIKeyNotFound", "API key not found",
            ])
        #expect(try await it.login("api-key", #"{"key":"\#(secret)"}"#).status == 401)
        await it.emulator.stop()
    }

    @Test("bad names are refused in the service's words, and a name serves once")
    func names() async throws {
        let it = try await Fixture()
        let (_, refresh) = try await it.tokens()
        let required = ["400", "-", "'name' is a required string"]
        for body in [#"{"name":""}"#, "{}", #"{"name":5}"#] {
            #expect(try await Fixture.error(keys(it, "POST", "", refresh, body)) == required)
        }
        for name in ["%", "a b", "ä", "a.b"] {
            #expect(
                try await Fixture.error(keys(it, "POST", "", refresh, #"{"name":"\#(name)"}"#)) == [
                    "400", "InvalidParameter",
                    "can only contain ASCII letters, numbers, underscores, and hyphens",
                ])
        }
        #expect(try await keys(it, "POST", "", refresh, #"{"name":"one"}"#).status == 201)
        #expect(
            try await Fixture.error(keys(it, "POST", "", refresh, #"{"name":"one"}"#))
                == ["409", "APIKeyAlreadyExists", "API key with name already exists"])
        for number in 2...20 {
            #expect(try await keys(it, "POST", "", refresh, #"{"name":"k\#(number)"}"#).status == 201)
        }
        #expect(try await keys(it, "POST", "", refresh, #"{"name":"k21"}"#).status == 400)
        await it.emulator.stop()
    }

    @Test("every call demands a refresh token, and another user's key is not found")
    func tokens() async throws {
        let it = try await Fixture()
        let (access, refresh) = try await it.tokens()
        let id = try await keys(it, "POST", "", refresh, #"{"name":"one"}"#).json["_id"].string!
        let calls = [
            ("POST", "", #"{"name":"x"}"# as String?), ("GET", "", nil), ("GET", "/\(id)", nil),
            ("DELETE", "/\(id)", nil),
            ("PUT", "/\(id)/enable", nil), ("PUT", "/\(id)/disable", nil),
        ]
        try await it.control("POST", "/users", #"{"email":"bob@example.com","password":"123456"}"#)
        let bob = try await it.login(email: "bob@example.com", "123456").json["refresh_token"].string
        for (method, path, body) in calls {
            #expect(
                try await Fixture.error(keys(it, method, path, nil, body)) == ["401", "-", "must authenticate first"])
            #expect(
                try await Fixture.error(keys(it, method, path, "", body))
                    == ["401", "-", "expected Authorization header with JWT (Bearer schema)"])
            #expect(
                try await Fixture.error(keys(it, method, path, access, body))
                    == ["401", "-", "invalid refresh token: incorrect token type"])
            guard !path.isEmpty else { continue }
            #expect(
                try await Fixture.error(keys(it, method, path, bob, body)) == [
                    "404", "APIKeyNotFound", "API key not found",
                ])
        }
        #expect(try await keys(it, "GET", "", bob).json == .array([]))
        let anonymous = try await it.anonymous()["refresh_token"].string
        #expect(try await keys(it, "GET", "", anonymous).status == 403)
        await it.emulator.stop()
    }
}
