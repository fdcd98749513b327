import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import TestSupport
import Testing

@testable import LanyardAdmin
@testable import LanyardRequestPath

/// The admin API's calls about accounts: paths, bodies, responses, audit lines.
@Suite struct AdminAccountTests {
    private static func read(_ method: RequestHead.Method, _ path: String) -> AdminCall.Parsed {
        Array(path.utf8).withUnsafeBufferPointer { AdminCall.read(method, $0) }
    }

    @Test(
        "each call about an account has its method and path",
        arguments: [
            (.get, "/v1/users/bob/profile", .account("bob", .profile)),
            (.get, "/v1/users/bob/custom-data", .customData("bob")), (.get, "/v1/users/bob/token", .token("bob")),
            (.post, "/v1/users/bob/link", .link("bob")), (.get, "/v1/users/bob/api-keys", .account("bob", .apiKeys)),
            (.post, "/v1/users/bob/api-keys", .account("bob", .createAPIKey)),
            (.get, "/v1/users/bob/api-keys/k1", .account("bob", .apiKey("k1"))),
            (.delete, "/v1/users/bob/api-keys/k1", .account("bob", .deleteAPIKey("k1"))),
            (.post, "/v1/users/bob/api-keys/k1/enable", .account("bob", .enableAPIKey("k1"))),
            (.post, "/v1/users/bob/api-keys/k1/disable", .account("bob", .disableAPIKey("k1"))),
            (.post, "/v1/users/bob/functions/sum", .account("bob", .function("sum"))),
            (.post, "/v1/users/bob/functions/a%2Fb%20%C3%BC", .account("bob", .function("a/b ü"))),
            (.post, "/v1/identities/demo/email-password/register", .emailPassword(identity: "demo", .register)),
            (
                .post, "/v1/identities/demo/email-password/call-reset-function",
                .emailPassword(identity: "demo", .callResetFunction)
            ),
        ] as [(RequestHead.Method, String, AdminCall)])
    func paths(_ method: RequestHead.Method, _ path: String, _ call: AdminCall) {
        #expect(Self.read(method, path) == .call(call))
    }

