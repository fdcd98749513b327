import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Fields of the client that servers on the `mcp` SDK (2.3.0) and fastmcp (4.1.6) want in the form, although they prove nothing.
@Suite("OAuth: fields that a server wants besides") struct WantedFieldTests {
    /// A server that wants `client_id` in each form, and `client_secret` in that of a revocation.
    private static func bench(
        _ change: @escaping (inout IdentitySettings.OAuth, TemporaryFolder) throws -> Void
    ) throws -> OAuthBench {
        try OAuthBench(
            script: { request in
                guard ["/token", "/revoke"].contains(request.target) else { return nil }
                if !request.bodyText.contains("client_id=") {
                    return OAuthBench.json(
                        401, #"{"error":"unauthorized_client","error_description":"Missing client_id"}"#)
                }
                guard request.target == "/revoke", !request.bodyText.contains("client_secret=") else { return nil }
                return OAuthBench.json(
                    400, #"{"error":"invalid_request","error_description":"client_secret: Field required"}"#)
            }, settings: change)
    }

    private static func forms(_ bench: OAuthBench, _ target: String) -> [String] {
        bench.server.requests.filter { $0.target == target }.map(\.bodyText)
    }

    @Test(
        "auto sends client_id beside Basic once the server has asked for it; the login is made a second time, and no later call is"
    )
    func automatic() async throws {
        let bench = try Self.bench {
            $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
            $0.isAuthenticationAutomatic = true
        }
        _ = try await bench.login(.clientCredentials).get()
        _ = try await bench.refresh().get()
        #expect(
            bench.forms == [
                "grant_type=client_credentials", "grant_type=client_credentials&client_id=lan+yard",
                "grant_type=refresh_token&refresh_token=\(Tokens.refresh)&client_id=lan+yard",
            ])
        #expect(bench.server.requests.filter { $0.target == "/token" }.allSatisfy { $0["Authorization"] != nil })
    }

    @Test("a refresh and a revocation are repeated in the same way; a revocation gets its empty client_secret")
    func otherCalls() async throws {
        let bench = try Self.bench {
            $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
            $0.isAuthenticationAutomatic = true
        }
        _ = try await bench.revoke().get()
        let token = "token=\(Tokens.refresh)&token_type_hint=refresh_token"
        #expect(
            Self.forms(bench, "/revoke") == [
                token, token + "&client_id=lan+yard", token + "&client_id=lan+yard&client_secret=",
            ])
        _ = try await bench.refresh().get()
        #expect(bench.forms == ["grant_type=refresh_token&refresh_token=\(Tokens.refresh)&client_id=lan+yard"])
    }

    @Test(
        "a public client's revocation gets an empty client_secret once the server has asked for it; token calls never")
    func publicClient() async throws {
        let bench = try Self.bench { _, _ in }
        for _ in 0..<2 { _ = try await bench.revoke().get() }
        _ = try await bench.refresh().get()
        let form = "token=\(Tokens.refresh)&token_type_hint=refresh_token&client_id=lan+yard"
        #expect(Self.forms(bench, "/revoke") == [form, form + "&client_secret=", form + "&client_secret="])
        #expect(bench.forms == ["grant_type=refresh_token&refresh_token=\(Tokens.refresh)&client_id=lan+yard"])
    }

