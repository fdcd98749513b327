import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// What the responses of token endpoints mean: the table of docs/reference/oauth-rules.md.
@Suite("OAuth: responses") struct OAuthResponseTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let status: Int
        let body: String
        var profile = OAuthProfile.generic
        let login: IdentityError.Verdict
        let refresh: IdentityError.Verdict

        init(
            _ status: Int, _ body: String, _ profile: OAuthProfile = .generic, login: IdentityError.Verdict,
            refresh: IdentityError.Verdict
        ) {
            (self.status, self.body, self.profile, self.login, self.refresh) = (status, body, profile, login, refresh)
        }

        var testDescription: String { "\(profile) \(status) \(body.prefix(60))" }
    }

    private static let transient = IdentityError.Verdict.transient(retryAfter: nil)

    private static let rows = [
        Row(400, #"{"error":"invalid_grant"}"#, login: .credentialRefused, refresh: .sessionDead),
        Row(401, #"{"error":"invalid_grant"}"#, login: .credentialRefused, refresh: .sessionDead),
        Row(403, #"{"error":"invalid_grant"}"#, login: .credentialRefused, refresh: .sessionDead),
        Row(401, #"{"error":"invalid_client"}"#, login: .credentialRefused, refresh: .clientRefused),
        Row(400, #"{"error":"unauthorized_client"}"#, login: .credentialRefused, refresh: .clientRefused),
        Row(400, #"{"error":"invalid_scope"}"#, login: .credentialRefused, refresh: .clientRefused),
        Row(400, #"{"error":"interaction_required"}"#, login: .credentialRefused, refresh: .sessionDead),
        Row(400, #"{"error":"temporarily_unavailable"}"#, login: transient, refresh: transient),
        Row(429, #"{"error":"invalid_grant"}"#, login: transient, refresh: transient),
        Row(503, #"{"error":"invalid_grant"}"#, login: transient, refresh: transient),
        Row(400, #"{"error":"something_new"}"#, login: .credentialDoubted, refresh: .credentialDoubted),
        Row(400, "", login: .credentialDoubted, refresh: .credentialDoubted),
        Row(401, "", login: .credentialDoubted, refresh: .credentialDoubted),
        Row(403, "", login: transient, refresh: transient),
        Row(400, "<html>gateway</html>", login: transient, refresh: transient),
        Row(302, "", login: transient, refresh: transient),
        Row(200, #"{"error":"bad_refresh_token"}"#, .github, login: .credentialRefused, refresh: .sessionDead),
        Row(200, #"{"error":"bad_refresh_token"}"#, login: transient, refresh: transient),
        Row(
            200, #"{"ok":false,"error":"invalid_refresh_token"}"#, .slack, login: .credentialRefused,
            refresh: .sessionDead),
        Row(200, #"{"ok":false,"error":"ratelimited"}"#, .slack, login: transient, refresh: transient),
        Row(400, #"{"error_code":"session_not_found"}"#, login: .credentialRefused, refresh: .sessionDead),
        // Entra's own causes behind one `error`.
        Row(
            400, #"{"error":"invalid_grant","error_codes":[50000,700082],"suberror":"bad_token"}"#, .entra,
            login: .credentialRefused, refresh: .sessionDead),
        Row(
            401, #"{"error":"invalid_grant","error_codes":[7000222]}"#, .entra, login: .credentialRefused,
            refresh: .clientRefused),
        Row(400, #"{"error":"invalid_grant","error_codes":[90033]}"#, .entra, login: transient, refresh: transient),
        Row(
            400, #"{"error":"invalid_grant","error_codes":[7000222]}"#, login: .credentialRefused,
            refresh: .sessionDead),
        Row(401, #"{"error":"access_denied"}"#, .auth0, login: .credentialRefused, refresh: .clientRefused),
        Row(400, #"{"error":"access_denied"}"#, .auth0, login: .credentialRefused, refresh: .sessionDead),
        Row(
            400, #"{"__type":"TooManyRequestsException","error":"invalid_grant"}"#, .cognito, login: transient,
            refresh: transient),
        Row(
            401, #"{"errorCode":"E0000011"}"#, .okta, login: .credentialRefused, refresh: .sessionDead),
        Row(200, #"{"access_token":"a b"}"#, login: transient, refresh: transient),
        Row(200, #"{"access_token":"a\nb"}"#, login: transient, refresh: transient),
        Row(200, #"{"access_token":"a","expires_in":1}"#, login: transient, refresh: transient),
        Row(200, #"{"access_token":"a","token_type":"mac"}"#, login: transient, refresh: transient),
        Row(200, #"{"access_token":["a"]}"#, login: transient, refresh: transient),
        Row(200, #"{"access_token":"a""#, login: transient, refresh: transient),
        Row(200, "", login: transient, refresh: transient),
        Row(200, "[]", login: transient, refresh: transient),
    ]

    @Test("a response means what its row says, for a login and for a refresh", arguments: rows)
    func verdict(_ row: Row) async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/token" ? OAuthBench.json(row.status, row.body) : nil
        }) { client, _ in client.profile = row.profile }
        let results = [
            (row.login, await bench.login(.clientCredentials)), (row.refresh, await bench.refresh()),
        ]
        for (wanted, result) in results {
            guard case .failure(let error) = result else { return #expect(Bool(false), "a success") }
            #expect(error.verdict == wanted, "\(error.message)")
        }
    }

    @Test("a grant that the client may not use is told from a client that is refused altogether")
    func refusedGrant() async throws {
        for (status, code, isGrantRefused) in [
            (400, "unauthorized_client", true), (400, "unsupported_grant_type", true), (400, "invalid_client", false),
            (400, "invalid_scope", false),
            // Keycloak's for a wrong secret.
            (401, "unauthorized_client", false),
        ] {
            let bench = try OAuthBench(script: { request in
                request.target == "/token" ? OAuthBench.json(status, #"{"error":"\#(code)"}"#) : nil
            })
            guard case .failure(let error) = await bench.refresh() else { return #expect(Bool(false), "a success") }
            #expect(error.verdict == .clientRefused && error.isGrantRefused == isGrantRefused, "\(status) \(code)")
        }
    }

    @Test("who must act follows the class: the user for consent, the operator for the client; a route's token is apart")
    func action() async throws {
        func error(_ body: String, _ call: (OAuthBench) async -> Result<Grant, IdentityError>) async throws
            -> IdentityError
        {
            let bench = try OAuthBench(script: { $0.target == "/token" ? OAuthBench.json(400, body) : nil }) {
                client, _ in
                client.profile = .entra
            }
            let outcome = await call(bench)
            return try #require(throws: IdentityError.self) { try outcome.get() }
        }
        let consent = #"{"error":"invalid_grant","suberror":"consent_required"}"#
        // No user takes part in a machine's login: an administrator consents.
        let login = try await error(consent) { await $0.login(.clientCredentials) }
        #expect(login.verdict == .credentialRefused && login.action(canLogIn: true) == .operator)
        let own = try await error(consent) {
            await $0.login(.password(username: "a", (try? $0.folder.write("p", "hunter22")) ?? ""))
        }
        #expect(own.verdict == .credentialRefused && own.action(canLogIn: true) == .user)
        let client = try await error(#"{"error":"invalid_client"}"#) { await $0.login(.clientCredentials) }
        #expect(client.action(canLogIn: true) == .operator)
        let dead = try await error(consent) { await $0.refresh() }
        #expect(dead.verdict == .sessionDead && dead.action(canLogIn: true) == .nobody)
        // The session says nothing against another resource, and this one nothing against the session.
        let fetch = try await error(consent) { await $0.fetch(TokenVariant(audience: "orders")) }
        #expect(fetch.verdict == .clientRefused && fetch.action(canLogIn: true) == .user)
        #expect(fetch.message.contains("token of the route"))
    }

    @Test(
        "a lifetime comes from the response or the configuration, and is no longer than the token's own claims have it",
        arguments: [
            (#""expires_in":20"#, nil, 20), (#""expires_in":"1200""#, 60, 1200), (#""expires_in":"3600""#, 60, 1800),
            (#""expires_in":99999999999"#, nil, 1800), (#""expires_in":0"#, 60, 60), (#""expires_in":"0""#, 60, 60),
            (#""expires_in":-1"#, 60, 60), (#""scope":"x""#, 60, 60), (#""scope":"x""#, 7200, 1800),
            (#""expires_in":null"#, nil, 1800), (#""expires_in":"""#, nil, 1800), (#""expires_in":{"a":[1]}"#, 60, 60),
        ] as [(String, Int?, Int)])
    func lifetimes(_ member: String, _ configured: Int?, _ seconds: Int) async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/token"
                ? OAuthBench.json(
                    200, #"{"access_token":"\#(Tokens.access(lifetime: 1800))","token_type":"BEARER",\#(member)}"#)
                : nil
        }) { client, _ in client.tokenLifetime = configured.map { .seconds($0) } }
        #expect(try await bench.refresh().get().lifetime == .seconds(seconds))
    }

    @Test("a token that is no JWT and states no lifetime lives for 300 s; refresh tokens have their own end")
    func opaque() async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/token"
                ? OAuthBench.json(200, #"{"access_token":"opaque","refresh_token":"r2","refresh_expires_in":600}"#)
                : nil
        })
        let grant = try await bench.refresh().get()
        #expect(grant.lifetime == .seconds(300) && Tokens.text(grant.refreshToken) == "r2")
        let end = try #require(grant.refreshTokenExpiry) - .now
        #expect(end > .seconds(500) && end <= .seconds(610))
        // A client's own grant is its renewal.
        #expect(try await bench.login(.clientCredentials).get().refreshToken == nil)
    }

    @Test(
        "metadata of another issuer, or that leads to plain http, is not used: both texts are in the error",
        arguments: [
            (
                #"{"issuer":"https://other","token_endpoint":"https://other/t"}"#,
                "its issuer is https://other, and the configuration says"
            ),
            (#"{"issuer":"ISSUER/","token_endpoint":"ISSUER/t"}"#, "they must be the same text"),
            (#"{"issuer":"ISSUER"}"#, "it names no token_endpoint"),
            (#"{"token_endpoint":"ISSUER/t"}"#, "it names no issuer"),
            ("[]", "not a JSON object"), ("<html>", "not JSON"),
            (#"{"issuer":"ISSUER","token_endpoint":"ftp://x/t"}"#, "its token_endpoint is no http or https URL"),
        ])
    func metadata(_ body: String, _ message: String) async throws {
        let issuer = Guarded("")
        let bench = try OAuthBench(script: { request in
            request.target.hasPrefix("/.well-known")
                ? OAuthBench.json(200, body.replacing("ISSUER", with: issuer.withLock { $0 })) : nil
        })
        issuer.withLock { $0 = bench.issuer }
        guard case .failure(let error) = await bench.login(.clientCredentials) else { return #expect(Bool(false)) }
        #expect(error.verdict == Self.transient && error.message.contains(message), "\(error.message)")
        #expect(error.action(canLogIn: true) == .operator)
        #expect(bench.forms.isEmpty)
    }

    @Test(
        "a missing endpoint and a token that is no bearer token are tried again, and are the operator's; a failing server is not",
        arguments: [
            (302, "", ResponsibleParty.operator), (404, "", .operator), (404, "<html>", .operator),
            (405, "{}", .operator), (410, "", .operator), (421, "", .operator),
            (200, #"{"access_token":"a","token_type":"mac"}"#, .operator), (503, "", .nobody), (429, "", .nobody),
            (403, "<html>", .nobody), (200, "<html>", .nobody), (200, #"{"access_token":"a""#, .nobody),
        ])
    func misconfigured(_ status: Int, _ body: String, _ party: ResponsibleParty) async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/token" ? OAuthBench.json(status, body) : nil
        })
        for result in [await bench.login(.clientCredentials), await bench.refresh()] {
            let error = try #require(result.failure)
            #expect(error.verdict == Self.transient && error.action(canLogIn: true) == party, "\(error.message)")
        }
    }

    @Test(
        "metadata that is not there names its URL and says to check issuer, whatever the body",
        arguments: ["", "<html>", "{}"])
    func missingMetadata(_ body: String) async throws {
        for (status, party) in [(404, ResponsibleParty.operator), (302, .operator), (503, .nobody)] {
            let bench = try OAuthBench(script: { request in
                request.target.hasPrefix("/.well-known") ? OAuthBench.json(status, body) : nil
            })
            let error = try #require(await bench.refresh().failure)
            #expect(error.verdict == Self.transient && error.action(canLogIn: true) == party, "\(error.message)")
            #expect(error.message.contains(bench.issuer + "/.well-known/"), "\(error.message)")
            #expect(error.message.contains("check issuer") == (party == .operator), "\(error.message)")
            #expect(!error.message.contains("client_id"), "\(error.message)")
        }
    }

    @Test("a machine's grant that is denied is the operator's; that of a user is the user's")
    func denied() async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/token" ? OAuthBench.json(400, #"{"error":"access_denied"}"#) : nil
        })
        let file = try bench.folder.write("f", "x.y.z")
        let machines: [UserSettings.Login] = [
            .clientCredentials, .jwtBearer(assertion: file), .tokenExchange(subjectToken: file),
        ]
        for login in machines {
            let error = try #require(await bench.login(login).failure)
            #expect(error.verdict == .credentialRefused && error.action(canLogIn: true) == .operator)
            #expect(error.message.contains("check the server's access policy"), "\(error.message)")
        }
        let user = try #require(await bench.login(.password(username: "a", file)).failure)
        #expect(user.verdict == .credentialRefused && user.action(canLogIn: true) == .user)
        let result = await withCheckedContinuation { done in
            bench.identity.fetch(
                TokenVariant(audience: "orders"), by: .login(.configured(.clientCredentials), nil),
                progress: CallProgress(.login)
            ) { done.resume(returning: $0) }
        }
        let fetch = try #require(result.failure)
        #expect(fetch.verdict == .clientRefused && fetch.action(canLogIn: true) == .operator)
    }

    @Test("a call whose first steps have taken its time says so, and not that slots are missing")
    func late() async throws {
        let (asked, released) = (Milestone(), Milestone())
        let bench = try OAuthBench(script: { request in
            guard request.target.hasPrefix("/.well-known") else { return nil }
            asked.set()
            released.wait(for: "the time has passed")
            return nil
        })
        defer { released.set() }
        bench.loop.freezeTime()
        let result = Guarded<Result<Grant, IdentityError>?>(nil)
        bench.identity.refresh(Tokens.secret("r1")) { outcome in result.withLock { $0 = outcome } }
        try await eventually("the metadata is asked for") { asked.isSet }
        bench.loop.pass(.seconds(26))
        released.set()
        try await eventually("the call has ended") { result.withLock { $0 != nil } }
        let error = try #require(result.withLock { $0 }?.failure)
        #expect(error.verdict == Self.transient)
        #expect(error.message.contains("files or the metadata") && !error.message.contains("slot"), "\(error.message)")
        #expect(bench.forms.isEmpty)
    }

    @Test("Entra's metadata has a placeholder where the issuer has its tenant; https never leads to http")
    func issuers() throws {
        func read(_ body: String, _ issuer: String) throws -> OAuthMetadata {
            try Tokens.secret(body).withBytes { bytes in try OAuthMetadata(bytes, issuer: issuer) }
        }
        let entra = #"{"issuer":"https://l/{tenantid}/v2.0","token_endpoint":"https://l/t"}"#
        #expect(try read(entra, "https://l/1234/v2.0").endpoints.token == "https://l/t")
        #expect(throws: OAuthMetadata.MetadataError.self) { try read(entra, "https://l/1234/v1.0") }
        #expect(throws: OAuthMetadata.MetadataError.self) {
            try read(#"{"issuer":"https://l","token_endpoint":"http://l/t"}"#, "https://l")
        }
        #expect(
            OAuthMetadata.urls(of: "https://l/a/") == [
                "https://l/a/.well-known/openid-configuration", "https://l/.well-known/oauth-authorization-server/a",
                "https://l/a/.well-known/oauth-authorization-server",
            ])
    }

    @Test("an error never shows a secret, and names what to look at")
    func secrecy() async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/token"
                ? OAuthBench.json(401, #"{"error":"invalid_client","error_description":"pässword-canary"}"#)
                : nil
        }) { client, folder in
            client.authentication = .basic(secretFile: try folder.write("s", "se cret-canary"), isRaw: false)
        }
        guard case .failure(let error) = await bench.login(.clientCredentials) else { return #expect(Bool(false)) }
        #expect(error.message.contains("basic_raw") && !error.message.contains("canary"))
    }

    @Test(
        "tokens that stand deeper than the first level, or are no text, are no tokens, however deep the response is nested",
        arguments: [
            #"{"access_token":{"token":"a.b.c"},"token_type":"Bearer"}"#, #"{"data":{"access_token":"a.b.c"}}"#,
            #"{"access_token":["a.b.c"]}"#, #"[{"access_token":"a.b.c"}]"#,
            String(repeating: "[", count: 100_000), String(repeating: #"{"access_token":"#, count: 50_000),
            #"{"access_token":"# + String(repeating: "[", count: 50_000) + String(repeating: "]", count: 50_000) + "}",
        ])
    func nested(_ body: String) async throws {
        let bench = try OAuthBench(script: { $0.target == "/token" ? OAuthBench.json(200, body) : nil })
        #expect(await bench.login(.clientCredentials).failure?.verdict == Self.transient)
        #expect(await bench.refresh().failure?.verdict == Self.transient)
    }

    @Test("what else a response has, nested or not, changes nothing")
    func surroundings() async throws {
        let more = String(repeating: #"{"x":["#, count: 12) + "1" + String(repeating: "]}", count: 12)
        let body = #"{"authed_user":{"access_token":"other"},"scope":["a"],"more":\#(more),"access_token":"a.b.c"}"#
        let bench = try OAuthBench(script: { $0.target == "/token" ? OAuthBench.json(200, body) : nil })
        #expect(Tokens.text(try await bench.refresh().get().accessToken) == "a.b.c")
    }
}
