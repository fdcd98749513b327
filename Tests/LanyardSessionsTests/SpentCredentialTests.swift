import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Coordinator: a credential that works for one login")
struct SpentCredentialTests {
    private static let spent = CredentialFingerprint(bytes: [UInt8](repeating: 7, count: 32)).spent
    private static let given = Credential.given(.emailPassword(email: "a@example.com", password: Tokens.secret("p")))

    private static func grant(_ refresh: String, spent: CredentialFingerprint?) -> Grant {
        var grant = SessionDriver.grant(refresh: refresh, account: "a")
        grant.spentCredential = spent
        return grant
    }

    private static func complete(
        _ driver: CoordinatorDriver, _ refresh: String, spent: CredentialFingerprint? = Self.spent
    ) throws {
        driver.handle(.callCompleted(.success(grant(refresh, spent: spent)), try #require(driver.call)))
    }

    private static func loggedIn() throws -> CoordinatorDriver {
        let driver = CoordinatorDriver()
        driver.begin()
        try complete(driver, "one")
        try #require(driver.state == .valid)
        return driver
    }

    @Test("it is recorded with the session, and refreshes leave the record")
    func recorded() throws {
        let driver = try Self.loggedIn()
        #expect(driver.stored?.refused == Self.spent && driver.stored?.isAuthenticated == true)
        driver.toCall()
        try driver.grant()
        #expect(driver.stored?.refused == Self.spent && driver.stored?.generation == 2)
    }

    @Test("Rule 12: after the session's end the login knows of it, and the user is refused", arguments: [false, true])
    func notSentAgain(isRestarted: Bool) throws {
        var driver = try Self.loggedIn()
        if isRestarted {
            driver = driver.restart()
            driver.begin()
            #expect(driver.state == .valid && driver.token != nil)
        }
        driver.toCall()
        try driver.fail(.sessionDead)
        #expect(driver.call?.kind == .login && driver.refused == Self.spent)
        // The guard of the identity service.
        try driver.fail(.credentialRefused, credential: Self.spent)
        #expect(driver.state == .refused && driver.stored?.refused == Self.spent && driver.stored?.session == nil)
        // A new code in the file is tried at once.
        driver.handle(.session(.credentialChanged))
        #expect(driver.call?.kind == .login)
        try Self.complete(driver, "two", spent: nil)
        #expect(driver.state == .valid && driver.stored?.refused == nil)
    }

    @Test("an operator's credential leaves the record, and clears one of a refusal")
    func operatorLogin() throws {
        let driver = try Self.loggedIn()
        driver.login(Self.given, ticket: 1)
        try driver.grant(refresh: "two", account: "a")
        #expect(driver.storedRefresh == "two" && driver.stored?.refused == Self.spent)
        driver.toCall()
        try driver.fail(.sessionDead)
        #expect(driver.refused == Self.spent)

        let other = CoordinatorDriver()
        other.begin()
        try other.fail(
            .credentialRefused, credential: CredentialFingerprint(bytes: Self.spent.bytes, code: "AuthError"))
        #expect(other.stored?.refused?.isSpent == false)
        other.login(Self.given, ticket: 1)
        try other.grant(refresh: "two", account: "a")
        #expect(other.state == .valid && other.stored?.refused == nil)
    }

    @Test("it stays recorded as spent if an operator has it sent again and the service refuses it")
    func sentAgain() throws {
        let driver = try Self.loggedIn()
        let configured = try #require(driver.coordinator.setup.credential)
        driver.login(configured, ticket: 1)
        #expect(driver.refused == nil)
        try driver.fail(
            .credentialRefused, credential: CredentialFingerprint(bytes: Self.spent.bytes, code: "AuthError"))
        #expect(driver.state == .valid && driver.stored?.refused == Self.spent)
        driver.toCall()
        try driver.grant()
        #expect(driver.stored?.refused == Self.spent)
    }

    @Test("a refresh token from a file that has served is not sent again, not even for an operator")
    func usedRefreshToken() throws {
        let driver = CoordinatorDriver(login: .refreshToken("/r"), rotation: .oneUse)
        driver.begin()
        try Self.complete(driver, "one")
        driver.login(try #require(driver.coordinator.setup.credential), ticket: 1)
        #expect(driver.call?.cause == .asked && driver.refused == Self.spent)
        try driver.fail(.credentialRefused, credential: Self.spent)
        #expect(driver.state == .valid && driver.storedRefresh == "one" && driver.noted(.operatorLoginFailed))
    }

    @Test(
        "it is recorded later if the store fails, with the session or the refresh after it", arguments: [false, true])
    func unsaved(isRefreshed: Bool) throws {
        let driver = CoordinatorDriver()
        driver.storeError = CoordinatorDriver.full
        driver.begin()
        try Self.complete(driver, "one")
        #expect(driver.state == .valid && driver.stored?.session == nil)
        if isRefreshed {
            driver.toCall(400)
            try driver.grant()
        }
        driver.storeError = nil
        driver.toDue()
        #expect(driver.storedRefresh == "one" && driver.stored?.refused == Self.spent)
    }

    @Test("it is recorded if its login ended in another user's account")
    func accountInUse() throws {
        let driver = CoordinatorDriver()
        driver.ownership = .inUse(by: "bob")
        driver.begin()
        try Self.complete(driver, "one")
        #expect(driver.state == .refused && driver.reason == .accountInUse && driver.revoked == ["one"])
        #expect(driver.stored?.refused == Self.spent)
    }

    @Test("an older file of the same session does not undo the record")
    func olderFile() throws {
        let driver = try Self.loggedIn()
        let old = driver.contents
        driver.toCall()
        try driver.grant()
        driver.disk.contents = old
        driver.disk.contents.users[0].refused = nil
        driver.toCall()
        #expect(driver.stored?.refused == Self.spent)
    }

    enum Logout: CaseIterable { case elsewhere, beforeResponse, whileSaved, whileUnsaved, unsaved }

    @Test("it is recorded if a logout comes before its session is stored", arguments: Logout.allCases)
    func loggedOut(_ logout: Logout) throws {
        let driver = CoordinatorDriver()
        driver.begin()
        switch logout {
        case .elsewhere:
            driver.another().terminate(.logOut, ticket: 1)
            try Self.complete(driver, "one")
        case .beforeResponse:
            let call = try #require(driver.call)
            driver.terminate(.logOut, ticket: 1)
            driver.handle(.callCompleted(.success(Self.grant("one", spent: Self.spent)), call))
        case .whileSaved:
            driver.holdsStore = true
            try Self.complete(driver, "one")
            driver.terminate(.logOut, ticket: 1)
            driver.release()
        case .whileUnsaved:
            driver.storeError = CoordinatorDriver.full
            try Self.complete(driver, "one")
            driver.storeError = nil
            driver.terminate(.logOut, ticket: 1)
        case .unsaved:
            driver.storeError = CoordinatorDriver.full
            try Self.complete(driver, "one")
            driver.terminate(.logOut, ticket: 1)
            for _ in 0..<3 { driver.toDue() }
            #expect(driver.stored?.isLoggedOut != true && driver.coordinator.isUnsaved)
            driver.storeError = nil
        }
        for _ in 0..<5 { driver.toDue() }
        #expect(driver.state == .loggedOut && driver.stored?.isLoggedOut == true)
        // A logout that the store takes late has its session revoked once more then.
        #expect(Set(driver.revoked) == ["one"] && driver.stored?.refused == Self.spent)
        #expect(!driver.coordinator.isUnsaved)
        driver.login(Self.given, ticket: 2)
        try driver.grant(refresh: "two", account: "a")
        driver.toCall()
        try driver.fail(.sessionDead)
        #expect(driver.call?.kind == .login && driver.refused == Self.spent)
    }

    @Test("a removed user does not come back with it")
    func removed() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        let call = try #require(driver.call)
        driver.terminate(.remove, ticket: 1)
        driver.handle(.callCompleted(.success(Self.grant("one", spent: Self.spent)), call))
        for _ in 0..<5 { driver.toDue() }
        #expect(driver.stored == nil && driver.revoked == ["one"] && !driver.coordinator.isUnsaved)
    }
}
