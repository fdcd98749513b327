import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Rule 12: a refresh that the service refuses by a named error which is none of those that end a session.
@Suite("Coordinator: refreshes that are refused by name")
struct RefusedRefreshTests {
    private static let password = UserSettings.Login.password(username: "a", "/x")

    /// As lemonldap-ng says it of a dead refresh token: 400 `invalid_request`.
    private static func refusal(
        _ verdict: IdentityError.Verdict = .clientRefused, status: Int = 400, isName: Bool = true
    ) -> IdentityError {
        var error = IdentityError(verdict, status: status, message: "planned")
        error.refreshResponse = RefreshResponse(status: status, error: .named)
        error.refusesRefresh = isName
        return error
    }

    private static func fail(_ driver: CoordinatorDriver, _ error: IdentityError) throws {
        driver.handle(.callCompleted(.failure(error), try #require(driver.call)))
    }

    private static func refreshing(
        _ login: UserSettings.Login = password, rotation: RefreshTokenRotation = .none
    ) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(login: login, rotation: rotation)
        try driver.logIn()
        driver.toCall()
        try #require(driver.call?.kind == .refresh)
        return driver
    }

    /// Each refresh gets this error, up to the end of the token. Returns the end.
    private static func refuse(_ driver: CoordinatorDriver, _ error: IdentityError) throws -> Instant {
        let end = try #require(driver.coordinator.session.tokens).usableUntil
        while driver.now < end {
            if driver.call != nil { try fail(driver, error) }
            #expect(driver.state == .stale && driver.token != nil && driver.storedRefresh == "one")
            driver.toDue { driver.call != nil || driver.now >= end }
        }
        return end
    }

    @Test(
        "Rule 12: it is tried again to the token's end, at which a last refusal leads to the login, and requests wait",
        arguments: [IdentityError.Verdict.clientRefused, .transient(retryAfter: nil)], RefreshTokenRotation.allCases)
    func atEnd(_ verdict: IdentityError.Verdict, _ rotation: RefreshTokenRotation) throws {
        let driver = try Self.refreshing(rotation: rotation)
        let end = try Self.refuse(driver, Self.refusal(verdict, status: 403))
        #expect(
            driver.now == end && driver.call?.kind == .refresh
                && !driver.calls.contains { $0.kind == .login && $0.number > 1 })
        guard case .pending? = driver.availability else { return #expect(Bool(false), "requests do not wait") }
        try Self.fail(driver, Self.refusal(verdict, status: 403))
        #expect(driver.call?.kind == .login && driver.call?.cause == .sessionDead && driver.now == end)
        guard case .pending? = driver.availability else { return #expect(Bool(false), "requests do not wait") }
        #expect(driver.revoked == [])
        try driver.grant(refresh: "two", account: "a")
        #expect(driver.state == .valid && driver.storedRefresh == "two" && driver.revoked == ["one"])
    }

    @Test("Rule 12: so does one that comes when the token has ended already, as after a restart")
    func afterEnd() throws {
        for verdict in [IdentityError.Verdict.clientRefused, .credentialDoubted, .transient(retryAfter: nil)] {
            let driver = CoordinatorDriver(login: Self.password)
            try driver.logIn()
            let next = CoordinatorDriver(login: Self.password, disk: driver.disk)
            driver.disk.holder = nil
            (next.now, next.wall) = (driver.now + .seconds(7200), driver.wall + .seconds(7200))
            next.begin()
            try #require(next.call?.kind == .refresh)
            try Self.fail(next, Self.refusal(verdict))
            #expect(next.call?.kind == .login && next.call?.cause == .sessionDead, "\(verdict)")
        }
    }

    @Test("Rule 12: the logins that follow have a back-off of up to 5 minutes")
    func backOff() throws {
        let driver = try Self.refreshing()
        _ = try Self.refuse(driver, Self.refusal())
        try Self.fail(driver, Self.refusal())
        var longest = Duration.zero
        for _ in 0..<15 {
            try #require(driver.call?.kind == .login)
            try driver.fail(.transient(retryAfter: nil))
            let from = driver.now
            driver.toCall()
            longest = max(longest, driver.now - from)
        }
        #expect(longest > .seconds(60) && longest <= .seconds(300))
    }

    @Test("a refusal of another class, one with Retry-After, and one without a usable credential lead to no login")
    func others() throws {
        let later = IdentityError.Verdict.transient(retryAfter: .seconds(20))
        var early = Self.refusal(.transient(retryAfter: nil))
        early.retryAfter = .seconds(20)
        var client = Self.refusal(.clientRefused)
        client.retryAfter = .seconds(20)
        let rows: [(UserSettings.Login, IdentityError)] = [
            (Self.password, Self.refusal(isName: false)), (Self.password, Self.refusal(later)), (Self.password, early),
            (Self.password, client),
            (.refreshToken("/x"), Self.refusal()), (.device, Self.refusal()),
        ]
        for (login, error) in rows {
            let driver = try Self.refreshing(login)
            _ = try Self.refuse(driver, error)
            let logins = driver.calls.filter { $0.kind == .login }.count
            for _ in 0..<10 {
                if driver.call != nil { try Self.fail(driver, error) }
                driver.toDue()
            }
            #expect(driver.calls.filter { $0.kind == .login }.count == logins && driver.storedRefresh == "one")
        }
        let bare = CoordinatorDriver(hasCredential: false)
        bare.begin()
        bare.login(.given(.anonymous), ticket: 1)
        try bare.grant(refresh: "one", account: "a")
        bare.toCall()
        _ = try Self.refuse(bare, Self.refusal())
        for _ in 0..<10 {
            if bare.call != nil { try Self.fail(bare, Self.refusal()) }
            bare.toDue()
        }
        #expect(bare.state == .unreachable && bare.storedRefresh == "one")
    }
}
