import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Coordinator: operators' calls")
struct OperatorCallTests {
    private static let bob = Credential.given(.emailPassword(email: "b@example.com", password: Tokens.secret("p")))

    @Test("a logout erases the tokens here and in the store before the service is told, and is remembered")
    func logOut() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.holdsStore = true
        driver.terminate(.logOut, ticket: 7)
        #expect(driver.state == .loggedOut && driver.refusal == .loggedOut && driver.revoked.isEmpty)
        driver.release()
        #expect(driver.trail == ["logOut", "revoke"] && driver.revoked == ["one"])
        #expect(driver.stored?.session == nil && driver.stored?.isLoggedOut == true)
        #expect(driver.contents.revocations.count == 1)
        guard case .terminated(isRevoked: false, isStored: true) = driver.replies[7] else {
            throw SessionCoordinatorTests.Missing()
        }
        let next = driver.restart()
        next.begin()
        #expect(
            next.state == .loggedOut && next.reason == .loggedOut && next.calls.isEmpty
                && next.coordinator.due == .never)
        #expect(next.refusal == .loggedOut)
        next.handle(.session(.credentialChanged))
        #expect(next.calls.isEmpty)
    }

    @Test("a logout wins over a refresh in progress: its late response is not stored, and its token is revoked")
    func logOutWins() throws {
        let driver = CoordinatorDriver(rotation: .grace)
        try driver.logIn()
        driver.toDue()
        let call = try #require(driver.call)
        driver.terminate(.logOut, ticket: nil)
        #expect(driver.trail.suffix(3) == ["logOut", "revoke", "unlock"] && driver.revoked == ["one"])
        driver.handle(.callCompleted(.success(SessionDriver.grant(refresh: "two")), call))
        #expect(driver.state == .loggedOut && driver.revoked == ["one", "two"] && driver.stored?.session == nil)
    }

    @Test("a logout while the response is being stored wins, too, and revokes the newest token")
    func logOutWhileSaving() throws {
        let driver = CoordinatorDriver(rotation: .grace)
        try driver.logIn()
        driver.toDue()
        driver.holdsStore = true
        try driver.grant(refresh: "two")
        driver.terminate(.logOut, ticket: nil)
        driver.release()
        driver.release()
        #expect(driver.stored?.session == nil && driver.stored?.isLoggedOut == true && driver.revoked == ["two"])
        #expect(driver.state == .loggedOut && driver.disk.holder == nil)
    }

    @Test("a logout that cannot be stored takes effect here at once, and in the store as soon as it can")
    func unsavedLogOut() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.storeError = StoreError(.system(28), message: "full")
        driver.terminate(.logOut, ticket: 1)
        #expect(driver.state == .loggedOut && driver.revoked == ["one"] && driver.stored?.session != nil)
        driver.storeError = nil
        driver.toDue()
        #expect(driver.stored?.session == nil && driver.coordinator.due == .never)
    }

    @Test("a removed user leaves nothing but its revocation")
    func remove() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.terminate(.remove, ticket: 1)
        #expect(driver.stored == nil && driver.contents.revocations.map { Tokens.text($0.token) } == ["one"])
    }

    @Test(
        "an operator's login replaces the current session, whose refresh token is revoked; the session serves until then"
    )
    func login() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.login(Self.bob, ticket: 1)
        #expect(driver.call?.kind == .login && driver.token?.generation == 1 && driver.state == .valid)
        try driver.grant(refresh: "bob", account: "b")
        #expect(driver.storedRefresh == "bob" && driver.token?.generation == 2 && driver.revoked == ["one"])
        #expect(driver.stored?.accountID == "b")
        guard case .loggedIn = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
    }

    @Test("an operator's login that fails leaves the session unchanged")
    func failedLogin() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.login(Self.bob, ticket: 1)
        try driver.fail(.credentialRefused, credential: CredentialFingerprint(bytes: [9]))
        #expect(driver.state == .valid && driver.storedRefresh == "one" && driver.stored?.intent == nil)
        // It is not the configured credential: nothing to remember.
        #expect(driver.stored?.refused == nil)
        guard case .failed(let error) = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(error.verdict == .credentialRefused)
        #expect(driver.logEvents.map(\.name) == ["session.login.started", "session.login.given_up"])
    }

    @Test("of two logins of one user at once the second is refused")
    func twoLogins() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        driver.login(Self.bob, ticket: 1)
        guard case .loginInProgress = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
        try driver.grant(refresh: "one", account: "a")
        driver.toDue()
        // It waits behind a refresh.
        driver.login(Self.bob, ticket: 2)
        driver.login(Self.bob, ticket: 3)
        guard case .loginInProgress = driver.replies[3] else { throw SessionCoordinatorTests.Missing() }
        #expect(driver.call?.kind == .refresh)
        try driver.grant()
        #expect(driver.call?.kind == .login && driver.call?.cause == .asked)
        driver.terminate(.logOut, ticket: nil)
        guard case .overtaken = driver.replies[2] else { throw SessionCoordinatorTests.Missing() }
    }

    @Test("of two logouts that are open at once, each operator gets the result of its own")
    func twoLogouts() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.holdsStore = true
        driver.terminate(.logOut, ticket: 1)
        driver.terminate(.logOut, ticket: 2)
        #expect(driver.replies.isEmpty)
        driver.storeError = CoordinatorDriver.full
        driver.release(holdingOn: true)
        guard case .terminated(_, isStored: false) = driver.replies[1], driver.replies[2] == nil else {
            throw SessionCoordinatorTests.Missing()
        }
        driver.storeError = nil
        driver.release()
        guard case .terminated(_, isStored: false) = driver.replies[1],
            case .terminated(_, isStored: true) = driver.replies[2]
        else { throw SessionCoordinatorTests.Missing() }
    }

    @Test("while an operator waits for the mark of a deletion, another deletion is refused, and the first one begins")
    func twoDeletions() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.holdsStore = true
        driver.beginDeletion(ticket: 1)
        driver.beginDeletion(ticket: 2)
        guard case .loginInProgress = driver.replies[2], driver.replies[1] == nil else {
            throw SessionCoordinatorTests.Missing()
        }
        driver.release()
        guard case .deletionBegun = driver.replies[1], case .loginInProgress = driver.replies[2] else {
            throw SessionCoordinatorTests.Missing()
        }
    }

    @Test("while a link is being stored, a login is refused, and the link gets its own result")
    func loginDuringLink() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.holdsStore = true
        let link = ObtainedSession(
            SessionDriver.grant(), startedAt: driver.now, startedAtWall: driver.wall,
            continuedSession: driver.coordinator.sessionID)
        driver.obtain(link, ticket: 1)
        driver.login(Self.bob, ticket: 2)
        guard case .loginInProgress = driver.replies[2], driver.replies[1] == nil else {
            throw SessionCoordinatorTests.Missing()
        }
        driver.release()
        guard case .linked = driver.replies[1], driver.call == nil else { throw SessionCoordinatorTests.Missing() }
    }

    @Test("an account that another user is logged in to: the new session is revoked, the old one is unchanged")
    func accountInUse() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.ownership = .inUse(by: "bob")
        driver.login(Self.bob, ticket: 1)
        try driver.grant(refresh: "bob", account: "b")
        #expect(driver.revoked == ["bob"] && driver.storedRefresh == "one" && driver.state == .valid)
        guard case .accountInUse(by: "bob") = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
    }

    @Test("a configured user whose account is another's at the start is refused, reason account_in_use")
    func accountInUseAtStart() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        driver.ownership = .inUse(by: "bob")
        try driver.grant(refresh: "bob", account: "b")
        #expect(driver.state == .refused && driver.reason == .accountInUse && driver.revoked == ["bob"])
        #expect(driver.stored?.refused == nil && driver.stored?.session == nil && driver.coordinator.due == .never)
    }

    @Test("a login into the account of a user without a session is handed over, and stored there")
    func belongs() throws {
        let driver = CoordinatorDriver(hasCredential: false, isAdded: true)
        driver.ownership = .belongs(to: "bob")
        driver.login(Self.bob, ticket: 1)
        try driver.grant(refresh: "bob", account: "b")
        guard case .belongs(to: "bob", let obtained) = driver.replies[1] else {
            throw SessionCoordinatorTests.Missing()
        }
        #expect(driver.stored == nil && driver.revoked.isEmpty)
        let bob = CoordinatorDriver()
        bob.pass((driver.now - bob.now).inSeconds)
        bob.obtain(obtained, ticket: 2)
        #expect(bob.calls.isEmpty && bob.storedRefresh == "bob" && bob.stored?.provider == "email_password")
        #expect(bob.state == .valid && bob.token != nil)
    }

    @Test("an added user whose first login fails is not kept")
    func neverEstablished() throws {
        let driver = CoordinatorDriver(hasCredential: false, isAdded: true)
        driver.login(Self.bob, ticket: 1)
        #expect(driver.stored?.intent?.kind == .login)
        try driver.fail(.credentialRefused)
        #expect(driver.stored == nil)
    }

    @Test("a refused addition leaves what the store knows of a former user of that name, its logout above all")
    func formerUser() throws {
        let driver = CoordinatorDriver(hasCredential: false, isAdded: true)
        var former = StoredUser(name: "alice", of: driver.coordinator.identity)
        (former.generation, former.status) = (3, .loggedOut)
        driver.disk.contents.users.append(former)
        driver.begin()
        driver.login(Self.bob, ticket: 1)
        #expect(driver.stored?.intent?.kind == .login)
        try driver.fail(.credentialRefused)
        #expect(driver.stored == former)
    }

    @Test("a refused login of a user that the store does not know leaves no record of it")
    func noRecord() throws {
        let driver = CoordinatorDriver(hasCredential: false)
        driver.login(Self.bob, ticket: 1)
        #expect(driver.stored?.intent?.kind == .login)
        try driver.fail(.credentialRefused)
        #expect(driver.stored == nil)
        driver.login(Self.bob, ticket: 2)
        try driver.grant(refresh: "bob", account: "b")
        #expect(driver.stored?.session != nil && driver.state == .valid)
    }

    @Test("a user that moved to another application, and whose login is taken away, was never logged in there")
    func neverLoggedInThere() throws {
        let driver = CoordinatorDriver()
        var moved = StoredUser(name: "alice", of: driver.coordinator.identity)
        // The generation outlives the identity.
        moved.generation = 4
        driver.disk.contents.users.append(moved)
        let restarted = CoordinatorDriver(hasCredential: false, disk: driver.disk)
        restarted.begin()
        #expect(restarted.state == .loggedOut)
    }

    @Test(
        """
        a requested refresh that ends the session by a lost response gets that reply, not a retryable error; the \
        service's own error is passed on
        """
    )
    func refreshEnds() throws {
        for (verdict, isConfirmed) in [(IdentityError.Verdict.unknownOutcome, false), (.sessionDead, true)] {
            let first = CoordinatorDriver(rotation: .oneUse)
            try first.logIn()
            let driver = first.restart(hasCredential: false, rotation: .oneUse)
            driver.begin()
            driver.refreshNow(ticket: 1)
            try driver.fail(verdict)
            #expect(driver.state == .loginRequired)
            switch driver.replies[1] {
            case .loginRequired: #expect(!isConfirmed)
            case .failed(let error): #expect(isConfirmed && error.verdict == .sessionDead)
            default: Issue.record("\(verdict): not reported")
            }
        }
        // While the session continues, the same error is retryable.
        let driver = CoordinatorDriver(rotation: .grace)
        try driver.logIn()
        driver.refreshNow(ticket: 1)
        try driver.fail(.unknownOutcome)
        guard driver.state == .stale, case .failed = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
    }

    @Test(
        "a requested refresh ignores cooldown and budget, joins the call in progress, and gets its outcome"
    )
    func refreshNow() throws {
        let driver = CoordinatorDriver()
        driver.refreshNow(ticket: 1)
        guard case .notLoggedIn = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
        try driver.logIn()
        for ticket in UInt64(2)...40 {
            driver.pass(0.001)
            driver.refreshNow(ticket: ticket)
            #expect(driver.call?.kind == .refresh && driver.replies[ticket] == nil)
            driver.refreshNow(ticket: ticket + 100)
            try driver.grant()
            guard case .refreshed = driver.replies[ticket] else { throw SessionCoordinatorTests.Missing() }
            guard case .refreshed = driver.replies[ticket + 100] else { throw SessionCoordinatorTests.Missing() }
        }
        driver.refreshNow(ticket: 50)
        try driver.fail(.transient(retryAfter: nil))
        guard case .failed = driver.replies[50] else { throw SessionCoordinatorTests.Missing() }
        driver.refreshNow(ticket: 51)
        #expect(driver.call != nil)
    }
}
