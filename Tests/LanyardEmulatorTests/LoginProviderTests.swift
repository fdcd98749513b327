import Foundation
import LanyardEmulator
import TestSupport
import Testing

/// Logins with tokens of other issuers, with functions, and with a browser.
@Suite struct LoginProviderTests {
    typealias Fixture = EmulatorFixture

    private static let secret = "My_very_confidential_secretttttt"
    /// Not constant: a run of all tests with a sanitizer takes longer than ten minutes.
    /// Arguments are made when the run begins, and a sanitized run takes longer than ten minutes.
    private static var later: Int { Int(Date().timeIntervalSince1970) + 86_400 }

    private static func claims(
        _ more: String = "", subject: String = "user-1", audience: String = #""demo-abcde""#, expiry: Int = later
    ) -> String { #"{"sub":"\#(subject)","aud":\#(audience),"exp":\#(expiry)\#(more)}"# }

    private static func token(_ token: String) -> String { #"{"token":"\#(token)"}"# }

    // MARK: Custom JWTs

    private static func hs256(_ claims: String) -> String { token(ForeignTokenSigner.hs256(claims, secret: secret)) }

    private static let customToken = Fixture.app(
        #"""
            providers:
              custom-token:
                keys: [{algorithm: HS256, secret: My_very_confidential_secretttttt}]
                metadata_fields:
                  - {claim: user_data.name, field: name}
                  - {claim: user_data.occupation, field: occupation, required: true}
                  - {claim: 'a\.b', field: dotted}
        """#)
    private static let metadata = #","user_data":{"name":"Alice","occupation":"cook","age":5},"a.b":"c""#

    @Test(
        "a custom JWT's subject is the identity; only its mapped claims are in the profile, and the next token changes them"
    )
    func customJWT() async throws {
        let it = try await Fixture(yaml: Self.customToken)
        let first = try await it.login("custom-token", Self.hs256(Self.claims(Self.metadata))).json
        let profile = try await it.profile(first["access_token"].string)
        #expect(
            profile["data"]
                == .object(["name": .string("Alice"), "occupation": .string("cook"), "dotted": .string("c")]))
        #expect(profile["identities"][0]["id"].string == "user-1")
        #expect(profile["identities"][0]["provider_type"].string == "custom-token")
        let changed = Self.hs256(Self.claims(Self.metadata.replacing("cook", with: "baker")))
        let second = try await it.login("custom-token", changed).json
        #expect(second["user_id"] == first["user_id"])
        #expect(try await it.profile(second["access_token"].string)["data"]["occupation"].string == "baker")
        await it.emulator.stop()
    }

    @Test("a custom JWT that does not fit is refused; the reason is told with verbose texts only")
    func badJWT() async throws {
        let it = try await Fixture(yaml: Self.customToken)
        let header = #"{"alg":"none","typ":"JWT"}"#
        let bad = [
            ("signature is invalid", Self.token(ForeignTokenSigner.hs256(Self.claims(Self.metadata), secret: "other"))),
            ("token is expired", Self.hs256(Self.claims(Self.metadata, expiry: 1))),
            ("token has another aud", Self.hs256(Self.claims(Self.metadata, audience: #"["x","y"]"#))),
            ("token has no user_data.occupation", Self.hs256(Self.claims())),
            ("token has no sub", Self.hs256(Self.claims(Self.metadata, subject: ""))),
            ("token has no exp", Self.hs256(#"{"sub":"a","aud":"demo-abcde"}"#)),
            ("token is not valid yet", Self.hs256(Self.claims(Self.metadata + #","nbf":\#(Self.later)"#))),
            (
                "signing method is not allowed",
                Self.token(ForeignTokenSigner.hs256("{}", secret: Self.secret, header: header))
            ),
            ("token contains an invalid number of segments", Self.token("word")),
            ("token is malformed", Self.token("a.b.c")),
            ("token is too long", Self.token(String(repeating: "a", count: 1_000_001))),
        ]
        for (_, body) in bad {
            #expect(try await Fixture.error(it.login("custom-token", body)) == ["401", "AuthError", "unauthorized"])
        }
        try await it.control("PUT", "/settings", #"{"verbose_texts":true}"#)
        for (reason, body) in bad {
            #expect(
                try await Fixture.error(it.login("custom-token", body))
                    == ["401", "AuthError", "invalid custom auth token: \(reason)"])
        }
        await it.emulator.stop()
    }

    @Test("a token of the right audience is enough when one suffices; otherwise it must have all")
    func audience() async throws {
        for (any, audience, status) in [
            ("true", #""b""#, 200), ("true", #""c""#, 401), ("false", #""b""#, 401), ("false", #"["b","a","c"]"#, 200),
        ] {
            let it = try await Fixture(
                yaml: Fixture.app(
                    "    providers: {custom-token: {keys: [{algorithm: HS256, secret: \(Self.secret)}], "
                        + "audience: [a, b], require_any_audience: \(any)}}\n"))
            #expect(try await it.login("custom-token", Self.hs256(Self.claims(audience: audience))).status == status)
            await it.emulator.stop()
        }
    }

    @Test(
        "RS256 and ES256 are verified with a key, a certificate or a JWK set",
        arguments: [ForeignTokenSigner.Kind.rsa, .p256])
    func publicKeys(kind: ForeignTokenSigner.Kind) async throws {
        let signer = ForeignTokenSigner(kind), other = ForeignTokenSigner(kind)
        let folder = try TemporaryFolder()
        try folder.write("key.pem", signer.publicKey)
        try folder.write("certificate.pem", signer.certificate)
        try folder.write("keys.json", #"{"keys":[\#(other.jwk(id: "other")),\#(signer.jwk(id: "one"))]}"#)
        for keys in [
            "keys: [{algorithm: \(signer.algorithm), public_key_file: \(folder.file("key.pem"))}]",
            "keys: [{algorithm: \(signer.algorithm), public_key_file: \(folder.file("certificate.pem"))}]",
            "jwks_file: \(folder.file("keys.json"))",
        ] {
            let it = try await Fixture(yaml: Fixture.app("    providers: {custom-token: {\(keys)}}\n"))
            let good = Self.token(signer.sign(Self.claims(), id: "one"))
            #expect(try await it.login("custom-token", good).status == 200, "\(keys)")
            #expect(try await it.login("custom-token", Self.token(signer.sign(Self.claims()))).status == 200, "\(keys)")
            let foreign = ForeignTokenSigner(kind)
            for bad in [
                foreign.sign(Self.claims(), id: "one"), signer.sign(Self.claims(), id: "one", algorithm: "HS256"),
                signer.sign(Self.claims(), id: "one") + "AA",
                // The classic mistake: the public key as a shared secret.
                ForeignTokenSigner.hs256(Self.claims(), secret: signer.publicKey),
            ] {
                #expect(try await it.login("custom-token", Self.token(bad)).status == 401, "\(keys)")
            }
            await it.emulator.stop()
        }
    }

    // MARK: Google, Apple, Facebook

    @Test(
        "ID tokens of Google and Apple are verified: key, issuer, audience",
        arguments: ["oauth2-google", "oauth2-apple"])
    func idTokens(provider: String) async throws {
        let signer = ForeignTokenSigner(.rsa)
        let isGoogle = provider == "oauth2-google"
        let issuer = isGoogle ? "https://accounts.google.com" : "https://appleid.apple.com"
        let it = try await Fixture(
            yaml: Fixture.app(
                "    providers: {\(provider): {jwks: {keys: [\(signer.jwk(id: "k"))]}, client_ids: [mine]}}\n"))
        func login(audience: String, issuer: String, by signer: ForeignTokenSigner) async throws -> RawMessage {
            let more = #","iss":"\#(issuer)","email":"a@example.com","given_name":"A""#
            let token = signer.sign(Self.claims(more, audience: #""\#(audience)""#), id: "k")
            return try await it.login(provider, #"{"id_token":"\#(token)"}"#)
        }
        let user = try await login(audience: "mine", issuer: issuer, by: signer).json
        let profile = try await it.profile(user["access_token"].string)
        #expect(profile["data"] == .object(["email": .string("a@example.com"), "first_name": .string("A")]))
        #expect(profile["identities"][0]["id"].string == "user-1")
        let refused = ["401", "AuthError", "unauthorized"]
        #expect(try await Fixture.error(login(audience: "other", issuer: issuer, by: signer)) == refused)
        #expect(try await Fixture.error(login(audience: "mine", issuer: "https://evil", by: signer)) == refused)
        #expect(try await Fixture.error(login(audience: "mine", issuer: issuer, by: .init(.rsa))) == refused)
        #expect(try await Fixture.error(it.login(provider, "{}"))[1] == "MissingParameter")
        await it.emulator.stop()
    }

    @Test("an authorization code works once if the configuration says so", arguments: [false, true])
    func authorizationCodes(once: Bool) async throws {
        let it = try await Fixture(
            yaml: Fixture.app(
                "    providers: {oauth2-google: {auth_codes: {c: {id: '1', name: A}}, codes_work_once: \(once)}}\n"))
        #expect(try await it.login("oauth2-google", #"{"authCode":"c"}"#).status == 200)
        #expect(try await it.login("oauth2-google", #"{"authCode":"c"}"#).status == (once ? 401 : 200))
        #expect(try await it.login("oauth2-google", #"{"authCode":"d"}"#).status == 401)
        await it.emulator.stop()
    }

    @Test(
        "the demo configuration has every provider",
        arguments: [
            ("anon-user", "{}"), ("local-userpass", #"{"username":"alice@example.com","password":"correct-horse"}"#),
            ("api-key", #"{"key":"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ00"}"#),
            ("custom-function", #"{"realmCustomAuthFuncUserId":"f-1"}"#),
            ("oauth2-google", #"{"authCode":"demo-google-code"}"#),
            ("oauth2-facebook", #"{"accessToken":"demo-facebook-token"}"#),
            ("custom-token", hs256(claims(metadata + #","my_metadata":{"name":"x"}"#))),
        ])
    func demo(provider: String, body: String) async throws {
        let it = try await Fixture { $0.seed = .demo() }
        let login = try await it.login(provider, body)
        #expect(login.status == 200)
        let profile = try await it.profile(login.json["access_token"].string)
        #expect(profile["identities"][0]["provider_type"].string == provider)
        // Other credentials are refused.
        guard provider != "anon-user" else { return await it.emulator.stop() }
        #expect(try await it.login(provider, body.replacing("e", with: "x")).status >= 400)
        await it.emulator.stop()
    }

    // MARK: Custom functions

    @Test("a function gets the document without options; its id is the identity, its failure a refusal")
    func customFunction() async throws {
        let it = try await Fixture(
            yaml: Fixture.app(
                """
                    providers: {custom-function: {function: auth}}
                    functions:
                      auth:
                        cases:
                          - {arguments: [{user: alice, pin: 1}], result: {id: id-of-alice, name: Alice}}
                          - {equals: {user: bob}, result: id-of-bob}
                          - {equals: {user: empty}, result: null}
                          - {error: no such user}
                """)
        ) { $0.verboseTexts = true }
        let alice = #"{"pin":{"$numberInt":"1"},"user":"alice","options":{"device":{}}}"#
        let first = try await it.login("custom-function", alice).json
        let profile = try await it.profile(first["access_token"].string)
        #expect(profile["identities"][0]["id"].string == "id-of-alice" && profile["data"]["name"].string == "Alice")
        #expect(try await it.login("custom-function", alice).json["user_id"] == first["user_id"])
        #expect(try await it.login("custom-function", #"{"user":"bob"}"#).status == 200)
        #expect(
            try await Fixture.error(it.login("custom-function", "{}")) == ["401", "AuthError", "no such user"])
        #expect(try await Fixture.error(it.login("custom-function", #"{"user":"empty"}"#))[1] == "AuthError")
        await it.emulator.stop()
    }

    // MARK: A browser

    @Test("the redirect flow ends at the app's page with the tokens, or with an error, in the hash")
    func browser() async throws {
        let it = try await Fixture { $0.seed = .demo() }
        func open(_ provider: String, _ query: String, _ token: String? = nil) async throws -> RawMessage {
            try await it.call("GET", Fixture.app + "/auth/providers/\(provider)/login?\(query)", bearer: token)
        }
        let device = Data(#"{"platform":"test"}"#.utf8).base64EncodedString().replacing("=", with: "%3D")
        let page = "redirect=http%3A%2F%2Flocalhost%3A3000%2F&state=abcdefghijkl&device=\(device)"
        let response = try await open("oauth2-google", page)
        #expect(response.status == 302)
        let target = try #require(response["location"])
        #expect(target.hasPrefix("http://localhost:3000/#_baas_client_app_id=demo-abcde&_baas_ua="))
        #expect(target.hasSuffix("&_baas_state=abcdefghijkl"))
        let parts = target.split(separator: "=")[2].split(separator: "&")[0].split(separator: "$").map(String.init)
        #expect(parts.count == 4 && parts[3] != String(repeating: "0", count: 24))
        #expect(try await it.profile(parts[0])["user_id"].string == parts[2])
        #expect(try await it.refresh(parts[1]).status == 201)
        let anonymous = try await it.anonymous()["access_token"].string
        let linked = try await open("oauth2-apple", page + "&link=true&providerRedirectHeader=true", anonymous)
        #expect(linked.status == 200 && linked["x-baas-location"]?.contains("_baas_link=ok") == true)
        let again = try await open("oauth2-google", page + "&link=true&providerRedirectHeader=true", anonymous)
        #expect(again["x-baas-location"]?.contains("_baas_error=") == true)
        #expect(try await open("oauth2-google", "redirect=http%3A%2F%2Felsewhere").status == 400)
        #expect(try await open("local-userpass", page).status == 404)
        await it.emulator.stop()
    }
}
