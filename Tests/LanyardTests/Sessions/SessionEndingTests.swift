import Testing

@testable import Lanyard

/// How a session ends: whatever comes in between, what the service gave is the user's, or it is revoked; and what the store lacks is said.
@Suite("Desk: endings")
struct SessionEndingTests {
    private static let bob = Credential.given(.emailPassword(email: "b@example.com", password: Tokens.secret("p")))

    private static func gift(_ driver: DeskDriver) -> SessionGift {
        SessionGift(
            SessionDriver.grant(refresh: "gift", account: "a"), startedAt: driver.now, startedAtWall: driver.wall)
    }

    // MARK: Sessions that were made elsewhere

    @Test("a session that is handed over while another login is under way is revoked")
    func giftMeetsLogin() throws {
        let driver = DeskDriver()
        driver.begin()
        driver.take(.given(Self.gift(driver), ticket: 1))
        guard case .loginInProgress = driver.replies[1] else { throw SessionDeskTests.Missing() }
        #expect(driver.revoked == ["gift"])
        try driver.grant(refresh: "one", account: "a")
        #expect(driver.storedRefresh == "one" && driver.revoked == ["gift"])
    }

    @Test("a logout revokes a session that waits to be taken over, wherever it waits")
    func giftMeetsLogout() throws {
        // Behind a call.
        var driver = DeskDriver()
        try driver.logIn()
        driver.toDue()
        driver.take(.given(Self.gift(driver), ticket: 1))
        driver.take(.leave(.logOut, ticket: nil))
        guard case .overtaken = driver.replies[1] else { throw SessionDeskTests.Missing() }
        #expect(Set(driver.revoked) == ["gift", "one"])
        // For the lock.
        driver = DeskDriver()
        driver.lockAnswer = .busy
        driver.take(.given(Self.gift(driver), ticket: 1))
        driver.take(.leave(.remove, ticket: nil))
        #expect(driver.revoked == ["gift"])
        // For what the store holds.
        driver = DeskDriver()
        driver.holdsStore = true
        driver.take(.given(Self.gift(driver), ticket: 1))
        driver.take(.leave(.logOut, ticket: nil))
        driver.release()
        driver.release()
        #expect(driver.revoked == ["gift"] && driver.stored?.session == nil && driver.disk.holder == nil)
    }

    @Test("a session that is handed over and never gets the lock is revoked")
    func giftWithoutLock() throws {
        let driver = DeskDriver()
        driver.lockAnswer = .busy
        driver.take(.given(Self.gift(driver), ticket: 1))
        for _ in 0..<2000 where driver.replies[1] == nil { driver.toDue() }
        guard case .failed = driver.replies[1] else { throw SessionDeskTests.Missing() }
        #expect(driver.revoked == ["gift"] && driver.desk.isIdle)
    }

    @Test("a login after an answer that never came revokes the old session where its token cannot have changed")
    func unknownThenLogin() throws {
        for rotation in SessionRotation.allCases where rotation != .oneUse {
            let driver = DeskDriver(rotation: rotation)
            try driver.logIn()
            driver.toDue()
            try driver.fail(.unknownOutcome)
            driver.take(.login(Self.bob, ticket: 1))
            try driver.grant(refresh: "bob", account: "b")
            #expect(driver.revoked == (rotation == .none ? ["one"] : []))
        }
    }

    // MARK: The end of the process

    @Test("at the end what the store lacks is tried at once")
    func lastTry() throws {
        let driver = DeskDriver(rotation: .oneUse)
        try driver.refreshUnsaved()
        #expect(driver.desk.isUnsaved)
        driver.storeFault = nil
        driver.forget()
        driver.take(.settle)
        #expect(driver.trail == ["hold", "unlock"] && driver.storedRefresh == "two")
        #expect(driver.desk.isSettled && !driver.desk.isUnsaved)
    }

    @Test("at the end what cannot be stored is tried once, and known to be missing")
    func lastTryFails() throws {
        let driver = DeskDriver(rotation: .oneUse)
        try driver.refreshUnsaved()
        driver.forget()
        driver.take(.settle)
        #expect(driver.trail == ["hold"] && driver.desk.isSettled && driver.desk.isUnsaved)
    }

    @Test("at the end a call under way is answered and stored, and no other begins")
    func lastCall() throws {
        let driver = DeskDriver(rotation: .grace)
        try driver.logIn()
        driver.toDue()
        driver.take(.refresh(ticket: 1))
        driver.take(.login(Self.bob, ticket: 2))
        driver.take(.settle)
        guard case .stopping = driver.replies[2] else { throw SessionDeskTests.Missing() }
        #expect(!driver.desk.isSettled && driver.replies[1] == nil)
        try driver.grant(refresh: "two")
        guard case .refreshed = driver.replies[1] else { throw SessionDeskTests.Missing() }
        #expect(driver.storedRefresh == "two" && driver.desk.isSettled && driver.calls.count == 2)
        driver.take(.session(.tokenRefused(2)))
        driver.take(.login(Self.bob, ticket: 3))
        guard case .stopping = driver.replies[3] else { throw SessionDeskTests.Missing() }
        #expect(driver.calls.count == 2 && driver.desk.isSettled)
    }

