import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Which access token an operator's call gets out of a session, and when none.
@Suite("Coordinator: access tokens that are given out") struct IssuedTokenTests {
    private static let orders = TokenVariant(audience: "orders")
    private static let stock = TokenVariant(resources: ["https://stock.example"])

    /// What `issue` says, in words: tokens with those beside them, `awaited`, or the refusal.
    private static func issue(_ driver: CoordinatorDriver, _ variant: TokenVariant? = nil, at now: Instant? = nil)
        -> String
    {
        guard let index = driver.coordinator.index(of: variant) else { return "unknown" }
        switch driver.coordinator.issue(index, withOthers: variant == nil, at: now ?? driver.now) {
        case .token(let tokens):
            return ([tokens.plain] + tokens.variants.map(\.token)).map { Tokens.text($0.token) ?? "" }
                .joined(separator: ", ")
        case .awaited: return "awaited"
        case .refused(let refusal): return "\(refusal)"
        }
    }

    private static func fetched(_ lifetime: Duration = .seconds(1800)) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [orders, stock])
        driver.begin()
        try driver.grant(lifetime, refresh: "one", account: "a", token: "plain")
        try driver.grant(lifetime, refresh: "two", token: "for orders")
        try driver.grant(lifetime, refresh: "three", token: "for stock")
        return driver
    }

    @Test(
        "by its variant, or the session's own with all others; a refresh token never; one that no route names is unknown"
    )
    func variants() throws {
        let driver = try Self.fetched()
        #expect(Self.issue(driver) == "plain, for orders, for stock")
        #expect(Self.issue(driver, Self.orders) == "for orders" && Self.issue(driver, Self.stock) == "for stock")
        #expect(Self.issue(driver, TokenVariant(audience: "orders", scopes: ["read"])) == "unknown")
        #expect(driver.coordinator.variantTexts == ["audience orders", "resource https://stock.example"])
    }

    @Test("a token that the session has in place of the plain one is found by its variant, too")
    func standIn() throws {
        let driver = CoordinatorDriver(
            login: .clientCredentials, rotation: .auto, variants: [Self.stock], standIn: Self.orders)
        driver.begin()
        try driver.grant(token: "for orders")
        #expect(Self.issue(driver) == "for orders" && Self.issue(driver, Self.orders) == "for orders")
        #expect(Self.issue(driver, Self.stock) == "awaited")
        try driver.grant(token: "for stock")
        #expect(Self.issue(driver) == "for orders, for stock" && Self.issue(driver, Self.stock) == "for stock")
    }

    @Test("before the login and while a fetch is in progress the call waits; a variant that is refused says why")
    func awaited() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders])
        #expect(Self.issue(driver) == "awaited" && Self.issue(driver, Self.orders) == "awaited")
        driver.begin()
        #expect(Self.issue(driver) == "awaited" && Self.issue(driver, Self.orders) == "awaited")
        try driver.grant(refresh: "one", account: "a", token: "plain")
        #expect(Self.issue(driver) == "plain" && Self.issue(driver, Self.orders) == "awaited")
        try driver.fail(.clientRefused, status: 400)
        #expect(Self.issue(driver) == "plain")
        #expect(Self.issue(driver, Self.orders).hasPrefix("variantRefused(because: \"token of the route r1"))
    }

    @Test("a token that is about to end is not given out: less than 3 s, or a quarter of a short life")
    func rest() throws {
        for (lifetime, restMin) in [(1800.0, 3.0), (8, 2)] {
            let driver = try Self.fetched(.seconds(lifetime))
            let end = try #require(driver.token?.usableUntil)
            #expect(Self.issue(driver, at: end - .seconds(restMin)) == "plain, for orders, for stock")
            #expect(Self.issue(driver, at: end - .seconds(restMin - 0.01)) == "awaited")
            #expect(Self.issue(driver, Self.orders, at: end - .seconds(restMin - 0.01)) == "awaited")
            #expect(Self.issue(driver, at: end + .seconds(1)) == "awaited")
        }
    }

    @Test("a session that has ended gives none: the refusal is that of requests, of all its tokens")
    func ended() throws {
        let driver = try Self.fetched()
        driver.terminate(.logOut, ticket: nil)
        #expect(Self.issue(driver) == "loggedOut" && Self.issue(driver, Self.orders) == "loggedOut")
        let refused = CoordinatorDriver()
        refused.begin()
        try refused.fail(.credentialRefused)
        #expect(Self.issue(refused).hasPrefix("credentialRefused(because: \"planned\""))
    }

    @Test("a token without an end has no rest")
    func endless() throws {
        let driver = CoordinatorDriver()
        driver.handle(.session(.fed(.success(Tokens.secret("static")))))
        guard case .token(let tokens) = driver.coordinator.issue(UserIndex(0), withOthers: true, at: driver.now) else {
            return #expect(Bool(false), "\(driver.state)")
        }
        #expect(tokens.plain.rest == nil && tokens.plain.expiry == nil && tokens.variants.isEmpty)
    }
}
