import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Users and identities at a reload: each user as a restart would make it, and an unchanged one not touched
/// (architecture-control.md 7.9).
@Suite struct ReloadUserTests {
    /// It runs. The test passes what the service delays.
    private let clock: TestClock
    private let bench: ReloadedUsers

    init() async throws {
        clock = try TestClock()
        bench = try await ReloadedUsers(under: clock)
    }

    /// Lanyard with these users, each with its state.
    private func started(_ users: [String], identities: [String]? = nil, rest: String = "") async throws
        -> DeviceProcess
    {
        try bench.configure(users, identities: identities, rest: rest)
        let lanyard = try await bench.start()
        try await ReloadedUsers.settle(lanyard)
        return lanyard
    }

    /// What the reload has made is what a restart makes.
    private func expectSameAfterRestart(_ lanyard: DeviceProcess) async throws {
        try await ReloadedUsers.settle(lanyard)
        let reloaded = try await ReloadedUsers.shownUsers(lanyard)
        #expect(try await lanyard.process.terminate() == .code(143))
        let restarted = try await bench.start()
        try await ReloadedUsers.settle(restarted)
        #expect(try await ReloadedUsers.shownUsers(restarted) == reloaded, "\(restarted.process.log)")
        #expect(try await restarted.process.terminate() == .code(143))
    }

    /// Ends a process that waits for a call.
    private func terminate(_ lanyard: DeviceProcess) async throws -> ServerProcess.Exit {
        lanyard.process.signal(SIGTERM)
        try await clock.pass(until: "it ends", atMost: .seconds(60)) { lanyard.process.exit != nil }
        return try await lanyard.process.waitForExit()
    }

    // MARK: Users

    @Test("an added user serves at once; the other users make no call")
    func added() async throws {
        let lanyard = try await started([bench.user("alice")])
        let generation = try await lanyard.admin.status()["alice"]?.generation
        #expect(try await lanyard.account(at: "/as/bob") == nil)
        try bench.configure([bench.user("alice"), bench.user("bob")])
        #expect(try await ReloadedUsers.applied(lanyard) == ["users.bob"])
        try await eventually("bob serves") { try await lanyard.account(at: "/as/bob") != nil }
        #expect(try await ReloadedUsers.calls(bench.first) == ["location": 1, "login": 2, "refresh": 0, "logout": 0])
        #expect(try await lanyard.admin.status()["alice"]?.generation == generation)
        #expect(try await ReloadedUsers.applied(lanyard) == [])
        let line = try await lanyard.process.event("reload.users")
        #expect(line["added"].string == "bob" && line["changed"].string == nil, "\(line)")
        try await expectSameAfterRestart(lanyard)
    }

    @Test("a removed user's requests are refused, its session stays in the store, and it comes back without a login")
    func removed() async throws {
        let both = [bench.user("alice"), bench.user("bob")]
        let lanyard = try await started(both)
        let (alice, bob) = (try await lanyard.account(at: "/as/alice"), try await lanyard.account(at: "/as/bob"))
        let calls = try await ReloadedUsers.calls(bench.first)
        try bench.configure([bench.user("bob")])
        #expect(try await ReloadedUsers.applied(lanyard) == ["users.alice"])
        let refused = try await RawClient.ask(lanyard.data, "GET", "/as/alice")
        #expect(refused.status == 503 && UsersBench.problem(refused) == "login-required")
        #expect(refused.bodyText.contains("no such user is configured"), "\(refused.bodyText)")
        // The first user of the configuration is the active one now.
        #expect(try await lanyard.account(at: "/") == bob)
        try await lanyard.process.event("store.user.unknown") {
            $0["user"].string == "alice" && $0["reason"].string == "session_kept"
        }
        #expect(try await lanyard.admin.ask("GET", "/v1/users/alice").status == 404)
        try bench.configure(both)
        #expect(try await ReloadedUsers.applied(lanyard) == ["users.alice"])
        #expect(try await lanyard.account(at: "/as/alice") == alice)
        #expect(try await ReloadedUsers.calls(bench.first) == calls)
        try bench.configure([bench.user("bob")])
        #expect(try await ReloadedUsers.applied(lanyard) == ["users.alice"])
        try await expectSameAfterRestart(lanyard)
    }