    @Test("ids and names that cannot be used are told apart from paths that do not exist")
    func badSegments() {
        for path in ["/v1/users/bob/api-keys/", "/v1/users/bob/api-keys/a%2Fb", "/v1/users/bob/api-keys/../profile"] {
            let parsed = Self.read(.get, path)
            #expect(
                parsed == .unreadable(.noRoute)
                    || parsed == .unreadable(.invalid("the id of an API key is one of [A-Za-z0-9_-]{1,64}")))
        }
        for name in ["", "%", "%zz", "%ff", String(repeating: "f", count: 257)] {
            guard case .unreadable(.invalid) = Self.read(.post, "/v1/users/bob/functions/" + name) else {
                Issue.record("\(name)")
                continue
            }
        }
        #expect(Self.read(.post, "/v1/users/b%6fb/link") == .unreadable(.noSuchUser))
        #expect(Self.read(.post, "/v1/identities/d%65mo/email-password/confirm") == .unreadable(.noSuchIdentity))
        #expect(Self.read(.get, "/v1/identities/demo/email-password/confirm") == .methodNotAllowed(allow: "POST"))
        #expect(Self.read(.put, "/v1/users/bob/api-keys/k1") == .methodNotAllowed(allow: "GET, HEAD, DELETE"))
        #expect(Self.read(.get, "/v1/users/bob/functions/sum") == .methodNotAllowed(allow: "POST"))
    }

    @Test("bodies with email and password become the calls, secrets in wiped memory; arguments pass as JSON")
    func emailPasswordBodies() async throws {
        let server = try AdminServer()
        server.users.replies(.success(.result(Tokens.secret("{}"))))
        let calls = [
            ("register", #"{"email":"a@x","password":"s3cret"}"#, 201, "register a@x"),
            ("confirm", #"{"token":"s3cret","token_id":"i"}"#, 200, "confirm"),
            ("resend-confirmation", #"{"email":"a@x"}"#, 200, "resend a@x"),
            ("retry-custom-confirmation", #"{"email":"a@x"}"#, 200, "retry a@x"),
            ("send-reset-email", #"{"email":"a@x"}"#, 200, "send reset a@x"),
            ("reset-password", #"{"token":"t","token_id":"i","password":"s3cret"}"#, 200, "reset"),
            (
                "call-reset-function", #"{"email":"a@x","password":"s3cret","arguments":[ 1, {"a":[]} ]}"#, 200,
                #"call reset a@x with [1,{"a":[]}]"#
            ),
            ("call-reset-function", #"{"email":"a@x","password":"s3cret"}"#, 200, "call reset a@x with []"),
        ]
        for (verb, body, status, words) in calls {
            let response = try await server.ask("POST", "/v1/identities/demo/email-password/\(verb)", body)
            #expect(response.status == status && response.bodyText == "{}")
            #expect(server.users.requests.last == words + " at demo")
        }
        #expect(server.users.given.contains { Tokens.text($0) == "s3cret" })
        #expect(server.log.lines("admin.call").map { $0["call"] }.first == "email_password.register")
        #expect(!server.log.text.contains("s3cret") && !server.log.text.contains("a@x"))
    }

    @Test(
        "a body that does not fit is told what is wrong, and no call is made",
        arguments: [
            ("identities/demo/email-password/register", #"{"email":"a@x"}"#, "password is missing."),
            ("identities/demo/email-password/register", #"{"email":"","password":"p"}"#, "email is empty."),
            ("identities/demo/email-password/confirm", #"{"token":"t","tokenId":"i"}"#, "unknown key tokenId."),
            ("identities/demo/email-password/send-reset-email", "", "email is missing."),
            (
                "identities/demo/email-password/call-reset-function",
                #"{"email":"a","password":"p","arguments":{}}"#, "arguments is not an array."
            ),
            ("users/bob/link", "{}", "credential is missing."),
            ("users/bob/link", #"{"credential":{"anonymous":{}},"activate":true}"#, "unknown key activate."),
            (
                "users/bob/link", #"{"credential":{"anonymous":{}}}"#,
                "credential.anonymous cannot be linked: an anonymous login always begins an account of its own."
            ),
            ("users/bob/api-keys", #"{"name":7}"#, "name is not a string."),
            ("users/bob/functions/f", #"{"a":1}"#, "the body is not an array."),
            ("users/bob/login", #"{"activate":"no"}"#, "activate is neither true nor false."),
            ("users/bob/api-keys/k1/enable", #"{"a":1}"#, "unknown key a."),
        ])
    func badBodies(path: String, body: String, detail: String) async throws {
        let server = try AdminServer()
        let response = try await server.ask("POST", "/v1/" + path, body)
        #expect(response.status == 422)
        #expect(try response.json["detail"].string == detail)
        #expect(server.users.requests == [])
    }

    @Test("results pass as the service gave them, with the status of the call")
    func results() async throws {
        let server = try AdminServer()
        server.users.replies(.success(.result(Tokens.secret(#"{"id":"k1","key":"s3cret"}"#))))
        let created = try await server.ask("POST", "/v1/users/bob/api-keys", #"{"name":"n"}"#)
        #expect(created.status == 201 && created.bodyText == #"{"id":"k1","key":"s3cret"}"#)
        #expect(created["Content-Type"] == "application/json" && created["Cache-Control"] == "no-store")
        let deleted = try await server.ask("DELETE", "/v1/users/bob/api-keys/k1")
        #expect(deleted.status == 204 && deleted.body.isEmpty && deleted["Content-Length"] == nil)
        let calls = [
            ("GET", "profile"), ("GET", "custom-data"), ("GET", "api-keys"), ("GET", "api-keys/k1"),
            ("POST", "api-keys/k1/disable"), ("POST", "functions/f"),
        ]
        for (method, path) in calls {
            #expect(try await server.ask(method, "/v1/users/bob/" + path).status == 200)
        }
        let head = try await server.ask("HEAD", "/v1/users/bob/profile")
        #expect(head.body.isEmpty && head["Content-Length"] == "26")
        #expect(
            server.users.requests == [
                "new key n as bob", "delete key k1 as bob", "profile as bob", "custom data of bob", "keys as bob",
                "key k1 as bob", "disable key k1 as bob", "function f with [] as bob", "profile as bob",
            ])
        // Reading changes nothing and leaves no line.
        #expect(
            server.log.lines("admin.call").map { $0["call"] } == [
                "api_keys.create", "api_keys.delete", "api_keys.disable", "function",
            ])
        #expect(!server.log.text.contains("s3cret"))
    }

    @Test("a function's arguments may have 1 MiB and its result any size; both arrive whole")
    func large() async throws {
        let server = try AdminServer()
        let text = String(repeating: "y", count: 3 << 20)
        server.users.replies(.success(.result(Tokens.secret("\"\(text)\""))))
        let argument = String(repeating: "x", count: (1 << 20) - 4)
        let response = try await server.ask("POST", "/v1/users/bob/functions/f", "[\"\(argument)\"]")
        #expect(response.status == 200 && response.bodyText == "\"\(text)\"")
        #expect(server.users.requests == ["function f with [\"\(argument)\"] as bob"])
    }

    @Test("a function's arguments have a limit of their own")
    func argumentLimit() async throws {
        var limits = AdminLimits()
        (limits.functionBodyBytesMax, limits.bodyBytesMax) = (64, 32)
        let server = try AdminServer(limits: limits)
        server.users.replies(.success(.result(Tokens.secret("1"))))
        let fits = "[" + String(repeating: " ", count: 62) + "]"
        #expect(try await server.ask("POST", "/v1/users/bob/functions/f", fits).status == 200)
        #expect(try await server.ask("POST", "/v1/users/bob/functions/f", fits + " ").status == 413)
        #expect(try await server.ask("POST", "/v1/users/bob/login", "{" + fits).status == 413)
    }

    @Test("the account is deleted only if the query says so")
    func deleteAccount() async throws {
        let server = try AdminServer()
        server.users.replies(.success(.removed(isStored: true)))
        #expect(try await server.ask("DELETE", "/v1/users/bob?account=delete").status == 204)
        #expect(try await server.ask("DELETE", "/v1/users/bob").status == 204)
        #expect(server.users.requests == ["delete the account of bob", "remove bob"])
        for query in ["account=keep", "account=delete&x=1", "", "account=DELETE"] {
            #expect(try await server.ask("DELETE", "/v1/users/bob?" + query).status == 422)
        }
        #expect(try await server.ask("GET", "/v1/users/bob?account=delete").status == 422)
        #expect(server.log.lines("admin.call").map { $0["call"] } == ["delete_account", "remove"])
    }

    @Test("the access token is shown only if the configuration allows it, and that is audited")
    func token() async throws {
        let closed = try AdminServer()
        closed.users.replies(.success(.accessTokens(TokenCallTests.shown("a.b.c"))))
        let refusal = try await closed.ask("GET", "/v1/users/bob/token")
        #expect(refusal.status == 403)
        #expect(try AdminServer.problem(refusal) == "token-not-exposed")
        #expect(closed.users.requests == [])
        let open = try AdminServer(exposesTokens: true)
        let end = WallTime(seconds: 1_900_000_000)
        open.users.replies(.success(.accessTokens(TokenCallTests.shown("a.b.c", expiry: end, rest: .seconds(1000)))))
        let response = try await open.ask("GET", "/v1/users/bob/token")
        #expect(response["Cache-Control"] == "no-store")
        #expect(
            response.bodyText
                == #"{"user":"bob","token_type":"Bearer","access_token":"a.b.c","generation":7,"#
                + #""expires_in":995,"expires_at":"2030-03-17T17:46:40.000Z"}"#)
        open.users.replies(.success(.accessTokens(TokenCallTests.shown(#"a"b\c"#))))
        let endless = try await open.ask("GET", "/v1/users/bob/token").json
        #expect(endless["expires_at"] == .null && endless.object["expires_in"] == nil)
        #expect(endless["access_token"].string == #"a"b\c"#)
        #expect(open.log.lines("admin.call").map { $0["call"] } == ["token", "token"])
        #expect(!open.log.text.contains("a.b.c"))
    }

    @Test("a login may leave the active user as it is")
    func activate() async throws {
        let server = try AdminServer()
        server.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        _ = try await server.ask("POST", "/v1/users/bob/login", #"{"activate":false}"#)
        _ = try await server.ask("POST", "/v1/users/bob/login", #"{"activate":true}"#)
        _ = try await server.ask(
            "POST", "/v1/users", #"{"name":"b","identity":"demo","activate":false,"credential":{"anonymous":{}}}"#)
        #expect(
            server.users.requests == [
                "login bob by configuration, not active", "login bob by configuration",
                "add b at demo by nothing, not active",
            ])
    }

    // MARK: Problems

    private static func error(
        _ verdict: IdentityError.Verdict, _ status: Int?, isServiceError: Bool = true
    ) -> IdentityError {
        var error = IdentityError(verdict, status: status, code: "Code", message: "ours")
        error.isServiceError = isServiceError
        error.serviceText = isServiceError ? "theirs" : nil
        return error
    }

    @Test("a refusal has the service's status, code and text; a 5xx of the service is 502 here")
    func refusal() async throws {
        let server = try AdminServer()
        for (status, shown) in [(409, 409), (401, 401), (500, 502)] {
            server.users.replies(.failure(.identity(Self.error(.callRefused, status))))
            let response = try await server.ask("POST", "/v1/users/bob/functions/f")
            #expect(response.status == shown)
            let json = try response.json
            #expect(json["type"].string == "urn:lanyard:problem:identity-error")
            #expect(json["identity_status"].int == status && json["error_code"].string == "Code")
            #expect(json["error"].string == "theirs" && json["detail"].string == "ours; the service says: \"theirs\".")
            #expect(json["user"].string == "bob" && json["retryable"].bool == false)
        }
        server.users.replies(.failure(.identity(Self.error(.callRefused, 409))))
        let register = try await server.ask(
            "POST", "/v1/identities/demo/email-password/register", #"{"email":"a@x","password":"p"}"#)
        #expect(try register.json["user"].string == nil)
    }

    @Test(
        "a 4xx that is not the service's own error is no refusal: the service is unreachable",
        arguments: [(true, 400, "identity-error"), (false, 503, "identity-unreachable")])
    func noRefusal(isServiceError: Bool, status: Int, problem: String) async throws {
        let server = try AdminServer()
        let error = Self.error(.transient(retryAfter: nil), 400, isServiceError: isServiceError)
        server.users.replies(.failure(.identity(error)))
        let response = try await server.ask("POST", "/v1/users/bob/refresh")
        #expect(response.status == status)
        #expect(try AdminServer.problem(response) == problem)
    }

    @Test("a call with an unknown outcome is not to be repeated blindly")
    func outcomeUnknown() async throws {
        let server = try AdminServer()
        server.users.replies(.failure(.serviceOutcomeUnknown(Self.error(.unknownOutcome, nil))))
        let response = try await server.ask("POST", "/v1/users/bob/functions/f")
        #expect(response.status == 503 && response["Retry-After"] == nil)
        #expect(try response.json["retryable"].bool == false)
        #expect(try response.json["detail"].string?.contains("carried out is unknown") == true)
    }

    @Test("a failed deletion says that the user stays logged in, and what is unknown")
    func notDeleted() async throws {
        let server = try AdminServer()
        server.users.replies(.failure(.notDeleted(Self.error(.callRefused, 403))))
        let refused = try await server.ask("DELETE", "/v1/users/bob?account=delete")
        #expect(refused.status == 403)
        #expect(
            try refused.json["detail"].string
                == "ours; the service says: \"theirs\". The account was not deleted, and bob stays logged in.")
        server.users.replies(.failure(.notDeleted(Self.error(.unknownOutcome, nil))))
        let unknown = try await server.ask("DELETE", "/v1/users/bob?account=delete")
        #expect(unknown.status == 503)
        #expect(try unknown.json["detail"].string?.contains("Whether the account was deleted is unknown") == true)
        #expect(try unknown.json["retryable"].bool == false)
    }
}
