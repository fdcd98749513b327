import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Users whose routes all name a token: no plain one is fetched (docs/reference/oauth.md 4.2).
@Suite("Coordinator: a variant in place of the plain token") struct StandInTests {
    private static let orders = TokenVariant(audience: "orders")
    private static let stock = TokenVariant(audience: "stock")

    private static func driver(
        disk: CoordinatorDriver.Disk = .init(), standIn: TokenVariant? = orders, variants: [TokenVariant] = [stock]
    ) -> CoordinatorDriver {
        CoordinatorDriver(login: .clientCredentials, rotation: .auto, variants: variants, standIn: standIn, disk: disk)
    }

    private static func fetched() throws -> CoordinatorDriver {
        let driver = driver()
        driver.begin()
        try driver.grant(proof: account, token: "for orders")
        try driver.grant(proof: account, token: "for stock")
        try #require(driver.call == nil)
        driver.forget()
        return driver
    }

    /// What client credentials prove. Without it a login after a restart counts as one of another account.
    private static let account = AccountFingerprint(of: ["client"])

    private static func text(_ driver: CoordinatorDriver, _ place: Int) -> String? {
        Tokens.text(driver.variant(place)?.token)
    }

    @Test("two tokens are two calls: the session's own is the one of the first route, under that route's index alone")
    func calls() throws {
        let driver = Self.driver()
        driver.begin()
        #expect(driver.call?.standIn == Self.orders && driver.call?.variant == .plain)
        try driver.grant(token: "for orders")
        #expect(driver.call?.standIn == nil && driver.call?.variant == Self.stock)
        try driver.grant(token: "for stock")
        #expect(Self.text(driver, 9) == "for orders" && Self.text(driver, 1) == "for stock" && driver.token == nil)
        #expect(driver.variant(9)?.user == UserIndex(9) && driver.calls.count == 2 && driver.state == .valid)
        let stored = try #require(driver.stored?.session)
        #expect(stored.access.count == 0 && Tokens.text(stored.tokens.others[Self.orders]?.token) == "for orders")
        // Its renewal is the session's, and so is the refusal of an upstream, an operator's refresh and a need.
        let generation = try #require(driver.variant(9)?.generation)
        driver.handle(.variant(UserIndex(9), .tokenRefused(Generation(generation))))
        #expect(driver.call?.standIn == Self.orders && driver.call?.cause == .forced)
        try driver.grant(token: "orders 2")
        #expect(Self.text(driver, 9) == "orders 2" && Self.text(driver, 1) == "for stock")
        driver.refreshNow(ticket: 1)
        #expect(driver.call?.standIn == Self.orders)
        try driver.grant(token: "orders 3")
        guard case .refreshed? = driver.replies[1] else { return #expect(Bool(false), "\(driver.replies)") }
        let status = driver.coordinator.variantStatus(
            at: EventContext(instant: driver.now, wall: driver.wall, chance: 0))
        #expect(status.map(\.named.name) == ["r9", "r1"] && status.allSatisfy { $0.state == .valid })
    }

    @Test("a restart continues with both tokens without a call, and so does another process")
    func restart() throws {
        let driver = try Self.fetched()
        let next = Self.driver(disk: driver.disk)
        driver.disk.holder = nil
        (next.now, next.wall) = (driver.now, driver.wall)
        next.begin()
        #expect(next.call == nil && Self.text(next, 9) == "for orders" && Self.text(next, 1) == "for stock")
        next.handle(.storeSnapshot(next.stored))
        #expect(next.call == nil && Self.text(next, 9) == "for orders")
    }

    @Test("after a restart with a route for the plain token that one is fetched, and nothing else is sent in its place")
    func plainAfterRestart() throws {
        let driver = try Self.fetched()
        driver.disk.holder = nil
        let next = Self.driver(disk: driver.disk, standIn: nil, variants: [Self.orders, Self.stock])
        (next.now, next.wall) = (driver.now, driver.wall)
        next.begin()
        #expect(next.token == nil && next.call?.variant == .plain && next.call?.standIn == nil)
        #expect(Self.text(next, 1) == "for orders" && Self.text(next, 2) == "for stock")
        try next.grant(proof: Self.account, token: "plain")
        #expect(Tokens.text(next.token?.token) == "plain" && next.call == nil && Self.text(next, 1) == "for orders")
        // And back: the plain token is not sent in place of the route's.
        next.disk.holder = nil
        let last = Self.driver(disk: driver.disk)
        (last.now, last.wall) = (next.now, next.wall)
        last.begin()
        #expect(Self.text(last, 9) == "for orders" && last.token == nil && last.call == nil)
    }

    @Test("a reload with a route for the plain token begins anew; no token serves for another one")
    func reload() throws {
        let driver = try Self.fetched()
        var setup = driver.coordinator.setup
        (setup.standIn, setup.variants) = (
            nil, CoordinatorDriver.named([Self.stock]) + [CoordinatorDriver.standIn(Self.orders)]
        )
        driver.handle(.reconfigured(setup, isCredentialNew: false))
        #expect(driver.token == nil && driver.call?.variant == .plain && driver.call?.standIn == nil)
        try driver.grant(token: "plain")
        #expect(Tokens.text(driver.token?.token) == "plain")
        while driver.call != nil {
            try driver.grant(token: driver.call?.variant == Self.orders ? "orders 2" : "stock 2")
        }
        #expect(Self.text(driver, 9) == "orders 2" && Self.text(driver, 1) == "stock 2")
        (setup.standIn, setup.variants) = (
            CoordinatorDriver.standIn(Self.orders), CoordinatorDriver.named([Self.stock])
        )
        driver.handle(.reconfigured(setup, isCredentialNew: false))
        #expect(driver.token == nil && driver.variant(9) == nil && driver.call?.standIn == Self.orders)
        try driver.grant(token: "orders 3")
        #expect(Self.text(driver, 9) == "orders 3" && driver.token == nil)
    }

    @Test("a reload while the login is in progress: its token is not taken for the plain one")
    func reloadInProgress() throws {
        let driver = Self.driver()
        driver.begin()
        var setup = driver.coordinator.setup
        (setup.standIn, setup.variants) = (nil, CoordinatorDriver.named([Self.stock]))
        driver.handle(.reconfigured(setup, isCredentialNew: false))
        try driver.grant(token: "for orders")
        #expect(driver.token == nil && driver.call?.variant == .plain && driver.call?.standIn == nil)
        try driver.grant(token: "plain")
        #expect(Tokens.text(driver.token?.token) == "plain" && driver.stored?.session?.access.count == 5)
    }

    @Test(
        "a refused route is refused alone: the plain token proves the session, and the other routes have theirs",
        arguments: ["refused", "mismatch", "refresh token"])
    func refused(how: String) throws {
        let driver = Self.driver()
        driver.begin()
        switch how {
        case "refused": try driver.fail(.clientRefused, status: 400)
        case "mismatch": try driver.grant(token: "for all", mismatch: "for the audience all")
        default: try driver.grant(refresh: "one", token: "for orders")
        }
        #expect(driver.state == .loggingIn && driver.call?.variant == .plain && driver.call?.standIn == nil)
        #expect(driver.variant(9) == nil && driver.revoked == (how == "refresh token" ? ["one"] : []))
        try driver.grant(token: "plain")
        #expect(driver.call?.variant == Self.orders && driver.state == .valid)
        try driver.fail(.clientRefused, status: 400)
        try driver.grant(token: "for stock")
        #expect(Self.text(driver, 1) == "for stock" && driver.state == .valid && driver.variant(9) == nil)
        guard case .none(.credentialRefused)? = driver.variantAvailability[UserIndex(9)] else {
            return #expect(Bool(false), "\(driver.variantAvailability)")
        }
    }

    @Test("a refused credential is the user's: all routes are told so")
    func refusedCredential() throws {
        let driver = Self.driver()
        driver.begin()
        try driver.fail(.credentialRefused, status: 401)
        #expect(driver.state == .refused && driver.call == nil)
        for index in [1, 9] {
            guard case .none(.credentialRefused)? = driver.variantAvailability[UserIndex(index)] else {
                return #expect(Bool(false), "\(driver.variantAvailability)")
            }
        }
    }

    @Test("an operator's login with a user's credential brings the plain token, with which the routes' are fetched")
    func otherLogin() throws {
        let driver = try Self.fetched()
        driver.login(.configured(.password(username: "a", "/x")), ticket: 1)
        #expect(driver.call?.standIn == nil)
        try driver.grant(refresh: "one", token: "plain")
        #expect(driver.refresh == "one" && Tokens.text(driver.token?.token) == "plain")
        #expect(driver.call?.kind == .refresh && driver.call?.variant == Self.orders && driver.sent.last == "one")
        try driver.grant(refresh: "two", token: "orders 2")
        #expect(Self.text(driver, 9) == "orders 2")
    }
}