    @Test("another order of the users is another default of the active user")
    func order() async throws {
        let users = [bench.user("alice"), bench.user("bob")]
        let lanyard = try await started(users)
        let bob = try await lanyard.account(at: "/as/bob")
        let calls = try await ReloadedUsers.calls(bench.first)
        try bench.configure(users.reversed())
        #expect(try await ReloadedUsers.applied(lanyard) == ["users"])
        #expect(try await lanyard.account(at: "/") == bob)
        #expect(try await ReloadedUsers.calls(bench.first) == calls)
        try await expectSameAfterRestart(lanyard)
    }

    @Test("a refused user with another password file logs in at once, and a session continues whatever is configured")
    func password() async throws {
        try bench.folder.write("wrong", "wrong-secret-word")
        try bench.configure([bench.user("alice"), bench.user("bob", password: "wrong")])
        let lanyard = try await bench.start()
        try await eventually("bob is refused") { try await lanyard.admin.status()["bob"]?.session == "refused" }
        try await eventually("alice is logged in") { try await lanyard.admin.status()["alice"]?.session == "valid" }
        let logins = try await bench.first.calls("login")
        try bench.configure([bench.user("alice", password: "wrong"), bench.user("bob")])
        let applied = try await ReloadedUsers.applied(lanyard)
        #expect(applied.count == 2 && applied.allSatisfy { $0.hasSuffix("email_password.password_file") }, "\(applied)")
        try await eventually("bob serves") { try await lanyard.account(at: "/as/bob") != nil }
        #expect(try await bench.first.calls("login") == logins + 1)
        #expect(try await lanyard.admin.status()["alice"]?.generation == 1)
        try await expectSameAfterRestart(lanyard)
    }

