import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Users that are added and removed, across restarts: a session service, the emulator, and a store that outlives both.
@Suite struct SessionServiceUserTests {
    /// One life of a session service on an existing store.
    final class Life: Sendable {
        let service: SessionService
        let published = PublicationLog()

        /// - Parameter identity: the name under which the service is configured.
        init(
            _ bench: SessionServiceBench, on store: KeptStore, identity: String = "demo", active: String? = nil,
            users: [String] = ["alice"]
        ) throws {
            let login = UserSettings.Login.emailPassword(
                email: SessionServiceBench.email, password: bench.passwordFile)
            service = try SessionService(
                users.map { name in
                    ManagedUser(
                        UserSettings(name: name, identity: identity, login: name == "alice" ? login : nil),
                        source: .service(bench.identity))
                }, identities: [ConfiguredIdentity(identity, .service(bench.identity, RefreshTokenSettings()))],
                settings: SessionSettings(activeUser: active), store: store, contents: store.contents,
                subscribers: [published], logger: bench.log.logger)
            service.start()
        }

        deinit { service.stop() }

        /// Adds a user whose account the emulator has.
        @discardableResult
        func add(_ name: String) async throws -> ReportedUser {
            let response = await ask(.add(name: name, identity: "demo", SessionServiceUserTests.email(name)))
            guard case .success(.added(let reported, isStored: _)) = response else {
                throw TestFailure("\(name) did not come: \(response)")
            }
            return reported
        }

        func ask(_ request: UserCall) async -> Result<UserOutcome, UserError> {
            await withCheckedContinuation { continuation in
                service.perform(request) { continuation.resume(returning: $0) }
            }
        }

        /// The known users, each with its state.
        var users: [String] { service.report.reportedUsers.map { "\($0.status.user):\($0.userState.rawValue)" } }

        func becomes(_ users: [String]) async throws {
            try await eventually("\(users)") { self.users == users }
        }
    }

    static func email(_ name: String, _ password: String? = nil) -> LoginMethod<Secret> {
        .emailPassword(
            email: "\(name)@example.com",
            password: Array((password ?? "secret-\(name)").utf8).withUnsafeBytes { Secret(copying: $0) }
        )
    }

    private let bench: SessionServiceBench
    private let store = KeptStore()

