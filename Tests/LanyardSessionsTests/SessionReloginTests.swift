import LanyardSessionInterface
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessions

@Suite("refresh-outcomes.md 12: logins whose refreshes are refused")
struct SessionReloginTests {
    /// Goes to the next refresh, which is refused. Returns the seconds until the login that follows.
    private static func refuse(_ driver: SessionDriver, _ lifetime: Duration) throws -> Double {
        driver.toCall()
        #expect(driver.call?.kind == .refresh)
        try driver.fail(.sessionDead)
        let start = driver.now
        driver.toCall()
        #expect(driver.call?.kind == .login)
        let waited = (driver.now - start).inSeconds
        try driver.grant(lifetime, refresh: "refresh", account: "a")
        return waited
    }

    @Test(
        "12: the first login follows at once, each further one after 1 to 2 s, doubling up to 5 minutes, from the login before"
    )
    func doubles() throws {
        let driver = SessionDriver(chance: 0)
        try driver.logIn(.seconds(2))
        let waits = try (0..<12).map { _ in try Self.refuse(driver, .seconds(2)) }
        // A refresh is due 1.3 s after its login.
        let expected = [0, 0, 0.7, 2.7, 6.7, 14.7, 30.7, 62.7, 126.7, 148.7, 148.7, 148.7]
        for (waited, planned) in zip(waits, expected) { #expect(abs(waited - planned) < 0.3, "\(waits)") }
    }

    @Test("12: a refresh that succeeds, an operator's login and a changed credential begin anew")
    func reset() throws {
        let driver = SessionDriver(chance: 0)
        try driver.logIn(.seconds(2))
        for _ in 0..<6 { _ = try Self.refuse(driver, .seconds(2)) }
        driver.toCall()
        try driver.grant(.seconds(2), refresh: "refresh")
        #expect(try Self.refuse(driver, .seconds(2)) == 0)
        for _ in 0..<6 { _ = try Self.refuse(driver, .seconds(2)) }
        driver.handle(.credentialChanged)
        #expect(try Self.refuse(driver, .seconds(2)) == 0)
    }

    @Test("12: the token serves while the login is put off, and requests do not bring it forward")
    func serves() throws {
        let driver = SessionDriver(chance: 0)
        try driver.logIn(.seconds(100))
        _ = try Self.refuse(driver, .seconds(2))
        _ = try Self.refuse(driver, .seconds(2))
        for _ in 0..<4 { _ = try Self.refuse(driver, .seconds(2)) }
        driver.toCall()
        try driver.fail(.sessionDead)
        #expect(driver.state == .stale && driver.logEvents.last?.event == .loginPutOff)
        let next = try #require(driver.retryState?.nextAttemptAt)
        driver.handle(.tokenNeeded)
        #expect(driver.retryState?.nextAttemptAt == next)
        driver.toDue()
        #expect(driver.state == .unreachable)
        driver.handle(.tokenNeeded)
        #expect(driver.retryState?.nextAttemptAt == next)
    }

    @Test("12: while the login is put off the store forgets the dead refresh token, so that no restart sends it")
    func stored() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        for number in 0..<2 {
            driver.toCall()
            driver.handle(
                .callCompleted(
                    .failure(IdentityError(.sessionDead, message: "planned")), try #require(driver.call)))
            guard number == 0 else { break }
            driver.toCall()
            try driver.grant(refresh: "second", account: "a")
        }
        #expect(driver.disk.contents.users.first?.session != nil)
        #expect(driver.disk.contents.users.first?.session?.refresh == nil)
    }
}