    @Test("a password file that a reload names during a login is tried after the refusal")
    func passwordDuringLogin() async throws {
        try bench.folder.write("wrong", "wrong-secret-word")
        try await bench.first.control("POST", "/delays", #"{"route":"login","milliseconds":8000,"before":true}"#)
        try bench.configure([bench.user("bob", password: "wrong")])
        let lanyard = try await bench.start()
        try await eventually("the login hangs") { try await bench.first.calls("login") == 1 }
        try bench.configure([bench.user("bob")])
        #expect(try await ReloadedUsers.applied(lanyard).count == 1)
        try await clock.pass(until: "bob is logged in", atMost: .seconds(60), grain: .milliseconds(100)) {
            try await lanyard.admin.status()["bob"]?.session == "valid"
        }
        #expect(try await lanyard.account(at: "/as/bob") != nil)
        #expect(try await bench.first.calls("login") == 2)
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a login that is taken away, or given, changes a user without a session alone")
    func login() async throws {
        let lanyard = try await started([bench.user("alice"), bench.user("carol", password: nil)])
        try bench.configure([bench.user("alice", password: nil), bench.user("carol")])
        #expect(
            try await ReloadedUsers.applied(lanyard) == [
                "users.alice.login.email_password", "users.carol.login.email_password",
            ])
        try await eventually("carol serves") {
            try await lanyard.account(at: "/as/carol") != nil
        }
        #expect(try await lanyard.account(at: "/as/alice") != nil)
        #expect(try await bench.first.calls("login") == 2)
        try await expectSameAfterRestart(lanyard)
    }

    @Test(
        "a user that the admin API added becomes a configured one, and is forgotten with its entry only if that was all"
    )
    func adopted() async throws {
        let lanyard = try await started([bench.user("alice")])
        let body =
            #"{"name":"bob","identity":"demo","activate":false,"credential":{"email_password":"#
            + #"{"email":"bob@example.com","password":"\#(ReloadedUsers.password("bob"))"}}}"#
        try await lanyard.admin.call("POST", "/v1/users", body)
        let bob = try await lanyard.account(at: "/as/bob")
        let calls = try await ReloadedUsers.calls(bench.first)
        for users in [["bob", "alice"], ["alice"], ["alice", "bob"]] {
            try bench.configure(users.map { bench.user($0) })
            _ = try await ReloadedUsers.applied(lanyard)
            #expect(try await lanyard.account(at: "/as/bob") == bob)
            #expect(try await ReloadedUsers.calls(bench.first) == calls)
            #expect(try await lanyard.admin.status().users.count == 2)
        }
        try await expectSameAfterRestart(lanyard)
    }

    // MARK: Users of the admin API

    private func add(_ lanyard: DeviceProcess, _ name: String, at identity: String, password: String? = nil)
        async throws
        -> RawMessage
    {
        try await lanyard.admin.ask(
            "POST", "/v1/users",
            #"{"name":"\#(name)","identity":"\#(identity)","activate":false,"credential":{"email_password":"#
                + #"{"email":"\#(name)@example.com","password":"\#(password ?? ReloadedUsers.password(name))"}}}"#)
    }

    @Test("an identity that comes back makes no second user of a name that was added elsewhere since")
    func oneUserOfOneName() async throws {
        let (one, two) = (bench.identity("one", at: bench.first), bench.identity("two", at: bench.second))
        let alice = bench.user("alice", identity: "one")
        let lanyard = try await started([alice], identities: [one, two])
        #expect(try await add(lanyard, "bob", at: "two").status == 201)
        try bench.configure([alice], identities: [one])
        #expect(try await ReloadedUsers.applied(lanyard) == ["identities.two"])
        #expect(try await lanyard.account(at: "/as/bob") == nil)
        #expect(try await add(lanyard, "bob", at: "one").status == 201)
        let bob = try await lanyard.account(at: "/as/bob")
        try bench.configure([alice], identities: [one, two])
        #expect(try await ReloadedUsers.applied(lanyard) == ["identities.two"])
        #expect(
            try await ReloadedUsers.shownUsers(lanyard).map { $0.split(separator: " ")[0] } == [
                "alice", "bob", "active:",
            ])
        #expect(try await lanyard.account(at: "/as/bob") == bob)
        let states = try await lanyard.metrics().filter {
            $0.name == "lanyard_session_state" && $0.labels["user"] == "bob"
        }
        #expect(states.map(\.value).reduce(0, +) == 1)
        try await expectSameAfterRestart(lanyard)
    }

    @Test("a login that is refused does not bring back a user that a reload has removed")
    func refusedCallRevivesNobody() async throws {
        let alice = bench.user("alice")
        let lanyard = try await started([alice, bench.user("bob")])
        try bench.configure([alice])
        #expect(try await ReloadedUsers.applied(lanyard) == ["users.bob"])
        let before = try await ReloadedUsers.shownUsers(lanyard)
        for password in ["wrong", nil] {
            let refused = try await add(lanyard, "bob", at: "demo", password: password)
            #expect(refused.status == 409 && UsersBench.problem(refused) == "name-in-use", "\(refused.bodyText)")
            #expect(UsersBench.problem(try await RawClient.ask(lanyard.data, "GET", "/as/bob")) == "login-required")
        }
        for call in ["login", "activate", "refresh", "logout"] {
            #expect(
                try await lanyard.admin.ask("POST", "/v1/users/bob/\(call)", call == "login" ? "{}" : nil).status == 404
            )
        }
        #expect(try await ReloadedUsers.shownUsers(lanyard) == before)
        #expect(UsersBench.problem(try await RawClient.ask(lanyard.data, "GET", "/as/bob")) == "login-required")
        try await expectSameAfterRestart(lanyard)
    }

    // MARK: Identities

