import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Installation tokens of a GitHub App, before a fake of GitHub that has the documented shapes.
@Suite("GitHub App: installation tokens") struct GitHubAppTests {
    private struct Bench {
        let loop: EventLoop
        let server: RawServer
        let identity: GitHubAppIdentity

        init(
            key: String? = nil, _ change: (inout IdentitySettings.GitHubApp) -> Void = { _ in },
            script: @escaping @Sendable () -> RawResponse
        ) throws {
            server = try RawServer { _ in script() }
            loop = try EventLoop(label: "test.github")
            loop.start()
            var app = IdentitySettings.GitHubApp(
                appID: "1234", installationID: "5678", keyFile: try key ?? SignedGrantTests.keys.folder.file("rsa"))
            app.baseURL = "http://\(server.endpoint)/api/v3"
            change(&app)
            identity = GitHubAppIdentity(
                IdentitySettings(name: "ci", kind: .gitHubApp(app)), app: app, on: loop)
        }

        func login(_ guarded: LoginGuard? = nil) async -> Result<Grant, IdentityError> {
            await withCheckedContinuation { done in
                identity.login(.configured(.gitHubApp), guarded: guarded) { done.resume(returning: $0) }
                for _ in 0..<2 { loop.pass(FileSettling.settlingDelay) }
            }
        }

        func revoke() async -> Result<Void, IdentityError> {
            await withCheckedContinuation { done in
                identity.revoke(accessToken: Tokens.secret("ghs_abc")) { done.resume(returning: $0) }
            }
        }

        func error(_ guarded: LoginGuard? = nil) async throws -> IdentityError {
            let result = await login(guarded)
            return try #require(throws: IdentityError.self) { try result.get() }
        }

        func stop() {
            identity.stop()
            loop.stop()
        }
    }

    private static func json(_ status: Int, _ body: String, _ fields: [(String, String)] = []) -> RawResponse {
        .response(status, "X", fields: [("Content-Type", "application/json; charset=utf-8")] + fields, body: body)
            .closing
    }

    private static let date = ("Date", "Fri, 01 Jan 2027 10:00:00 GMT")

