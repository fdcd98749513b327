import IdentityTestSupport
import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardSessionInterface

/// One response of the service and what follows from it.
struct VerdictCase: Sendable, CustomTestStringConvertible {
    let status: Int
    let body: String
    var type = "application/json"
    var fields: [(String, String)] = []
    let verdict: IdentityError.Verdict
    var code: String?

    var testDescription: String { "\(status) \(body) \(fields.map(\.1))" }

    var response: RawResponse {
        .response(status, "X", fields: [("Content-Type", type)] + fields, body: body).closing
    }
}

@Suite("App Services: what a response means")
struct AppServicesVerdictTests {
    static let gone = #"{"error":"Atlas App Services and Device Sync have reached EOL"}"#
    static let noApp = #"{"error":"cannot find app using Client App ID 'demo-abcde'"}"#

    static let both: [VerdictCase] = [
        .init(status: 404, body: noApp, verdict: .unknownApp),
        .init(status: 404, body: #"{"error":"Not Found","statusCode":404}"#, verdict: .transient(retryAfter: nil)),
        .init(status: 404, body: "cannot find app", type: "text/plain", verdict: .transient(retryAfter: nil)),
        .init(status: 410, body: gone, verdict: .gone),
        .init(status: 410, body: "", type: "text/html", verdict: .gone),
        .init(
            status: 500, body: #"{"error":"x","error_code":"MaintenanceInProgress"}"#,
            verdict: .transient(retryAfter: nil),
            code: "MaintenanceInProgress"),
        .init(status: 503, body: "", fields: [("Retry-After", "7")], verdict: .transient(retryAfter: .seconds(7))),
        .init(
            status: 429, body: "slow", type: "text/plain", fields: [("retry-after", "120")],
            verdict: .transient(retryAfter: .seconds(120))),
        .init(
            status: 503, body: "",
            fields: [("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Retry-After", "Sun, 06 Nov 1994 08:50:37 GMT")],
            verdict: .transient(retryAfter: .seconds(60))),
        .init(
            status: 503, body: "",
            fields: [("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Retry-After", "Sun, 06 Nov 1994 08:40:37 GMT")],
            verdict: .transient(retryAfter: .zero)),
        .init(status: 503, body: "", fields: [("Retry-After", "-1")], verdict: .transient(retryAfter: nil)),
        .init(status: 503, body: "", fields: [("Retry-After", "soon")], verdict: .transient(retryAfter: nil)),
        .init(status: 408, body: "", verdict: .transient(retryAfter: nil)),
        .init(status: 425, body: "", verdict: .transient(retryAfter: nil)),
        .init(status: 302, body: "", verdict: .transient(retryAfter: nil)),
        .init(
            status: 400, body: #"{"error":"bad","error_code":"BadRequest"}"#, verdict: .transient(retryAfter: nil),
            code: "BadRequest"),
        .init(status: 403, body: "<html>", type: "text/html", verdict: .transient(retryAfter: nil)),
        .init(status: 500, body: #"{"error_code":"Not a code!"}"#, verdict: .transient(retryAfter: nil)),
        .init(status: 200, body: "", verdict: .transient(retryAfter: nil)),
        .init(
            status: 200, body: "<html>log in to the wifi</html>", type: "text/html",
            verdict: .transient(retryAfter: nil)),
        .init(status: 200, body: "{}", verdict: .transient(retryAfter: nil)),
        .init(status: 200, body: #"{"access_token":null}"#, verdict: .transient(retryAfter: nil)),
        .init(status: 200, body: #"{"access_token":7}"#, verdict: .transient(retryAfter: nil)),
        .init(
            status: 200, body: #"{"access_token":"word","refresh_token":"a","user_id":"b"}"#,
            verdict: .transient(retryAfter: nil)),
        .init(
            status: 200, body: #"{"access_token":"\#(Tokens.access(lifetime: 1))","refresh_token":"a","user_id":"b"}"#,
            verdict: .transient(retryAfter: nil)),
        .init(
            status: 200, body: #"{"access_token":"\#(Tokens.access(lifetime: -9))","refresh_token":"a","user_id":"b"}"#,
            verdict: .transient(retryAfter: nil)),
        .init(
            status: 200, body: #"{"access_token":"\#(Tokens.access())\r\nX: y","refresh_token":"a","user_id":"b"}"#,
            verdict: .transient(retryAfter: nil)),
        .init(
            status: 200,
            body: #"{"access_token":"\#(Tokens.access())","access_token":"x","refresh_token":"a","user_id":"b"}"#,
            verdict: .transient(retryAfter: nil)),
        .init(
            status: 200,
            body: #"{"access_token":"\#(Tokens.access())","refresh_token":"a","user_id":"b","error":"no"}"#,
            verdict: .transient(retryAfter: nil)),
        .init(status: 204, body: "", verdict: .transient(retryAfter: nil)),
    ]

    static let ofRefresh: [VerdictCase] = [
        .init(
            status: 401,
            body: #"{"error":"invalid session: failed to find refresh token","error_code":"InvalidSession"}"#,
            verdict: .sessionDead, code: "InvalidSession"),
        .init(status: 401, body: #"{"error":"signature is invalid"}"#, verdict: .sessionDead),
        .init(status: 401, body: "", type: "text/html", verdict: .sessionDead),
        .init(status: 401, body: "<html>", type: "text/html", verdict: .sessionDead),
        .init(status: 403, body: #"{"error":"no"}"#, type: "application/json; charset=utf-8", verdict: .sessionDead),
        .init(status: 403, body: #"{"message":"no"}"#, verdict: .transient(retryAfter: nil)),
        .init(status: 403, body: #"{"error":"no"}"#, type: "text/plain", verdict: .transient(retryAfter: nil)),
        .init(status: 403, body: #"{"error":"no"}"#, type: "application/jsonx", verdict: .transient(retryAfter: nil)),
        .init(
            status: 400, body: #"{"error":"x","error_code":"AuthError"}"#, verdict: .transient(retryAfter: nil),
            code: "AuthError"),
    ]

    private static let codes = ["InvalidPassword", "AuthError", "UserDisabled", "InvalidSession", "Unheard"]

    static let ofLogin: [VerdictCase] =
        codes.map { (code: String) in
            VerdictCase(
                status: 401, body: #"{"error":"unauthorized","error_code":"\#(code)"}"#, verdict: .credentialRefused,
                code: code)
        } + [
            .init(
                status: 401, body: #"{"error":"invalid username/password","error_code":""}"#,
                verdict: .credentialRefused),
            .init(
                status: 401, body: #"{"message":"m","error":"e","errorCode":"x","error_code":"AuthError"}"#,
                type: "application/json; charset=utf-8", verdict: .credentialRefused, code: "AuthError"),
            .init(
                status: 403, body: #"{"error":"x","error_code":"UserDisabled"}"#, verdict: .credentialRefused,
                code: "UserDisabled"),
            .init(status: 401, body: "<html>", type: "text/html", verdict: .credentialDoubted),
            .init(status: 401, body: "", verdict: .credentialDoubted),
            .init(status: 403, body: #"{"error":"no"}"#, verdict: .transient(retryAfter: nil)),
            .init(
                status: 200, body: #"{"access_token":"\#(Tokens.access())","user_id":"b"}"#,
                verdict: .transient(retryAfter: nil)),
            .init(
                status: 200, body: #"{"access_token":"\#(Tokens.access())","refresh_token":"a"}"#,
                verdict: .transient(retryAfter: nil)),
            .init(
                status: 200, body: #"{"access_token":"\#(Tokens.access())","refresh_token":"a b","user_id":"b"}"#,
                verdict: .transient(retryAfter: nil)),
        ]

    @Test("to a refresh", arguments: both + ofRefresh)
    func refresh(_ given: VerdictCase) async throws {
        let bench = try IdentityBench { request, _ in request.method == "POST" ? given.response : nil }
        check(await bench.refresh().failure, given)
    }

    @Test("to a login", arguments: both + ofLogin)
    func login(_ given: VerdictCase) async throws {
        let bench = try IdentityBench { request, _ in request.method == "POST" ? given.response : nil }
        check(await bench.login().failure, given)
    }

    @Test("to the location request", arguments: both.filter { $0.status >= 300 })
    func location(_ given: VerdictCase) async throws {
        let bench = try IdentityBench { _, _ in given.response }
        check(await bench.refresh().failure, given)
    }

    @Test("to a logout: a session that the service does not know is dead")
    func logout() async throws {
        let bench = try IdentityBench { request, _ in
            request.method == "DELETE" ? IdentityBench.json(401, #"{"error":"failed to find refresh token"}"#) : nil
        }
        #expect(await bench.revoke().failure?.verdict == .sessionDead)
    }

    @Test(
        "a logout is confirmed by a success that names no error and is no gateway's page",
        arguments: [
            (200, "", true), (204, "", true), (200, "{}", true), (200, #"{"status":"ok"}"#, true), (200, "OK", true),
            (200, #"{"error":"x"}"#, false), (200, #"{"error":"x","error_code":"InternalServerError"}"#, false),
            (200, "<!DOCTYPE html><title>Welcome</title>", false), (200, "\u{feff}\r\n <html>", false),
        ])
    func confirmedLogout(_ status: Int, _ body: String, _ isConfirmed: Bool) async throws {
        let bench = try IdentityBench { request, _ in
            request.method == "DELETE" ? IdentityBench.json(status, body) : nil
        }
        let failure = await bench.revoke().failure
        #expect(isConfirmed ? failure == nil : failure?.verdict == .transient(retryAfter: nil), "\(body)")
    }

    @Test(
        "Rule 12: a refresh that the service refuses by name leads to the configured login once the token has ended",
        arguments: [
            (400, #"{"error":"bad","error_code":"InvalidSession2"}"#, true), (422, #"{"error":"x"}"#, true),
            (400, #"{"error_code":"BadRequest"}"#, true), (404, #"{"error":"not found"}"#, true),
            (409, #"{"error":"x"}"#, true), (200, #"{"error":"x","error_code":"Unheard"}"#, true),
            (400, #"{"error":"x","error_code":"MaintenanceInProgress"}"#, false),
            (200, #"{"error":"x","error_code":"MaintenanceInProgress"}"#, false),
            (400, #"{"error":"x","error_code":"RateLimitExceeded"}"#, false),
            (400, "", false), (400, "<html>", false), (403, "", false), (408, #"{"error":"x"}"#, false),
            (425, #"{"error":"x"}"#, false), (429, #"{"error":"x"}"#, false), (500, #"{"error":"x"}"#, false),
            (503, #"{"error":"x"}"#, false), (200, "{}", false),
            (200, #"{"access_token":"\#(Tokens.access())","error":"x"}"#, false),
        ])
    func refusedByName(_ status: Int, _ body: String, _ isRefused: Bool) async throws {
        let bench = try IdentityBench { request, _ in
            request.method == "POST" ? IdentityBench.json(status, body) : nil
        }
        let error = try #require(await bench.refresh().failure)
        #expect(error.refusesRefresh == isRefused && error.verdict == .transient(retryAfter: nil), "\(error.message)")
        #expect(await bench.login().failure?.refusesRefresh == false)
    }

    @Test("Rule 3: Retry-After counts beside a doubtful refusal and an unusable success, too")
    func retryAfter() async throws {
        for (status, body) in [(401, ""), (401, "<html>"), (200, ""), (200, "{}"), (200, #"{"error":"x"}"#), (403, "")]
        {
            let response = RawResponse.response(status, "X", fields: [("Retry-After", "6")], body: body).closing
            let bench = try IdentityBench { request, _ in request.method == "POST" ? response : nil }
            #expect(await bench.login().failure?.retryAfter == .seconds(6), "\(status) \(body)")
            guard status != 401 else { continue }
            #expect(await bench.refresh().failure?.retryAfter == .seconds(6), "\(status) \(body)")
        }
        let place = try IdentityBench { _, _ in
            .response(200, "X", fields: [("Retry-After", "6")], body: "{}").closing
        }
        #expect(await place.refresh().failure?.retryAfter == .seconds(6))
    }

    @Test("a request for the location, or a refresh, that is refused blames no credential: none was sent")
    func blame() async throws {
        for (status, body) in [
            (400, #"{"error":"bad","error_code":"BadRequest"}"#), (422, #"{"error":"x"}"#), (403, #"{"error":"x"}"#),
            (401, #"{"error":"x"}"#),
        ] {
            let place = try IdentityBench { _, _ in IdentityBench.json(status, body) }
            let error = try #require(await place.login().failure)
            #expect(error.cause == .application && error.remedy?.contains("app_id or base_url") == true, "\(error)")
            #expect(!error.message.contains("credential"))
            guard status != 401, status != 403 else { continue }
            let bench = try IdentityBench { request, _ in
                request.method == "POST" ? IdentityBench.json(status, body) : nil
            }
            let refused = try #require(await bench.refresh().failure)
            #expect(refused.cause == .session && refused.remedy == "lanyard login NAME", "\(refused)")
            #expect(await bench.login().failure?.cause == .unexplained)
        }
    }

    @Test("a login that the service does not offer names no file of the credential")
    func annotation() async throws {
        for (code, isNamed) in [("AuthProviderNotFound", false), ("InvalidPassword", true), ("Unheard", true)] {
            let bench = try IdentityBench { request, path in
                path.hasSuffix("/login")
                    ? IdentityBench.json(401, #"{"error":"no","error_code":"\#(code)"}"#) : nil
            }
            let file = try bench.folder.write("p", "hunter2hunter")
            let error = try #require(
                await bench.login(.emailPassword(email: "a@example.com", password: file)).failure)
            #expect(error.message.contains(file) == isNamed, "\(error.message)")
        }
    }

    private func check(_ error: IdentityError?, _ given: VerdictCase) {
        #expect(error?.verdict == given.verdict)
        #expect(error?.status == given.status)
        #expect(error?.code == given.code)
        let message = error?.message ?? ""
        #expect(!message.isEmpty && !message.contains("canary"), "\(message)")
    }

    @Test(
        "an access token's life is what expires_in says, else exp − iat, else 300 s",
        arguments: [
            (#""expires_in":60"#, #"{"iat":0,"exp":1800}"#, 60), (#""expires_in":"60""#, #"{"iat":0,"exp":1800}"#, 60),
            (#""expires_in":60.9"#, #"{}"#, 60), (#""expires_in":"soon""#, #"{"iat":5,"exp":1805.5}"#, 1800),
            (#""x":1"#, #"{"exp":1800}"#, 300), (#""x":1"#, #"{}"#, 300), (#""x":1"#, #"{"iat":10,"exp":12}"#, 2),
            (#""x":1"#, #"{"iat":0,"exp":999999999999999}"#, 315_360_000),
        ])
    func lifetime(member: String, claims: String, seconds: Int) async throws {
        let bench = try IdentityBench { request, _ in
            request.method == "POST"
                ? IdentityBench.json(200, #"{"access_token":"\#(Tokens.jwt(claims))",\#(member)}"#) : nil
        }
        #expect(try await bench.refresh().get().lifetime == .seconds(seconds))
    }
}
