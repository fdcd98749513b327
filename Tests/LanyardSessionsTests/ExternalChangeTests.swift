import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Coordinator: two processes on one store")
struct ExternalChangeTests {
    @Test("Rule 6: what another process has refreshed is adopted without a call")
    func adopted() throws {
        let one = CoordinatorDriver(rotation: .grace)
        try one.logIn()
        let two = one.another(rotation: .grace)
        one.toDue()
        try one.grant(refresh: "two")
        two.pass((one.now - two.now).inSeconds + 100)
        two.handle(.due)
        #expect(two.calls.isEmpty && two.token?.generation == 2 && two.refresh == "two" && two.noted(.adopted))
        #expect(two.trail == ["begin", "publish 2", "unlock"])
        two.toCall()
        #expect(two.sent == ["two"])
    }

    @Test(
        "Rule 6: while another process has the lock it is asked for every 20 to 200 ms, then what that process stored is adopted"
    )
    func waits() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.toDue()
        two.pass((one.now - two.now).inSeconds)
        two.toDue()
        #expect(two.calls.isEmpty && two.noted(.waitingForLock))
        for chance in [0, 0.999] {
            two.chance = chance
            two.toDue()
            let wait = (two.coordinator.due - two.now).inSeconds
            #expect(wait >= 0.02 && wait <= 0.2)
        }
        one.pass((two.now - one.now).inSeconds)
        try one.grant()
        two.toDue()
        #expect(two.calls.isEmpty && two.token?.generation == 2)
    }

    @Test("Rule 6: a lock not taken within 35 s is a transient failure")
    func lockTimeout() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.lockReply = .busy
        driver.toDue()
        let began = driver.now
        driver.toDue { driver.state != .refreshing }
        #expect(driver.state == .stale && driver.calls.count == 1)
        #expect((35.0...35.3).contains((driver.now - began).inSeconds))
        #expect(driver.stored?.intent == nil)
    }

    @Test("an operator's login that never gets the lock is reported so, and leaves the other process's intent alone")
    func operatorLockTimeout() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.toDue()
        let intent = one.stored?.intent
        two.login(.given(.anonymous), ticket: 1)
        two.toDue { two.replies[1] != nil }
        guard case .failed(let error) = two.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(error.verdict == .transient(retryAfter: nil) && one.stored?.intent == intent && intent != nil)
    }

    @Test("a lock that fails is logged, and the refresh continues without it")
    func lockFails() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.lockReply = .failed("read-only file system")
        driver.toDue()
        #expect(driver.call?.kind == .refresh && driver.noted(.lockFailed))
        try driver.grant()
        #expect(!driver.trail.contains("unlock"))
    }

    @Test("two processes that start on an empty store make one login")
    func oneLogin() throws {
        let one = CoordinatorDriver()
        one.begin()
        let two = one.another()
        #expect(one.calls.count == 1 && two.calls.isEmpty)
        try one.grant(refresh: "one", account: "a")
        two.toDue()
        #expect(two.calls.isEmpty && two.token?.generation == 1 && two.state == .valid)
    }

    @Test("a logout in another process ends the session at the next store read, and the call in progress is revoked")
    func loggedOutElsewhere() throws {
        let one = CoordinatorDriver(rotation: .grace)
        try one.logIn()
        let two = one.another(rotation: .grace)
        two.toDue()
        one.terminate(.logOut, ticket: 1)
        #expect(one.stored?.isLoggedOut == true && one.stored?.session == nil)
        try two.grant(refresh: "two")
        #expect(two.state == .loggedOut && two.refusal == .loggedOut && two.revoked == ["two"])
        #expect(one.stored?.session == nil && two.trail.last == "unlock" && two.noted(.overtaken))
        let three = one.another()
        #expect(three.state == .loggedOut && three.calls.isEmpty)
    }

    @Test("a session that another process found dead is not refreshed again")
    func deadElsewhere() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.toDue()
        try one.fail(.sessionDead)
        two.pass((one.now - two.now).inSeconds)
        two.toDue()
        #expect(two.sent.isEmpty)
        try one.grant(refresh: "new", account: "a")
        for _ in 0..<3 where two.refresh != "new" { two.toDue() }
        #expect(two.sent.isEmpty && two.calls.isEmpty && two.refresh == "new" && two.token?.generation == 2)
    }

    @Test("an intent that a crashed process left open counts in both processes")
    func crashedElsewhere() throws {
        let one = CoordinatorDriver(rotation: .oneUse)
        try one.logIn()
        let two = one.another(rotation: .oneUse)
        one.toDue()
        // Process one has crashed, and its lock is free.
        two.disk.holder = nil
        two.pass((one.now - two.now).inSeconds + 100)
        two.toCall()
        #expect(two.call?.kind == .login && two.sent.isEmpty)
    }

    @Test("a user that another process has removed is removed here, too")
    func removedElsewhere() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.terminate(.remove, ticket: nil)
        two.toDue()
        #expect(two.state == .loggedOut && two.calls.isEmpty && two.stored == nil)
    }

    @Test("a store that failed while another process logged in again: its session is kept, ours is revoked")
    func overtakenUnsavedChange() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.toDue()
        one.storeError = StoreError(.system(28), message: "full")
        try one.grant()
        two.login(.given(.anonymous), ticket: 1)
        try two.grant(refresh: "theirs", account: "b")
        one.storeError = nil
        one.toDue()
        #expect(
            one.refresh == "theirs" && one.revoked == ["one"] && one.coordinator.storeError == nil
                && one.noted(.overtaken))
        #expect(one.token.map { $0.generation > 2 } == true)
    }

    @Test("Rule 8: of two tokens of one session the store keeps the later, even if it failed for both for a while")
    func ahead() throws {
        let one = CoordinatorDriver(rotation: .grace)
        try one.logIn()
        let two = one.another(rotation: .grace)
        // No lock can be taken: both send the same token, and the service gives both the same successor.
        one.lockReply = .failed("no locks")
        two.lockReply = .failed("no locks")
        one.storeError = StoreError(.system(37), message: "no locks")
        one.refreshNow(ticket: 1)
        two.toCall()
        try one.grant(refresh: "two")
        try two.grant(refresh: "two", account: "a")
        #expect(two.storedRefresh == "two" && two.stored?.generation == 2)
        one.refreshNow(ticket: 2)
        try one.grant(refresh: "three")
        one.storeError = nil
        one.toCall(200)
        #expect(one.sent == ["one", "two", "three"] && one.storedRefresh == "three" && one.stored?.generation == 3)
        #expect(!one.noted(.overtaken))
        // The other process learns of it.
        try one.grant(refresh: "four")
        two.toCall(200)
        #expect(two.sent == ["one", "four"])
    }

    @Test("a login in progress is undone by a logout in another process, although there was no session to end")
    func logoutBeatsLogin() throws {
        let one = CoordinatorDriver()
        one.begin()
        let two = CoordinatorDriver(hasCredential: false, disk: one.disk)
        two.begin()
        two.terminate(.logOut, ticket: 1)
        try one.grant(refresh: "late", account: "a")
        #expect(one.state == .loggedOut && one.revoked == ["late"] && one.token == nil)
        #expect(one.stored?.isLoggedOut == true && one.stored?.session == nil)
    }

    @Test(
        "an operator's login in another process is found by the next store read, for every reason of having no session here"
    )
    func loggedInElsewhere() throws {
        for ending in [SessionState.loggedOut, .refused, .loginRequired] {
            let one = CoordinatorDriver(hasCredential: ending == .refused)
            if ending == .refused {
                one.begin()
                try one.fail(
                    .credentialRefused, credential: CredentialFingerprint(bytes: Array(repeating: 1, count: 32)))
            } else {
                one.begin()
                if ending == .loggedOut { one.terminate(.logOut, ticket: 1) }
                if ending == .loginRequired {
                    one.login(.given(.anonymous), ticket: 1)
                    try one.grant(refresh: "dead", account: "a")
                    one.toDue()
                    try one.fail(.sessionDead)
                }
            }
            try #require(one.state == ending)
            let two = one.another(hasCredential: false)
            one.handle(.storeSnapshot(one.stored))
            #expect(one.state == ending)
            two.login(.given(.anonymous), ticket: 1)
            try two.grant(refresh: "theirs", account: "a")
            one.forget()
            one.handle(.storeSnapshot(one.stored))
            #expect(one.state == .valid && one.refresh == "theirs" && one.noted(.adopted))
            #expect(one.trail.count == 1 && one.token != nil)
            one.forget()
            one.handle(.storeSnapshot(one.stored))
            #expect(one.trail.isEmpty)
        }
    }

    @Test("a logout or a removal in another process is found by the next store read")
    func loggedOutByLook() throws {
        for leaving in [SessionCoordinator.Termination.logOut, .remove] {
            let one = CoordinatorDriver()
            try one.logIn()
            let two = one.another()
            one.handle(.storeSnapshot(one.stored))
            #expect(one.state == .valid && one.trail.isEmpty)
            two.terminate(leaving, ticket: 1)
            one.handle(.storeSnapshot(one.stored))
            #expect(one.state == .loggedOut && one.refusal == .loggedOut && one.revoked.isEmpty)
        }
    }

    @Test("another process's login as another account is published as another account's; its refresh is not")
    func anotherAccount() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        let first = try #require(two.token?.account)
        one.toDue()
        try one.grant()
        two.pass((one.now - two.now).inSeconds)
        two.handle(.storeSnapshot(one.stored))
        #expect(two.token?.account == first && two.token?.generation == 2)
        one.login(.given(.anonymous), ticket: 1)
        try one.grant(refresh: "theirs", account: "b")
        two.handle(.storeSnapshot(one.stored))
        #expect(two.refresh == "theirs" && two.noted(.accountChanged))
        #expect(two.token.map { $0.account != first } == true)
    }

    @Test(
        "a dead session of another account in another process says nothing about the token here, only about the next one"
    )
    func anotherAccountDied() throws {
        let one = CoordinatorDriver(hasCredential: false)
        one.begin()
        one.login(.given(.anonymous), ticket: 1)
        try one.grant(refresh: "one", account: "a")
        let two = one.another()
        let first = try #require(two.token?.account)
        one.login(.given(.anonymous), ticket: 2)
        try one.grant(refresh: "theirs", account: "b")
        one.toDue()
        try one.fail(.sessionDead)
        #expect(one.state == .loginRequired)
        two.pass((one.now - two.now).inSeconds)
        two.toCall()
        #expect(two.call?.kind == .login && two.token?.account == first)
        two.handle(.session(.clockJumped))
        #expect(two.token?.account == first)
        try two.grant(refresh: "new", account: "b")
        #expect(two.token.map { $0.account != first } == true)
    }

    @Test(
        "the end of the process between an adoption and the check of its account leaves nothing in progress",
        arguments: [AccountOwnership.free, .inUse(by: "carol")])
    func drainWhileAdopting(_ ownership: AccountOwnership) throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.login(.given(.anonymous), ticket: 1)
        try one.grant(refresh: "theirs", account: "b")
        two.pass((one.now - two.now).inSeconds)
        two.ownership = ownership
        two.holdsClaims = true
        two.login(.given(.anonymous), ticket: 2)
        try #require(two.coordinator.isAdopting && two.replies[2] == nil)
        two.handle(.drain)
        guard case .stopping = two.replies[2] else { throw SessionCoordinatorTests.Missing() }
        two.releaseClaims()
        #expect(!two.coordinator.isAdopting && two.coordinator.mayBeReplaced && two.coordinator.isIdle)
        #expect(two.state == (ownership == .free ? .valid : .loggedOut) && two.calls.isEmpty && two.disk.holder == nil)
    }

    @Test("a store read changes nothing while an operation is in progress, which finds the change by itself")
    func looksWhileBusy() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.toDue()
        two.terminate(.logOut, ticket: 1)
        one.forget()
        one.handle(.storeSnapshot(one.stored))
        #expect(one.trail.isEmpty && one.state == .refreshing)
        try one.grant()
        #expect(one.state == .loggedOut && one.stored?.isLoggedOut == true)
    }

    // MARK: Accounts

    /// Both users are configured.
    private static let both: Set<String> = ["alice", "bob"]

    private static func bob(beside one: CoordinatorDriver, hasCredential: Bool = true, isAdded: Bool = false)
        -> CoordinatorDriver
    {
        let two = CoordinatorDriver(
            "bob", hasCredential: hasCredential, isAdded: isAdded, disk: one.disk, configured: Self.both)
        (two.now, two.wall) = (one.now, one.wall)
        return two
    }

    @Test("a login in an account that another process has given to another user: refused, its session revoked")
    func accountTaken() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = Self.bob(beside: one)
        two.begin()
        try two.grant(refresh: "two", account: "a")
        #expect(two.state == .refused && two.reason == .accountInUse && two.revoked == ["two"] && two.token == nil)
        #expect(two.stored?.session == nil && two.stored?.accountID == nil && two.stored?.intent == nil)
        #expect(two.trail.suffix(4) == ["hold", "revoke", "settle", "unlock"] && two.coordinator.due == .never)
        #expect(one.storedRefresh == "one")
        // Once that user has logged out, the account is free.
        one.terminate(.logOut, ticket: nil)
        two.login(two.coordinator.setup.credential!, ticket: 1)
        try two.grant(refresh: "three", account: "a")
        #expect(two.state == .valid && two.storedRefresh == "three")
        // In the other direction: an existing session is unchanged.
        one.login(one.coordinator.setup.credential!, ticket: 1)
        try one.grant(refresh: "four", account: "a")
        guard case .accountInUse(by: "bob") = one.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(one.state == .loggedOut && one.revoked.last == "four" && one.stored?.isLoggedOut == true)
    }

    @Test("an operator's login in such an account leaves the current session, and nothing of a provisional user")
    func accountTakenByLogin() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let bob = Self.bob(beside: one)
        bob.begin()
        try bob.grant(refresh: "two", account: "b")
        bob.login(bob.coordinator.setup.credential!, ticket: 1)
        try bob.grant(refresh: "three", account: "a")
        guard case .accountInUse(by: "alice") = bob.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(bob.state == .valid && bob.storedRefresh == "two" && bob.revoked == ["three"])
        #expect(bob.stored?.accountID == "b" && bob.stored?.intent == nil)

        let carol = CoordinatorDriver(
            "carol", hasCredential: false, isAdded: true, disk: one.disk, configured: Self.both)
        carol.login(.given(.anonymous), ticket: 1)
        try carol.grant(refresh: "four", account: "a")
        guard case .accountInUse(by: "alice") = carol.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(carol.stored == nil && carol.revoked == ["four"])
    }

    @Test("a user that is not configured any more keeps no account; a user of the admin API does")
    func accountOfForeignUser() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        func renamed() -> CoordinatorDriver {
            let next = CoordinatorDriver("alicia", disk: one.disk, configured: ["alicia"])
            next.begin()
            return next
        }
        var next = renamed()
        try next.grant(refresh: "two", account: "a")
        #expect(next.state == .valid && next.storedRefresh == "two")
        next.terminate(.remove, ticket: nil)
        one.disk.contents.users[0].isAdded = true
        next = renamed()
        try next.grant(refresh: "three", account: "a")
        #expect(next.state == .refused && next.revoked == ["three"])
    }

    @Test("an account that was given up is free for another user: after a logout, a final death, or a refusal")
    func accountFree() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let login = StoreChange.StoredLogin(
            identity: "demo", session: try #require(one.stored?.session), accountID: "a", provider: "x", isAdded: true,
            configured: Self.both)
        func isTaken(_ edit: (inout StoredUser) -> Void = { _ in }, by name: String = "bob", id: UInt64 = 1) -> Bool {
            var contents = one.contents
            edit(&contents.users[0])
            var login = login
            login.session.id = id
            let base = contents[name]?.version ?? SessionVersion(session: 0, generation: 0)
            return contents.apply(.saveSession(user: name, login, base: base), now: one.wall) == .inUse(by: "alice")
        }
        #expect(isTaken())
        #expect(!isTaken(by: "alice"))
        #expect(!isTaken { $0.endSession() })
        #expect(!isTaken { $0.accountID = "b" })
        #expect(!isTaken { $0.identity = "corp" })
        #expect(isTaken { $0.dropRefreshToken() }, "its own login may still succeed")
        let isRefusedTaken = isTaken { user in
            user.dropRefreshToken()
            user.refused = CredentialFingerprint(bytes: [1])
        }
        #expect(!isRefusedTaken)
    }

    @Test("a late stored login ends if another process has given its account away in between")
    func accountTakenLate() throws {
        let one = CoordinatorDriver()
        one.storeError = CoordinatorDriver.full
        one.begin()
        try one.grant(refresh: "one", account: "a")
        #expect(one.state == .valid && one.coordinator.isUnsaved)
        let two = Self.bob(beside: one)
        two.begin()
        try two.grant(refresh: "two", account: "a")
        #expect(two.state == .valid)
        one.storeError = nil
        one.toDue()
        #expect(one.state == .loggedOut && one.token == nil && one.revoked == ["one"] && one.noted(.accountShared))
        #expect(!one.coordinator.isUnsaved && one.coordinator.due == .never && one.stored?.session == nil)
        #expect(two.storedRefresh == "two")
    }

    @Test("of two stored sessions of one account, the duplicate ends in the store and at the service")
    func sharedAccount() throws {
        let one = CoordinatorDriver(rotation: .oneUse)
        try one.logIn()
        for hasCredential in [true, false] {
            let next = one.restart(hasCredential: hasCredential)
            let before = next.disk.contents
            next.handle(.begin(next.stored, duplicateOf: "bob"))
            #expect(next.token == nil && next.revoked == ["one"] && next.noted(.accountShared))
            #expect(next.stored?.session == nil && next.stored?.accountID == "a" && !next.noted(.restored))
            #expect(hasCredential ? next.call?.kind == .login : next.state == .loginRequired)
            next.disk.contents = before
        }
    }
}