    @Test("an identity comes and goes with its user")
    func identity() async throws {
        let lanyard = try await started([bench.user("alice")])
        let calls = try await ReloadedUsers.calls(bench.first)
        let both = [bench.identity(at: bench.first), bench.identity("other", at: bench.second)]
        try bench.configure([bench.user("alice"), bench.user("bob", identity: "other")], identities: both)
        #expect(try await ReloadedUsers.applied(lanyard) == ["identities.other", "users.bob"])
        try await eventually("bob is logged in") {
            try await lanyard.admin.status()["bob"]?.session == "valid"
        }
        #expect(try await bench.second.calls("login") == 1)
        // A user still names it.
        try bench.configure([bench.user("alice"), bench.user("bob", identity: "other")])
        let refused = try await ReloadedUsers.reload(lanyard)
        #expect(refused.status == 422 && refused.bodyText.contains("configuration-invalid"), "\(refused.bodyText)")
        #expect(try await lanyard.admin.status()["bob"]?.session == "valid")
        try bench.configure([bench.user("alice")])
        #expect(try await ReloadedUsers.applied(lanyard) == ["identities.other", "users.bob"])
        #expect(try await lanyard.admin.status().users.map(\.name) == ["alice"])
        #expect(try await ReloadedUsers.calls(bench.first) == calls)
        try await expectSameAfterRestart(lanyard)
    }

    @Test("another service behind an identity: its users log in there, and no token of the former goes there")
    func moved() async throws {
        let users = [bench.user("alice"), bench.user("bob")]
        let lanyard = try await started(users)
        try bench.configure(users, identities: [bench.identity(at: bench.second)])
        #expect(try await ReloadedUsers.applied(lanyard) == ["identities.demo.app_services.base_url"])
        try await eventually("both are logged in there") {
            try await bench.second.calls("login") == 2
        }
        try await ReloadedUsers.settle(lanyard)
        #expect(try await bench.first.calls("login") == 2)
        #expect(try await bench.second.control("GET", "/ledger")["total"]["calls_of_dead_sessions"].int ?? 0 == 0)
        // The upstream of the routes is the first service, which refuses tokens of the second.
        #expect(try await lanyard.account(at: "/as/alice") == nil)
        try await expectSameAfterRestart(lanyard)
    }

    @Test("the same service under other settings: the session continues, and the next call is made with them")
    func settings() async throws {
        let lanyard = try await started([bench.user("alice")])
        try bench.configure(
            [bench.user("alice")],
            identities: [bench.identity(at: bench.first, more: ", proxy: \"http://127.0.0.1:1\"")])
        #expect(try await ReloadedUsers.applied(lanyard) == ["identities.demo.proxy"])
        #expect(try await lanyard.account(at: "/as/alice") != nil)
        #expect(try await lanyard.admin.ask("POST", "/v1/users/alice/refresh").status != 200)
        #expect(try await lanyard.account(at: "/as/alice") != nil)
        try bench.configure([bench.user("alice")])
        #expect(try await ReloadedUsers.applied(lanyard) == ["identities.demo.proxy"])
        try await lanyard.admin.call("POST", "/v1/users/alice/refresh")
        #expect(try await bench.first.calls("login") == 1)
        try await expectSameAfterRestart(lanyard)
    }