    @Test("at the end a call that waits for its turn does not begin, and who asked hears that nothing has changed")
    func notBegun() throws {
        let driver = DeskDriver()
        try driver.logIn()
        driver.lockAnswer = .busy
        driver.take(.refresh(ticket: 1))
        driver.take(.settle)
        guard case .stopping = driver.replies[1] else { throw SessionDeskTests.Missing() }
        #expect(driver.desk.isSettled && driver.calls.count == 1 && driver.stored?.intent == nil)
    }

    @Test("at the end a session that is at hand already is stored")
    func lastGift() throws {
        let driver = DeskDriver()
        try driver.logIn()
        driver.toDue()
        driver.take(.given(Self.gift(driver), ticket: 1))
        driver.take(.settle)
        #expect(!driver.desk.isSettled)
        try driver.grant()
        guard case .loggedIn = driver.replies[1] else { throw SessionDeskTests.Missing() }
        #expect(driver.storedRefresh == "gift" && driver.desk.isSettled)
    }

    // MARK: A logout that cannot be stored

    @Test("a logout that cannot be stored says so, is stored later, and the service hears of it once more then")
    func unsavedLogOut() throws {
        let driver = DeskDriver()
        try driver.logIn()
        driver.storeFault = DeskDriver.full
        driver.take(.leave(.logOut, ticket: 1))
        guard case .left(isRevoked: _, isStored: false) = driver.replies[1] else { throw SessionDeskTests.Missing() }
        #expect(driver.noted(.leaveUnsaved) && driver.revoked == ["one"])
        driver.storeFault = nil
        driver.toDue()
        // What the store has begun to keep must be taken out again.
        #expect(driver.stored?.isLoggedOut == true && driver.revoked == ["one", "one"])
    }

    @Test("a logout while an intent is being stored keeps the user's lock: nobody finds an intent that was never sent")
    func logoutOverIntent() throws {
        let driver = DeskDriver()
        try driver.logIn()
        driver.holdsStore = true
        driver.toDue()
        driver.release(holdingOn: true)
        driver.take(.leave(.logOut, ticket: 1))
        driver.release(holdingOn: true)
        #expect(driver.stored?.intent != nil && driver.disk.holder === driver)
        driver.release()
        #expect(driver.stored?.intent == nil && driver.stored?.isLoggedOut == true && driver.disk.holder == nil)
        #expect(driver.trail == ["lock", "read", "intend", "logOut", "revoke", "unlock"] && driver.sent.isEmpty)
    }

    @Test("a logout ends what was wrong before it, too")
    func lastErrorGoes() throws {
        let driver = DeskDriver()
        try driver.logIn()
        driver.toDue()
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.desk.ledger.lastFault != nil)
        driver.take(.leave(.logOut, ticket: nil))
        #expect(driver.desk.ledger.lastFault == nil)
    }

    // MARK: What a crash left

    @Test("a login of a logged-out user that a crash cut off is settled at the next start, under the user's lock")
    func tidied() throws {
        let first = DeskDriver(hasCredential: false)
        try first.logInByHand()
        first.take(.leave(.logOut, ticket: nil))
        first.take(.login(Self.bob, ticket: 1))
        #expect(first.stored?.intent?.kind == .login)
        let next = first.restart(hasCredential: false)
        next.begin()
        #expect(next.stored?.intent == nil && next.stored?.isLoggedOut == true && next.calls.isEmpty)
        #expect(next.trail == ["lock", "read", "settle", "unlock"] && next.desk.isIdle && next.desk.due == .never)
    }

    @Test("a login of a logged-out user that is another process's and under way is left alone")
    func notTidied() throws {
        let one = DeskDriver(hasCredential: false)
        try one.logInByHand()
        one.take(.leave(.logOut, ticket: nil))
        one.take(.login(Self.bob, ticket: 1))
        let two = one.another(hasCredential: false)
        #expect(two.stored?.intent != nil && two.desk.isIdle && two.desk.due == .never)
        try one.grant(refresh: "bob", account: "b")
        #expect(one.storedRefresh == "bob")
    }
}

extension DeskDriver {
    /// A person's login, where nothing else can be.
    fileprivate func logInByHand() throws {
        begin()
        take(.login(.given(.anonymous), ticket: 100))
        try grant(refresh: "one", account: "a")
        try #require(state == .valid)
    }
}
