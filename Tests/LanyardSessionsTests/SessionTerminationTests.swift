import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// How a session ends: each session of the service is the user's or is revoked, and unsaved changes are reported.
@Suite("Coordinator: terminations")
struct SessionTerminationTests {
    private static let bob = Credential.given(.emailPassword(email: "b@example.com", password: Tokens.secret("p")))

    private static func obtained(_ driver: CoordinatorDriver) -> ObtainedSession {
        ObtainedSession(
            SessionDriver.grant(refresh: "obtained", account: "a"), startedAt: driver.now, startedAtWall: driver.wall)
    }

    // MARK: Sessions without a refresh token

    /// A machine's session with the access tokens `plain`, and `other` of a variant.
    private static func machine(
        _ disk: CoordinatorDriver.Disk = CoordinatorDriver.Disk(), revokesAccessTokens: Bool = true
    ) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(
            login: .clientCredentials, variants: [TokenVariant(audience: "orders", resources: [], scopes: [])],
            disk: disk, revokesAccessTokens: revokesAccessTokens)
        driver.begin()
        try driver.grant(token: "plain")
        driver.toCall()
        try driver.grant(token: "other")
        try #require(driver.token != nil && driver.variant(1) != nil)
        driver.forget()
        return driver
    }

    @Test("a logout revokes the access tokens of a session without a refresh token, where the service can")
    func accessTokens() throws {
        for termination in [SessionCoordinator.Termination.logOut, .remove] {
            let driver = try Self.machine()
            driver.terminate(termination, ticket: nil)
            #expect(driver.revoked == ["plain", "other"])
            #expect(driver.revocations.allSatisfy { $0.kind == .accessToken })
            #expect(driver.contents.revocations.map(\.token) == driver.revocations.map(\.token))
            let other = try Self.machine(revokesAccessTokens: false)
            other.terminate(termination, ticket: nil)
            #expect(other.revoked == [] && other.contents.revocations.isEmpty)
        }
    }

    @Test("a session with a refresh token is revoked by that alone")
    func refreshTokenAlone() throws {
        let driver = CoordinatorDriver(revokesAccessTokens: true)
        try driver.logIn()
        driver.terminate(.logOut, ticket: nil)
        #expect(driver.revoked == ["one"] && driver.revocations.map(\.kind) == [.refreshToken])
    }

    @Test("access tokens that have ended, and those of a renewal that comes after the logout: the latter are revoked")
    func lateAccessToken() throws {
        let driver = try Self.machine()
        driver.toDue { driver.call?.cause == .scheduled }
        let call = try #require(driver.call)
        driver.pass(3600)
        driver.terminate(.logOut, ticket: nil)
        #expect(driver.revoked == [])
        var grant = SessionDriver.grant()
        grant.accessToken = Tokens.secret("late")
        driver.handle(.callCompleted(.success(grant), call))
        #expect(driver.revoked == ["late"] && driver.revocations.map(\.kind) == [.accessToken])
    }

    @Test("a logout revokes what another process has renewed, too")
    func accessTokensElsewhere() throws {
        let driver = try Self.machine()
        let other = CoordinatorDriver(login: .clientCredentials, disk: driver.disk, revokesAccessTokens: true)
        other.begin()
        other.toCall()
        try other.grant(token: "newer")
        driver.terminate(.logOut, ticket: nil)
        #expect(Set(driver.revoked) == ["plain", "newer", "other"])
    }

    @Test("a logout in another process: the access token that a call of this one brings is revoked")
    func accessTokenAfterLogoutElsewhere() throws {
        let driver = try Self.machine()
        let other = CoordinatorDriver(login: .clientCredentials, disk: driver.disk, revokesAccessTokens: true)
        other.begin()
        driver.toDue { driver.call?.cause == .scheduled }
        other.terminate(.logOut, ticket: nil)
        driver.forget()
        try driver.grant(token: "late")
        #expect(driver.state == .loggedOut && driver.revoked == ["late"])
    }

    @Test("a session that no configured service can be told of is forgotten with its tokens")
    func removalWithoutService() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        var contents = driver.contents
        let user = try #require(driver.stored)
        let end = StoreChange.SessionEnd(user.version, revocations: [], at: driver.wall)
        _ = contents.apply(.remove(user: user.name, end), now: driver.wall)
        #expect(contents[user.name] == nil && contents.revocations.isEmpty)
    }

    // MARK: Sessions that were obtained elsewhere

    @Test("a session that is handed over while another login is in progress is revoked")
    func obtainedSessionMeetsLogin() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        driver.obtain(Self.obtained(driver), ticket: 1)
        guard case .loginInProgress = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(driver.revoked == ["obtained"])
        try driver.grant(refresh: "one", account: "a")
        #expect(driver.storedRefresh == "one" && driver.revoked == ["obtained"])
    }

    @Test("a logout revokes a session that waits to be taken over, at every stage")
    func obtainedSessionMeetsLogout() throws {
        // Waiting behind a call.
        var driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        driver.obtain(Self.obtained(driver), ticket: 1)
        driver.terminate(.logOut, ticket: nil)
        guard case .overtaken = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(Set(driver.revoked) == ["obtained", "one"])
        // Waiting for the lock.
        driver = CoordinatorDriver()
        driver.lockReply = .busy
        driver.obtain(Self.obtained(driver), ticket: 1)
        driver.terminate(.remove, ticket: nil)
        #expect(driver.revoked == ["obtained"])
        // Waiting for the store read.
        driver = CoordinatorDriver()
        driver.holdsStore = true
        driver.obtain(Self.obtained(driver), ticket: 1)
        driver.terminate(.logOut, ticket: nil)
        driver.release()
        driver.release()
        #expect(driver.revoked == ["obtained"] && driver.stored?.session == nil && driver.disk.holder == nil)
    }

    @Test("a logout revokes a login's session that is being stored only when the store has taken the logout")
    func logoutMeetsSavedLogin() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        driver.holdsStore = true
        try driver.grant(refresh: "one", account: "a")
        driver.terminate(.logOut, ticket: nil)
        #expect(driver.revoked == [])
        driver.release(holdingOn: true)
        // A crash here leaves a session in the store that is still alive.
        #expect(driver.revoked == [])
        driver.release()
        #expect(driver.revoked == ["one"] && driver.stored?.session == nil)
    }

    @Test("a session that waits for another process's lock at the end of the process is stored, or revoked at last")
    func obtainedSessionMeetsDrain() throws {
        for isFreed in [true, false] {
            let driver = CoordinatorDriver()
            driver.lockReply = .busy
            driver.obtain(Self.obtained(driver), ticket: 1)
            driver.handle(.drain)
            driver.toDue()
            #expect(driver.replies[1] == nil && !driver.coordinator.isDrained)
            if isFreed { driver.lockReply = .taken }
            driver.toDue { driver.replies[1] != nil }
            switch driver.replies[1] {
            case .loggedIn: #expect(isFreed && driver.storedRefresh == "obtained" && driver.revoked == [])
            case .failed: #expect(!isFreed && driver.revoked == ["obtained"])
            default: Issue.record("\(String(describing: driver.replies[1]))")
            }
            #expect(driver.coordinator.isDrained)
        }
    }

    @Test("a logout while a login is being stored revokes the login's session and the one that it replaces")
    func logoutMeetsReplacingLogin() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toCall()
        try driver.fail(.unknownApp)
        try #require(driver.token == nil && driver.storedRefresh == "one")
        driver.login(Self.bob, ticket: 1)
        driver.holdsStore = true
        try driver.grant(refresh: "two", account: "a")
        driver.terminate(.logOut, ticket: 2)
        driver.release(holdingOn: true)
        driver.release()
        #expect(Set(driver.revoked) == ["one", "two"] && driver.stored?.session == nil)
    }

    @Test("a session that is handed over and never gets the lock is revoked")
    func obtainedSessionWithoutLock() throws {
        let driver = CoordinatorDriver()
        driver.lockReply = .busy
        driver.obtain(Self.obtained(driver), ticket: 1)
        for _ in 0..<2000 where driver.replies[1] == nil { driver.toDue() }
        guard case .failed = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(driver.revoked == ["obtained"] && driver.coordinator.isIdle)
    }

    @Test("a login after a lost response revokes the old session if its token cannot have changed")
    func unknownThenLogin() throws {
        for rotation in RefreshTokenRotation.allCases where rotation != .oneUse {
            let driver = CoordinatorDriver(rotation: rotation)
            try driver.logIn()
            driver.toDue()
            try driver.fail(.unknownOutcome)
            driver.login(Self.bob, ticket: 1)
            try driver.grant(refresh: "bob", account: "b")
            #expect(driver.revoked == ([.none, .auto].contains(rotation) ? ["one"] : []))
        }
    }

    // MARK: The end of the process

    @Test("at the end unsaved changes are tried at once")
    func lastTry() throws {
        let driver = CoordinatorDriver(rotation: .oneUse)
        try driver.refreshUnsaved()
        #expect(driver.coordinator.isUnsaved)
        driver.storeError = nil
        driver.forget()
        driver.handle(.drain)
        #expect(driver.trail == ["hold", "unlock"] && driver.storedRefresh == "two")
        #expect(driver.coordinator.isDrained && !driver.coordinator.isUnsaved)
    }

    @Test("at the end a change that cannot be stored is tried once, and reported as missing")
    func lastTryFails() throws {
        let driver = CoordinatorDriver(rotation: .oneUse)
        try driver.refreshUnsaved()
        driver.forget()
        driver.handle(.drain)
        #expect(driver.trail == ["hold"] && driver.coordinator.isDrained && driver.coordinator.isUnsaved)
    }

    @Test("at the end a call in progress is completed and stored, and no other begins")
    func lastCall() throws {
        let driver = CoordinatorDriver(rotation: .grace)
        try driver.logIn()
        driver.toDue()
        driver.refreshNow(ticket: 1)
        driver.login(Self.bob, ticket: 2)
        driver.handle(.drain)
        guard case .stopping = driver.replies[2] else { throw SessionCoordinatorTests.Missing() }
        #expect(!driver.coordinator.isDrained && driver.replies[1] == nil)
        try driver.grant(refresh: "two")
        guard case .refreshed = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(driver.storedRefresh == "two" && driver.coordinator.isDrained && driver.calls.count == 2)
        driver.handle(.session(.tokenRefused(2)))
        driver.login(Self.bob, ticket: 3)
        guard case .stopping = driver.replies[3] else { throw SessionCoordinatorTests.Missing() }
        #expect(driver.calls.count == 2 && driver.coordinator.isDrained)
    }

    @Test("a login with the refresh token of a file may have the only copy of the next one, as a refresh")
    func rotatingLogin() throws {
        for (login, rotation, isRotating) in [
            (UserSettings.Login.refreshToken("/x"), RefreshTokenRotation.oneUse, true),
            (.refreshToken("/x"), .none, false), (.clientCredentials, .oneUse, false),
        ] {
            let driver = CoordinatorDriver(login: login, rotation: rotation)
            driver.begin()
            #expect(driver.call?.kind == .login && driver.coordinator.isRotating == isRotating)
            try driver.grant(refresh: "two")
            #expect(!driver.coordinator.isRotating)
        }
    }

    @Test("at the end a call that waits for its turn does not begin, and its requester learns that nothing has changed")
    func notBegun() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.lockReply = .busy
        driver.refreshNow(ticket: 1)
        driver.handle(.drain)
        guard case .stopping = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(driver.coordinator.isDrained && driver.calls.count == 1 && driver.stored?.intent == nil)
    }

    @Test("at the end a session that already exists is stored")
    func lastObtainedSession() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        driver.obtain(Self.obtained(driver), ticket: 1)
        driver.handle(.drain)
        #expect(!driver.coordinator.isDrained)
        try driver.grant()
        guard case .loggedIn = driver.replies[1] else { throw SessionCoordinatorTests.Missing() }
        #expect(driver.storedRefresh == "obtained" && driver.coordinator.isDrained)
    }

    // MARK: A logout that cannot be stored

    @Test("a logout that cannot be stored is reported, is stored later, and the service is told once more then")
    func unsavedLogOut() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.storeError = CoordinatorDriver.full
        driver.terminate(.logOut, ticket: 1)
        guard case .terminated(isRevoked: _, isStored: false) = driver.replies[1] else {
            throw SessionCoordinatorTests.Missing()
        }
        #expect(driver.noted(.logoutUnsaved) && driver.revoked == ["one"])
        driver.storeError = nil
        driver.toDue()
        // A change that the store has begun to keep must be removed again.
        #expect(driver.stored?.isLoggedOut == true && driver.revoked == ["one", "one"])
    }

    @Test("a logout that is stored late revokes a refresh token that another process has learned to be good since")
    func lateLogoutOfGivenUpToken() throws {
        for isOpen in [false, true] {
            let one = CoordinatorDriver(rotation: .oneUse)
            try one.logIn()
            let two = one.another(rotation: .oneUse)
            for driver in [one, two] { driver.lockReply = .failed("no lock") }
            two.handle(.session(.refreshNow(.asked)))
            try #require(two.stored?.intent?.tries == 1)
            // It finds the other's open intent: the outcome is unknown to it, and so the refresh token is given up.
            one.storeError = CoordinatorDriver.full
            one.handle(.session(.refreshNow(.asked)))
            try #require(one.call?.kind == .login && one.refresh == nil)
            one.terminate(.logOut, ticket: nil)
            #expect(one.revoked == [])
            // The other's call had no effect: its refresh token may be sent again.
            if !isOpen { try two.fail(.transient(retryAfter: nil)) }
            try #require(two.storedRefresh == "one" && (two.stored?.intent != nil) == isOpen)
            one.storeError = nil
            one.toDue { one.stored?.isLoggedOut == true }
            #expect(one.revoked == (isOpen ? [] : ["one"]) && one.contents.revocations.count == (isOpen ? 0 : 1))
        }
    }

    @Test(
        "a logout while an intent is being stored keeps the user's lock: no process finds an intent that was never sent"
    )
    func logoutOverIntent() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        // With a call open, the intent is stored by itself.
        driver.toDue()
        try driver.fail(.unknownOutcome)
        driver.forget()
        driver.holdsStore = true
        driver.toDue()
        driver.release(holdingOn: true)
        driver.terminate(.logOut, ticket: 1)
        driver.release(holdingOn: true)
        #expect(driver.stored?.intent?.tries == 2 && driver.disk.holder === driver)
        driver.release()
        #expect(driver.stored?.intent == nil && driver.stored?.isLoggedOut == true && driver.disk.holder == nil)
        #expect(driver.trail.suffix(6) == ["lock", "read", "intend", "logOut", "revoke", "unlock"])
        #expect(driver.sent == ["one"])
    }

    @Test("a logout while a call begins takes the intent with it, and only then gives the user's lock back")
    func logoutOverBeginning() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.holdsStore = true
        driver.toDue()
        driver.terminate(.logOut, ticket: 1)
        driver.release()
        #expect(driver.stored?.intent == nil && driver.stored?.isLoggedOut == true && driver.disk.holder == nil)
        #expect(driver.trail == ["begin", "logOut", "revoke", "unlock"] && driver.sent.isEmpty)
    }

    @Test("a logout also ends an earlier failure")
    func lastErrorGoes() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.coordinator.context.lastError != nil)
        driver.terminate(.logOut, ticket: nil)
        #expect(driver.coordinator.context.lastError == nil)
    }

    // MARK: After a crash

    @Test("a login of a logged-out user that a crash cut off is closed at the next start, under the user's lock")
    func tidied() throws {
        let first = CoordinatorDriver(hasCredential: false)
        try first.logInByHand()
        first.terminate(.logOut, ticket: nil)
        first.login(Self.bob, ticket: 1)
        #expect(first.stored?.intent?.kind == .login)
        let next = first.restart(hasCredential: false)
        next.begin()
        #expect(next.stored?.intent == nil && next.stored?.isLoggedOut == true && next.calls.isEmpty)
        #expect(
            next.trail == ["lock", "read", "settle", "unlock"] && next.coordinator.isIdle
                && next.coordinator.due == .never)
    }

    @Test("a login of a logged-out user that is in progress in another process is left alone")
    func notTidied() throws {
        let one = CoordinatorDriver(hasCredential: false)
        try one.logInByHand()
        one.terminate(.logOut, ticket: nil)
        one.login(Self.bob, ticket: 1)
        let two = one.another(hasCredential: false)
        #expect(two.stored?.intent != nil && two.coordinator.isIdle && two.coordinator.due == .never)
        try one.grant(refresh: "bob", account: "b")
        #expect(one.storedRefresh == "bob")
    }
}

extension CoordinatorDriver {
    /// An operator's login, where no other login can be.
    fileprivate func logInByHand() throws {
        begin()
        login(.given(.anonymous), ticket: 100)
        try grant(refresh: "one", account: "a")
        try #require(state == .valid)
    }
}
