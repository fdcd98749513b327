import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// An operator's logout, removal or deletion while the store holds what another process has made of the session.
@Suite("Coordinator: ends of a session that another process has changed")
struct LogoutElsewhereTests {
    private static let terminations: [SessionCoordinator.Termination] = [.logOut, .remove]
    private static let given = Credential.given(.emailPassword(email: "b@example.com", password: Tokens.secret("p")))

    /// Two processes with one session. The second has made another refresh token of it: by a refresh, or by a login.
    private static func changed(byLogin: Bool) throws -> (CoordinatorDriver, other: CoordinatorDriver) {
        let driver = CoordinatorDriver(rotation: .grace)
        try driver.logIn()
        let other = driver.another(rotation: .grace)
        if byLogin {
            other.login(given, ticket: 9)
            try other.grant(refresh: "two", account: "a")
        } else {
            other.toCall()
            try other.grant(refresh: "two")
        }
        try #require(driver.refresh == "one" && driver.storedRefresh == "two")
        return (driver, other)
    }

    // MARK: What is revoked

    @Test("the refresh token that another process has stored since is revoked", arguments: [false, true], [0, 1])
    func storedSince(byLogin: Bool, termination: Int) throws {
        let (driver, other) = try Self.changed(byLogin: byLogin)
        driver.terminate(Self.terminations[termination], ticket: 1)
        #expect(driver.revoked.contains("two"), "\(driver.revoked)")
        #expect(driver.contents.revocations.contains { Tokens.text($0.token) == "two" })
        #expect(driver.stored?.session == nil)
        // The other process only stops.
        other.handle(.storeSnapshot(other.stored))
        #expect(other.state == .loggedOut && other.revoked == (byLogin ? ["one"] : []))
    }

    @Test("a logout that the store takes later revokes what another process has stored until then")
    func storedBeforeRetry() throws {
        let driver = CoordinatorDriver(rotation: .grace)
        try driver.logIn()
        let other = driver.another(rotation: .grace)
        driver.storeError = CoordinatorDriver.full
        driver.terminate(.logOut, ticket: 1)
        #expect(driver.revoked == ["one"])
        other.toCall()
        try other.grant(refresh: "two")
        driver.storeError = nil
        driver.toDue()
        #expect(driver.stored?.isLoggedOut == true && driver.revoked.contains("two"))
    }