    @Test("a static identity takes the place of another one, with another file, and goes")
    func fixed() async throws {
        let lanyard = try await started([bench.user("alice")])
        let calls = try await ReloadedUsers.calls(bench.first)
        try bench.folder.write("other", "other-token")
        let users = [bench.user("alice"), bench.user("carol", identity: "fixed", password: nil)]
        var former: Int?
        for (file, applied) in [
            ("robot", ["identities.fixed", "users.carol"]), ("other", ["identities.fixed.static.token_file"]),
        ] {
            let fixed = "fixed: {static: {token_file: \(bench.folder.file(file))}}"
            try bench.configure(users, identities: [bench.identity(at: bench.first), fixed])
            #expect(try await ReloadedUsers.applied(lanyard) == applied)
            try await eventually("the token is read") {
                let carol = try await lanyard.admin.status()["carol"]
                return carol?.session == "valid" && carol?.generation != former
            }
            former = try await lanyard.admin.status()["carol"]?.generation
        }
        try bench.configure([bench.user("alice"), bench.user("carol", password: nil)])
        _ = try await ReloadedUsers.applied(lanyard)
        try await eventually("carol has no session") {
            try await lanyard.admin.status()["carol"]?.session == "logged_out"
        }
        #expect(try await ReloadedUsers.calls(bench.first) == calls)
        try await expectSameAfterRestart(lanyard)
    }

    // MARK: Calls in progress

