import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// What a login at a token endpoint proves of its account (refresh-outcomes.md 11).
@Suite("OAuth: the account of a login") struct LoginAccountTests {
    /// Claims of an ID token of the scripted server for the client.
    private static let valid = #""aud":"lanyard","exp":9999999999,"iat":1"#

    /// - Parameters:
    ///   - idToken: the claims of the ID token beside `iss`; nil: the response has none.
    ///   - change: of the client's settings.
    private func grant(
        _ login: (TemporaryFolder) throws -> UserSettings.Login, idToken: String? = nil, accessToken: String = "a.b.c",
        _ change: @escaping (inout IdentitySettings.OAuth) -> Void = { _ in }
    ) async throws -> (grant: Grant, issuer: String) {
        let own = Guarded("")
        let bench = try OAuthBench(
            script: { request in
                guard request.target == "/token" else { return nil }
                let token = idToken.map {
                    #","id_token":"\#(Tokens.jwt(#"{"iss":"\#(own.withLock { $0 })",\#($0)}"#))""#
                }
                return OAuthBench.json(
                    200,
                    #"{"access_token":"\#(accessToken)","token_type":"bearer","expires_in":20,"refresh_token":"r2"\#(token ?? "")}"#
                )
            },
            settings: { client, _ in
                own.withLock { $0 = client.issuer ?? "" }
                client.clientID = "lanyard"
                change(&client)
            })
        let guarded = LoginGuard(key: Tokens.secret("key"), refused: nil)
        return (try await bench.login(try login(bench.folder), guarded: guarded).get(), bench.issuer)
    }

    private static func assertion(_ claims: String) -> (TemporaryFolder) throws -> UserSettings.Login {
        { .jwtBearer(assertion: try $0.write("assertion", Tokens.jwt(claims))) }
    }

    private static func subjectToken(_ text: String) -> (TemporaryFolder) throws -> UserSettings.Login {
        { .tokenExchange(subjectToken: try $0.write("subject", text)) }
    }

    @Test("a configured name comes first: a user name, a client, what Lanyard signs for")
    func names() async throws {
        // What the ID token says is not asked then.
        let other = Self.valid + #","sub":"someone""#
        let password = try await grant({ .password(username: "alice", try $0.write("p", "x")) }, idToken: other).grant
        #expect(password.account == AccountFingerprint(of: ["password", "alice"]))
        let changed = try await grant({ .password(username: "alice", try $0.write("p", "y")) }).grant
        #expect(changed.account == password.account)
        let client = try await grant({ _ in .clientCredentials }).grant
        #expect(client.account == AccountFingerprint(of: ["client", "lanyard"]))
        let key = try SignedGrantTests.keys.folder.file("ec")
        for (subject, parts) in [
            (nil, ["signed", "lanyard", "me", "me"]), ("you", ["signed", "lanyard", "me", "you"]),
        ] {
            let signed = try await grant({ _ in
                var login = UserSettings.Login.signedAssertion(key: key)
                login.assertion?.issuer = "me"
                login.assertion?.subject = subject
                return login
            }).grant
            #expect(signed.account == AccountFingerprint(of: parts))
        }
    }

    @Test("an ID token comes next if it is valid, and never an access token")
    func idTokens() async throws {
        let login: (TemporaryFolder) throws -> UserSettings.Login = { .refreshToken(try $0.write("t", "file")) }
        let named = try await grant(login, idToken: Self.valid + #","sub":"someone""#)
        #expect(named.grant.account == AccountFingerprint(of: ["id_token", named.issuer, "someone"]))
        #expect(named.grant.userID == nil)
        for claims in [
            #""aud":"other","exp":9999999999,"iat":1,"sub":"someone""#,
            #""aud":"lanyard","exp":2,"iat":1,"sub":"someone""#,
            Self.valid, Self.valid + #","sub":7"#,
        ] { #expect(try await grant(login, idToken: claims).grant.account == nil, "\(claims)") }
        let jwt = Tokens.jwt(#"{"iss":"\#(named.issuer)","sub":"someone"}"#)
        let unnamed = try await grant(login, accessToken: jwt).grant
        #expect(unnamed.account == nil && unnamed.credential != nil)
    }

    @Test("an assertion or a subject token names the account if it is a JWT with iss and sub")
    func assertions() async throws {
        let first = try await grant(Self.assertion(#"{"iss":"https://w.example","sub":"pod","jti":"1"}"#)).grant
        let second = try await grant(Self.assertion(#"{"iss":"https://w.example","sub":"pod","jti":"2"}"#)).grant
        #expect(first.account == AccountFingerprint(of: ["assertion", "https://w.example", "pod"]))
        #expect(second.account == first.account)
        let other = try await grant(Self.assertion(#"{"iss":"https://w.example","sub":"other"}"#)).grant
        #expect(other.account != nil && other.account != first.account)
        let exchanged = try await grant(Self.subjectToken(Tokens.jwt(#"{"iss":"https://w.example","sub":"pod"}"#)))
            .grant
        #expect(exchanged.account == first.account)
        for claims in [
            #"{"iss":"https://w.example"}"#, #"{"sub":"pod"}"#, #"{"iss":"","sub":"pod"}"#, #"{"iss":1,"sub":"a"}"#,
        ] {
            #expect(try await grant(Self.assertion(claims)).grant.account == nil, "\(claims)")
        }
        // The ID token of the response comes first.
        let named = try await grant(
            Self.subjectToken(Tokens.jwt(#"{"iss":"i","sub":"s"}"#)), idToken: Self.valid + #","sub":"someone""#)
        #expect(named.grant.account == AccountFingerprint(of: ["id_token", named.issuer, "someone"]))
    }

    @Test("an opaque token names no account; its content tells it from another one")
    func opaque() async throws {
        // Each bench is another service, whose credentials are others.
        let bench = try OAuthBench()
        func login(_ text: String) async throws -> Grant {
            let login = try Self.subjectToken(text)(bench.folder)
            return try await bench.login(login, guarded: LoginGuard(key: Tokens.secret("key"), refused: nil)).get()
        }
        let first = try await login("opaque-one")
        let again = try await login("opaque-one")
        let other = try await login("opaque-two")
        #expect(first.account == nil && first.credential != nil && first.credential != other.credential)
        #expect(again.credential == first.credential)
    }

    @Test("a refresh proves no account, and neither does the fetch of a variant")
    func renewals() async throws {
        let bench = try OAuthBench()
        let refreshed = try await bench.refresh().get()
        let fetched = try await bench.fetch(TokenVariant(scopes: ["read"])).get()
        for grant in [refreshed, fetched] { #expect(grant.account == nil && grant.credential == nil) }
    }
}
