import Testing

@testable import Lanyard

/// What the store could not take waits for it: as long as nothing has happened that makes it wrong.
@Suite("Desk: what the store could not take, and what has become of it meanwhile")
struct SessionBacklogTests {
    /// A session that no store took, a call of its own under way, and a logout in another process that the store has taken.
    private static func loggedOutUnsaved(asking: Bool) throws -> DeskDriver {
        let one = DeskDriver()
        try one.logIn()
        let two = one.another()
        one.storeFault = DeskDriver.full
        one.take(.login(.given(.anonymous), ticket: 1))
        try one.grant(refresh: "unsaved", account: "a")
        one.take(asking ? .login(.given(.anonymous), ticket: 2) : .refresh(ticket: 2))
        try #require(one.call != nil)
        two.take(.leave(.logOut, ticket: 3))
        one.storeFault = nil
        one.forget()
        return one
    }

    @Test("a logout in another process is not undone by a session that the store could not take before it")
    func unsavedOvertaken() throws {
        let one = try Self.loggedOutUnsaved(asking: false)
        try one.grant(refresh: "newer")
        #expect(one.state == .loggedOut && one.revoked == ["one", "newer"])
        for _ in 0..<20 { one.toDue() }
        #expect(
            one.stored?.isLoggedOut == true && one.stored?.session == nil
                && one.trail.filter { $0 == "hold" }.count == 1)
        #expect(one.desk.storeFault == nil)
    }

    @Test("nor when that session has died meanwhile")
    func unsavedDead() throws {
        let one = try Self.loggedOutUnsaved(asking: false)
        try one.fail(.sessionDead)
        for _ in 0..<20 { one.toDue() }
        #expect(one.state == .loggedOut && one.stored?.isLoggedOut == true && one.stored?.session == nil)
        #expect(!one.trail.contains("hold"))
    }

    @Test("nor when a login was under way that was to replace it: both are revoked")
    func unsavedReplaced() throws {
        let one = try Self.loggedOutUnsaved(asking: true)
        try one.grant(refresh: "newer", account: "a")
        for _ in 0..<20 { one.toDue() }
        #expect(one.state == .loggedOut && one.stored?.isLoggedOut == true && one.stored?.session == nil)
        #expect(one.revoked == ["one", "unsaved", "newer"])
        guard case .overtaken = one.replies[2] else { throw SessionDeskTests.Missing() }
    }

    /// A session that no store took, refreshed with what the test says, while the store works again from the answer on.
    private static func unsaved(
        hasCredential: Bool = true, rotation: SessionRotation = .grace
    ) throws -> DeskDriver {
        let driver = DeskDriver(hasCredential: hasCredential, rotation: rotation)
        driver.storeFault = DeskDriver.full
        driver.begin()
        if !hasCredential { driver.take(.login(.given(.anonymous), ticket: 1)) }
        try driver.grant(refresh: "unsaved", account: "a")
        driver.take(.refresh(ticket: 2))
        try #require(driver.call != nil && driver.stored == nil)
        driver.storeFault = nil
        return driver
    }

    @Test("a session that has died is not stored any more")
    func died() throws {
        let driver = try Self.unsaved(hasCredential: false)
        try driver.fail(.sessionDead)
        #expect(driver.state == .loginRequired && driver.desk.storeFault == nil)
        for _ in 0..<20 { driver.toDue() }
        #expect(driver.stored?.session == nil && !driver.desk.isUnsaved)
    }

    @Test("nor is a refresh token of which nobody knows whether it was used")
    func unknown() throws {
        let driver = try Self.unsaved(rotation: .oneUse)
        try driver.fail(.unknownOutcome)
        #expect(driver.call?.kind == .login && driver.sent == ["unsaved"] && !driver.desk.isUnsaved)
        #expect(driver.stored?.session != nil && driver.storedRefresh == nil && driver.token != nil)
    }

    @Test("a dead refresh token is not stored, and nothing of the session once its credential is refused")
    func refused() throws {
        let driver = try Self.unsaved()
        try driver.fail(.sessionDead)
        #expect(driver.call?.kind == .login && driver.storedRefresh == nil)
        try driver.fail(.credentialRefused, credential: CredentialMark(bytes: Array(repeating: 1, count: 32)))
        for _ in 0..<20 { driver.toDue() }
        #expect(driver.state == .refused && driver.stored?.isAuthenticated == false && !driver.desk.isUnsaved)
        let next = driver.restart()
        next.begin()
        #expect(next.token == nil && next.state == .loggingIn && next.stored?.refused != nil)
    }
}