    @Test("basic_with_id sends it from the first call; basic, as configured, never")
    func configured() async throws {
        let bench = try Self.bench { $0.authentication = .basicWithID(secretFile: try $1.write("s", "p:x")) }
        _ = try await bench.login(.clientCredentials).get()
        #expect(bench.forms == ["grant_type=client_credentials&client_id=lan+yard"])
        #expect(bench.server.requests.last?.values("Authorization") == ["Basic bGFuK3lhcmQ6cCUzQXg="])
        let basic = try Self.bench { $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false) }
        let error = try #require(await basic.login(.clientCredentials).failure)
        #expect(basic.forms == ["grant_type=client_credentials"] && error.operatorMessage.contains("Missing client_id"))
    }

    @Test("a server that asks again gets no third call, and other errors no second one")
    func once() async throws {
        for (words, calls) in [("Missing client_id", 2), ("client_id is wrong", 2), ("Missing secret", 1)] {
            let bench = try OAuthBench(
                script: { request in
                    guard request.target == "/token" else { return nil }
                    return OAuthBench.json(401, #"{"error":"invalid_client","error_description":"\#(words)"}"#)
                },
                settings: {
                    $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
                    $0.isAuthenticationAutomatic = true
                })
            #expect(await bench.login(.clientCredentials).failure?.status == 401)
            #expect(bench.forms.count == calls, "\(words)")
        }
    }

    /// A server that wants `client_id` in each form of a token call, and says so in these words.
    private static func bench(_ status: Int, _ body: String, type: String = "application/json") throws -> OAuthBench {
        try OAuthBench(
            script: { request in
                guard request.target == "/token", !request.bodyText.contains("client_id=") else { return nil }
                return .response(status, "X", fields: [("Content-Type", type)], body: body).closing
            },
            settings: {
                $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
                $0.isAuthenticationAutomatic = true
            })
    }

    private static func words(_ words: String) -> String {
        #"{"error":"invalid_request","error_description":"\#(words)"}"#
    }

    @Test(
        "the words by which a server wants client_id are its own: whatever names it leads to the one repetition",
        arguments: [
            (400, words("client_id not provided")), (401, words("No client_id")),
            (401, words("You must provide a client_id")),
            (400, words("client_id absent")), (400, words("client_id cannot be empty")),
            (400, words("Missing client ID")),
            (400, words("clientId is required")), (400, words("MISSING CLIENT-ID")), (403, words("Missing client_id")),
            (422, words("client_id: Field required")), (400, #"{"error":"Missing client_id"}"#),
            (400, #"{"error":"missing_client_id"}"#), (400, #"{"message":"client_id?"}"#),
            (422, #"{"detail":[{"type":"missing","loc":["body","client_id"],"msg":"Field required","input":null}]}"#),
            (400, #"{"errors":[{"field":"client_id","code":"blank"}]}"#),
            (400, #"{"client_id":["This field is required."]}"#),
            (400, #"{"error":{"message":"client\u005fid needed"}}"#),
            (200, #"{"ok":false,"error":"missing_client_id"}"#),
            (400, "Missing client_id"), (401, "<p>client_id is missing</p>"),
        ])
    func namedAnywhere(_ status: Int, _ body: String) async throws {
        let bench = try Self.bench(status, body, type: body.first == "{" ? "application/json" : "text/plain")
        _ = try await bench.refresh().get()
        _ = try await bench.refresh().get()
        #expect(bench.forms.map { $0.contains("client_id=") } == [false, true, true], "\(body)")
    }

    @Test(
        "what refuses the grant or asks for a pause leads to none, nor does a page of another status or one that never names it",
        arguments: [
            (400, #"{"error":"invalid_grant","error_description":"issued to another client_id"}"#),
            (400, #"{"error":"access_denied","error_description":"client_id"}"#),
            (400, #"{"error":"slow_down","error_description":"client_id"}"#), (404, words("no client_id")),
            (429, words("Missing client_id")), (500, words("Missing client_id")), (302, words("client_id")),
            (400, words("the client is unknown")), (401, #"{"error":"invalid_client"}"#),
            (200, #"{"ok":false,"error":"client_id","access_token":"a.b.c"}"#),
            (200, #"{"ok":false,"error":"client_id","refresh_token":"r"}"#), (200, #"{"client_id":"x"}"#),
        ])
    func notNamed(_ status: Int, _ body: String) async throws {
        let bench = try Self.bench(status, body)
        #expect(await bench.refresh().failure?.status == status)
        #expect(bench.forms.count == 1)
    }

    @Test(
        "a server that refuses the client all the same gets the form without it from then on, and is asked once more each time"
    )
    func notLearned() async throws {
        let bench = try OAuthBench(
            script: { request in
                request.target == "/token"
                    ? OAuthBench.json(401, #"{"error":"invalid_client","error_description":"unknown client_id"}"#) : nil
            },
            settings: {
                $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
                $0.isAuthenticationAutomatic = true
            })
        for _ in 0..<2 { #expect(await bench.refresh().failure?.verdict == .clientRefused) }
        #expect(bench.forms.map { $0.contains("client_id=") } == [false, true, false, true])
    }

    /// Basic by `auto`, before a server with one response, whatever the form has.
    private static func refusing(
        _ status: Int, _ body: String, rotation: RefreshTokenRotation = .none
    ) throws -> OAuthBench {
        try OAuthBench(
            script: { $0.target == "/token" ? OAuthBench.json(status, body) : nil },
            settings: {
                $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
                $0.isAuthenticationAutomatic = true
                $0.refreshTokens.rotation = rotation
            })
    }

    @Test(
        "a second call that is refused like the first says that the field was not missing: later calls are made once",
        arguments: [
            (401, #"{"message":"bad credentials","client_id":"c"}"#), (400, words("wrong scope for client_id c")),
            (403, #"{"detail":"client_id c is blocked"}"#),
            (200, #"{"ok":false,"error":"internal_error","client_id":"c"}"#),
            (400, #"{"message":"client_id is required, or something else is wrong"}"#), (422, words("client_id?")),
        ])
    func refusedAlike(_ status: Int, _ body: String) async throws {
        let bench = try Self.refusing(status, body)
        for _ in 0..<3 { #expect(await bench.login(.clientCredentials).failure?.status == status) }
        #expect(bench.forms.map { $0.contains("client_id=") } == [false, true, false, false])
        _ = await bench.refresh()
        #expect(bench.forms.count == 5)
        // Another content of the client's file is another client, perhaps.
        _ = try bench.folder.write("s", "s2")
        _ = await bench.login(.clientCredentials)
        #expect(bench.forms.map { $0.contains("client_id=") }.suffix(2) == [false, true])
    }

    @Test("another refusal than the one that was tried in vain leads to a repetition of its own")
    func refusedOtherwise() async throws {
        let body = Guarded(#"{"message":"bad credentials","client_id":"c"}"#)
        let bench = try OAuthBench(
            script: { request in
                let body = body.withLock { $0 }
                let isMissing = body.contains("Missing") && !request.bodyText.contains("client_id=")
                return request.target == "/token" && (isMissing || !body.contains("Missing"))
                    ? OAuthBench.json(401, body) : nil
            },
            settings: {
                $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
                $0.isAuthenticationAutomatic = true
            })
        for _ in 0..<2 { _ = await bench.login(.clientCredentials) }
        body.withLock { $0 = #"{"message":"Missing client_id"}"# }
        _ = try await bench.login(.clientCredentials).get()
        #expect(bench.forms.map { $0.contains("client_id=") } == [false, true, false, false, true])
    }

    @Test(
        "a refusal without a known error repeats no password and no refresh token that may work once, unless it asks for the field",
        arguments: [
            (401, #"{"message":"bad credentials","client_id":"c"}"#, 1),
            (400, #"{"message":"token reuse for client id c"}"#, 1), (403, #"{"detail":"client_id c is blocked"}"#, 1),
            (200, #"{"ok":false,"error":"internal_error","client_id":"c"}"#, 1),
            // The server knows whose call it is.
            (401, #"{"message":"password change required","client_id":"lan yard"}"#, 1),
            (401, "login needed for client_id=lan+yard", 1),
            (401, #"{"message":"Missing consent of client id 'lan yard'."}"#, 1),
            (400, #"{"message":"client_id required"}"#, 2),
            (400, #"{"errors":[{"field":"client_id","code":"blank"}]}"#, 2),
        ])
    func spendable(_ status: Int, _ body: String, _ calls: Int) async throws {
        for rotation in RefreshTokenRotation.allCases {
            let bench = try Self.refusing(status, body, rotation: rotation)
            _ = await bench.refresh()
            #expect(bench.forms.count == (rotation == .none ? 2 : calls), "\(rotation)")
            #expect(await bench.fetch(TokenVariant(audience: "a")).failure != nil)
        }
        let bench = try Self.refusing(status, body)
        _ = await bench.login(.password(username: "a", try bench.folder.write("p", "p")))
        #expect(bench.forms.count == calls)
        let given = try Self.refusing(status, body)
        _ = await given.login(.refreshToken(try given.folder.write("r", "r1")))
        #expect(given.forms.count == calls)
    }

    @Test("calls that are sent at once learn each for itself: none is refused because another one has learned first")
    func atOnce() async throws {
        let asked = Guarded(0)
        let released = Milestone()
        let bench = try OAuthBench(
            script: { request in
                guard request.target == "/token", !request.bodyText.contains("client_id=") else { return nil }
                if asked.withLock({ count in
                    count += 1; return count == 2
                }) {
                    released.set()
                }
                released.wait(for: "both calls are there")
                return OAuthBench.json(401, #"{"error":"invalid_client","error_description":"Missing client_id"}"#)
            },
            settings: {
                $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
                $0.isAuthenticationAutomatic = true
            })
        async let first = bench.refresh()
        async let second = bench.refresh("another")
        let results = await [first, second]
        #expect(results.allSatisfy { $0.failure == nil }, "\(results)")
    }

    @Test("a server's second word on a device login's poll is that of the poll: no poll is made twice later")
    func learnedByPoll() async throws {
        let polls = Guarded(0)
        let bench = try OAuthBench(
            script: { request in
                guard request.target == "/token" else { return nil }
                guard request.bodyText.contains("client_id=") else {
                    return OAuthBench.json(400, Self.words("client_id, please"))
                }
                let count = polls.withLock { count in
                    count += 1; return count
                }
                return count == 1 ? OAuthBench.json(400, #"{"error":"invalid_grant"}"#) : nil
            },
            settings: {
                $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
                $0.isAuthenticationAutomatic = true
            })
        #expect(await bench.refresh().failure?.verdict == .sessionDead)
        _ = try await bench.refresh().get()
        #expect(bench.forms.map { $0.contains("client_id=") } == [false, true, true])
    }

    @Test("metadata below the issuer's path is the third place, which a root without a path does not have")
    func places() {
        #expect(
            OAuthMetadata.urls(of: "https://i.example/o/") == [
                "https://i.example/o/.well-known/openid-configuration",
                "https://i.example/.well-known/oauth-authorization-server/o",
                "https://i.example/o/.well-known/oauth-authorization-server",
            ])
        #expect(OAuthMetadata.urls(of: "https://i.example").count == 2)
    }

    @Test("authgent-server's polls of a device login are pending although it says invalid_grant")
    func devicePolls() {
        for (body, error) in [
            (#"{"error":"invalid_grant","error_description":"authorization_pending"}"#, "authorization_pending"),
            (#"{"error":"invalid_grant","error_description":"slow_down"}"#, "slow_down"),
            (#"{"error":"invalid_grant","error_description":"expired_token"}"#, "expired_token"),
            (#"{"error":"invalid_grant","error_description":"The code is wrong"}"#, "invalid_grant"),
            (#"{"error":"invalid_client","error_description":"authorization_pending"}"#, "invalid_client"),
            (#"{"error":"slow_down"}"#, "slow_down"),
            // In other words, other members, under other codes.
            (
                #"{"error":"invalid_grant","error_description":"authorization_pending: not yet approved"}"#,
                "authorization_pending"
            ),
            (#"{"error":"invalid_grant","error_description":"Authorization pending"}"#, "authorization_pending"),
            (
                #"{"error":"invalid_grant","error_description":"The authorization request is still pending"}"#,
                "authorization_pending"
            ),
            (#"{"error":"invalid_grant","detail":"AUTHORIZATION_PENDING"}"#, "authorization_pending"),
            (#"{"error":"invalid_grant","message":"authorization-pending"}"#, "authorization_pending"),
            (#"{"error":"invalid_request","error_description":"authorization_pending"}"#, "authorization_pending"),
            (#"{"detail":"authorization_pending"}"#, "authorization_pending"),
            (#"{"detail":{"error":"authorization_pending"}}"#, "authorization_pending"),
            (#"{"error":{"code":"authorization_pending"}}"#, "authorization_pending"),
            (#"{"error":"bad_request","error_code":"authorization_pending"}"#, "authorization_pending"),
            (#"{"error":"Authorization pending"}"#, "authorization_pending"),
            (#"{"error":"authorizationPending"}"#, "authorization_pending"),
            (#"{"error":"invalid_grant","error_description":"slow_down: too fast"}"#, "slow_down"),
            (#"{"error":"invalid_grant","error_description":"Please slow down"}"#, "slow_down"),
            (#"{"error":"invalid_grant","error_description":"expired_token: start again"}"#, "expired_token"),
            (#"{"error":"invalid_grant","error_description":"access_denied by the user"}"#, "access_denied"),
            // As RFC 8628 §3.5 explains it.
            (
                #"{"error":"invalid_grant","error_description":"The authorization request is still pending, since it hasn't yet ended"}"#,
                "authorization_pending"
            ),
            (
                #"{"error":"invalid_request","error_description":"authorization_pending: the user has not approved"}"#,
                "authorization_pending"
            ),
            (#"{"detail":"Authorization is pending, not yet approved"}"#, "authorization_pending"),
            // Nothing is pending any more.
            (
                #"{"error":"invalid_grant","error_description":"The authorization request is not pending"}"#,
                "invalid_grant"
            ),
            (#"{"error":"invalid_grant","error_description":"authorization is no longer pending"}"#, "invalid_grant"),
            (
                #"{"error":"invalid_grant","error_description":"no authorization is pending for this device code"}"#,
                "invalid_grant"
            ),
            (
                #"{"error":"invalid_request","error_description":"The authorization isn\u2019t pending"}"#,
                "invalid_request"
            ),
            (#"{"error":"invalid_grant","error_description":"Pending authorization not found"}"#, "invalid_grant"),
            (
                #"{"error":"invalid_grant","error_description":"Authorization pending request not found"}"#,
                "invalid_grant"
            ),
            (
                #"{"error":"invalid_grant","error_description":"The pending authorization was cancelled"}"#,
                "invalid_grant"
            ),
            (
                #"{"error":"invalid_grant","error_description":"The pending authorization has expired"}"#,
                "invalid_grant"
            ),
            (#"{"error":"authorization_not_pending"}"#, "authorization_not_pending"),
            (#"{"error":"noPendingAuthorization"}"#, "noPendingAuthorization"),
            (#"{"detail":"There is no pending authorization"}"#, nil),
            (#"{"error":{"code":"AUTHORIZATION_NOT_PENDING"}}"#, nil),
            // Others say what they say, and tokens are a success.
            (#"{"access_token":"a.b.c","detail":"authorization no longer pending"}"#, nil),
            (#"{"refresh_token":"r","message":"slow down"}"#, nil),
            (#"{"token":{"access_token":"a"},"detail":"slow down"}"#, nil),
            (#"{"error":"invalid_grant","error_description":"The device code has expired"}"#, "invalid_grant"),
            (#"{"error":"access_denied","error_description":"authorization_pending"}"#, "access_denied"),
            (#"{"error":"expired_token","error_description":"authorization_pending"}"#, "expired_token"),
            (#"{"error":"temporarily_unavailable","detail":"pending"}"#, "temporarily_unavailable"),
            (#"{"error":"invalid_request","error_description":"authorization header missing"}"#, "invalid_request"),
        ] as [(String, String?)] {
            #expect(Tokens.secret(body).withBytes { OAuthResponse($0).deviceError } == error, "\(body)")
        }
    }
}
