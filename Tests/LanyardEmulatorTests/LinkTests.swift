import LanyardEmulator
import TestSupport
import Testing

/// Identities: linking, profiles, deletion.
@Suite struct LinkTests {
    typealias Fixture = EmulatorFixture

    private static let configuration = Fixture.app(
        """
            users:
              - {email: alice@example.com, password: correct-horse}
              - {email: bob@example.com, password: correct-horse}
            providers:
              anon-user: {}
              local-userpass: {}
              api-key: {}
              custom-function: {function: auth}
              oauth2-facebook: {tokens: {good: {id: "77", name: Alice, picture: "http://localhost/a.png"}}}
            functions:
              auth: {result_path: id}
        """)

    private static let alice = #"{"username":"alice@example.com","password":"correct-horse"}"#
    private static let bob = #"{"username":"bob@example.com","password":"correct-horse"}"#

    private func link(
        _ it: Fixture, _ provider: String, _ body: String, _ token: String?
    ) async throws -> RawMessage {
        try await it.call("POST", Fixture.app + "/auth/providers/\(provider)/login?link=true", bearer: token, body)
    }

    @Test("a linked account keeps its id and its order of identities, and each of three logins leads to it")
    func threeIdentities() async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let user = try await it.anonymous()
        let token = user["access_token"].string
        let linked = try await link(it, "local-userpass", Self.alice, token)
        #expect(linked.status == 200)
        #expect(try linked.json["user_id"] == user["user_id"] && linked.json["refresh_token"] == .null)
        #expect(try linked.json["device_id"] == user["device_id"])
        let newToken = try linked.json["access_token"].string
        #expect(newToken != nil && newToken != token)
        #expect(try await link(it, "custom-function", #"{"id":"alice-1"}"#, newToken).status == 200)
        #expect(try await link(it, "oauth2-facebook", #"{"accessToken":"good"}"#, newToken).status == 200)
        let profile = try await it.profile(newToken)
        #expect(
            profile["identities"].array.map { $0["provider_type"].string } == [
                "anon-user", "local-userpass", "custom-function", "oauth2-facebook",
            ])
        #expect(profile["identities"][2]["id"].string == "alice-1")
        #expect(profile["data"]["email"].string == "alice@example.com" && profile["data"]["name"].string == "Alice")
        #expect(profile["data"]["picture"] == profile["data"]["picture_url"])
        for (provider, body) in [
            ("local-userpass", Self.alice), ("custom-function", #"{"id":"alice-1"}"#),
            ("oauth2-facebook", #"{"accessToken":"good"}"#),
        ] {
            #expect(try await it.login(provider, body).json["user_id"] == user["user_id"])
        }
        #expect(await it.emulator.journal().filter { $0.effect == .linked }.count == 3)
        await it.emulator.stop()
    }

    @Test(
        "the same credentials again change nothing; those of another user, a wrong password and a second email are refused"
    )
    func refusals() async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let alice = try await it.login("local-userpass", Self.alice).json["access_token"].string
        #expect(try await link(it, "local-userpass", Self.alice, alice).status == 200)
        #expect(try await it.profile(alice)["identities"].array.count == 1)
        #expect(try await Fixture.error(link(it, "local-userpass", Self.bob, alice)) == ["500", "-", "unauthorized"])
        _ = try await it.login("local-userpass", Self.bob)
        let inUse = ["401", "InvalidSession", "unauthorized"]
        #expect(try await Fixture.error(link(it, "local-userpass", Self.bob, alice)) == inUse)
        let wrong = Self.bob.replacing("correct-horse", with: "wrong-horse")
        #expect(
            try await Fixture.error(link(it, "local-userpass", wrong, alice)) == [
                "401", "InvalidPassword", "unauthorized",
            ])
        #expect(try await Fixture.error(link(it, "oauth2-facebook", #"{"accessToken":"bad"}"#, alice)) == inUse)
        #expect(
            try await Fixture.error(it.login("oauth2-facebook", #"{"accessToken":"bad"}"#))
                == ["401", "AuthError", "unauthorized"])
        #expect(try await Fixture.error(link(it, "anon-user", "{}", alice))[0] == "400")
        #expect(
            try await Fixture.error(link(it, "custom-function", #"{"id":"x"}"#, nil)) == [
                "401", "-", "must authenticate first",
            ])
        await it.emulator.stop()
    }

    @Test("switches: verbose texts, and link failures that realm-web does not repeat")
    func switches() async throws {
        let it = try await Fixture(yaml: Self.configuration) { $0.verboseTexts = true }
        let alice = try await it.login("local-userpass", Self.alice).json["access_token"].string
        _ = try await it.login("local-userpass", Self.bob)
        let text = "a user already exists with the specified provider"
        #expect(
            try await Fixture.error(link(it, "local-userpass", Self.bob, alice)) == ["401", "InvalidSession", text])
        try await it.control("PUT", "/settings", #"{"verbose_texts":false,"web_link_failures":true}"#)
        #expect(try await Fixture.error(link(it, "local-userpass", Self.bob, alice)) == ["401", "AuthError", text])
        await it.emulator.stop()
    }

    @Test("a user deletes its own account: its sessions end, its login is refused, its email is free")
    func delete() async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let login = try await it.login("local-userpass", Self.alice).json
        let path = "/api/client/v2.0/auth/delete"
        #expect(try await it.call("DELETE", path, bearer: login["refresh_token"].string).status == 401)
        #expect(try await it.call("DELETE", path, bearer: login["access_token"].string).status == 204)
        let dead = ["401", "InvalidSession", "invalid session: failed to find refresh token"]
        #expect(try await Fixture.error(it.refresh(login["refresh_token"].string!)) == dead)
        #expect(try await Fixture.error(it.call("DELETE", path, bearer: login["access_token"].string)) == dead)
        #expect(
            try await Fixture.error(it.login("local-userpass", Self.alice)) == [
                "401", "InvalidPassword", "unauthorized",
            ])
        #expect(try await it.email("register", #"{"email":"alice@example.com","password":"123456"}"#).status == 201)
        #expect(await it.emulator.sessions().map(\.end) == [.accountDeleted])
        await it.emulator.stop()
    }

    @Test("an anonymous account is gone after 90 days, a linked one is not; its refresh token lives for 50 years")
    func anonymousAge() async throws {
        let it = try await Fixture(yaml: Self.configuration)
        let lone = try await it.anonymous(), linked = try await it.anonymous()
        let claims = try Fixture.claims(lone["refresh_token"].string!)
        #expect(claims["exp"].int! - claims["iat"].int! == 1_576_800_000)
        _ = try await link(it, "local-userpass", Self.alice, linked["access_token"].string)
        try await it.control("PUT", "/settings", #"{"clock_offset_seconds":7776001}"#)
        #expect(try await it.refresh(lone["refresh_token"].string!).status == 401)
        #expect(try await it.refresh(linked["refresh_token"].string!).status == 201)
        await it.emulator.stop()
    }
}
