import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// A service that ends an access token of a session when it issues another one (docs/reference/oauth-variants.md 4.2).
@Suite("Coordinator: access tokens that end each other") struct SupersededTokenTests {
    private static let orders = TokenVariant(audience: "orders")

    private static func fetched() throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [orders])
        driver.uses = [UserIndex(0): 0, UserIndex(1): 0]
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain")
        try driver.grant(refresh: "two", token: "for orders")
        driver.forget()
        return driver
    }

    /// Upstreams have accepted the present tokens.
    private static func accept(_ driver: CoordinatorDriver) {
        for place in [0, 1] {
            driver.uses[UserIndex(place), default: 0] += 1
            driver.successes[UserIndex(place), default: 0] += 1
        }
    }

    /// An upstream refuses the present plain token, which is then renewed.
    private static func refusePlain(_ driver: CoordinatorDriver) throws {
        driver.pass(60)
        driver.handle(.session(.tokenRefused(Generation(try #require(driver.token?.generation)))))
        try #require(driver.call?.variant == .plain)
        try driver.grant(refresh: "p\(driver.sent.count)", token: "plain \(driver.sent.count)")
    }

    private static func refuseOrders(_ driver: CoordinatorDriver) throws {
        driver.pass(60)
        driver.handle(.variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        try #require(driver.call?.variant == orders)
        try driver.grant(refresh: "o\(driver.sent.count)", token: "orders \(driver.sent.count)")
    }

    private static func isTold(_ driver: CoordinatorDriver) -> Int {
        driver.logEvents.count { $0.event == .tokensSuperseded }
    }

    @Test("each token is refused once the other one is issued: one error names the key, and the status keeps it")
    func eachOther() throws {
        let driver = try Self.fetched()
        Self.accept(driver)
        try Self.refusePlain(driver)
        #expect(Self.isTold(driver) == 0, "one refusal may have another cause")
        Self.accept(driver)
        try Self.refuseOrders(driver)
        let line = try #require(driver.logEvents.first { $0.event == .tokensSuperseded })
        #expect(line.level == .error && line.error?.message.contains("access_tokens: single") == true)
        #expect(driver.coordinator.superseded.since == driver.wall)
        for _ in 0..<3 {
            try Self.refusePlain(driver)
            try Self.refuseOrders(driver)
        }
        #expect(Self.isTold(driver) == 1)
        // With the next configuration it may be over.
        var setup = driver.coordinator.setup
        setup.variants = []
        driver.handle(.reconfigured(setup, isCredentialNew: false))
        #expect(driver.coordinator.superseded.since == nil)
    }

    @Test("upstreams that refuse every token refuse the newest one, too: nothing is told of the service")
    func alwaysRefused() throws {
        let driver = try Self.fetched()
        for _ in 0..<3 {
            try Self.refusePlain(driver)
            driver.handle(.freshTokenRefused(Generation(try #require(driver.token?.generation))))
            try Self.refuseOrders(driver)
            driver.handle(
                .variant(UserIndex(1), .freshTokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
        }
        #expect(Self.isTold(driver) == 0 && driver.coordinator.superseded.since == nil)
    }

    @Test(
        "an upstream that accepts no token, where nothing can be sent once more: each refusal is one of a token that was accepted nowhere",
        arguments: [true, false])
    func acceptedNowhere(areKnown: Bool) throws {
        let driver = try Self.fetched()
        if !areKnown { driver.uses = [:] }
        for _ in 0..<6 {
            for place in [0, 1] where areKnown { driver.uses[UserIndex(place), default: 0] += 1 }
            try Self.refusePlain(driver)
            try Self.refuseOrders(driver)
        }
        #expect(Self.isTold(driver) == 0 && driver.coordinator.superseded.since == nil)
        // What was accepted before says nothing of a later token.
        driver.uses = [UserIndex(0): 9, UserIndex(1): 9]
        try Self.refusePlain(driver)
        try Self.refuseOrders(driver)
        Self.accept(driver)
        try Self.refusePlain(driver)
        for _ in 0..<4 {
            try Self.refuseOrders(driver)
            try Self.refusePlain(driver)
        }
        #expect(Self.isTold(driver) == 1, "each of the two tokens was accepted once")
    }

    @Test("the token of a first route in place of the plain one is known by its own uses")
    func standIn() throws {
        let driver = CoordinatorDriver(
            login: .clientCredentials, rotation: .auto, variants: [Self.orders],
            standIn: TokenVariant(audience: "stock"))
        driver.uses = [UserIndex(9): 0, UserIndex(1): 0]
        driver.begin()
        try driver.grant(token: "for stock")
        try driver.grant(token: "for orders")
        for _ in 0..<2 {
            for index in [UserIndex(9), UserIndex(1)] { driver.successes[index, default: 0] += 1 }
            driver.pass(60)
            driver.handle(
                .variant(UserIndex(9), .tokenRefused(Generation(try #require(driver.variant(9)?.generation)))))
            try driver.grant(token: "stock again")
            driver.pass(60)
            driver.handle(
                .variant(UserIndex(1), .tokenRefused(Generation(try #require(driver.variant(1)?.generation)))))
            try driver.grant(token: "orders again")
        }
        #expect(Self.isTold(driver) == 1)
    }

    @Test("a refusal that is told twice, or of a former token, counts once; the newest token's says nothing")
    func counted() throws {
        let driver = try Self.fetched()
        let former = Generation(try #require(driver.token?.generation))
        driver.handle(.freshTokenRefused(former))
        driver.handle(.freshTokenRefused(former))
        #expect(Self.isTold(driver) == 0)
        try Self.refuseOrders(driver)
        try Self.refuseOrders(driver)
        #expect(Self.isTold(driver) == 0)
        // What another process has issued is not known to be newer.
        let other = driver.restart(rotation: .oneUse, variants: [Self.orders])
        other.begin()
        driver.disk.holder = nil
        for _ in 0..<2 { other.handle(.freshTokenRefused(Generation(try #require(other.token?.generation)))) }
        #expect(Self.isTold(other) == 0)
    }
}
