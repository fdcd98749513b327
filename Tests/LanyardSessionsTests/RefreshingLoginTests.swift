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
