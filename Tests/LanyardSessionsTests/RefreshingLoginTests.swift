import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// A session whose access token is renewed by the login that has begun it: client credentials and other logins of machines.
@Suite("Coordinator: a login is the refresh")
struct RefreshingLoginTests {
    private static func renewing() throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(login: .clientCredentials)
        driver.begin()
        try driver.grant(token: "first")
        try #require(driver.state == .valid)
        driver.toDue()
        try #require(driver.call?.kind == .login && driver.call?.cause == .scheduled)
        return driver
    }

    @Test(
        "a refused renewal leaves the token to its end, in the store too; then the user is refused",
        arguments: [IdentityError.Verdict.credentialRefused, .credentialUnavailable])
    func refused(_ verdict: IdentityError.Verdict) throws {
        let driver = try Self.renewing()
        let end = try #require(driver.coordinator.session.tokens).usableUntil
        while driver.now < end, driver.state != .refused {
            if driver.call != nil { try driver.fail(verdict) }
            #expect(driver.state == .stale && Tokens.text(driver.token?.token) == "first")
            #expect(Tokens.text(driver.stored?.session?.access) == "first" && driver.stored?.refused == nil)
            driver.toDue { driver.call != nil || driver.now >= end }
        }
        for _ in 0..<20 where driver.state != .refused {
            if driver.call != nil { try driver.fail(verdict) } else { driver.toDue() }
        }
        #expect(driver.state == .refused && driver.token == nil)
    }

    @Test("a changed file has the renewal tried at once")
    func changed() throws {
        let driver = try Self.renewing()
        try driver.fail(.credentialRefused)
        try #require(driver.call == nil && driver.state == .stale)
        driver.handle(.session(.credentialChanged))
        #expect(driver.call?.kind == .login)
        try driver.grant(token: "second")
        #expect(driver.state == .valid && Tokens.text(driver.token?.token) == "second")
    }

    private static let refusedGrant: IdentityError = {
        var error = IdentityError(.clientRefused, status: 400, code: "unauthorized_client", message: "planned")
        error.isGrantRefused = true
        return error
    }()

    private static func refuseGrant(_ driver: CoordinatorDriver) throws {
        driver.handle(.callCompleted(.failure(refusedGrant), try #require(driver.call)))
    }

    /// A password's session, whose refresh is in progress.
    private static func refreshing(_ login: UserSettings.Login) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(login: login)
        try driver.logIn()
        driver.toCall()
        try #require(driver.call?.kind == .refresh)
        return driver
    }

    private static let password = UserSettings.Login.password(username: "a", "/x")

    @Test("a refresh that the server does not offer to the client is followed by the login of another grant")
    func refusedRefresh() throws {
        let driver = try Self.refreshing(Self.password)
        try Self.refuseGrant(driver)
        #expect(driver.call?.kind == .login && driver.call?.cause == .sessionDead && driver.token != nil)
        #expect(driver.revoked == [])
        try driver.grant(refresh: "two", account: "a")
        #expect(driver.state == .valid && driver.storedRefresh == "two" && driver.revoked == ["one"])
    }

    @Test("without a login of another grant the session stays, and the refresh is tried again")
    func refusedRefreshWithoutLogin() throws {
        for driver in [
            try Self.refreshing(.refreshToken("/x")),
            try {
                let driver = CoordinatorDriver(hasCredential: false)
                driver.begin()
                driver.login(.given(.anonymous), ticket: 1)
                try driver.grant(refresh: "one", account: "a")
                driver.toCall()
                return driver
            }(),
        ] {
            try Self.refuseGrant(driver)
            #expect(driver.state == .stale && driver.storedRefresh == "one" && driver.call == nil)
            #expect((driver.coordinator.due - driver.now).inSeconds == 10)
        }
    }

    @Test(
        "a refused renewal is tried again after 10 s, a minute, and every five minutes, and at its token's end",
        arguments: [IdentityError.Verdict.credentialRefused, .credentialDoubted, .clientRefused])
    func pauses(_ verdict: IdentityError.Verdict) throws {
        let driver = CoordinatorDriver(login: .clientCredentials)
        driver.begin()
        try driver.grant(.seconds(1800), token: "first")
        let end = try #require(driver.coordinator.session.tokens).usableUntil
        driver.toCall()
        var pauses: [Double] = []
        while driver.now < end {
            try driver.fail(verdict)
            guard driver.state == .stale else { break }
            let due = driver.coordinator.due
            pauses.append((due - driver.now).inSeconds)
            #expect(due <= end)
            driver.toCall()
        }
        #expect(pauses.prefix(2) == [10, 60])
        #expect(pauses.dropFirst(2).dropLast().allSatisfy { 280...320 ~= $0 } && pauses.count > 3, "\(pauses)")
        #expect(driver.now >= end)
    }

    @Test(
        "if the login is refused in the same way, the token serves to its end; another refusal is one of the credential"
    )
    func refusedRefreshAndLogin() throws {
        var driver = try Self.refreshing(Self.password)
        try Self.refuseGrant(driver)
        var refused = Self.refusedGrant
        refused.verdict = .credentialRefused
        driver.handle(.callCompleted(.failure(refused), try #require(driver.call)))
        #expect(driver.state == .stale && driver.token != nil && driver.stored?.refused == nil)
        driver.toCall()
        #expect(driver.call?.kind == .login)
        driver = try Self.refreshing(Self.password)
        try Self.refuseGrant(driver)
        try driver.fail(.credentialRefused)
        #expect(driver.state == .refused && driver.token == nil)
    }

    @Test("a first login that is refused, and an operator's, are refused as ever")
    func first() throws {
        let driver = CoordinatorDriver(login: .clientCredentials)
        driver.begin()
        try driver.fail(.credentialRefused)
        #expect(driver.state == .refused)
        let other = try Self.renewing()
        try other.grant(token: "second")
        other.login(.given(.apiKey(Tokens.secret("key"))), ticket: 1)
        try other.fail(.credentialRefused)
        #expect(other.state == .valid && other.noted(.operatorLoginFailed))
    }
}
