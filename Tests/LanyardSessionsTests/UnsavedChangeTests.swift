import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Unsaved changes wait for the store until another change makes them obsolete.
@Suite("Coordinator: unsaved changes and what happens in between")
struct UnsavedChangeTests {
    /// An unsaved session, a call of its own in progress, and a stored logout of another process.
    private static func loggedOutUnsaved(asking: Bool) throws -> CoordinatorDriver {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.storeError = CoordinatorDriver.full
        one.login(.given(.anonymous), ticket: 1)
        try one.grant(refresh: "unsaved", account: "a")
        if asking { one.login(.given(.anonymous), ticket: 2) } else { one.refreshNow(ticket: 2) }
        try #require(one.call != nil)
        two.terminate(.logOut, ticket: 3)
        one.storeError = nil
        one.forget()
        return one
    }

    @Test("a logout in another process is not undone by an earlier unsaved session")
    func unsavedOvertaken() throws {
        let one = try Self.loggedOutUnsaved(asking: false)
        try one.grant(refresh: "newer")
        #expect(one.state == .loggedOut && one.revoked == ["one", "newer"])
        for _ in 0..<20 { one.toDue() }
        #expect(
            one.stored?.isLoggedOut == true && one.stored?.session == nil
                && one.trail.filter { $0 == "hold" }.count == 1)
        #expect(one.coordinator.storeError == nil)
    }

    @Test("a logout in another process is not undone when the unsaved session has died")
    func unsavedDead() throws {
        let one = try Self.loggedOutUnsaved(asking: false)
        try one.fail(.sessionDead)
        for _ in 0..<20 { one.toDue() }
        #expect(one.state == .loggedOut && one.stored?.isLoggedOut == true && one.stored?.session == nil)
        #expect(!one.trail.contains("hold"))
    }

    @Test("a logout in another process is not undone when a login was to replace the session: both are revoked")
    func unsavedReplaced() throws {
        let one = try Self.loggedOutUnsaved(asking: true)
        try one.grant(refresh: "newer", account: "a")
        for _ in 0..<20 { one.toDue() }
        #expect(one.state == .loggedOut && one.stored?.isLoggedOut == true && one.stored?.session == nil)
        #expect(one.revoked == ["one", "unsaved", "newer"])
        guard case .overtaken = one.replies[2] else { throw SessionCoordinatorTests.Missing() }
    }

    /// An unsaved session, refreshed with what the test says; the store works again from the response on.
    private static func unsaved(
        hasCredential: Bool = true, rotation: RefreshTokenRotation = .grace
    ) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(hasCredential: hasCredential, rotation: rotation)
        driver.storeError = CoordinatorDriver.full
        driver.begin()
        if !hasCredential { driver.login(.given(.anonymous), ticket: 1) }
        try driver.grant(refresh: "unsaved", account: "a")
        driver.refreshNow(ticket: 2)
        try #require(driver.call != nil && driver.stored == nil)
        driver.storeError = nil
        return driver
    }

    @Test(
        "Rule 8: a rotation that cannot be stored serves from memory with both tokens, and is stored later with what it has shown",
        arguments: [RefreshTokenRotation.auto, .oneUse, .grace])
    func rotated(_ rotation: RefreshTokenRotation) throws {
        let driver = CoordinatorDriver(rotation: rotation)
        try driver.logIn()
        driver.toDue()
        driver.storeError = CoordinatorDriver.full
        try driver.grant(refresh: "two")
        #expect(driver.token?.generation == 2 && driver.refresh == "two" && driver.storedRefresh == "one")
        #expect(driver.coordinator.storeError != nil && driver.state == .valid)
        // No other process may send the former refresh token.
        let other = driver.another(rotation: rotation)
        other.refreshNow(ticket: 1)
        #expect(other.call == nil && other.sent.isEmpty)
        driver.refreshNow(ticket: 2)
        try driver.grant(refresh: "three")
        #expect(driver.sent == ["one", "two"] && driver.refresh == "three" && driver.storedRefresh == "one")
        driver.storeError = nil
        for _ in 0..<3 where driver.coordinator.storeError != nil { driver.toDue() }
        #expect(driver.storedRefresh == "three" && driver.stored?.session?.hasRotated == true)
        #expect(driver.coordinator.storeError == nil && driver.stored?.intent == nil && driver.revoked.isEmpty)
        for _ in 0..<20 where other.call == nil { other.toDue() }
        #expect(other.sent.allSatisfy { $0 == "three" } && other.refresh == "three")
    }

    /// A second later the user of this process has a link's access token.
    private static func link(_ driver: CoordinatorDriver) {
        driver.pass(1)
        let link = ObtainedSession(
            SessionDriver.grant(account: "a"), startedAt: driver.now, startedAtWall: driver.wall, provider: "api_key",
            continuedSession: driver.coordinator.sessionID)
        driver.obtain(link, ticket: 2)
    }

    /// Neither process can lock or write. One exchanges the refresh token `one` for `two`, the other has a link's access token;
    /// the other's is stored first.
    private static func linkedBesideRefresh(
        _ rotation: RefreshTokenRotation = .oneUse
    ) throws -> (one: CoordinatorDriver, other: CoordinatorDriver) {
        let one = CoordinatorDriver(rotation: rotation)
        try one.logIn()
        let other = one.another(rotation: rotation)
        for driver in [one, other] {
            driver.lockReply = .failed("no locks available")
            driver.storeError = CoordinatorDriver.full
        }
        one.refreshNow(ticket: 1)
        try one.grant(refresh: "two")
        link(other)
        other.storeError = nil
        for _ in 0..<3 where other.coordinator.storeError != nil { other.toDue() }
        try #require(one.stored?.generation == 2 && one.storedRefresh == "one" && one.refresh == "two")
        return (one, other)
    }

    @Test("an unsaved refresh token replaces the stored one that was exchanged for it, in a newer version, too")
    func exchangedToken() throws {
        let (one, other) = try Self.linkedBesideRefresh()
        one.storeError = nil
        for _ in 0..<3 where one.coordinator.storeError != nil { one.toDue() }
        #expect(one.refresh == "two" && one.storedRefresh == "two" && one.sent == ["one"])
        #expect(one.stored?.generation == 3 && one.revoked.isEmpty && !one.coordinator.isUnsaved)
        other.toCall()
        #expect(other.sent == ["two"])
    }

    @Test("a refresh that is overtaken by a version with the refresh token that it has sent is stored over it")
    func exchangedWhileSaving() throws {
        let one = CoordinatorDriver(rotation: .oneUse)
        try one.logIn()
        let other = one.another(rotation: .oneUse)
        one.lockReply = .failed("no locks available")
        one.refreshNow(ticket: 1)
        Self.link(other)
        try #require(one.stored?.generation == 2)
        try one.grant(refresh: "two")
        #expect(one.refresh == "two" && one.storedRefresh == "two" && one.sent == ["one"])
    }

    @Test("where a refresh token stays valid beside the next one, the end of the next one does not end it")
    func formerTokenRemainsValid() throws {
        let (one, other) = try Self.linkedBesideRefresh(.none)
        one.refreshNow(ticket: 3)
        one.storeError = nil
        try one.fail(.sessionDead)
        for _ in 0..<3 where one.call == nil { one.toDue() }
        #expect(one.storedRefresh == "one" && one.refresh == "one" && other.refresh == "one")
    }

    @Test("a retry that is overtaken while a call is made is repeated after the call")
    func overtakenDuringCall() throws {
        let (one, _) = try Self.linkedBesideRefresh()
        one.storeError = nil
        one.holdsStore = true
        one.toDue()
        try #require(one.isHeld)
        one.holdsStore = false
        one.refreshNow(ticket: 3)
        one.release()
        for _ in 0..<3 where one.call == nil { one.handle(.due) }
        try one.fail(.transient(retryAfter: nil))
        for _ in 0..<3 where one.coordinator.isUnsaved { one.toDue() }
        #expect(!one.coordinator.isUnsaved && one.storedRefresh == "two")
    }

    @Test("the end of an exchanged refresh token counts for a stored version with the token before it")
    func exchangedThenDead() throws {
        let (one, _) = try Self.linkedBesideRefresh()
        one.refreshNow(ticket: 3)
        one.storeError = nil
        try one.fail(.sessionDead)
        for _ in 0..<3 where one.call == nil { one.toDue() }
        #expect(one.call?.kind == .login && one.sent == ["one", "two"] && one.storedRefresh == nil)
    }

    @Test("a second logout takes the place of one that the store has not taken, and of what that is to revoke")
    func secondLogout() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.storeError = CoordinatorDriver.full
        driver.terminate(.logOut, ticket: 1)
        driver.terminate(.logOut, ticket: 2)
        driver.storeError = nil
        for _ in 0..<20 { driver.toDue() }
        #expect(driver.stored?.isLoggedOut == true && driver.stored?.session == nil)
        #expect(driver.contents.revocations.map { Tokens.text($0.token) } == ["one"])
    }

    @Test(
        "a logout that the store could not take holds when the login after it, which it could not take either, has ended in a refusal",
        arguments: [nil, "two"])
    func replacedLogout(_ refresh: String?) throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.storeError = CoordinatorDriver.full
        driver.terminate(.logOut, ticket: 1)
        driver.login(.configured(.emailPassword(email: "a", password: "/x")), ticket: 2)
        try driver.grant(refresh: refresh, account: "a")
        try #require(driver.state == .valid && driver.stored?.session != nil)
        driver.refreshNow(ticket: 3)
        if refresh != nil { try driver.fail(.sessionDead) }
        try #require(driver.call?.kind == .login)
        try driver.fail(.credentialRefused, credential: CredentialFingerprint(bytes: Array(repeating: 1, count: 32)))
        driver.storeError = nil
        for _ in 0..<20 { driver.toDue() }
        #expect(driver.state == .refused && driver.stored?.session == nil && driver.stored?.refused != nil)
        #expect(driver.stored?.isLoggedOut == false && !driver.coordinator.isUnsaved)
    }

    @Test(
        "a login that fails closes no refresh without a response, although the store could not take that the token is lost"
    )
    func failedLogin() throws {
        let driver = CoordinatorDriver(rotation: .oneUse)
        try driver.logIn()
        driver.refreshNow(ticket: 1)
        driver.storeError = CoordinatorDriver.full
        try driver.fail(.unknownOutcome)
        driver.toCall()
        try #require(driver.call?.kind == .login && driver.stored?.intent?.kind == .refresh)
        driver.storeError = nil
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.stored?.intent?.kind == .refresh || driver.storedRefresh == nil)
    }

    @Test("a session that has died is not stored later")
    func died() throws {
        let driver = try Self.unsaved(hasCredential: false)
        try driver.fail(.sessionDead)
        #expect(driver.state == .loginRequired && driver.coordinator.storeError == nil)
        for _ in 0..<20 { driver.toDue() }
        #expect(driver.stored?.session == nil && !driver.coordinator.isUnsaved)
    }

    @Test("a refresh token is not stored if its use is unknown")
    func unknown() throws {
        let driver = try Self.unsaved(rotation: .oneUse)
        try driver.fail(.unknownOutcome)
        #expect(driver.call?.kind == .login && driver.sent == ["unsaved"] && !driver.coordinator.isUnsaved)
        #expect(driver.stored?.session != nil && driver.storedRefresh == nil && driver.token != nil)
    }

    @Test("a dead refresh token is not stored, and nothing of the session once its credential is refused")
    func refused() throws {
        let driver = try Self.unsaved()
        try driver.fail(.sessionDead)
        #expect(driver.call?.kind == .login && driver.storedRefresh == nil)
        try driver.fail(.credentialRefused, credential: CredentialFingerprint(bytes: Array(repeating: 1, count: 32)))
        for _ in 0..<20 { driver.toDue() }
        #expect(driver.state == .refused && driver.stored?.isAuthenticated == false && !driver.coordinator.isUnsaved)
        let next = driver.restart()
        next.begin()
        #expect(next.token == nil && next.state == .loggingIn && next.stored?.refused != nil)
    }

    @Test("the end of a session is stored over a write that was reported as failed", arguments: [false, true])
    func diedThoughMade(_ isSpent: Bool) throws {
        let driver = CoordinatorDriver(hasCredential: isSpent, rotation: .oneUse)
        driver.begin()
        if !isSpent { driver.login(.given(.anonymous), ticket: 1) }
        driver.storeError = CoordinatorDriver.full
        driver.makesFailedWrites = true
        try driver.grant(refresh: "unsaved", account: "a")
        driver.makesFailedWrites = false
        driver.refreshNow(ticket: 2)
        try #require(driver.storedRefresh == "unsaved" && driver.coordinator.isUnsaved)
        driver.storeError = nil
        try driver.fail(.sessionDead)
        #expect(driver.state == (isSpent ? .refreshing : .loginRequired))
        #expect(driver.storedRefresh == nil && (driver.stored?.session != nil) == isSpent)
    }

    @Test("a login replaces an earlier session whose write was reported as failed")
    func replacedThoughMade() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.storeError = CoordinatorDriver.full
        driver.login(.given(.anonymous), ticket: 1)
        driver.makesFailedWrites = true
        try driver.grant(refresh: "unsaved", account: "a")
        driver.makesFailedWrites = false
        driver.login(.given(.anonymous), ticket: 2)
        try #require(driver.storedRefresh == "unsaved" && driver.call != nil)
        driver.storeError = nil
        try driver.grant(refresh: "newer", account: "a")
        #expect(driver.storedRefresh == "newer" && driver.refresh == "newer" && driver.revoked == ["one", "unsaved"])
        guard case .loggedIn = driver.replies[2] else { throw SessionCoordinatorTests.Missing() }
    }

    @Test(
        "a refresh in another process stays, and is not revoked by a login that it has overtaken",
        arguments: [true, false])
    func overtakenByRefresh(_ isObtained: Bool) throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.toDue()
        one.storeError = CoordinatorDriver.full
        try one.grant()
        two.pass((one.now - two.now).inSeconds)
        // The intent is open there: the result could not be stored.
        two.refreshNow(ticket: 3)
        two.toCall()
        try two.grant()
        one.pass((two.now - one.now).inSeconds)
        try #require(one.stored?.generation == 2 && one.coordinator.isUnsaved)
        let grant = SessionDriver.grant(refresh: "newer", account: "a")
        if isObtained {
            one.storeError = nil
            let obtained = ObtainedSession(grant, startedAt: one.now, startedAtWall: one.wall)
            one.obtain(obtained, ticket: 1)
        } else {
            one.login(.given(.anonymous), ticket: 1)
            one.storeError = nil
            one.handle(.callCompleted(.success(grant), try #require(one.call)))
        }
        #expect(one.revoked == ["newer"] && one.storedRefresh == "one" && one.refresh == "one" && one.state == .valid)
        guard case .overtaken = one.replies[1] else { throw SessionCoordinatorTests.Missing() }
    }

    @Test(
        "an unsaved logout is not forgotten over another process's refresh: the login after it is kept"
    )
    func leftBefore() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.storeError = CoordinatorDriver.full
        one.terminate(.logOut, ticket: 1)
        two.toCall()
        try two.grant()
        one.login(.given(.anonymous), ticket: 2)
        one.storeError = nil
        try one.grant(refresh: "newer", account: "a")
        #expect(one.storedRefresh == "newer" && one.refresh == "newer" && !one.coordinator.isUnsaved)
        #expect(Set(one.revoked) == ["one"])
    }

    @Test("the end of a session that finds another process's login continues with that login")
    func endMeetsLogin() throws {
        let one = CoordinatorDriver(hasCredential: false)
        one.begin()
        one.login(.given(.anonymous), ticket: 1)
        try one.grant(refresh: "one", account: "a")
        let two = one.another(hasCredential: false)
        one.refreshNow(ticket: 2)
        one.storeError = CoordinatorDriver.full
        try one.fail(.sessionDead)
        try #require(one.state == .loginRequired && one.coordinator.isUnsaved)
        two.login(.given(.anonymous), ticket: 3)
        try two.grant(refresh: "theirs", account: "a")
        one.storeError = nil
        one.toDue()
        #expect(one.state == .valid && one.refresh == "theirs" && one.storedRefresh == "theirs")
    }

    @Test("a refresh of an unsaved session also stores what its login would have stored")
    func refreshBeforeLogin() throws {
        let driver = CoordinatorDriver(hasCredential: false, isAdded: true)
        driver.storeError = CoordinatorDriver.full
        driver.begin()
        driver.login(.given(.anonymous), ticket: 1)
        try driver.grant(refresh: "one", account: "a")
        driver.refreshNow(ticket: 2)
        driver.storeError = nil
        try driver.grant(refresh: "two")
        #expect(driver.storedRefresh == "two" && driver.stored?.isAdded == true)
        #expect(driver.stored?.provider == "anonymous" && driver.stored?.accountID == "a")
    }

    @Test("a stored session that is not held any more is revoked when a login replaces it")
    func replaced() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toCall()
        try driver.fail(.unknownApp)
        try #require(driver.state == .refused && driver.storedRefresh == "one")
        driver.handle(.session(.credentialChanged))
        try driver.grant(refresh: "newer", account: "a")
        #expect(driver.storedRefresh == "newer" && driver.revoked == ["one"])
    }
}