    @Test(
        "a user leaves during a login and a refresh that hang: nothing waits, and the end is clean",
        arguments: [false, true])
    func hanging(_ comesBack: Bool) async throws {
        let users = [bench.user("alice"), bench.user("bob"), bench.user("carol")]
        let lanyard = try await started([bench.user("alice"), bench.user("bob")])
        for route in ["login", "refresh"] {
            try await bench.first.control(
                "POST", "/delays", #"{"route":"\#(route)","milliseconds":8000,"before":true}"#)
        }
        let admin = lanyard.admin
        let refresh = Task { try await admin.ask("POST", "/v1/users/alice/refresh") }
        try bench.configure(users)
        _ = try await ReloadedUsers.applied(lanyard)
        try await eventually("both calls hang") {
            let calls = try await ReloadedUsers.calls(bench.first)
            return calls["login"] == 3 && calls["refresh"] == 1
        }
        try bench.configure([bench.user("bob")])
        #expect(try await ReloadedUsers.applied(lanyard) == ["users.alice", "users.carol"])
        #expect(try await lanyard.account(at: "/as/alice") == nil)
        #expect(try await lanyard.account(at: "/as/bob") != nil)
        if comesBack {
            try bench.configure(users)
            #expect(try await ReloadedUsers.applied(lanyard) == ["users.alice", "users.carol"])
            try await clock.pass(.seconds(8))
            try await ReloadedUsers.settle(lanyard)
            #expect(try await lanyard.account(at: "/as/alice") != nil)
            #expect(try await lanyard.account(at: "/as/carol") != nil)
            // What had begun before was finished and stored.
            let calls = try await ReloadedUsers.calls(bench.first)
            #expect(calls["login"] == 3 && calls["refresh"] == 1, "\(calls)")
        }
        if !comesBack { try await clock.pass(.seconds(8)) }
        _ = try await refresh.value
        try await expectSameAfterRestart(lanyard)
        #expect(lanyard.process.lines.allSatisfy { $0.event != "store.unsaved" })
    }

    @Test(
        "an identity moves during a refresh that hangs: the call ends at the former service, and the end waits for it",
        arguments: [false, true])
    func movedDuringCall(_ endsAtOnce: Bool) async throws {
        let users = [bench.user("alice"), bench.user("bob")]
        let lanyard = try await started(users)
        try await bench.first.control("POST", "/delays", #"{"route":"refresh","milliseconds":4000,"before":true}"#)
        let admin = lanyard.admin
        let refresh = Task { try? await admin.ask("POST", "/v1/users/alice/refresh") }
        try await eventually("the refresh hangs") { try await bench.first.calls("refresh") == 1 }
        try bench.configure(users, identities: [bench.identity(at: bench.second)])
        #expect(try await ReloadedUsers.applied(lanyard) == ["identities.demo.app_services.base_url"])
        if endsAtOnce {
            #expect(try await terminate(lanyard) == .code(143))
        } else {
            try await clock.pass(.seconds(4))
            try await eventually("both are logged in there") {
                try await bench.second.calls("login") == 2
            }
        }
        _ = await refresh.value
        // The call that had begun was finished: a refresh token that rotates is not lost.
        #expect(try await bench.first.control("GET", "/ledger")["total"]["refreshes"].int == 1)
        #expect(try await ReloadedUsers.calls(bench.second)["refresh"] == 0)
        try await lanyard.process.settle()
        #expect(lanyard.process.lines.allSatisfy { $0.event != "store.unsaved" })
        if !endsAtOnce { try await expectSameAfterRestart(lanyard) }
    }

    // MARK: Operators' calls to a user that waits for its former call

    /// Alice's identity has moved during a refresh that hangs, so she waits, and an operator logs her out.
    ///
    /// - Returns: the response to the logout, when it comes.
    private func logOutWaiting(_ lanyard: DeviceProcess, _ users: [String]) async throws -> Task<RawMessage, any Error>
    {
        try await bench.first.control("POST", "/delays", #"{"route":"refresh","milliseconds":6000,"before":true}"#)
        let admin = lanyard.admin
        _ = Task { try? await admin.ask("POST", "/v1/users/alice/refresh") }
        try await eventually("the refresh hangs") { try await bench.first.calls("refresh") == 1 }
        try bench.configure(users, identities: [bench.identity(at: bench.second)])
        #expect(try await ReloadedUsers.applied(lanyard) == ["identities.demo.app_services.base_url"])
        let logout = Task { try await admin.ask("POST", "/v1/users/alice/logout") }
        try await eventually("the logout has come") { try await admin.status().active == nil }
        return logout
    }

    @Test("a logout of a waiting user is carried out, or refused at the end", arguments: [false, true])
    func logoutWhileWaiting(_ endsAtOnce: Bool) async throws {
        let users = [bench.user("alice"), bench.user("bob")]
        let lanyard = try await started(users)
        let logout = try await logOutWaiting(lanyard, users)
        if endsAtOnce {
            #expect(try await terminate(lanyard) == .code(143))
            let response = try await logout.value
            #expect(response.status == 503 && UsersBench.problem(response) == "shutting-down", "\(response.bodyText)")
        } else {
            try await clock.pass(.seconds(6))
            #expect(try await logout.value.status == 200)
            #expect(try await lanyard.process.terminate() == .code(143))
            let restarted = try await bench.start()
            try await eventually("bob is logged in") { try await restarted.admin.status()["bob"]?.session == "valid" }
            #expect(try await restarted.admin.status()["alice"]?.session == "logged_out")
            #expect(try await bench.second.calls("login") == 1)
            #expect(try await restarted.process.terminate() == .code(143))
        }
    }

    @Test("a reload that would remove a waiting user before its logout is refused")
    func removedBeforeLogout() async throws {
        let users = [bench.user("alice"), bench.user("bob")], moved = [bench.identity(at: bench.second)]
        let lanyard = try await started(users)
        let logout = try await logOutWaiting(lanyard, users)
        try bench.configure([users[1]], identities: moved)
        let refused = try await ReloadedUsers.reload(lanyard)
        #expect(refused.status == 422 && refused.bodyText.contains("users.alice: "), "\(refused.bodyText)")
        try await clock.pass(.seconds(6))
        #expect(try await logout.value.status == 200)
        #expect(try await ReloadedUsers.applied(lanyard) == ["users.alice"])
        try bench.configure(users, identities: moved)
        #expect(try await ReloadedUsers.applied(lanyard) == ["users.alice"])
        #expect(try await lanyard.admin.status()["alice"]?.session == "logged_out")
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("DELETE of a waiting user ends its session at the service, and the store forgets it")
    func removedWhileWaiting() async throws {
        let users = [bench.user("alice"), bench.user("bob")]
        let lanyard = try await started(users)
        try await bench.first.control("POST", "/delays", #"{"route":"refresh","milliseconds":6000,"before":true}"#)
        let admin = lanyard.admin
        let refresh = Task { try? await admin.ask("POST", "/v1/users/alice/refresh") }
        try await eventually("the refresh hangs") { try await bench.first.calls("refresh") == 1 }
        for remaining in [[users[1]], users] {
            try bench.configure(remaining)
            #expect(try await ReloadedUsers.applied(lanyard) == ["users.alice"])
        }
        let operatorClient = try RawClient(admin.endpoint)
        try operatorClient.send("DELETE /v1/users/alice HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try await lanyard.process.settle()
        #expect(!operatorClient.hasInput)
        try await clock.pass(.seconds(6))
        #expect(try operatorClient.response().status == 204)
        operatorClient.close()
        _ = await refresh.value
        #expect(try await bench.first.calls("logout") == 1)
        #expect(try await lanyard.process.terminate() == .code(143))
        try bench.configure([users[1]])
        let restarted = try await bench.start()
        try await ReloadedUsers.settle(restarted)
        #expect(restarted.process.lines.allSatisfy { $0.event != "store.user.unknown" }, "\(restarted.process.log)")
        #expect(try await restarted.process.terminate() == .code(143))
    }

    @Test("a refresh that ends after its user has left is not counted any more")
    func refreshOfRemoved() async throws {
        let carol = bench.user("carol", identity: "fixed", password: nil)
        let fixed = "fixed: {static: {token_file: \(bench.folder.file("robot"))}}"
        let lanyard = try await started(
            [bench.user("alice"), carol], identities: [bench.identity(at: bench.first), fixed])
        try await bench.first.control("POST", "/delays", #"{"route":"refresh","milliseconds":8000,"before":true}"#)
        let admin = lanyard.admin
        let refresh = Task { try? await admin.ask("POST", "/v1/users/alice/refresh") }
        try await eventually("the refresh is counted") { try await lanyard.metric("lanyard_refresh_inflight") == 1 }
        try bench.configure([carol], identities: [fixed])
        #expect(try await ReloadedUsers.applied(lanyard) == ["identities.demo", "users.alice"])
        try await clock.pass(.seconds(8))
        _ = await refresh.value
        try await eventually("no refresh is in progress") {
            try await lanyard.metric("lanyard_refresh_inflight") == 0
        }
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a revocation whose identity was not configured is made when a reload brings the identity back")
    func revocation() async throws {
        let carol = bench.user("carol", identity: "fixed", password: nil)
        let fixed = "fixed: {static: {token_file: \(bench.folder.file("robot"))}}"
        let identities = [bench.identity(at: bench.first), fixed]
        let lanyard = try await started([bench.user("alice"), carol], identities: identities)
        try await bench.first.control("POST", "/faults", #"{"route":"logout","fault":"unavailable"}"#)
        #expect(try await lanyard.admin.ask("POST", "/v1/users/alice/logout").status == 200)
        #expect(try await lanyard.process.terminate() == .code(143))
        try await bench.first.control("DELETE", "/faults")
        let logouts = try await bench.first.calls("logout")
        try bench.configure([carol], identities: [fixed])
        let restarted = try await bench.start()
        try await restarted.process.event("session.revoke.given_up")
        try bench.configure([carol], identities: identities)
        #expect(try await ReloadedUsers.applied(restarted) == ["identities.demo"])
        try await eventually("the service is told") { try await bench.first.calls("logout") == logouts + 1 }
        try await restarted.process.event("session.revoke.succeeded")
        #expect(try await restarted.process.terminate() == .code(143))
    }

    @Test("a user that the admin API is adding is named, nothing is changed, and the next reload takes it")
    func conflict() async throws {
        let lanyard = try await started([bench.user("alice")])
        try await bench.first.control("POST", "/delays", #"{"route":"login","milliseconds":8000,"before":true}"#)
        let body =
            #"{"name":"bob","identity":"demo","credential":{"email_password":"#
            + #"{"email":"bob@example.com","password":"\#(ReloadedUsers.password("bob"))"}}}"#
        let admin = lanyard.admin
        let added = Task { try await admin.ask("POST", "/v1/users", body) }
        try await eventually("the login hangs") { try await bench.first.calls("login") == 2 }
        try bench.configure([bench.user("alice"), bench.user("bob"), bench.user("carol")])
        let refused = try await ReloadedUsers.reload(lanyard)
        #expect(refused.status == 422 && refused.bodyText.contains("users.bob: a user of this name is being added"))
        #expect(try await lanyard.admin.status().users.map(\.name) == ["alice"])
        try await clock.pass(.seconds(8))
        #expect(try await added.value.status == 201)
        try await bench.first.control("POST", "/delays", #"{"route":"login","milliseconds":0,"before":true}"#)
        #expect(try await ReloadedUsers.applied(lanyard) == ["users.bob", "users.carol"])
        try await eventually("carol serves") { try await lanyard.account(at: "/as/carol") != nil }
        #expect(try await bench.first.calls("login") == 3)
        try await expectSameAfterRestart(lanyard)
    }

    // MARK: Random walks

    @Test("after random reloads and calls the users are those of a restart, and a refused step has changed nothing")
    func walk() async throws {
        try await ReloadedWalk.run(seed: 7, steps: 8, restartsEach: 8)
    }

    // MARK: What all users have in common

    @Test("active_user, on_active_logout, refresh and login are taken at once")
    func settingsOfAll() async throws {
        let users = [bench.user("alice"), bench.user("bob")]
        let lanyard = try await started(users)
        let bob = try await lanyard.account(at: "/as/bob")
        let calls = try await ReloadedUsers.calls(bench.first)
        try bench.configure(
            users,
            rest: """
                active_user: bob
                on_active_logout: next
                refresh: {at: 40-50%, mandatory: 30s, cooldown: 1s, per_hour_max: 5, wait_max: 1s}
                login: {offline: never}
                """)
        let applied = Set(try await ReloadedUsers.applied(lanyard))
        #expect(
            applied == [
                "active_user", "on_active_logout", "refresh.at", "refresh.mandatory", "refresh.cooldown",
                "refresh.per_hour_max", "refresh.wait_max", "login.offline",
            ])
        #expect(try await lanyard.account(at: "/") == bob)
        #expect(try await ReloadedUsers.calls(bench.first) == calls)
        let proxied = [bench.identity(at: bench.first, more: ", proxy: environment")]
        try bench.configure(users, identities: proxied)
        let named = try await ReloadedUsers.reload(lanyard)
        #expect(named.status == 422 && named.bodyText.contains("identities.demo.proxy"), "\(named.bodyText)")
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("reloads fail no request of an unchanged user that is there before, and leave no descriptor")
    func often() async throws {
        let lanyard = try await started([bench.user("alice"), bench.user("bob")])
        let (data, clients) = (lanyard.data, try (0..<4).map { _ in try RawClient(lanyard.data) })
        func churn(_ rounds: Int) async throws {
            for round in 0..<rounds {
                let others = round % 2 == 0 ? [] : [bench.user("bob")]
                try bench.configure([bench.user("alice")] + others)
                for client in clients { try client.send("GET /as/alice HTTP/1.1\r\nHost: \(data)\r\n\r\n") }
                #expect(try await ReloadedUsers.applied(lanyard) == ["users.bob"])
                for client in clients { #expect(try client.response().status == 200) }
            }
        }
        try await churn(4)
        let before = try ReloadedUsers.descriptors(of: lanyard)
        // One descriptor that stays of each reload would be 12.
        try await churn(12)
        let after = try ReloadedUsers.descriptors(of: lanyard)
        clients.forEach { $0.close() }
        #expect(abs(after - before) <= 4, "\(before) descriptors, then \(after)")
        #expect(try await ReloadedUsers.calls(bench.first) == ["location": 1, "login": 2, "refresh": 0, "logout": 0])
        try await expectSameAfterRestart(lanyard)
    }
}
