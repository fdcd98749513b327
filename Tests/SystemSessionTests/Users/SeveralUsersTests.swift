import TestSupport
import Testing

@testable import SystemTestSupport

/// "Three users share this device, one after the other, without a restart."
@Suite struct SeveralUsersTests {
    @Test("a login adds a user and makes it active; the others stay logged in, in their order")
    func add() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let alice = try await bench.account("alice")
        #expect(try await bench.bearer() == alice)
        #expect(try await bench.bearer("/bob/") == "login-required")
        let response = try await bench.add("bob", UsersBench.email("bob"))
        #expect(response.status == 201)
        #expect(response["Location"] == "/v1/users/bob")
        let json = try response.json
        #expect((json["name"].string, json["state"].string, json["session"].string) == ("bob", "active", "valid"))
        #expect(json["generation"].int == 1)
        #expect(json["access_token_expires_at"].string?.hasSuffix("Z") == true)
        let bob = json["user_id"].string ?? ""
        // With the response every request goes as bob, on the pinned route as well.
        #expect(try await bench.bearer() == bob)
        #expect(try await bench.bearer("/bob/") == bob)
        #expect(try await bench.users() == ["alice:inactive", "carol:logged_out", "robot:inactive", "bob:active"])
        #expect(try await bench.status()["active_user"].string == "bob")
        #expect(try await bench.emulator.calls("login") == 2)
        let audit = try await bench.lanyard.process.event("admin.call")
        #expect((audit["call"].string, audit["user"].string, audit["result"].string) == ("add", "bob", "ok"))
        #expect(audit["pid"] != .null)
        #expect(!bench.lanyard.process.log.contains(UsersBench.password))
    }

    @Test("switching needs no login, and is refused for who is not logged in")
    func activate() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        try await bench.add("bob")
        let (alice, bob) = (try await bench.account("alice"), try await bench.account("bob"))
        for _ in 0..<3 {
            #expect(try await bench.call("POST", "/users/alice/activate").status == 200)
            #expect(try await bench.bearer() == alice)
            #expect(try await bench.call("POST", "/users/bob/activate").json["state"].string == "active")
            #expect(try await bench.bearer() == bob)
        }
        #expect(UsersBench.problem(try await bench.call("POST", "/users/carol/activate")) == "not-logged-in")
        #expect(UsersBench.problem(try await bench.call("POST", "/users/zoe/activate")) == "no-such-user")
        #expect(try await bench.bearer() == bob)
        #expect(try await bench.emulator.calls("login") == 2)
    }

    @Test("switching among requests: each succeeds as one of the two, and one in progress keeps its user")
    func switchAmongRequests() async throws {
        let slow = try RawSocket.listen(at: .tcp(0))
        defer { slow.close() }
        let bench = try await UsersBench.start(
            """
              - {name: slow, match: {path: /slow}, upstream: "http://127.0.0.1:\(slow.localPort)"}
            active_user: alice

            """)
        try await bench.untilAlice()
        try await bench.add("bob")
        let (alice, bob) = (try await bench.account("alice"), try await bench.account("bob"))
        let endpoint = bench.lanyard.data
        let others = try (0..<8).map { _ in try RawClient(endpoint) }
        for round in 0..<4 {
            let (name, account) = round % 2 == 0 ? ("alice", alice) : ("bob", bob)
            // Half of a request is with the upstream when the switch comes.
            let client = try RawClient(endpoint)
            try client.send("PUT /slow HTTP/1.1\r\nHost: \(endpoint)\r\nContent-Length: 8\r\n\r\nhalf")
            let peer = try #require(slow.accept())
            let head = RawMessage(head: try #require(try RawReader(peer).readHead()))
            for other in others { try other.send("GET /protected/x HTTP/1.1\r\nHost: \(endpoint)\r\n\r\n") }
            #expect(try await bench.call("POST", "/users/\(name)/activate").status == 200)
            #expect(try await bench.bearer() == account)
            for other in others {
                let response = try other.response()
                #expect(response.status == 200)
                #expect([alice, bob].contains(try response.json["user_id"].string), "\(response.bodyText)")
            }
            #expect(try UsersBench.subject(of: head) == (account == alice ? bob : alice))
            try client.send("half")
            try peer.send(Array("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".utf8))
            defer {
                client.close()
                peer.close()
            }
            guard try client.response().status == 204 else { throw TestFailure("round \(round)") }
        }
        others.forEach { $0.close() }
        let counts = try await bench.emulator.control("GET", "/counts")
        #expect(counts["protected"]["refused"] == .object([:]))
        #expect(counts["routes"]["login"]["calls"].int == 2)
    }

    @Test("a user that has no login and was never logged in is logged out: in the state, in readiness and for requests")
    func neverLoggedIn() async throws {
        let bench = try await UsersBench.start("active_user: carol\n")
        let line = try await bench.lanyard.process.event("session.login.required") { $0["user"].string == "carol" }
        #expect(line["reason"].string == "logged_out" && line["state"].string == "logged_out")
        #expect(try await bench.call("GET", "/users/carol").json["session"].string == "logged_out")
        let readiness = try await RawClient.ask(bench.lanyard.health, "GET", "/readyz/carol")
        #expect(readiness.status == 503)
        #expect(try readiness.json["checks"][0]["reason"].string == "logged_out")
        let refused = try await bench.lanyard.get("/protected/")
        #expect(refused.status == 503 && UsersBench.problem(refused) == "login-required")
        #expect(try refused.json["user"].string == "carol" && refused["Retry-After"] == nil)
    }

    @Test("a user without a configured login is logged in by an operator, and again after the session's death")
    func loginByHand() async throws {
        let bench = try await UsersBench.start("active_user: carol\n")
        try await bench.until("carol", is: "logged_out")
        #expect(try await bench.bearer() == "login-required")
        let login = #"{"credential":\#(UsersBench.email("carol"))}"#
        let response = try await bench.call("POST", "/users/carol/login", login)
        #expect(response.status == 200)
        #expect(try response.json["state"].string == "active")
        #expect(try await bench.bearer() == (try await bench.account("carol")))
        try await bench.emulator.control("POST", "/sessions/revoke", #"{"user":"carol@example.com"}"#)
        // The refresh tells of the death; what the service said comes along.
        let refused = try await bench.call("POST", "/users/carol/refresh")
        #expect(UsersBench.problem(refused) == "identity-error")
        #expect(refused.status == 401)
        #expect(try refused.json["error_code"].string == "InvalidSession")
        try await bench.until("carol", is: "login_required")
        #expect(UsersBench.problem(try await bench.call("POST", "/users/carol/login")) == "invalid-value")
        #expect(try await bench.call("POST", "/users/carol/login", login).status == 200)
        #expect(try await bench.call("GET", "/users/carol").json["last_error"] == .null)
        #expect(try await bench.bearer() == (try await bench.account("carol")))
    }

    @Test("a forced refresh brings a new token, however often it is asked for")
    func refresh() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        for round in 1...4 {
            let response = try await bench.call("POST", "/users/alice/refresh")
            #expect(response.status == 200)
            #expect(try response.json["access_token_expires_at"].string?.hasSuffix("Z") == true)
            #expect(try await bench.call("GET", "/users/alice").json["generation"].int == round + 1)
        }
        #expect(try await bench.emulator.calls("refresh") == 4)
        try bench.gate.set(.refuse)
        bench.gate.cut()
        let down = try await bench.call("POST", "/users/alice/refresh")
        #expect(UsersBench.problem(down) == "identity-unreachable")
        #expect(down["Retry-After"] != nil)
        #expect(try await bench.bearer() == (try await bench.account("alice")))
    }

    @Test("a static user can be made active, and has no login, refresh or logout")
    func fixed() async throws {
        let bench = try await UsersBench.start()
        try await bench.until("robot", is: "valid")
        #expect(try await bench.call("POST", "/users/robot/activate").status == 200)
        for call in ["login", "refresh", "logout"] {
            #expect(UsersBench.problem(try await bench.call("POST", "/users/robot/\(call)")) == "not-supported")
        }
        #expect(try await bench.call("DELETE", "/users/robot").status == 204)
        #expect(try await bench.status()["active_user"] == .null)
        #expect(try await bench.users().contains { $0.hasPrefix("robot") } == false)
    }
}
