import IdentityTestSupport
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

@Suite("App Services: calls about accounts")
struct AccountCallTests {
    private static let client = "/api/client/v2.0"
    private static let userpass = IdentityBench.appPath + "/auth/providers/local-userpass"
    private static let key = "0123456789abcdef01234567"

    private static func isAccountCall(_ path: String) -> Bool { !path.hasSuffix("/location") }

    /// A service with one response to all calls about accounts.
    private static func bench(
        _ status: Int = 200, _ body: String = "{}", type: String = "application/json"
    ) throws -> IdentityBench {
        try IdentityBench { _, path in
            guard isAccountCall(path) else { return nil }
            return .response(status, "X", fields: [("Content-Type", type)], body: body).closing
        }
    }

    private static func perform(
        _ call: AccountCall, at bench: IdentityBench, token: String? = "a.b.c"
    ) async -> Result<String, IdentityError> {
        await withCheckedContinuation { done in
            bench.identity.perform(call, token: token.map(Tokens.secret)) { result in
                done.resume(returning: result.map { Tokens.text($0) ?? "" })
            }
        }
    }

    // MARK: Requests

    @Test(
        "each call with email and password has its path and its members, and no token",
        arguments: [
            (
                .register(email: "a@x", password: Tokens.secret("p\"1")), "register",
                #"{"email":"a@x","password":"p\"1"}"#
            ),
            (
                .confirm(token: Tokens.secret("t"), tokenID: Tokens.secret("i")), "confirm",
                #"{"token":"t","tokenId":"i"}"#
            ),
            (.resendConfirmation(email: "a@x"), "confirm/send", #"{"email":"a@x"}"#),
            (.retryCustomConfirmation(email: "a@x"), "confirm/call", #"{"email":"a@x"}"#),
            (.sendResetEmail(email: "a@x"), "reset/send", #"{"email":"a@x"}"#),
            (
                .resetPassword(token: Tokens.secret("t"), tokenID: Tokens.secret("i"), password: Tokens.secret("p")),
                "reset", #"{"password":"p","token":"t","tokenId":"i"}"#
            ),
            (
                .callResetFunction(
                    email: "a@x", password: Tokens.secret("p"), arguments: Tokens.secret(#"[1,{"$oid":"x"}]"#)),
                "reset/call", #"{"email":"a@x","password":"p","arguments":[1,{"$oid":"x"}]}"#
            ),
        ] as [(EmailPasswordCall, String, String)])
    func emailPassword(call: EmailPasswordCall, path: String, body: String) async throws {
        // A compatible server answers 201 and 202 with members of its own.
        let bench = try Self.bench(path == "register" ? 201 : 202, #"{"userId":"x"}"#)
        let result = try await Self.perform(.emailPassword(call), at: bench, token: nil).get()
        #expect(result == (path == "register" ? #"{"email":"a@x"}"# : "{}"))
        let request = try #require(bench.server.requests.last)
        #expect(request.startLine == "POST \(Self.userpass)/\(path) HTTP/1.1")
        #expect(request["Authorization"] == nil && request.bodyText == body)
        #expect(request.values("Content-Type") == ["application/json;charset=utf-8"])
    }

    @Test("each call as a user has its method, path and token; API keys take the refresh token")
    func asUser() async throws {
        let calls: [(AccountCall, String, String)] = [
            (.profile, "GET \(Self.client)/auth/profile", ""), (.identities, "GET \(Self.client)/auth/profile", ""),
            (.deleteAccount, "DELETE \(Self.client)/auth/delete", ""),
            (.apiKeys, "GET \(Self.client)/auth/api_keys", ""),
            (.createAPIKey(name: "k\"1"), "POST \(Self.client)/auth/api_keys", #"{"name":"k\"1"}"#),
            (.apiKey(Self.key), "GET \(Self.client)/auth/api_keys/\(Self.key)", ""),
            (.deleteAPIKey(Self.key), "DELETE \(Self.client)/auth/api_keys/\(Self.key)", ""),
            (.enableAPIKey(Self.key), "PUT \(Self.client)/auth/api_keys/\(Self.key)/enable", ""),
            (.disableAPIKey(Self.key), "PUT \(Self.client)/auth/api_keys/\(Self.key)/disable", ""),
            (
                .function(name: "a/b \"ü\"", arguments: Tokens.secret("[1]")),
                "POST \(IdentityBench.appPath)/functions/call", #"{"name":"a/b \"ü\"","arguments":[1]}"#
            ),
        ]
        for (call, line, body) in calls {
            let bench = try Self.bench(200, #"{"_id":"x","name":"n","key":"k"}"#)
            _ = await Self.perform(call, at: bench)
            let request = try #require(bench.server.requests.last)
            #expect(request.startLine == "\(line) HTTP/1.1")
            #expect(request.values("Authorization") == ["Bearer a.b.c"] && request.bodyText == body)
            #expect(call.authorization == (line.contains("api_keys") ? .refreshToken : .accessToken))
        }
    }

    @Test("a link is a login with link=true and the access token, and brings an access token alone")
    func link() async throws {
        let bench = try IdentityBench { _, path in
            guard Self.isAccountCall(path) else { return nil }
            return IdentityBench.json(
                200, #"{"access_token":"\#(Tokens.access())","refresh_token":"\#(Tokens.refresh)","user_id":"u"}"#)
        }
        let grant = try await Self.link(bench).get()
        #expect(grant.requestStartedAt != nil)
        #expect(grant.refreshToken == nil && grant.userID == "u" && Tokens.text(grant.accessToken) == Tokens.access())
        let request = try #require(bench.server.requests.last)
        #expect(request.target == "\(Self.userpass)/login?link=true")
        #expect(request.values("Authorization") == ["Bearer a.b.c"])
        #expect(try request.json["username"].string == "a@x" && request.json["password"].string == "p")
    }

    private static func link(_ bench: IdentityBench) async -> Result<Grant, IdentityError> {
        await withCheckedContinuation { done in
            bench.identity.link(
                .emailPassword(email: "a@x", password: Tokens.secret("p")), accessToken: Tokens.secret("a.b.c")
            ) { done.resume(returning: $0) }
        }
    }

    // MARK: Results

    @Test("a profile comes as it is, but for members whose text carries a token")
    func profile() async throws {
        let bench = try Self.bench(
            200,
            #"""
            {"user_id": "u", "identities": [{"id": "i", "provider_type": "oauth2-facebook", "provider_data":
             {"picture": "https://g/x?Access\u005fTOKEN=s3cret"}}], "data": {"picture_url":
             "https://g/x?access_token=s3cret", "picture": "https://g/plain", "name": "A\u00e9"}, "type": "normal", "n": [1.5e3, null]}
            """#)
        #expect(
            try await Self.perform(.profile, at: bench).get()
                == #"{"user_id":"u","identities":[{"id":"i","provider_type":"oauth2-facebook","provider_data":{}}],"#
                + #""data":{"picture":"https://g/plain","name":"A\u00e9"},"type":"normal","n":[1.5e3,null]}"#)
        #expect(
            try await Self.perform(.identities, at: bench).get()
                == #"{"user_id":"u","identities":[{"id":"i","provider_type":"oauth2-facebook"}]}"#)
    }

    @Test("API keys are named by id, and the key itself is in the response to its creation only")
    func apiKeys() async throws {
        let one = #"{"_id": "k1", "name": "n", "disabled": true, "key": "s3cret", "more": [1]}"#
        let bench = try Self.bench(200, one)
        #expect(try await Self.perform(.apiKey("k1"), at: bench).get() == #"{"id":"k1","name":"n","disabled":true}"#)
        #expect(
            try await Self.perform(.createAPIKey(name: "n"), at: bench).get()
                == #"{"id":"k1","name":"n","disabled":true,"key":"s3cret"}"#)
        #expect(try await Self.perform(.disableAPIKey("k1"), at: bench).get() == #"{"id":"k1","disabled":true}"#)
        let list = try Self.bench(200, "[\(one),{\"_id\":{\"$oid\":\"k2\"},\"name\":\"m\"}]")
        #expect(
            try await Self.perform(.apiKeys, at: list).get()
                == #"{"api_keys":[{"id":"k1","name":"n","disabled":true},{"id":"k2","name":"m","disabled":false}]}"#)
        #expect(try await Self.perform(.apiKeys, at: Self.bench(200, "[]")).get() == #"{"api_keys":[]}"#)
    }

    @Test(
        "a function's result passes as it came; none is null",
        arguments: [#"{"$numberLong": "15"}"#, "true", "null", #" {"error": "mine"} "#, "[1, 2]", ""])
    func functionResult(body: String) async throws {
        let call = AccountCall.function(name: "f", arguments: Tokens.secret("[]"))
        #expect(try await Self.perform(call, at: Self.bench(200, body)).get() == (body.isEmpty ? "null" : body))
    }

    @Test("a function's result has 4 MiB at most; what a larger one says about the call is unknown")
    func largeResult() async throws {
        let call = AccountCall.function(name: "f", arguments: Tokens.secret("[]"))
        let fits = "\"" + String(repeating: "x", count: (4 << 20) - 2) + "\""
        #expect(try await Self.perform(call, at: Self.bench(200, fits)).get().utf8.count == 4 << 20)
        let error = await Self.perform(call, at: try Self.bench(200, fits + " ")).failure
        #expect(error?.verdict == .unknownOutcome && error?.message.contains("4 MiB") == true)
        let profile = await Self.perform(.profile, at: try Self.bench(200, fits)).failure
        #expect(profile?.verdict == .transient(retryAfter: nil))
    }

    @Test(
        "custom data is what the access token carries",
        arguments: [
            (#"{"exp":2,"user_data":{"a":[1]}}"#, #"{"a":[1]}"#), (#"{"exp":2}"#, "{}"),
            (#"{"user_data":null}"#, "{}"), (#"{"user_data":{"a":1},"custom_data":{"b":2}}"#, #"{"b":2}"#),
            (#"{"custom_data":{"b":2},"user_data":{"a":1}}"#, #"{"b":2}"#), (#"{"user_data":"text"}"#, nil),
        ])
    func customData(claims: String, data: String?) async throws {
        let bench = try Self.bench()
        let result = bench.identity.customData(in: Tokens.secret(Tokens.jwt(claims)))
        #expect(result.success.flatMap { Tokens.text($0) } == data)
    }

    // MARK: Errors

    private struct Refusal: Sendable {
        var status: Int
        var code: String?
        var text = "unauthorized"
        /// What the message explains.
        var words: String
    }

    @Test(
        "a refusal keeps the service's status, code and text, and is explained in plain words",
        arguments: [
            .init(status: 409, code: "AccountNameInUse", text: "name already in use", words: "already"),
            .init(
                status: 400, code: "BadRequest", text: "password must be between 6 and 128 characters",
                words: "error says which"),
            .init(status: 400, code: "UserpassTokenInvalid", words: "30 minutes"),
            .init(status: 400, code: "UserAlreadyConfirmed", text: "already confirmed", words: "confirmed already"),
            .init(status: 404, code: "UserNotFound", text: "user not found", words: "no account with this email"),
            .init(status: 400, code: nil, text: "please use reset password via function", words: "400 to"),
            .init(status: 401, code: "InvalidSession", words: "token"),
            .init(status: 403, code: "NoMatchingRuleFound", words: "rule"),
            .init(status: 404, code: "APIKeyNotFound", words: "no API key"),
            .init(status: 404, code: nil, text: "Not Found", words: "does not offer this call"),
            .init(status: 404, code: "FunctionNotFound", words: "no function"),
            .init(status: 400, code: "FunctionExecutionError", words: "thrown"),
            .init(status: 400, code: "SomethingNew", words: "400 SomethingNew"),
        ] as [Refusal])
    private func refused(_ refusal: Refusal) async throws {
        let code = refusal.code.map { #","error_code":"\#($0)""# } ?? ""
        let bench = try Self.bench(
            refusal.status, #"{"error":"\#(refusal.text)"\#(code),"link":"https://x/logs?co_id=1"}"#,
            type: "application/json; charset=utf-8")
        let call = AccountCall.function(name: "f", arguments: Tokens.secret("[]"))
        let error = try #require(await Self.perform(call, at: bench).failure)
        #expect(error.verdict == .callRefused && error.status == refusal.status && error.code == refusal.code)
        #expect(error.serviceText == refusal.text && error.isServiceError)
        #expect(error.message.contains(refusal.words), "\(error.message)")
    }

    @Test(
        "what is no refusal of the service is transient; where the call may have been carried out, its outcome is unknown",
        arguments: [
            (429, "{}", false), (503, #"{"error":"down"}"#, false),
            (500, #"{"error":"x","error_code":"MaintenanceInProgress"}"#, false),
            (403, "<html>", false), (400, "", false), (302, "", false), (502, "<html>", true), (504, "", true),
            (200, "<html>", true),
        ])
    func notRefused(status: Int, body: String, isUnknown: Bool) async throws {
        let bench = try Self.bench(status, body, type: body.hasPrefix("<") ? "text/html" : "application/json")
        let function = AccountCall.function(name: "f", arguments: Tokens.secret("[]"))
        let error = await Self.perform(function, at: bench).failure
        #expect(error?.verdict == (isUnknown ? .unknownOutcome : .transient(retryAfter: nil)))
        // A call that changes nothing may always be repeated.
        #expect(await Self.perform(.apiKeys, at: bench).failure?.verdict == .transient(retryAfter: nil))
    }

    @Test("a service that has ended, and one that does not know the app, are told apart from refusals")
    func goneAndUnknown() async throws {
        let gone = try Self.bench(410, #"{"error":"EOL"}"#)
        #expect(await Self.perform(.profile, at: gone).failure?.verdict == .gone)
        let unknown = try Self.bench(404, #"{"error":"cannot find app using Client App ID 'x'"}"#)
        #expect(await Self.perform(.profile, at: unknown).failure?.verdict == .unknownApp)
    }

    @Test("a lost response of a call that changes something is an unknown outcome; an unmade connection is not")
    func lost() async throws {
        let bench = try IdentityBench { _, path in Self.isAccountCall(path) ? .close : nil }
        #expect(await Self.perform(.deleteAccount, at: bench).failure?.verdict == .unknownOutcome)
        #expect(await Self.perform(.profile, at: bench).failure?.verdict == .transient(retryAfter: nil))
        let nobody = try IdentityBench(baseURL: "http://127.0.0.1:1")
        #expect(await Self.perform(.deleteAccount, at: nobody).failure?.verdict == .transient(retryAfter: nil))
    }

    @Test("the text of a refusal that repeats a secret is not kept, and no long token is")
    func secretText() async throws {
        let call = AccountCall.emailPassword(.register(email: "a@x", password: Tokens.secret("hunter22")))
        let echoed = await Self.perform(call, at: try Self.bench(400, #"{"error":"bad password hunter\u003222!"}"#))
        #expect(echoed.failure?.serviceText == nil && echoed.failure?.verdict == .callRefused)
        let long = String(repeating: "x", count: 50)
        let other = await Self.perform(call, at: try Self.bench(400, #"{"error":"a \#(long) b\n"}"#))
        #expect(other.failure?.serviceText == #"a [...] b\x0a"#)
    }

    @Test(
        "refused links, which say nothing about the session",
        arguments: [
            (401, "InvalidSession", IdentityError.Verdict.callRefused), (401, "InvalidPassword", .callRefused),
            (500, "", .callRefused), (500, "MaintenanceInProgress", .transient(retryAfter: nil)),
        ])
    func refusedLink(status: Int, code: String, verdict: IdentityError.Verdict) async throws {
        let bench = try Self.bench(status, #"{"error":"unauthorized","error_code":"\#(code)"}"#)
        let error = await Self.link(bench).failure
        #expect(error?.verdict == verdict && error?.status == status)
    }

    @Test("a link whose token cannot be used has still been made: its outcome is unknown")
    func unusableLink() async throws {
        #expect(await Self.link(try Self.bench(200, #"{"user_id":"u"}"#)).failure?.verdict == .unknownOutcome)
    }

    // MARK: Compatible servers

    @Test("a server with other shapes is understood: login, refresh, logout, refusals, 500 of its framework")
    func compatibleServer() async throws {
        let access = Tokens.jwt(
            #"{"typ":"access","id":"i","data":{},"user_data":{},"custom_data":{},"jti":"j","iat":1700000000,"exp":1700018000}"#
        )
        let bench = try IdentityBench { request, path in
            let (status, body): (Int, String)
            switch (request.method, path) {
            case (_, let path) where path.hasSuffix("/login"):
                (status, body) = (
                    200,
                    #"{"access_token":"\#(access)","refresh_token":"\#(Tokens.refresh)","user_id":"u","device_id":""}"#
                )
            case ("POST", IdentityBench.sessionPath): (status, body) = (201, #"{"access_token":"\#(access)"}"#)
            case ("DELETE", IdentityBench.sessionPath): (status, body) = (200, #"{"status":"ok"}"#)
            case (_, let path) where path.hasSuffix("/register"):
                (status, body) = (
                    409,
                    #"{"message":"in use","error":"in use","errorCode":"AccountNameInUse","error_code":"AccountNameInUse"}"#
                )
            case (_, let path) where path.hasSuffix("/confirm"):
                (status, body) = (500, #"{"statusCode":500,"error":"Internal Server Error","message":"no"}"#)
            case ("DELETE", _):
                (status, body) = (404, #"{"message":"Route not found","error":"Not Found","statusCode":404}"#)
            default: return nil
            }
            return .response(
                status, "X", fields: [("Content-Type", "application/json; charset=utf-8")], body: body
            ).closing
        }
        #expect(try await bench.login().get().lifetime == .seconds(18_000))
        #expect(try await bench.refresh().get().lifetime == .seconds(18_000))
        try await bench.revoke().get()
        let register = AccountCall.emailPassword(.register(email: "A@x", password: Tokens.secret("123456")))
        #expect(await Self.perform(register, at: bench, token: nil).failure?.code == "AccountNameInUse")
        let confirm = AccountCall.emailPassword(.confirm(token: Tokens.secret("t"), tokenID: Tokens.secret("i")))
        #expect(await Self.perform(confirm, at: bench, token: nil).failure?.verdict == .transient(retryAfter: nil))
        #expect(await Self.perform(.deleteAccount, at: bench).failure?.verdict == .callRefused)
    }

    // MARK: The base URL

    @Test("a base URL with a path keeps its path: on location, and on all calls if location names its own host")
    func basePath() async throws {
        let own = Guarded("")
        let server = try RawServer { request in
            let path = request.message.target
            return path.hasSuffix("/location")
                ? IdentityBench.location("http://\(own.withLock { $0 })")
                : IdentityBench.json(201, #"{"access_token":"\#(Tokens.access())"}"#)
        }
        own.withLock { $0 = "\(server.endpoint)" }
        let bench = try IdentityBench(baseURL: "http://\(server.endpoint)/some/extra/stuff")
        _ = try await bench.refresh().get()
        let prefix = "/some/extra/stuff"
        #expect(
            server.requests.map(\.target) == [
                prefix + IdentityBench.appPath + "/location", prefix + IdentityBench.sessionPath,
            ])
    }

    @Test("another host of the location response replaces base URL and path; an empty one keeps both")
    func basePathElsewhere() async throws {
        for (hostname, target) in [(nil, IdentityBench.sessionPath), ("", "/p" + IdentityBench.sessionPath)] {
            let other = try RawServer { _ in IdentityBench.json(201, #"{"access_token":"\#(Tokens.access())"}"#) }
            let server = try RawServer { request in
                request.message.target.hasSuffix("/location")
                    ? IdentityBench.location(hostname ?? "http://\(other.endpoint)")
                    : IdentityBench.json(201, #"{"access_token":"\#(Tokens.access())"}"#)
            }
            let bench = try IdentityBench(baseURL: "http://\(server.endpoint)/p/")
            _ = try await bench.refresh().get()
            let requests = server.requests.dropFirst() + other.requests
            #expect(requests.map(\.target) == [target])
        }
    }

    @Test(
        "base URLs with a path are read; what is no URL is not",
        arguments: [
            ("http://localhost:1/a/b/", "http://localhost:1/a/b"), ("HTTPS://H", "https://H"),
            ("https://h/", "https://h"),
            ("http://h/a?b", nil), ("ftp://h/a", nil), ("http://u@h/a", nil), ("http://h/a b", nil),
        ])
    func base(text: String, origin: String?) {
        #expect(ServiceOrigin(base: text)?.text == origin)
    }
}
