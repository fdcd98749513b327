import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// What an `oauth2` identity sends: the grant, the client's proof, and where.
@Suite("OAuth: requests") struct OAuthRequestTests {
    private func form(
        _ login: (TemporaryFolder) throws -> UserSettings.Login,
        _ change: (inout IdentitySettings.OAuth, TemporaryFolder) throws -> Void = { _, _ in }
    ) async throws -> (form: String, request: RawMessage) {
        let bench = try OAuthBench(settings: change)
        _ = try await bench.login(login(bench.folder)).get()
        let request = try #require(bench.server.requests.last)
        #expect(request.method == "POST" && request.target == "/token")
        #expect(request.values("Content-Type") == ["application/x-www-form-urlencoded"])
        return (request.bodyText, request)
    }

    @Test("each grant has its own fields, in the encoding of forms")
    func grants() async throws {
        #expect(try await form { _ in .clientCredentials }.form == "grant_type=client_credentials&client_id=lan+yard")
        #expect(
            try await form { .password(username: "ålice", try $0.write("p", "a b&=ü")) }.form
                == "grant_type=password&username=%C3%A5lice&password=a+b%26%3D%C3%BC&client_id=lan+yard")
        #expect(
            try await form { .refreshToken(try $0.write("r", "r1/+\n")) }.form
                == "grant_type=refresh_token&refresh_token=r1%2F%2B&client_id=lan+yard")
        #expect(
            try await form { .jwtBearer(assertion: try $0.write("a", "x.y.z")) }.form
                == "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=x.y.z&client_id=lan+yard"
        )
        #expect(
            try await form { .tokenExchange(subjectToken: try $0.write("s", "s1")) }.form
                == "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=s1"
                + "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token&client_id=lan+yard")
    }

    @Test("scopes, parameters and fields of the head go with a login; a refresh has no scope")
    func parameters() async throws {
        let bench = try OAuthBench(settings: { client, folder in
            client.scopes = ["api", "read:all"]
            client.parameters = [.init("resource", "https://a/"), .init("resource", "https://b/")]
            client.tokenFields = [
                .init("X-Plain", .text("one two")), .init("X-Key", .file(try folder.write("k", "k1\n"))),
            ]
        })
        _ = try await bench.login(.clientCredentials).get()
        _ = try await bench.refresh().get()
        let more = "&resource=https%3A%2F%2Fa%2F&resource=https%3A%2F%2Fb%2F&client_id=lan+yard"
        #expect(
            bench.forms == [
                "grant_type=client_credentials&scope=api+read%3Aall" + more,
                "grant_type=refresh_token&refresh_token=\(Tokens.refresh)" + more,
            ])
        let request = try #require(bench.server.requests.last)
        #expect(request.values("X-Plain") == ["one two"] && request.values("X-Key") == ["k1"])
    }

    @Test(
        "a secret goes by Basic with the form encoding, raw, or in the form; a client id that is in the head is not repeated"
    )
    func secrets() async throws {
        let basic = try await form({ _ in .clientCredentials }) {
            $0.authentication = .basic(secretFile: try $1.write("s", "p:ß\n"), isRaw: false)
        }
        // lan+yard:p%3A%C3%9F
        #expect(basic.request.values("Authorization") == ["Basic bGFuK3lhcmQ6cCUzQSVDMyU5Rg=="])
        #expect(basic.form == "grant_type=client_credentials")
        let raw = try await form({ _ in .clientCredentials }) {
            $0.authentication = .basic(secretFile: try $1.write("s", "p:x"), isRaw: true)
        }
        #expect(raw.request.values("Authorization") == ["Basic bGFuIHlhcmQ6cDp4"])
        let post = try await form({ _ in .clientCredentials }) {
            $0.authentication = .post(secretFile: try $1.write("s", "p:x"))
        }
        #expect(post.form == "grant_type=client_credentials&client_id=lan+yard&client_secret=p%3Ax")
        #expect(post.request.values("Authorization").isEmpty)
    }

    @Test("an assertion is read at each call")
    func assertion() async throws {
        let bench = try OAuthBench(settings: { client, folder in
            client.authentication = .assertion(file: try folder.write("a", "x.1.z"), type: "urn:t")
        })
        _ = try await bench.login(.clientCredentials).get()
        try bench.folder.write("a", "x.2.z")
        _ = try await bench.login(.clientCredentials).get()
        #expect(
            bench.forms
                == [1, 2].map {
                    "grant_type=client_credentials&client_id=lan+yard&client_assertion_type=urn%3At&client_assertion=x.\($0).z"
                })
    }

    @Test(
        "metadata that fails is asked for once for all users: an outage once in a second, a wrong place once in ten",
        arguments: [(503, "", Duration.seconds(1)), (200, "{}", Duration.seconds(10))])
    func failingMetadata(status: Int, body: String, interval: Duration) async throws {
        let bench = try OAuthBench(script: { request in
            request.target.hasPrefix("/.well-known") ? OAuthBench.json(status, body) : nil
        })
        bench.loop.freezeTime()
        let ended = Guarded<[String?]>([])
        let begin = {
            for _ in 0..<20 {
                bench.identity.login(.configured(.clientCredentials), guarded: nil) { result in
                    ended.withLock { $0.append(result.failure?.message) }
                }
            }
        }
        begin()
        try await eventually("all have failed") { ended.withLock(\.count) == 20 }
        begin()
        bench.loop.pass(interval - .nanoseconds(1))
        begin()
        try await eventually("all have failed") { ended.withLock(\.count) == 60 }
        // Each of the two places once.
        #expect(bench.server.requests.count == 2 && ended.withLock { Set($0).count } == 1)
        bench.loop.pass(.nanoseconds(1))
        begin()
        try await eventually("all have failed") { ended.withLock(\.count) == 80 }
        #expect(bench.server.requests.count == 4)
    }

    @Test(
        "the endpoints are asked for once; RFC 8414's place is the second one; an alias serves a client with a certificate"
    )
    func metadata() async throws {
        let bench = try OAuthBench(script: { request in
            request.target.hasPrefix("/.well-known/openid") ? OAuthBench.json(404, "") : nil
        })
        _ = await bench.login(.clientCredentials)
        #expect(
            bench.server.requests.map(\.target) == [
                "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server",
            ])
        let healthy = try OAuthBench()
        for _ in 0..<3 { _ = try await healthy.login(.clientCredentials).get() }
        #expect(
            healthy.server.requests.map(\.target) == [
                "/.well-known/openid-configuration", "/token", "/token", "/token",
            ])
        let byHand = try OAuthBench(settings: { client, _ in
            client.endpoints.token = (client.issuer ?? "") + "/token"
            client.issuer = nil
        })
        _ = try await byHand.login(.clientCredentials).get()
        #expect(byHand.server.requests.map(\.target) == ["/token"])
    }

    @Test("a logout revokes where the server can; where it cannot that is told, and is no failure to try again")
    func revocation() async throws {
        let bench = try OAuthBench()
        try await bench.revoke("r/1").get()
        let request = try #require(bench.server.requests.last)
        #expect(
            request.target == "/revoke"
                && request.bodyText == "token=r%2F1&token_type_hint=refresh_token&client_id=lan+yard")
        try await bench.revoke(accessToken: "a/1").get()
        #expect(
            bench.server.requests.last?.bodyText == "token=a%2F1&token_type_hint=access_token&client_id=lan+yard")
        let without = try OAuthBench(settings: { client, _ in
            client.endpoints.token = (client.issuer ?? "") + "/token"
        })
        let error = try #require(await without.revoke("r1").failure)
        #expect(error.isUnsupported && error.message.contains("endpoints.revocation"), "\(error)")
        #expect(without.server.requests.isEmpty)
        // RFC 7009 §2.2.1.
        for (code, isUnsupported) in [("unsupported_token_type", true), ("invalid_client", false)] {
            let bench = try OAuthBench(script: { request in
                request.target == "/revoke" ? OAuthBench.json(400, #"{"error":"\#(code)"}"#) : nil
            })
            let error = try #require(await bench.revoke().failure)
            #expect(error.isUnsupported == isUnsupported, "\(error)")
        }
    }

    @Test("each call says which program makes it")
    func userAgent() async throws {
        let bench = try OAuthBench()
        _ = try await bench.refresh().get()
        try await bench.revoke().get()
        #expect(bench.server.requests.count == 3)
        for request in bench.server.requests { #expect(request.values("User-Agent") == ["lanyard/1.2.3"]) }
    }

    @Test("a refresh token from a file is taken once, and what the server keeps stays")
    func refreshTokenFile() async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/token" ? OAuthBench.json(200, #"{"access_token":"a","expires_in":"60"}"#) : nil
        })
        let key = KeyedHash.newKey()
        let file = try bench.folder.write("r", "r1")
        let first = try await bench.login(.refreshToken(file), guarded: LoginGuard(key: key, refused: nil)).get()
        #expect(Tokens.text(first.refreshToken) == "r1" && first.lifetime == .seconds(60))
        let spent = try #require(first.spentCredential)
        #expect(spent.isSpent)
        let again = await bench.login(.refreshToken(file), guarded: LoginGuard(key: key, refused: spent))
        #expect(throws: IdentityError.self) { try again.get() }
        #expect(bench.forms.count == 1)
        try bench.folder.write("r", "r7")
        _ = try await bench.login(.refreshToken(file), guarded: LoginGuard(key: key, refused: spent)).get()
        #expect(bench.forms.count == 2)
    }

    @Test("a refused password and a used refresh token are not sent again because a file of the client has changed")
    func rotatedClientFile() async throws {
        let bench = try OAuthBench(
            script: { request in
                guard request.target == "/token", request.bodyText.contains("password=") else { return nil }
                return OAuthBench.json(400, #"{"error":"invalid_grant"}"#)
            },
            settings: { client, folder in
                client.authentication = .basic(secretFile: try folder.write("client", "s1"), isRaw: false)
            })
        let key = KeyedHash.newKey()
        let password = UserSettings.Login.password(username: "alice", try bench.folder.write("p", "wrong"))
        let first = await bench.login(password, guarded: LoginGuard(key: key, refused: nil))
        let error = try #require(throws: IdentityError.self) { try first.get() }
        let refused = try #require(error.credential)
        let token = UserSettings.Login.refreshToken(try bench.folder.write("r", "r1"))
        let taken = try await bench.login(token, guarded: LoginGuard(key: key, refused: nil)).get()
        let calls = bench.forms.count
        try bench.folder.write("client", "s2")
        let spent = try #require(taken.spentCredential)
        for (login, fingerprint) in [(password, refused), (token, spent)] {
            let again = await bench.login(login, guarded: LoginGuard(key: key, refused: fingerprint))
            #expect(throws: IdentityError.self) { try again.get() }
        }
        #expect(bench.forms.count == calls)
        try bench.folder.write("p", "other")
        _ = await bench.login(password, guarded: LoginGuard(key: key, refused: refused))
        #expect(bench.forms.count == calls + 1)
    }

    @Test("a refused request is sent again after the configuration has changed; a used refresh token never is")
    func correctedRequest() async throws {
        let bench = try OAuthBench(
            script: { request in
                guard request.target == "/token" else { return nil }
                return request.bodyText.contains("scope=orders")
                    ? nil : OAuthBench.json(400, #"{"error":"invalid_scope"}"#)
            },
            settings: { client, folder in
                client.scopes = ["odrers"]
                client.authentication = .basic(secretFile: try folder.write("client", "s"), isRaw: false)
                client.tokenFields = [OAuthTokenField("X-Tenant", .file(try folder.write("tenant", "one")))]
            })
        let key = Tokens.secret(String(repeating: "k", count: 32))
        func refusal(_ outcome: Result<Grant, IdentityError>) throws -> IdentityError {
            try #require(throws: IdentityError.self) { try outcome.get() }
        }
        let first = try refusal(await bench.login(.clientCredentials, guarded: LoginGuard(key: key, refused: nil)))
        let guarded = LoginGuard(key: key, refused: first.credential)
        let again = try refusal(await bench.login(.clientCredentials, guarded: guarded))
        #expect(again.message.contains("was refused before") && bench.forms.count == 1)
        // Each of these changes the request, and it is refused anew.
        let changes: [(inout IdentitySettings.OAuth) -> Void] = [
            { $0.scopes = ["order"] }, { $0.parameters = [OAuthParameter("organization", "o")] },
            { $0.authentication = .basic(secretFile: $0.authentication.file ?? "", isRaw: true) },
        ]
        for (index, change) in changes.enumerated() {
            _ = try refusal(await bench.login(.clientCredentials, guarded: guarded, after: change))
            #expect(bench.forms.count == index + 2)
        }
        try bench.folder.write("tenant", "two")
        _ = try refusal(await bench.login(.clientCredentials, guarded: guarded))
        #expect(bench.forms.count == 5)
        _ = try await bench.login(.clientCredentials, guarded: guarded, after: { $0.scopes = ["orders"] }).get()
        #expect(bench.forms.count == 6)
        // A refresh token that was taken is spent, whatever else the request says.
        let file = try bench.folder.write("refresh", "r1")
        let taken = try await bench.login(
            .refreshToken(file), guarded: LoginGuard(key: key, refused: nil), after: { $0.scopes = ["orders"] }
        ).get()
        let spent = LoginGuard(key: key, refused: taken.spentCredential)
        _ = try refusal(
            await bench.login(.refreshToken(file), guarded: spent, after: { $0.scopes = ["orders", "more"] }))
        #expect(bench.forms.count == 7)
    }

    @Test("a client that was refused is not sent again until one of its files changes")
    func refusedClient() async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/token" ? OAuthBench.json(401, #"{"error":"invalid_client"}"#) : nil
        }) { client, folder in client.authentication = .post(secretFile: try folder.write("s", "old")) }
        let key = KeyedHash.newKey()
        let refused = await bench.login(.clientCredentials, guarded: LoginGuard(key: key, refused: nil))
        guard case .failure(let error) = refused else { return #expect(Bool(false), "no failure") }
        #expect(error.verdict == .credentialRefused && error.code == "invalid_client")
        let guarded = LoginGuard(key: key, refused: error.credential)
        _ = await bench.login(.clientCredentials, guarded: guarded)
        #expect(bench.forms.count == 1)
        try bench.folder.write("s", "new")
        _ = await bench.login(.clientCredentials, guarded: guarded)
        #expect(bench.forms.count == 2)
    }
}
