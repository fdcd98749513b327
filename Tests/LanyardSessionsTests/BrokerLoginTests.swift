import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// A user whose session another Lanyard holds (fleet.md 2): what it says there is passed on, and it is asked again.
@Suite("Coordinator: a user of another Lanyard")
struct BrokerLoginTests {
    private static let account = AccountFingerprint(of: ["broker", "alice"])

    private static func driver(_ variants: [TokenVariant] = []) -> CoordinatorDriver {
        let driver = CoordinatorDriver(login: .broker(user: "alice"), variants: variants)
        driver.begin()
        return driver
    }

    private static func error(
        _ verdict: IdentityError.Verdict = .transient(retryAfter: nil), _ passedOn: IdentityError.PassedProblem? = nil,
        isDenied: Bool = false
    ) -> IdentityError {
        var error = IdentityError(verdict, status: isDenied ? 403 : 503, message: "planned")
        (error.passedOn, error.isDenied, error.isServiceError) = (passedOn, isDenied, true)
        return error
    }

    private static func fail(_ driver: CoordinatorDriver, _ error: IdentityError) throws {
        driver.handle(.callCompleted(.failure(error), try #require(driver.call)))
    }

    @Test("the renewal of the token is another login, in the same part of its life as a refresh")
    func renewal() throws {
        let driver = Self.driver()
        try driver.grant(proof: Self.account, token: "first")
        #expect(driver.state == .valid && driver.stored?.session?.refresh == nil)
        let issuedAt = driver.now
        driver.toCall()
        let part = (driver.now - issuedAt) / .seconds(1800)
        #expect(driver.call?.kind == .login && driver.call?.cause == .scheduled && (0.5...0.75).contains(part))
        try driver.grant(proof: Self.account, token: "second")
        #expect(driver.state == .valid && Tokens.text(driver.token?.token) == "second")
        #expect(driver.token?.account == driver.accounts.last && driver.accounts.count == 1)
    }

    @Test("login-required there is login-required here; a request has it asked again, and a token ends it")
    func loginRequired() throws {
        let driver = Self.driver()
        try Self.fail(driver, Self.error(.transient(retryAfter: nil), .loginRequired))
        #expect(driver.refusal == .loginRequiredElsewhere(because: "planned"))
        #expect(driver.state == .loggingIn && driver.reason == .loginRequired)
        #expect(driver.coordinator.session.nextCallAt < driver.now + .seconds(31))
        driver.handle(.session(.tokenNeeded))
        #expect(driver.coordinator.wantsProbe(at: driver.now))
        driver.handle(.probe)
        try driver.grant(proof: Self.account)
        #expect(driver.state == .valid && driver.token != nil)
    }

    @Test("a token that is there serves to its end, whatever is said; then requests are told")
    func servesToTheEnd() throws {
        let driver = Self.driver()
        try driver.grant(.seconds(600), proof: Self.account)
        driver.toCall()
        try Self.fail(driver, Self.error(.transient(retryAfter: nil), .credentialRefused))
        #expect(driver.state == .stale && driver.token != nil && driver.reason == .refreshFailing)
        driver.pass(600)
        driver.handle(.due)
        if driver.call != nil { try Self.fail(driver, Self.error(.transient(retryAfter: nil), .credentialRefused)) }
        #expect(driver.refusal == .credentialRefusedElsewhere(because: "planned"))
        #expect(driver.reason == .credentialRefused)
    }

    @Test("a denial is the operator's, and is asked again each five minutes; requests do not change that")
    func denial() throws {
        let driver = Self.driver()
        for _ in 0..<3 {
            try Self.fail(driver, Self.error(.clientRefused, isDenied: true))
            #expect(driver.refusal == .clientRefused(because: "planned", action: .operator))
            #expect(driver.reason == .credentialRefused)
            driver.handle(.session(.tokenNeeded))
            let wait = (driver.coordinator.session.nextCallAt - driver.now).inSeconds
            #expect((285...315).contains(wait))
            driver.toDue()
        }
        // A changed capability is tried at once.
        try Self.fail(driver, Self.error(.clientRefused, isDenied: true))
        driver.handle(.session(.credentialChanged))
        #expect(driver.call?.kind == .login)
    }

    @Test("Retry-After of the other Lanyard holds")
    func retryAfter() throws {
        let driver = Self.driver()
        try Self.fail(driver, Self.error(.transient(retryAfter: .seconds(20))))
        guard case .identityUnreachable(let next, _, _, _)? = driver.refusal else {
            throw TestFailure("\(String(describing: driver.refusal))")
        }
        #expect((next - driver.now).inSeconds == 20)
    }

    @Test("the call of a forced refresh names the refused token, its own or that of a variant; no other call does")
    func refusedToken() throws {
        let driver = Self.driver([TokenVariant(audience: "orders")])
        try driver.grant(proof: Self.account, token: "plain")
        try driver.grant(proof: Self.account, token: "orders")
        let plain = try #require(driver.token)
        driver.handle(.session(.tokenRefused(Generation(plain.generation))))
        var call = try #require(driver.call)
        #expect(call.cause == .forced && Tokens.text(driver.coordinator.refusedToken(of: call)) == "plain")
        // The same token again: no newer one has come.
        try Self.fail(driver, Self.error())
        #expect(driver.state == .stale && driver.token != nil)
        driver.toCall()
        call = try #require(driver.call)
        #expect(call.cause == .retry && driver.coordinator.refusedToken(of: call) == nil)
        try driver.grant(proof: Self.account, token: "next")
        let orders = try #require(driver.variant(1))
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(orders.generation))))
        call = try #require(driver.call)
        #expect(Tokens.text(driver.coordinator.refusedToken(of: call)) == "orders")
    }

    @Test("a logout is local: nothing is revoked")
    func logout() throws {
        let driver = Self.driver()
        try driver.grant(proof: Self.account)
        driver.terminate(.logOut, ticket: 1)
        #expect(driver.state == .loggedOut && driver.revocations.isEmpty && driver.token == nil)
    }

    @Test("no second call is made beside one that the broker lets wait")
    func second() {
        let driver = Self.driver()
        driver.handle(.session(.tokenNeeded))
        driver.pass(10)
        driver.handle(.due)
        #expect(!driver.trail.contains("second"))
    }
}