    @Test(
        "a logout revokes the token by itself; one that GitHub does not know any more counts as revoked",
        arguments: [
            (204, "", "revoked"), (401, #"{"message":"Bad credentials"}"#, "session_dead"),
            (401, "<html>", "transient"),
            (404, #"{"message":"Not Found"}"#, "unsupported"), (404, "no route", "transient"), (503, "", "transient"),
            // GitHub has one response of success.
            (200, #"{"error":"temporarily_unavailable"}"#, "transient"), (200, "<html>log in</html>", "transient"),
            (200, "", "transient"), (202, "", "transient"), (205, "", "transient"),
        ])
    func revocation(_ status: Int, _ body: String, _ result: String) async throws {
        let bench = try Bench { Self.json(status, body) }
        defer { bench.stop() }
        #expect(bench.identity.revokesAccessTokens)
        switch await bench.revoke() {
        case .success: #expect(result == "revoked")
        case .failure(let error): #expect((error.isUnsupported ? "unsupported" : error.verdict.label) == result)
        }
        let request = try #require(bench.server.requests.last)
        #expect(request.method == "DELETE" && request.target == "/api/v3/installation/token")
        #expect(request.values("Authorization") == ["Bearer ghs_abc"] && request.bodyText.isEmpty)
        #expect(request.values("X-GitHub-Api-Version") == ["2022-11-28"])
    }

    @Test("the key signs for the app; the token lives until expires_at by GitHub's own clock")
    func token() async throws {
        let bench = try Bench({
            $0.repositories = ["hello", "world"]
            $0.permissions = [("contents", .read), ("issues", .write)]
        }) {
            Self.json(
                201, #"{"token":"ghs_abc","expires_at":"2027-01-01T11:00:00Z","permissions":{"contents":"read"}}"#,
                [Self.date])
        }
        defer { bench.stop() }
        let grant = try await bench.login().get()
        #expect(Tokens.text(grant.accessToken) == "ghs_abc" && grant.refreshToken == nil)
        #expect(grant.lifetime == .seconds(3600))
        #expect(grant.account == AccountFingerprint(of: ["github_app", "1234", "5678"]))
        let request = try #require(bench.server.requests.first)
        #expect(request.method == "POST" && request.target == "/api/v3/app/installations/5678/access_tokens")
        #expect(request.values("User-Agent") == ["lanyard"])
        #expect(request.values("Accept") == ["application/vnd.github+json"])
        #expect(request.values("X-GitHub-Api-Version") == ["2022-11-28"])
        #expect(
            request.bodyText
                == #"{"repositories":["hello","world"],"permissions":{"contents":"read","issues":"write"}}"#)
        let bearer = try #require(request.values("Authorization").first)
        let token = String(bearer.dropFirst("Bearer ".count))
        #expect(try SignedGrantTests.part(0, of: token)["alg"] as? String == "RS256")
        let claims = try SignedGrantTests.part(1, of: token)
        #expect(claims["iss"] as? String == "1234" && claims["aud"] == nil && claims["sub"] == nil)
        let (start, end) = (try #require(claims["iat"] as? Int), try #require(claims["exp"] as? Int))
        // iat is 60 s back; exp is at most ten minutes ahead.
        #expect(end - start == 360)
    }

    @Test(
        "each refusal has its class and its remedy",
        arguments: [
            (
                401, #"{"message":"A JSON web token could not be decoded"}"#, "credential_refused",
                "check app_id and key_file"
            ),
            (401, "<html>", "credential_doubted", "401"),
            (403, #"{"message":"This installation has been suspended"}"#, "credential_refused", "suspended"),
            (
                404, #"{"message":"Not Found","status":"404"}"#, "credential_refused",
                "check installation_id and base_url"
            ),
            (404, "no route", "transient", "404"),
            (
                422, #"{"message":"There is at least one repository"}"#, "credential_refused",
                "repositories or permissions"
            ),
            (301, "", "transient", "a redirect that is not followed"), (503, #"{"message":"x"}"#, "transient", "503"),
            (201, #"{"token":"ghs_a"}"#, "transient", "there is no expires_at"),
            (
                201, #"{"token":"a\nb","expires_at":"2027-01-01T11:00:00Z"}"#, "transient",
                "no token that a header can carry"
            ),
            (201, #"{"token":"ghs_a","expires_at":"2027-01-01T09:00:00Z"}"#, "transient", "less than 2 s"),
            (201, #"{"token":"ghs_a","exp"#, "transient", "not a JSON object"),
            (200, #"{"token":"ghs_a","expires_at":"2027-01-01T11:00:00Z"}"#, "transient", "200"),
        ])
    func refusals(_ status: Int, _ body: String, _ label: String, _ message: String) async throws {
        let bench = try Bench { Self.json(status, body, [Self.date]) }
        defer { bench.stop() }
        let error = try await bench.error()
        #expect(error.verdict.label == label && error.message.contains(message), "\(error.message)")
        let own = body.contains("message") ? body.split(separator: "\"").dropFirst(2).first.map(String.init) : nil
        #expect((error.serviceText == nil) == (own == nil), "\(error.operatorMessage)")
        #expect(error.isOfClient == (status == 401 && label == "credential_refused"))
    }

    @Test("a limit on requests is waited for: 403 with Retry-After")
    func limit() async throws {
        let bench = try Bench {
            Self.json(403, #"{"message":"You have exceeded a secondary rate limit"}"#, [("Retry-After", "17")])
        }
        defer { bench.stop() }
        let error = try await bench.error()
        #expect(error.verdict == .transient(retryAfter: .seconds(17)))
    }

    @Test("a limit without Retry-After ends at its reset by GitHub's clock, else after a minute")
    func limitWithoutTime() async throws {
        let reset = ("X-RateLimit-Reset", "1798797620")
        for (fields, message, seconds) in [
            ([Self.date, ("X-RateLimit-Remaining", "0"), reset], "API rate limit exceeded", 20),
            ([Self.date, ("X-RateLimit-Remaining", "12"), reset], "You have exceeded a secondary rate limit", 20),
            ([Self.date], "You have exceeded a secondary rate limit", 60),
        ] {
            let bench = try Bench { Self.json(403, #"{"message":"\#(message)"}"#, fields) }
            defer { bench.stop() }
            #expect(try await bench.error().verdict == .transient(retryAfter: .seconds(seconds)))
        }
    }

    @Test("a key refused by a clock that is an hour away signs once more by GitHub's; a second refusal is one")
    func clock() async throws {
        for isHelped in [true, false] {
            let calls = Guarded(0)
            let bench = try Bench {
                let call = calls.withLock {
                    $0 += 1; return $0
                }
                return call == 2 && isHelped
                    ? Self.json(201, #"{"token":"ghs_a","expires_at":"2027-01-01T11:00:00Z"}"#, [Self.date])
                    : Self.json(401, #"{"message":"'Issued at' claim is too far in the future"}"#, [Self.date])
            }
            defer { bench.stop() }
            let outcome = await bench.login()
            let tokens = bench.server.requests.map { String(($0["Authorization"] ?? "").dropFirst("Bearer ".count)) }
            #expect(tokens.count == 2)
            let start = try #require(try SignedGrantTests.part(1, of: tokens.last)["iat"] as? Int)
            #expect(abs(start - (1_798_797_600 - 60)) <= 2, "by the Date of the response")
            if isHelped { _ = try outcome.get() } else { #expect(throws: IdentityError.self) { try outcome.get() } }
        }
    }

    @Test("a refused key is not sent again until it changes; a key that cannot sign is named")
    func keys() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("key", SignedGrantTests.keys.text("rsa"))
        let bench = try Bench(key: path) { Self.json(401, #"{"message":"no"}"#) }
        defer { bench.stop() }
        var guarded = LoginGuard(key: Tokens.secret(String(repeating: "k", count: 32)), refused: nil)
        let first = try await bench.error(guarded)
        guarded.refused = first.credential
        let second = try await bench.error(guarded)
        #expect(second.verdict == .credentialRefused && second.message.contains("was refused before"))
        #expect(bench.server.requests.count == 1)
        try folder.write("key", SignedGrantTests.keys.text("locked"))
        let third = try await bench.error(guarded)
        #expect(third.verdict == .credentialUnavailable && third.message.contains("passphrase"))
        #expect(bench.server.requests.count == 1)
    }
}
