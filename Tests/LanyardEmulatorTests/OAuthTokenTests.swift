import COpenSSL
import Foundation
import LanyardEmulator
import TestSupport
import Testing

@Suite struct OAuthTokenTests {
    typealias Fixture = OAuthFixture

    @Test("a refresh token is revoked with its session, an access token alone; an unknown one is no error (RFC 7009)")
    func revocation() async throws {
        let it = try await Fixture()
        let basic = Fixture.basic("lanyard", "s3cret")
        func revoke(_ token: String?) async throws -> RawMessage {
            try await it.post("/oauth/revoke", [("token", token ?? "")], authorization: basic)
        }
        let tokens = try await it.password()
        #expect(try await revoke(tokens["access_token"].string).status == 200)
        #expect(try await it.protected(tokens["access_token"].string).status == 401)
        #expect(try await it.refresh(tokens["refresh_token"].string).status == 200)
        let foreign = try await it.post(
            "/oauth/revoke", [("token", tokens["refresh_token"].string ?? ""), ("client_id", "device")])
        #expect(try Fixture.error(foreign) == "400 invalid_grant", "another client's token")
        for _ in 0..<2 { #expect(try await revoke(tokens["refresh_token"].string).status == 200) }
        #expect(try await Fixture.error(it.refresh(tokens["refresh_token"].string)) == "400 invalid_grant")
        #expect(await it.emulator.sessions().map(\.end) == [.logout])
        #expect(try await revoke("junk").status == 200)
        #expect(try await Fixture.error(revoke(nil)) == "400 invalid_request")
        let wrong = try await it.post("/oauth/revoke", [("token", "x")], authorization: Fixture.basic("lanyard", "x"))
        #expect(try Fixture.error(wrong) == "401 invalid_client")
        let effects = await it.emulator.journal().filter { $0.route == "oauth_revoke" }.map(\.effect)
        #expect(effects.prefix(4) == [.tokenRevoked, .none, .loggedOut, .sessionDead])
        await it.emulator.stop()
    }

    @Test("a revocation also ends the access tokens of its session if the switch says so")
    func revocationOfAll() async throws {
        let it = try await Fixture { $0.logoutEndsAccessTokens = true }
        let tokens = try await it.password()
        _ = try await it.post(
            "/oauth/revoke", [("token", tokens["refresh_token"].string ?? "")],
            authorization: Fixture.basic("lanyard", "s3cret"))
        #expect(try await it.protected(tokens["access_token"].string).status == 401)
        await it.emulator.stop()
    }

    @Test("introspection names what a live token is good for, and says of all others that they are inactive (RFC 7662)")
    func introspection() async throws {
        let it = try await Fixture()
        func introspect(_ token: String?) async throws -> JSON {
            try await it.post(
                "/oauth/introspect", [("token", token ?? "")], authorization: Fixture.basic("lanyard", "s3cret")
            ).json
        }
        let tokens = try await it.password([("scope", "api")])
        let access = try await introspect(tokens["access_token"].string)
        #expect(access["active"] == .bool(true) && access["scope"].string == "api")
        #expect(access["username"].string == "alice@example.com" && access["client_id"].string == "lanyard")
        #expect(try await introspect(tokens["refresh_token"].string)["active"] == .bool(true))
        try await it.control("POST", "/sessions/revoke", "{}")
        #expect(try await introspect(tokens["refresh_token"].string) == .object(["active": .bool(false)]))
        try await it.control("POST", "/tokens/expire", "{}")
        #expect(try await introspect(tokens["access_token"].string) == .object(["active": .bool(false)]))
        #expect(try await introspect("junk") == .object(["active": .bool(false)]))
        let open = try await it.post("/oauth/introspect", [("token", "x"), ("client_id", "device")])
        #expect(try Fixture.error(open) == "401 invalid_client")
        await it.emulator.stop()
    }

    @Test("userinfo has the claims of the scopes; without openid, and without a good token, it refuses (RFC 6750)")
    func userInfo() async throws {
        let it = try await Fixture()
        func ask(_ token: String?) async throws -> RawMessage {
            try await it.raw("GET", "/oauth/userinfo", authorization: token.map { "Bearer " + $0 })
        }
        let tokens = try await it.password([("scope", "openid email")])
        let claims = try await ask(tokens["access_token"].string).json
        #expect(claims["email"].string == "alice@example.com" && claims["preferred_username"] == .null)
        #expect(claims["sub"] == (try EmulatorFixture.claims(tokens["id_token"].string ?? ""))["sub"])
        let plain = try await ask(try await it.password()["access_token"].string)
        #expect(plain.status == 403 && plain["www-authenticate"]?.contains("insufficient_scope") == true)
        let none = try await ask(nil)
        #expect(none.status == 401 && none["www-authenticate"] == #"Bearer realm="lanyard-emulator""#)
        for token in ["junk", tokens["id_token"].string] {
            let refused = try await ask(token)
            #expect(refused.status == 401 && refused["www-authenticate"]?.contains("invalid_token") == true)
        }
        await it.emulator.stop()
    }

    @Test(
        "the JWK set verifies tokens; a configured RSA key gives RS256 and the same set at each start",
        arguments: [false, true])
    func keys(isConfigured: Bool) async throws {
        let pem = isConfigured ? TestAuthority().issue(key: .rsa(bits: 2048)).key : nil
        let it = try await Fixture { options in
            guard let pem else { return }
            let indented = pem.split(separator: "\n").map { "    " + $0 }.joined(separator: "\n")
            let yaml = "oauth:\n  clients: [{client_id: lanyard, secret: s3cret}]\n  signing_key: |\n" + indented
            options.oauth = try SeedReader.parse(yaml).oauth
        }
        let set = try await it.raw("GET", "/oauth/jwks").json
        let key = set["keys"][0]
        #expect(key["alg"].string == (isConfigured ? "RS256" : "ES256") && key["d"] == .null)
        let token = try await it.password([("scope", "openid")])["id_token"].string ?? ""
        let header = try JSON(Base64URL.decode(String(token.split(separator: ".")[0])))
        #expect(header["kid"] == key["kid"] && header["alg"] == key["alg"] && header["typ"].string == "JWT")
        // The emulator's own check of a custom token knows nothing of the OAuth side but this set.
        let document = try await it.raw("GET", "/oauth/jwks").bodyText
        let other = try await EmulatorFixture(
            yaml: EmulatorFixture.app(
                "    providers: {custom-token: {jwks: \(document), audience: [lanyard]}}\n"))
        #expect(try await other.login("custom-token", #"{"token":"\#(token)"}"#).status == 200)
        await other.emulator.stop()
        let tampered = token.dropLast(4) + "AAAA"
        #expect(try await it.protected(String(tampered)).status == 401)
        await it.emulator.stop()
    }

    @Test("an access token is exchanged for one of another audience; an actor is named; what is no token is refused")
    func exchange() async throws {
        let it = try await Fixture()
        let type = "urn:ietf:params:oauth:token-type:"
        let alice = try await it.password([("scope", "openid api")])
        let robot = try await it.token("client_credentials").json["access_token"].string ?? ""
        let subject = [
            ("subject_token", alice["access_token"].string ?? ""), ("subject_token_type", type + "access_token"),
        ]
        let plain = try await it.token(Fixture.exchangeGrant, subject + [("audience", "orders")]).json
        let claims = try EmulatorFixture.claims(try #require(plain["access_token"].string))
        let own = try EmulatorFixture.claims(alice["access_token"].string ?? "")
        #expect(
            claims["sub"] == own["sub"] && claims["aud"].string == "orders" && claims["scope"].string == "openid api")
        #expect(plain["issued_token_type"].string == type + "access_token" && plain["refresh_token"] == .null)
        let acting = try await it.token(
            Fixture.exchangeGrant,
            subject + [("actor_token", robot), ("actor_token_type", type + "jwt"), ("scope", "read")]
        ).json
        let delegated = try EmulatorFixture.claims(try #require(acting["access_token"].string))
        #expect(delegated["act"]["sub"].string == "lanyard" && acting["scope"].string == "read")
        let identity = [("subject_token", alice["id_token"].string ?? ""), ("subject_token_type", type + "id_token")]
        #expect(try await it.token(Fixture.exchangeGrant, identity).status == 200)
        #expect(try await it.control("GET", "/tokens").array.last?["cause"].string == "exchange")
        let refused: [[(String, String)]] = [
            [], [subject[0]], [("subject_token", "junk"), subject[1]],
            [subject[0], ("subject_token_type", type + "saml2")],
            [subject[0], ("subject_token_type", type + "id_token")],
            subject + [("requested_token_type", type + "refresh_token")], subject + [("actor_token", robot)],
            subject + [("actor_token_type", type + "jwt")],
        ]
        for form in refused {
            #expect(try await Fixture.error(it.token(Fixture.exchangeGrant, form)) == "400 invalid_request", "\(form)")
        }
        #expect(
            try await Fixture.error(it.token(Fixture.exchangeGrant, subject + [("scope", "nonsense")]))
                == "400 invalid_scope")
        await it.emulator.stop()
    }

    @Test("a token of another issuer is exchanged if the configuration has the issuer's keys")
    func foreignExchange() async throws {
        let signer = ForeignTokenSigner(.p256)
        let it = try await Fixture {
            let yaml =
                "oauth: {clients: [{client_id: lanyard, secret: s3cret}], subject_jwks: {keys: [\(signer.jwk(id: "k"))]}}"
            $0.oauth = try SeedReader.parse(yaml).oauth
        }
        let type = ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt")
        let good = signer.sign(#"{"sub":"system:serviceaccount:a:b","exp":4000000000}"#, id: "k")
        let tokens = try await it.token(Fixture.exchangeGrant, [("subject_token", good), type]).json
        let claims = try EmulatorFixture.claims(try #require(tokens["access_token"].string))
        #expect(claims["sub"].string == "system:serviceaccount:a:b")
        let old = signer.sign(#"{"sub":"x","exp":1}"#, id: "k")
        let other = ForeignTokenSigner(.p256).sign(#"{"sub":"x","exp":4000000000}"#, id: "k")
        for token in [old, other] {
            let response = try await it.token(Fixture.exchangeGrant, [("subject_token", token), type])
            #expect(try Fixture.error(response) == "400 invalid_request", "\(response.bodyText)")
        }
        await it.emulator.stop()
    }
}
