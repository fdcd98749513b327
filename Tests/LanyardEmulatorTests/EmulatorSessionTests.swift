import Glibc
import LanyardEmulator
import TestSupport
import Testing

@Suite struct EmulatorSessionTests {
    typealias Fixture = EmulatorFixture

    @Test("location has its four fields, with the origins of the request's own Host")
    func location() async throws {
        let it = try await Fixture()
        let response = try await it.call("GET", Fixture.app + "/location")
        #expect(response.values("content-type") == ["application/json"])
        #expect(
            try response.json
                == .object([
                    "deployment_model": .string("LOCAL"), "location": .string("US-VA"),
                    "hostname": .string("http://\(it.endpoint)"), "ws_hostname": .string("ws://\(it.endpoint)"),
                ]))
        await it.emulator.stop()
    }

    @Test("a login gives two tokens, a user id and, to a client that describes itself, a device id")
    func login() async throws {
        let it = try await Fixture()
        let plain = try await it.login()
        #expect(plain.status == 200)
        #expect(try plain.json["device_id"].string == String(repeating: "0", count: 24))
        let body =
            #"{"username":"alice@example.com","password":"correct-horse","provider":"local-userpass","options":{"device":{}}}"#
        let described = try await it.login("local-userpass", body).json
        #expect(described["device_id"].string != String(repeating: "0", count: 24))
        #expect(try described["user_id"] == plain.json["user_id"])
        await it.emulator.stop()
    }

    @Test("tokens carry the service's claims and the configured lifetimes")
    func claims() async throws {
        let it = try await Fixture { $0.accessTokenSeconds = 20 }
        let (access, refresh) = try await it.tokens()
        let accessClaims = try Fixture.claims(access), refreshClaims = try Fixture.claims(refresh)
        #expect(accessClaims["typ"].string == "access" && refreshClaims["typ"].string == "refresh")
        #expect(accessClaims["exp"].int! - accessClaims["iat"].int! == 20)
        #expect(refreshClaims["exp"].int! - refreshClaims["iat"].int! == 5_184_000)
        #expect(
            accessClaims["iss"] == refreshClaims["baas_id"] && refreshClaims["baas_id"] == refreshClaims["stitch_id"])
        #expect(abs(accessClaims["iat"].int! - time(nil)) <= 2)
        #expect(refreshClaims["baas_identity"]["provider_type"].string == "local-userpass")
        #expect(
            try Base64URL.decode(String(access.split(separator: ".")[0])) == Array(#"{"alg":"HS256","typ":"JWT"}"#.utf8)
        )
        await it.emulator.stop()
    }

    @Test("a refresh answers 201 with a new access token and nothing else; the refresh token stays good")
    func refresh() async throws {
        let it = try await Fixture()
        let (access, refresh) = try await it.tokens()
        for _ in 0..<2 {
            let response = try await it.refresh(refresh)
            #expect(response.status == 201)
            #expect(try Array(response.json.object.keys) == ["access_token"])
            #expect(try response.json["access_token"].string != access)
        }
        await it.emulator.stop()
    }

    @Test("a logout ends the refresh token, not the access token")
    func logout() async throws {
        let it = try await Fixture()
        let (access, refresh) = try await it.tokens()
        #expect(try await it.call("DELETE", Fixture.session, bearer: refresh).status == 204)
        #expect(try await it.protected(access).status == 200)
        let dead = ["401", "InvalidSession", "invalid session: failed to find refresh token"]
        #expect(try await Fixture.error(it.refresh(refresh)) == dead)
        #expect(try await Fixture.error(it.call("DELETE", Fixture.session, bearer: refresh)) == dead)
        await it.emulator.stop()
    }

    @Test("anonymous logins make a new user each, with or without a body; a key logs its server user in")
    func otherKinds() async throws {
        let it = try await Fixture()
        let one = try await it.call("POST", Fixture.app + "/auth/providers/anon-user/login").json
        let two = try await it.login("anon-user", "{}").json
        #expect(one["user_id"].string != nil && one["user_id"] != two["user_id"])
        let body = #"{"key":"\#(Fixture.key)"}"#
        let key = try await it.login("api-key", body).json
        #expect(try await it.login("api-key", body).json["user_id"] == key["user_id"])
        let profile = try await it.call("GET", Fixture.profile, bearer: key["access_token"].string).json
        #expect(profile["type"].string == "server" && profile["data"]["name"].string == "ci")
        await it.emulator.stop()
    }

    @Test("a registered email is confirmed at once and logs in")
    func register() async throws {
        let it = try await Fixture()
        let path = Fixture.app + "/auth/providers/local-userpass/register"
        #expect(try await it.call("POST", path, #"{"email":"bob@example.com","password":"123456"}"#).status == 201)
        let login = try await it.login("local-userpass", #"{"username":"bob@example.com","password":"123456"}"#)
        let profile = try await it.call("GET", Fixture.profile, bearer: login.json["access_token"].string).json
        #expect(profile["data"]["email"].string == "bob@example.com" && profile["type"].string == "normal")
        #expect(profile["identities"][0]["provider_type"].string == "local-userpass")
        let taken = try await it.call("POST", path, #"{"email":"bob@example.com","password":"123456"}"#)
        #expect(try Fixture.error(taken) == ["409", "AccountNameInUse", "name already in use"])
        await it.emulator.stop()
    }

    @Test("after a stop and a restart the sessions are still known, at the same address")
    func restart() async throws {
        let it = try await Fixture()
        let (_, refresh) = try await it.tokens()
        await it.emulator.stop()
        await #expect(throws: TestFailure.self) { try await it.refresh(refresh) }
        let again = try await it.emulator.restart()
        #expect(again.port == it.emulator.port)
        #expect(try await it.refresh(refresh).status == 201)
        await again.stop()
    }

    @Test("an address in use is told at once")
    func inUse() async throws {
        let it = try await Fixture()
        var options = EmulatorOptions()
        options.listen = it.emulator.address
        let listen = options
        await #expect(throws: Emulator.StartError.self) { try await Emulator.start(listen) }
        await it.emulator.stop()
    }
}