    @Test("a stored session that is not served any more is revoked by a logout", arguments: [0, 1])
    func notServed(termination: Int) throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toCall()
        try driver.fail(.unknownApp)
        try #require(driver.state == .refused && driver.storedRefresh == "one")
        driver.terminate(Self.terminations[termination], ticket: 1)
        #expect(driver.revoked == ["one"])
    }

    @Test("a refresh token that is dead, or whose successor is known, is not revoked beside")
    func nothingElse() throws {
        // The store has an older one.
        var driver = CoordinatorDriver(rotation: .grace)
        try driver.refreshUnsaved()
        driver.storeError = nil
        driver.terminate(.logOut, ticket: 1)
        #expect(driver.revoked == ["two"] && driver.stored?.session == nil)
        // The store has not learned yet that it is dead.
        driver = CoordinatorDriver(hasCredential: false, rotation: .oneUse)
        driver.begin()
        driver.login(Self.given, ticket: 1)
        try driver.grant(refresh: "one", account: "a")
        driver.toCall()
        driver.storeError = CoordinatorDriver.full
        try driver.fail(.unknownOutcome)
        try #require(driver.state == .loginRequired && driver.coordinator.isUnsaved)
        driver.storeError = nil
        driver.terminate(.logOut, ticket: 1)
        #expect(driver.revoked.isEmpty && driver.stored?.session == nil && driver.contents.revocations.isEmpty)
    }

    @Test("a deleted account's session is not revoked, also if another process has renewed it; a login beside it is")
    func deleted() throws {
        for byLogin in [false, true] {
            let driver = CoordinatorDriver(rotation: .grace)
            try driver.logIn()
            let other = driver.another(rotation: .grace)
            if byLogin { other.login(Self.given, ticket: 9) } else { other.toCall() }
            driver.beginDeletion(ticket: 7)
            try other.grant(refresh: "two", account: "a")
            driver.handle(.endDeletion(isDeleted: true))
            driver.terminate(.logOut, ticket: 8)
            #expect(driver.revoked == (byLogin ? ["two"] : []) && driver.stored?.session == nil)
        }
    }

    // MARK: A failed call

    @Test(
        "a failed call that meets another process's logout or removal ends the session at once",
        arguments: terminations, [SessionCall.Kind.refresh, .login])
    func failedCall(_ termination: SessionCoordinator.Termination, _ kind: SessionCall.Kind) throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        if kind == .login { driver.login(Self.given, ticket: 1) } else { driver.toCall() }
        try #require(driver.call?.kind == kind && driver.token != nil)
        other.terminate(termination, ticket: nil)
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.state == .loggedOut && driver.token == nil && driver.refresh == nil)
        #expect(driver.revoked.isEmpty && driver.coordinator.isIdle && driver.disk.holder == nil)
    }

    @Test("a refused login of an operator that meets another process's logout ends the session at once")
    func refusedLogin() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        driver.login(.configured(.emailPassword(email: "a@example.com", password: "/x")), ticket: 1)
        other.terminate(.logOut, ticket: nil)
        try driver.fail(.credentialRefused, credential: CredentialFingerprint(bytes: [1]))
        #expect(driver.stored?.refused != nil && driver.stored?.isLoggedOut == true)
        #expect(driver.state == .loggedOut && driver.token == nil && driver.calls.count == 2)
    }

    @Test("a failed call that the store learns of later yields to another process's logout then")
    func failedCallUnsaved() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        driver.toCall()
        driver.storeError = CoordinatorDriver.full
        try driver.fail(.transient(retryAfter: .seconds(60)))
        try #require(driver.coordinator.isUnsaved && driver.token != nil)
        other.terminate(.logOut, ticket: nil)
        driver.storeError = nil
        driver.toDue { !driver.coordinator.isUnsaved }
        #expect(driver.state == .loggedOut && driver.token == nil && driver.calls.count == 2)
    }

    @Test("a refresh token that was given up, which only its own process has, is revoked after a logout elsewhere")
    func givenUpToken() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        for _ in 0..<2 {
            driver.toCall()
            try #require(driver.call?.kind == .refresh)
            try driver.fail(.unknownOutcome)
        }
        driver.toCall()
        try #require(driver.call?.kind == .login && driver.storedRefresh == nil)
        let other = driver.another()
        other.terminate(.logOut, ticket: nil)
        try #require(other.revoked.isEmpty)
        try driver.fail(.transient(retryAfter: nil))
        driver.handle(.storeSnapshot(driver.stored))
        #expect(driver.state == .loggedOut && driver.revoked == ["one"])
    }

    // MARK: What an unsaved logout ends

    /// A logout that the store has not taken. The service is told, and the other process finds its session dead.
    private static func unsaved() throws -> (CoordinatorDriver, other: CoordinatorDriver) {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        driver.pass(1)
        other.pass(1)
        driver.storeError = CoordinatorDriver.full
        driver.terminate(.logOut, ticket: 1)
        driver.pass(1)
        other.pass(1)
        return (driver, other)
    }

    @Test("an unsaved logout does not end the session of an operator's later login in another process")
    func laterLogin() throws {
        let (driver, other) = try Self.unsaved()
        other.login(Self.given, ticket: 9)
        try other.grant(refresh: "two", account: "a")
        driver.storeError = nil
        driver.toDue()
        #expect(driver.storedRefresh == "two" && driver.stored?.isLoggedOut == false)
        // The user is logged in here, too.
        #expect(driver.state == .valid && driver.refresh == "two" && !driver.coordinator.isUnsaved)
        #expect(driver.noted(.overtaken) && driver.revoked == ["one"])
    }

    @Test("an unsaved removal does not remove the user of an operator's later login in another process")
    func laterUser() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        driver.storeError = CoordinatorDriver.full
        driver.terminate(.remove, ticket: 1)
        other.pass(1)
        other.login(Self.given, ticket: 9)
        try other.grant(refresh: "two", account: "a")
        driver.storeError = nil
        driver.toDue()
        #expect(driver.storedRefresh == "two" && driver.state == .loggedOut && driver.coordinator.isIdle)
    }

    @Test("an unsaved logout ends the session of another process's own login")
    func ownLogin() throws {
        let (driver, other) = try Self.unsaved()
        other.toCall()
        try other.fail(.sessionDead)
        try #require(other.call?.kind == .login)
        try other.grant(refresh: "two", account: "a")
        driver.storeError = nil
        driver.toDue()
        #expect(driver.stored?.isLoggedOut == true && driver.stored?.session == nil && driver.state == .loggedOut)
        #expect(driver.revoked.contains("two"))
    }

    @Test("an unsaved logout ends the session of a login that came before it")
    func earlierLogin() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        let other = driver.another()
        other.login(Self.given, ticket: 9)
        try other.grant(refresh: "two", account: "a")
        driver.pass(1)
        driver.storeError = CoordinatorDriver.full
        driver.terminate(.logOut, ticket: 1)
        driver.storeError = nil
        driver.toDue()
        #expect(driver.stored?.isLoggedOut == true && driver.revoked.contains("two"))
    }
}
