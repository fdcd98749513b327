import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// What is at fault by a server's response, for a login and a refresh: the rows of errors.md 5.1 from the wire.
@Suite("OAuth: causes") struct OAuthCauseTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let status: Int
        let body: String
        let login: IdentityCause
        let refresh: IdentityCause
        let words: String
        var testDescription: String { "\(status) \(body.prefix(50))" }

        init(
            _ status: Int, _ body: String, _ login: IdentityCause, _ refresh: IdentityCause? = nil, _ words: String = ""
        ) {
            (self.status, self.body, self.login, self.refresh, self.words) = (
                status, body, login, refresh ?? login, words
            )
        }
    }

    private static let rows = [
        Row(400, #"{"error":"invalid_grant"}"#, .credential, .session),
        Row(401, #"{"error":"invalid_client"}"#, .client, nil, "check client_id and client_authentication"),
        Row(400, #"{"error":"unauthorized_client"}"#, .grant, nil, "does not offer this grant"),
        Row(401, #"{"error":"unauthorized_client"}"#, .client),
        Row(400, #"{"error":"unsupported_grant_type"}"#, .grant),
        Row(400, #"{"error":"invalid_scope"}"#, .scope, nil, "check scopes"),
        Row(403, #"{"error":"insufficient_scope"}"#, .scope, nil, "check scopes"),
        Row(400, #"{"error":"invalid_target"}"#, .target, nil, "audience or resource"),
        Row(400, #"{"error":"invalid_request"}"#, .request, nil, "params"),
        Row(400, #"{"error":"consent_required"}"#, .policy, .user, "consent"),
        Row(400, #"{"error":"interaction_required"}"#, .policy, .user),
        Row(400, #"{"error":"access_denied"}"#, .policy, .user), Row(400, #"{"error":"slow_down"}"#, .busy),
        Row(400, #"{"error":"temporarily_unavailable"}"#, .serviceFailure), Row(503, "", .serviceFailure),
        Row(500, "<html>", .serviceFailure),
        Row(408, "", .busy, nil, "has waited too long for the request"),
        Row(425, "", .busy, nil, "wants the request once more"),
        Row(429, "", .busy, nil, "it limits calls"), Row(429, #"{"error":"invalid_client"}"#, .busy),
        Row(404, "", .noEndpoint, nil, "check the endpoint"), Row(405, "<html>", .noEndpoint),
        Row(302, "", .noEndpoint, nil, "a redirect"), Row(400, "", .unexplained, nil, "without saying why"),
        Row(403, "", .unexplained),
        Row(400, #"{"error":"something_new"}"#, .unexplained, nil, "something_new"),
        Row(402, #"{"message":"pay first"}"#, .unexplained, nil, "402"),
        Row(403, "<html>blocked</html>", .unusableResponse), Row(200, "<html>", .unusableResponse),
        Row(200, "", .unusableResponse), Row(200, #"{"access_token":"a b"}"#, .unusableToken, nil, "characters"),
        Row(200, #"{"access_token":"a","expires_in":1}"#, .unusableToken, nil, "less than 2 s"),
        Row(200, #"{"access_token":"a","token_type":"mac"}"#, .unusableToken), Row(200, "{}", .unusableToken),
        Row(200, #"{"access_token":"\#(String(repeating: "a", count: 33 << 10))"}"#, .unusableToken, nil, "32 KiB"),
    ]

    @Test(
        "a response has its cause, its words and a remedy; what is no credential's fault blames none", arguments: rows)
    func causes(_ row: Row) async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/token" ? OAuthBench.json(row.status, row.body) : nil
        })
        for (cause, result) in [
            (row.login, await bench.login(.clientCredentials)), (row.refresh, await bench.refresh()),
        ] {
            let error = try #require(result.failure)
            #expect(error.cause == cause && error.remedy != nil, "\(error.message)")
            #expect(error.message.contains(row.words), "\(error.message)")
            // A refresh sends none.
            let mayBlame = cause == .unexplained && error.message.contains("to the login")
            #expect(error.message.contains("credential") == mayBlame, "\(error.message)")
            // With its words beside it that would be no truth.
            let isSilent = error.code == nil && error.serviceText == nil
            #expect(error.message.contains("without saying why") == (cause == .unexplained && isSilent))
            #expect(error.remedy?.contains("does not say why") == false)
            #expect(error.message.contains("limits calls") == (row.status == 429 || row.body.contains("slow_down")))
            if row.body.contains("mac") { #expect(error.remedy?.contains("bearer") == true) }
            #expect(!error.operatorMessage.contains("base_url"))
            if cause == .unusableToken { #expect(error.action(canLogIn: true) == .operator) }
        }
    }

    @Test("without a response, and with metadata that is not there, the cause is the service's or its address'")
    func place() async throws {
        for (status, body, cause) in [
            (404, "", IdentityCause.metadata), (503, "", .serviceFailure), (429, "", .busy),
            (200, #"{"issuer":"x"}"#, .metadata),
        ] {
            let bench = try OAuthBench(script: { request in
                request.target.hasPrefix("/.well-known") ? OAuthBench.json(status, body) : nil
            })
            let error = try #require(await bench.refresh().failure)
            #expect(error.cause == cause, "\(error.message)")
        }
        let bench = try OAuthBench(script: { request in request.target == "/token" ? .reset : nil })
        let error = try #require(await bench.login(.clientCredentials).failure)
        #expect(error.cause == .noResponse && error.remedy?.contains("the way to it") == true)
    }

    @Test(
        "the file of the credential is named only where the credential may be at fault",
        arguments: [
            (400, #"{"error":"invalid_grant"}"#, true), (400, "", true), (401, #"{"error":"something_new"}"#, true),
            (400, #"{"error":"invalid_scope"}"#, false), (403, #"{"error":"insufficient_scope"}"#, false),
            (400, #"{"error":"invalid_target"}"#, false), (400, #"{"error":"invalid_request"}"#, false),
            (400, #"{"error":"unauthorized_client"}"#, false), (401, #"{"error":"unauthorized_client"}"#, false),
            (401, #"{"error":"invalid_client"}"#, false), (400, #"{"error":"unsupported_grant_type"}"#, false),
            (403, #"{"error":"access_denied"}"#, false), (400, #"{"error":"consent_required"}"#, false),
        ])
    func annotation(_ status: Int, _ body: String, _ isNamed: Bool) async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/token" ? OAuthBench.json(status, body) : nil
        })
        // A line end is a finding of the file, too.
        let file = try bench.folder.write("f", "x.y.z\nsecond")
        let logins: [UserSettings.Login] = [
            .password(username: "a", file), .refreshToken(file), .jwtBearer(assertion: file),
            .tokenExchange(subjectToken: file),
        ]
        for login in logins {
            let error = try #require(await bench.login(login).failure)
            #expect(error.message.contains(file) == isNamed, "\(error.message)")
            #expect(error.message.contains("(") == isNamed, "\(error.message)")
        }
    }

    @Test("a revocation is not confirmed by a page of a gateway, nor by a success that states a failure")
    func revocationByPage() async throws {
        let bodies = [
            ("", true), ("{}", true), ("OK", true), (#"{"ok":true,"errors":[]}"#, true),
            ("<html>Welcome</html>", false),
            (#"{"success":false}"#, false), (#"{"errors":[{"message":"no"}]}"#, false),
        ]
        for (body, isConfirmed) in bodies {
            let bench = try OAuthBench(script: { request in
                request.target == "/revoke" ? OAuthBench.json(200, body) : nil
            })
            let failure = await bench.revoke().failure
            #expect(isConfirmed ? failure == nil : failure?.verdict == .transient(retryAfter: nil), "\(body)")
        }
    }

    @Test("a revocation that is refused blames the token, and no login")
    func revocation() async throws {
        for code in ["invalid_grant", "invalid_token"] {
            let bench = try OAuthBench(script: { request in
                request.target == "/revoke" ? OAuthBench.json(400, #"{"error":"\#(code)"}"#) : nil
            })
            guard case .failure(let error) = await bench.revoke() else { return #expect(Bool(false)) }
            #expect(!error.message.contains("login"), "\(error.message)")
        }
    }
}