    init() async throws {
        bench = try await SessionServiceBench(startsService: false)
        for name in ["bob", "carol"] {
            try await bench.control(
                "/users", #"{"email":"\#(name)@example.com","password":"secret-\#(name)"}"#)
        }
    }

    /// One life, from a start that leads to `users` to the end of `body`.
    private func live(
        identity: String = "demo", active: String? = nil, to users: [String] = ["alice:active"],
        _ body: (Life) async throws -> Void = { _ in }
    ) async throws {
        let life = try Life(bench, on: store, identity: identity, active: active)
        try await life.becomes(users)
        try await body(life)
        life.service.stop()
    }

    @Test("a restart knows all users and the active one, and needs no login")
    func restart() async throws {
        try await live { life in
            for name in ["carol", "bob"] {
                let reported = try await life.add(name)
                #expect(reported.userState == .active && reported.status.state == .valid)
            }
            #expect(life.users == ["alice:inactive", "carol:inactive", "bob:active"])
            _ = await life.ask(.activate("carol"))
        }
        let logins = try await bench.calls("login")
        try await live(to: ["alice:inactive", "carol:active", "bob:inactive"]) { life in
            #expect(life.published.active == UserIndex(1))
            #expect(life.published.token(1) != nil)
            let later = try await bench.calls("login")
            #expect(later == logins)
        }
        await bench.end()
    }

    @Test("the remembered active user applies until the configuration changes")
    func remembered() async throws {
        try await live(active: "alice") { try await $0.add("bob") }
        for (configured, users) in [
            ("alice", ["alice:inactive", "bob:active"]), (nil, ["alice:active", "bob:inactive"]),
            ("bob", ["alice:inactive", "bob:active"]),
        ] {
            try await live(active: configured, to: users)
        }
        await bench.end()
    }

    @Test("an explicit logout and the absence of an active user outlive a restart")
    func loggedOut() async throws {
        try await live { life in
            guard
                case .success(.loggedOut(let reported?, .confirmed, isStored: true)) = await life.ask(.logOut("alice"))
            else {
                throw TestFailure("not logged out")
            }
            #expect(reported.userState == .loggedOut)
        }
        try await live(to: ["alice:logged_out"]) { life in
            #expect(life.service.report.activeUser == nil)
            let logins = try await bench.calls("login")
            #expect(logins == 1)
            guard case .success(.user) = await life.ask(.login("alice", nil)) else {
                throw TestFailure("not logged in")
            }
            #expect(life.users == ["alice:active"])
        }
        try await live()
        #expect(try await bench.calls("login") == 2)
        await bench.end()
    }

    @Test("a revocation that was not delivered before the end is delivered after the start")
    func revocation() async throws {
        try await live { life in
            try await bench.control("/faults", #"{"route":"logout","fault":"unavailable"}"#)
            guard case .success(.loggedOut(_, .pending, isStored: true)) = await life.ask(.logOut("alice"))
            else {
                throw TestFailure("told, or not logged out")
            }
            #expect(store.contents.revocations.count == 1)
        }
        try await bench.control("/faults", "{}", method: "DELETE")
        try await live(to: ["alice:logged_out"]) { life in
            try await eventually("the service was told") {
                store.contents.revocations.isEmpty
            }
            let context = try await RawClient.ask(.tcp(bench.port), "GET", "/emulator/ledger").json
            #expect(context["total"]["revocations"].int == 1)
            #expect(life.users == ["alice:logged_out"])
        }
        await bench.end()
    }

    @Test("a repeated logout reports its own user's session, not another's")
    func revokedOfWhom() async throws {
        func isRevoked(_ life: Life, _ name: String) async throws -> Bool {
            guard case .success(.loggedOut(_, let revocation, _)) = await life.ask(.logOut(name)) else {
                throw TestFailure("\(name) is not logged out")
            }
            return revocation == .confirmed
        }
        try await live { life in
            try await life.add("bob")
            #expect(try await isRevoked(life, "bob"))
            try await bench.control("/faults", #"{"route":"logout","fault":"unavailable"}"#)
            #expect(try await !isRevoked(life, "alice"))
            #expect(try await isRevoked(life, "bob"))
            #expect(try await !isRevoked(life, "alice"))
        }
        // The owner of an earlier process's session is not known any more: only what is certain is reported.
        try await live(to: ["alice:logged_out", "bob:logged_out"]) { life in
            #expect(try await !isRevoked(life, "alice"))
            try await bench.control("/faults", "{}", method: "DELETE")
            try await life.add("carol")
            for _ in 0..<2 { #expect(try await isRevoked(life, "carol")) }
            try await eventually("the service was told") {
                store.contents.revocations.isEmpty
            }
            #expect(try await isRevoked(life, "alice"))
        }
        await bench.end()
    }

    /// Stores a session that another process has obtained for alice by an operator's login.
    private func logInElsewhere() async throws {
        let grant = try await bench.foreignSession()
        let stored = try #require(store.contents["alice"])
        let session = StoredSession(
            id: 0xabcd_ef01, access: grant.accessToken, refresh: grant.refreshToken, refreshExpiry: nil,
            issuedAt: .now, issuedAtBoot: BootInstant(boot: "", instant: .now), lifetime: grant.lifetime)
        let login = StoreChange.StoredLogin(
            identity: "demo", session: session, accountID: grant.userID, provider: "email_password", isAdded: false,
            fingerprint: stored.identityFingerprint, configured: ["alice"])
        store.apply(.saveSession(user: "alice", login, base: stored.version))
        try #require(store.contents["alice"]?.session?.id == session.id)
    }

    private func revocations() async throws -> Int? {
        try await RawClient.ask(.tcp(bench.port), "GET", "/emulator/ledger").json["total"]["revocations"].int
    }

    @Test("a logout also revokes the session that another process has begun since, and the response waits for both")
    func loggedInElsewhere() async throws {
        try await live { life in
            try await logInElsewhere()
            guard case .success(.loggedOut(_, .confirmed, isStored: true)) = await life.ask(.logOut("alice"))
            else {
                throw TestFailure("not logged out")
            }
            #expect(store.contents["alice"]?.session == nil && store.contents.revocations.isEmpty)
            #expect(try await revocations() == 2)
        }
        await bench.end()
    }

    @Test("a second logout ends the session that another process has begun since the first one")
    func loggedInElsewhereSince() async throws {
        try await live { life in
            _ = await life.ask(.logOut("alice"))
            try await logInElsewhere()
            guard case .success(.loggedOut(_, .confirmed, isStored: true)) = await life.ask(.logOut("alice"))
            else {
                throw TestFailure("not logged out")
            }
            #expect(store.contents["alice"]?.isLoggedOut == true && store.contents["alice"]?.session == nil)
            #expect(try await revocations() == 2)
        }
        await bench.end()
    }

    @Test("a removal of a user that only the store knows revokes the session that is stored at that instant")
    func removedAsStored() async throws {
        try await live { try await $0.add("bob") }
        store.edit { contents in
            for place in contents.users.indices where contents.users[place].name == "bob" {
                contents.users[place].isAdded = false
            }
        }
        try await live { life in
            store.holdNextRead()
            async let removed = life.ask(.remove("bob"))
            try await eventually("the store is read") { store.holdsRead }
            let grant = try await bench.foreignSession()
            store.editAfterRead { contents in
                for place in contents.users.indices where contents.users[place].name == "bob" {
                    guard case .active(var session) = contents.users[place].status else { continue }
                    session.refresh = grant.refreshToken
                    contents.users[place].status = .active(session)
                }
            }
            store.releaseRead()
            guard case .success(.removed(isStored: true)) = await removed else { throw TestFailure("not removed") }
            #expect(store.contents["bob"] == nil && store.contents.revocations.isEmpty)
            let token = try #require(grant.refreshToken)
            let refreshed = await withCheckedContinuation { done in
                bench.identity.refresh(token) { done.resume(returning: $0) }
            }
            guard case .failure(let error) = refreshed, error.verdict == .sessionDead else {
                throw TestFailure("the session lives on: \(refreshed)")
            }
        }
        await bench.end()
    }

    @Test(
        "two stored users of one account, which an older release allowed: the active one keeps it, otherwise the first by name",
        arguments: ["bob", "carol", "alice"])
    func sharedAccount(_ active: String) async throws {
        try await live { life in
            try await life.add("carol")
            try await life.add("bob")
            if active != "bob" { _ = await life.ask(.activate(active)) }
        }
        let account = try #require(store.contents["bob"]?.accountID)
        store.edit { contents in
            for place in contents.users.indices where contents.users[place].name == "carol" {
                contents.users[place].accountID = account
            }
        }
        let (kept, ended) = active == "carol" ? ("carol", "bob") : ("bob", "carol")
        let users = ["alice", "carol", "bob"].map { name in
            "\(name):\(name == ended ? "logged_out" : name == active ? "active" : "inactive")"
        }
        let logins = try await bench.calls("login")
        try await live(to: users) { life in
            #expect(store.contents[ended]?.session == nil && store.contents[kept]?.session != nil)
            try await eventually("the service was told") {
                let context = try await RawClient.ask(.tcp(bench.port), "GET", "/emulator/ledger").json
                return context["total"]["revocations"].int == 1
            }
            let lines = bench.log.lines.filter { $0.contains("session.account.shared") }
            #expect(lines.count == 1 && lines[0].contains(#""other": \#(kept)"#), "\(lines)")
            guard case .success(.refreshed) = await life.ask(.refresh(kept)) else {
                throw TestFailure("\(kept) does not continue")
            }
        }
        // It stays ended.
        try await live(to: users)
        #expect(bench.log.lines.filter { $0.contains("session.account.shared") }.count == 1)
        #expect(try await bench.calls("login") == logins)
        await bench.end()
    }

    @Test("a removed user is not back; a configured one is, and logs in")
    func removed() async throws {
        try await live { life in
            try await life.add("bob")
            for name in ["alice", "bob"] {
                guard case .success(.removed(isStored: true)) = await life.ask(.remove(name)) else {
                    throw TestFailure("\(name) is still there")
                }
            }
            #expect(life.users == [])
            #expect(store.contents.users.isEmpty)
            #expect(
                life.published.refusal(0) == .userUnknown(wasRemoved: true)
                    && life.published.refusal(1) == .userUnknown(wasRemoved: false))
            // A failed login of a configured name leaves it unchanged.
            let wrong = LoginMethod<Secret>.emailPassword(
                email: "bob@example.com", password: Array("wrong".utf8).withUnsafeBytes { Secret(copying: $0) })
            _ = await life.ask(.add(name: "alice", identity: "demo", wrong))
            #expect(life.published.refusal(0) == .userUnknown(wasRemoved: true))
        }
        try await live(to: ["alice:inactive"]) { #expect($0.service.report.activeUser == nil) }
        await bench.end()
    }

    @Test("an added user whose identity is not configured any more is not known")
    func identityGone() async throws {
        try await live { try await $0.add("bob") }
        try await live(identity: "other")
        await bench.end()
    }

    @Test(
        "a failed login of a provisional user leaves nothing, in memory or in the store, and the name is free")
    func neverEstablished() async throws {
        try await live { life in
            store.takes(.milliseconds(30))
            let wrong = LoginMethod<Secret>.emailPassword(
                email: "bob@example.com",
                password: Array("wrong".utf8).withUnsafeBytes { Secret(copying: $0) })
            for _ in 0..<2 {
                guard
                    case .failure(.identity(let error)) = await life.ask(
                        .add(name: "bob", identity: "demo", wrong))
                else {
                    throw TestFailure("it did not fail")
                }
                #expect(error.verdict == .credentialRefused)
                #expect(store.contents["bob"] == nil)
            }
            #expect(bench.log.lines.allSatisfy { !$0.contains("session.logout") })
            try await life.add("bob")
            #expect(life.users == ["alice:inactive", "bob:active"])
        }
        await bench.end()
    }

    @Test(
        "while the store fails a switch takes effect at once, is reported as unsaved, and is saved when the store is back"
    )
    func storeFails() async throws {
        try await live { life in
            try await life.add("bob")
            store.fails(true)
            guard case .success(.user(let reported, isStored: false)) = await life.ask(.activate("alice")) else {
                throw TestFailure("not switched")
            }
            #expect(reported.userState == .active)
            #expect(life.published.active == UserIndex(0))
            #expect(life.service.report.isStoreFailing)
            #expect(store.contents.active?.user == "bob")
            store.fails(false)
            life.service.loop.pass(.seconds(10))
            try await eventually("it is saved") {
                store.contents.active?.user == "alice"
            }
            try await eventually("nothing fails any more") { !life.service.report.isStoreFailing }
            guard case .success(.user(_, isStored: true)) = await life.ask(.activate("alice")) else {
                throw TestFailure("not said to be saved")
            }
        }
        await bench.end()
    }

    @Test("while the store fails a login and a new user take effect, and report that a restart would not find them")
    func storeFailsLogins() async throws {
        try await live { life in
            guard case .success(.user(_, isStored: true)) = await life.ask(.login("alice", nil)) else {
                throw TestFailure("not said to be stored")
            }
            store.fails(true)
            guard case .success(.user(_, isStored: false)) = await life.ask(.login("alice", nil)),
                case .success(.added(_, isStored: false)) = await life.ask(
                    .add(name: "bob", identity: "demo", Self.email("bob")))
            else {
                throw TestFailure("said to be stored")
            }
            #expect(life.users == ["alice:inactive", "bob:active"] && store.contents["bob"] == nil)
            store.fails(false)
            life.service.loop.pass(.seconds(10))
            try await eventually("both are stored") {
                store.contents["bob"]?.session != nil && !life.service.report.isStoreFailing
            }
            guard case .success(.user(_, isStored: true)) = await life.ask(.activate("alice")),
                case .success(.user(_, isStored: true)) = await life.ask(.login("bob", Self.email("bob")))
            else {
                throw TestFailure("not said to be stored")
            }
        }
        await bench.end()
    }

    @Test("an account whose user was removed while the store failed is free as soon as the store takes anything")
    func removedWhileStoreFailed() async throws {
        try await live { life in
            store.fails(true)
            guard case .success(.removed(isStored: false)) = await life.ask(.remove("alice")) else {
                throw TestFailure("not removed")
            }
            #expect(store.contents["alice"]?.session != nil)
            store.fails(false)
            let account = Self.email("alice", SessionServiceBench.password)
            guard
                case .success(.added(_, isStored: true)) = await life.ask(
                    .add(name: "bob", identity: "demo", account))
            else { throw TestFailure("turned away by a user who has left") }
            #expect(store.contents["alice"] == nil && store.contents["bob"]?.session != nil)
            #expect(life.users == ["bob:active"])
        }
        await bench.end()
    }

    @Test("requests that wait at the end get a reply")
    func stopping() async throws {
        try await live { life in
            try await bench.control("/delays", #"{"route":"login","milliseconds":3000}"#)
            async let login = life.ask(.login("alice", nil))
            try await eventually("it is in progress") { try await bench.calls("login") == 2 }
            life.service.stop()
            guard case .failure(.outcomeUnknown) = await login,
                case .failure(.stopping) = await life.ask(.activate("alice"))
            else {
                throw TestFailure("not told")
            }
        }
        await bench.end()
    }
}
