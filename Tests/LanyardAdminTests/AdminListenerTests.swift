import Dispatch
import Glibc
import LanyardAdmin
import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import LanyardTelemetry
import TestSupport
import Testing

/// The admin API over its socket: what is answered, with which words.
@Suite struct AdminListenerTests {
    @Test("status tells version, uptime, addresses and all users in the three states")
    func status() async throws {
        let server = try AdminServer()
        let response = try await server.ask("GET", "/v1/status")
        #expect(response.status == 200)
        #expect(response["Content-Type"] == "application/json")
        #expect(response["Cache-Control"] == "no-store")
        let json = try response.json
        #expect(
            Set(json.object.keys) == [
                "version", "uptime_seconds", "active_user", "listeners", "users", "stopping", "store_failure",
                "failed_reload", "lowered_limit", "logins", "slow_calls", "expiring_certificates", "readiness", "http2",
                "requests", "routes", "identities",
                "store", "clock", "descriptors", "last_reload_at", "users_total", "users_next", "routes_total",
                "routes_next",
            ])
        #expect(json["readiness"]["status"].string == "ready")
        #expect(json["readiness"]["checks"].array.map { $0["name"].string } == ["listener", "store", "clock"])
        #expect(json["version"].string == "1.2.3")
        #expect((90...120).contains(json["uptime_seconds"].int ?? 0))
        #expect(json["active_user"].string == "alice")
        #expect(json["listeners"][0]["address"].string == "127.0.0.1:7400")
        #expect(json["users"].array.map { $0["name"].string } == ["alice", "bob", "carol"])
        #expect(json["users"].array.map { $0["state"].string } == ["active", "inactive", "logged_out"])
        #expect(
            json["users"][0]
                == .object([
                    "name": .string("alice"), "identity": .string("demo"), "user_id": .string("65f0c0ffee"),
                    "state": .string("active"), "session": .string("stale"), "generation": .number(7),
                    "access_token_expires_at": .string("2030-03-17T17:46:40.000Z"),
                    "refresh_token_expires_at": .null, "next_refresh_at": .null,
                    "last_error": .string("it said \"no\""), "remedy": .null, "cause": .null,
                    "failing_since": .string("2027-01-15T08:00:00.000Z"), "action": .string("nobody"),
                    "call": .null, "tokens": .array([]),
                ]))
        let users = try await server.ask("GET", "/v1/users").json
        #expect(users == .object(["users": json["users"], "users_total": .number(3), "users_next": .null]))
        let page = try await server.ask("GET", "/v1/users?limit=1&after=alice").json
        #expect(
            page
                == .object([
                    "users": .array([json["users"][1]]), "users_total": .number(3), "users_next": .string("bob"),
                ]))
        let some = try await server.ask("GET", "/v1/status?user=ar&state=logged_out").json
        #expect(some["users"].array == [json["users"][2]] && some["users_total"].int == 1)
        #expect(try await server.ask("GET", "/v1/status?limit=none").status == 422)
        #expect(try await server.ask("GET", "/v1/users/carol").json == json["users"][2])
        #expect(server.log.lines("admin.call") == [])
    }

    @Test("a new user is 201 with its place, one that was there 200")
    func added() async throws {
        let server = try AdminServer()
        let body =
            #"{"name":"bob","identity":"demo","credential":{"email_password":{"email":"b@x","password":"s3cret"}}}"#
        server.users.replies(.success(.added(PlayedUsers.bob, isStored: true)))
        let response = try await server.ask("POST", "/v1/users", body)
        #expect(response.status == 201)
        #expect(response["Location"] == "/v1/users/bob")
        #expect(try response.json["user_id"].string == "b0b")
        #expect(try response.json["stored"].bool == true)
        server.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        #expect(try await server.ask("POST", "/v1/users", body).status == 200)
        #expect(server.users.requests == Array(repeating: "add bob at demo by password of b@x", count: 2))
        #expect(
            server.users.given.map { $0.withBytes { String(decoding: $0, as: UTF8.self) } } == ["s3cret", "s3cret"])
        #expect(!server.log.text.contains("s3cret"))
    }

    @Test("each call about a user reaches the users, and is answered with its result")
    func calls() async throws {
        let server = try AdminServer()
        server.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        #expect(try await server.ask("POST", "/v1/users/bob/login").json["state"].string == "active")
        #expect(try await server.ask("POST", "/v1/users/bob/login", "{}").status == 200)
        #expect(
            try await server.ask("POST", "/v1/users/bob/login", #"{"credential":{"api_key":{"key":"k"}}}"#).status
                == 200)
        #expect(try await server.ask("POST", "/v1/users/bob/activate").json["name"].string == "bob")
        server.users.replies(.success(.refreshed(WallTime(seconds: 1_900_000_000))))
        #expect(
            try await server.ask("POST", "/v1/users/bob/refresh").json
                == .object(["access_token_expires_at": .string("2030-03-17T17:46:40.000Z")]))
        server.users.replies(.success(.loggedOut(PlayedUsers.bob, .pending, isStored: true)))
        let out = try await server.ask("POST", "/v1/users/bob/logout").json
        #expect(out["revoked"].bool == false)
        #expect(out["removed"].bool == false)
        #expect(out["name"].string == "bob")
        server.users.replies(.success(.loggedOut(nil, .confirmed, isStored: false)))
        #expect(
            try await server.ask("POST", "/v1/users/guest/logout").json
                == .object([
                    "name": .string("guest"), "removed": .bool(true), "revoked": .bool(true),
                    "revocation": .string("confirmed"), "stored": .bool(false),
                ]))
        server.users.replies(.success(.removed(isStored: true)))
        let removed = try await server.ask("DELETE", "/v1/users/bob")
        #expect(removed.status == 204)
        #expect(removed["Content-Length"] == nil)
        #expect(removed.body == [])
        #expect(
            server.users.requests == [
                "login bob by configuration", "login bob by configuration", "login bob by key", "activate bob",
                "refresh bob", "logout bob", "logout guest", "remove bob",
            ])
    }

    @Test("a login, a switch and a new user say whether a restart would find them; who merely looks is told nothing")
    func stored() async throws {
        let server = try AdminServer()
        let body = #"{"name":"bob","identity":"demo","credential":{"anonymous":{}}}"#
        for isStored in [true, false] {
            server.users.replies(.success(.user(PlayedUsers.bob, isStored: isStored)))
            for call in ["activate", "login"] {
                #expect(try await server.ask("POST", "/v1/users/bob/\(call)").json["stored"].bool == isStored)
            }
            #expect(try await server.ask("POST", "/v1/users", body).json["stored"].bool == isStored)
            server.users.replies(.success(.added(PlayedUsers.bob, isStored: isStored)))
            let added = try await server.ask("POST", "/v1/users", body)
            #expect(try added.status == 201 && added.json["stored"].bool == isStored)
        }
        #expect(try await server.ask("GET", "/v1/users/bob").json.object["stored"] == nil)
    }

    @Test("a refresh with which the session has ended is no call to be made again")
    func refreshEnds() async throws {
        let server = try AdminServer()
        server.users.replies(.failure(.loginRequired))
        let response = try await server.ask("POST", "/v1/users/bob/refresh")
        #expect(try response.status == 503 && AdminServer.problem(response) == "login-required")
        #expect(try response.json["retryable"].bool == false && response["Retry-After"] == nil)
        #expect(try response.json["user"].string == "bob")
    }

    @Test("the audit names the user of the response: a login may end in the account of another than it named")
    func auditOfAnother() async throws {
        let server = try AdminServer()
        server.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        _ = try await server.ask(
            "POST", "/v1/users", #"{"name":"anon1","identity":"demo","credential":{"anonymous":{}}}"#)
        _ = try await server.ask("POST", "/v1/users/carol/login")
        server.users.replies(.failure(.nameInUse))
        _ = try await server.ask(
            "POST", "/v1/users", #"{"name":"dave","identity":"demo","credential":{"anonymous":{}}}"#)
        #expect(server.log.lines("admin.call").map { $0["user"] } == ["bob", "bob", "dave"])
    }

    @Test("every call that changes something leaves one line of the audit, whatever came of it")
    func audit() async throws {
        let server = try AdminServer()
        server.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        _ = try await server.ask("POST", "/v1/users/bob/activate")
        server.users.replies(.failure(.notLoggedIn))
        _ = try await server.ask("POST", "/v1/users/carol/activate")
        _ = try await server.ask("POST", "/v1/users", "{")
        _ = try await server.ask("GET", "/v1/users")
        let lines = server.log.lines("admin.call")
        #expect(lines.map { $0["call"] } == ["activate", "activate", "add"])
        #expect(lines.map { $0["user"] } == ["bob", "carol", nil])
        #expect(lines.map { $0["result"] } == ["ok", "not-logged-in", "malformed-request"])
        #expect(lines.allSatisfy { $0["uid"] == "\(getuid())" && $0["pid"] == "\(getpid())" })
    }

    @Test(
        "a call that failed is a problem with its own type",
        arguments: [
            (.noSuchUser, 404, "no-such-user", nil), (.noSuchIdentity, 404, "no-such-identity", nil),
            (.nameInUse, 409, "name-in-use", "bob"), (.accountInUse(by: "alice"), 409, "account-in-use", "alice"),
            (.notLoggedIn, 409, "not-logged-in", "bob"), (.notSupported, 409, "not-supported", "bob"),
            (.noAccounts, 409, "not-supported", "bob"),
            (.loginInProgress, 409, "login-in-progress", "bob"), (.noCredential, 422, "invalid-value", "bob"),
            (.stopping, 503, "shutting-down", "bob"),
            (.identity(.init(.credentialRefused, status: 401, message: "w")), 422, "credential-refused", "bob"),
            (.identity(.init(.credentialUnavailable, message: "w")), 422, "credential-refused", "bob"),
            (.identity(.foreignKind("anonymous", at: "an oauth2 identity", .oauth)), 422, "invalid-value", "bob"),
            (.identity(.init(.credentialDelayed, message: "w")), 503, "identity-unreachable", "bob"),
            (.identity(.init(.transient(retryAfter: nil), message: "w")), 503, "identity-unreachable", "bob"),
            (
                .identity(.init(.transient(retryAfter: nil), status: 500, message: "w")), 503, "identity-unreachable",
                "bob"
            ),
            (
                .identity(.init(.transient(retryAfter: nil), status: 429, message: "w")), 503, "identity-unreachable",
                "bob"
            ),
            (
                .identity(.init(.transient(retryAfter: nil), status: 400, message: "w")), 503, "identity-unreachable",
                "bob"
            ),
            (.identity(.init(.unknownOutcome, message: "w")), 503, "identity-unreachable", "bob"),
            (.identity(.init(.sessionDead, status: 401, message: "w")), 401, "identity-error", "bob"),
            (.identity(.init(.unknownApp, status: 404, message: "w")), 404, "identity-error", "bob"),
            (.identity(.init(.gone, status: 410, message: "w")), 410, "identity-error", "bob"),
        ] as [(UserError, Int, String, String?)])
    func problems(_ error: UserError, _ status: Int, _ name: String, _ user: String?) async throws {
        let server = try AdminServer()
        server.users.replies(.failure(error))
        let response = try await server.ask("POST", "/v1/users/bob/login")
        #expect(response.status == status)
        #expect(try AdminServer.problem(response) == name)
        #expect(try response.json["user"].string == user)
        #expect(try response.json["retryable"].bool == (status == 503))
        #expect((response["Retry-After"] != nil) == (name == "identity-unreachable"))
    }

    @Test("a call that an identity does not have is told of its kind")
    func notSupported() async throws {
        let server = try AdminServer()
        for (error, words) in [
            (.notSupported, "The tokens of a static identity come from its file"),
            (.noAccounts, "Only App Services has profiles"),
        ] as [(UserError, String)] {
            server.users.replies(.failure(error))
            let detail = try await server.ask("POST", "/v1/users/bob/login").json["detail"].string ?? ""
            #expect(detail.hasPrefix(words) && detail.contains("static") == (error == .notSupported), "\(detail)")
        }
    }

    @Test("what the identity service said comes along: its words and its code")
    func identityWords() async throws {
        let server = try AdminServer()
        server.users.replies(
            .failure(
                .identity(IdentityError(.credentialRefused, status: 401, code: "UserDisabled", message: "it said 401")))
        )
        let json = try await server.ask("POST", "/v1/users/bob/login").json
        #expect(json["error_code"].string == "UserDisabled")
        #expect(json["error"].string == "it said 401")
        server.users.replies(
            .failure(.identity(IdentityError(.transient(retryAfter: .seconds(17)), status: 503, message: "busy"))))
        #expect(try await server.ask("POST", "/v1/users/bob/login")["Retry-After"] == "17")
    }

    @Test("bad requests are told apart")
    func bad() async throws {
        let server = try AdminServer()
        server.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        let table: [(String, String, String?, Int, String)] = [
            ("POST", "/v1/users", nil, 422, "invalid-value"),
            ("POST", "/v1/users", "{\"a\":", 400, "malformed-request"),
            ("POST", "/v1/users", "[]", 422, "invalid-value"),
            ("POST", "/v1/users/bob/login", #"{"credentials":{}}"#, 422, "invalid-value"),
            ("POST", "/v1/users/bob/activate", #"{"x":1}"#, 422, "invalid-value"),
            ("POST", "/v1/users/b%6fb/login", nil, 404, "no-such-user"),
            ("GET", "/v1/users/zoe", nil, 404, "no-such-user"),
            ("GET", "/v1/nothing", nil, 404, "no-route"),
            ("GET", "/v1/users/bob/login", nil, 405, "method-not-allowed"),
            ("DELETE", "/v1/users/bob?account=keep", nil, 422, "invalid-value"),
            ("GET", "/v1/status?x", nil, 422, "invalid-value"),
        ]
        for (method, target, body, status, name) in table {
            let response = try await server.ask(method, target, body)
            #expect(response.status == status, "\(method) \(target)")
            #expect(try AdminServer.problem(response) == name, "\(method) \(target)")
        }
        #expect(try await server.ask("PUT", "/v1/users/bob")["Allow"] == "GET, HEAD, DELETE")
        #expect(server.users.requests == [])
    }

    @Test("HEAD gets the head alone")
    func head() async throws {
        let server = try AdminServer()
        let head = try await server.ask("HEAD", "/v1/users")
        #expect(head.status == 200)
        #expect(head.body == [])
        #expect(head["Content-Length"] == "\(try await server.ask("GET", "/v1/users").body.count)")
    }

    @Test("shutdown begins the end before it is accepted")
    func shutdown() async throws {
        let (hasBegun, mayEnd) = (Milestone(), Milestone())
        defer { mayEnd.set() }
        let server = try AdminServer(onStop: {
            hasBegun.set()
            mayEnd.wait(for: "the test has seen that there is no response")
        })
        let status = try await server.talk { client in
            try client.send("POST /v1/shutdown HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            hasBegun.wait(for: "the end begins")
            #expect(!client.hasInput)
            mayEnd.set()
            return try client.response().status
        }
        #expect(status == 202)
        #expect(server.stopCount == 1)
        #expect(server.log.lines("admin.call").map { $0["call"] } == ["shutdown"])
    }

    @Test(
        "each outcome of a reload has its response",
        arguments: [
            (.applied(["log.level"]), 200, #"{"applied":["log.level"]}"#),
            (.restartNeeded(["shards", "store.path"]), 422, "only at a start: shards, store.path."),
            (.invalid(["f:1:1: a", "f:2:1: b"]), 422, "Nothing was changed. f:1:1: a; f:2:1: b."),
        ] as [(ReloadOutcome, Int, String)])
    func reload(_ outcome: ReloadOutcome, _ status: Int, _ words: String) async throws {
        let server = try AdminServer(reloads: outcome)
        let response = try await server.ask("POST", "/v1/reload")
        #expect(response.status == status && response.bodyText.contains(words), "\(response.bodyText)")
        #expect(server.log.lines("admin.call").map { $0["call"] } == ["reload"])
    }

    @Test("the log level is shown and set")
    func logLevel() async throws {
        let server = try AdminServer()
        let set = try await server.ask("POST", "/v1/log-level", #"{"level": "error"}"#)
        #expect(set.bodyText == #"{"level":"error","configured":"info"}"#)
        #expect("\(server.verbosity.level)" == "error")
        #expect(try await server.ask("GET", "/v1/log-level").bodyText == set.bodyText)
    }

    @Test("the socket is for its owner alone, and gone with the listener")
    func socketMode() throws {
        var server: AdminServer? = try AdminServer()
        guard case .unix(let path)? = server?.endpoint else { return }
        var status = stat()
        #expect(lstat(path, &status) == 0)
        #expect(status.st_mode & 0o7777 == 0o600)
        server = nil
        #expect(lstat(path, &status) != 0)
    }
}
