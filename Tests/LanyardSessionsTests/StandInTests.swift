import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Users whose routes all name a token: no plain one is fetched (docs/reference/oauth-variants.md 4.2).
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

    // MARK: Reloads

    /// A reload of a configuration whose routes ask for these tokens; the index of each stays.
    private static func reload(
        _ driver: CoordinatorDriver, plain: Bool = false, _ named: [(named: NamedVariant, index: UserIndex)]
    ) {
        var setup = driver.coordinator.setup
        setup.standIn = plain ? nil : named.first
        setup.variants = plain ? named : Array(named.dropFirst())
        driver.handle(.reconfigured(setup, isCredentialNew: false))
    }

    private static let namedOrders = CoordinatorDriver.standIn(orders)
    private static let namedStock = CoordinatorDriver.named([stock])[0]
    private static func third(_ variant: TokenVariant) -> (named: NamedVariant, index: UserIndex) {
        (NamedVariant("r3", variant), UserIndex(3))
    }

    @Test("a reload with a route for the plain token fetches it; the other routes keep theirs, also while it fails")
    func reload() throws {
        let driver = try Self.fetched()
        let generations = [9, 1].map { driver.variant($0)?.generation }
        Self.reload(driver, plain: true, [Self.namedOrders, Self.namedStock])
        #expect(driver.token == nil && driver.call?.variant == .plain && driver.call?.standIn == nil)
        #expect(driver.call?.cause == .requestChanged)
        for _ in 0..<3 {
            try driver.fail(.transient(retryAfter: nil), status: 503)
            #expect(Self.text(driver, 9) == "for orders" && Self.text(driver, 1) == "for stock")
            driver.toDue { driver.call?.variant == .plain }
        }
        #expect(driver.token == nil && [9, 1].map { driver.variant($0)?.generation } == generations)
        try driver.grant(proof: Self.account, token: "plain")
        #expect(Tokens.text(driver.token?.token) == "plain" && driver.call == nil && driver.state == .valid)
        #expect(Self.text(driver, 9) == "for orders" && Self.text(driver, 1) == "for stock")
        let stored = try #require(driver.stored?.session)
        #expect(Tokens.text(stored.access) == "plain" && stored.tokens.others.count == 2)
        // And back: the route's own token is there, and the plain one is not sent in its place.
        driver.forget()
        Self.reload(driver, [Self.namedOrders, Self.namedStock])
        #expect(driver.token == nil && driver.call == nil && driver.state == .valid)
        #expect(Self.text(driver, 9) == "for orders" && Self.text(driver, 1) == "for stock")
        // Its renewal is the session's again, and a new token has a higher generation.
        driver.handle(.variant(UserIndex(9), .tokenRefused(Generation(try #require(driver.variant(9)?.generation)))))
        #expect(driver.call?.standIn == Self.orders && driver.call?.variant == .plain)
        let known = try #require(driver.variant(9)?.generation)
        try driver.grant(proof: Self.account, token: "orders 2")
        #expect(Self.text(driver, 9) == "orders 2" && driver.token == nil)
        #expect(try #require(driver.variant(9)?.generation) > known)
    }

    @Test(
        "a reload that adds, moves, changes or removes a route keeps each token that a route still asks for",
        arguments: ["reorder", "add first", "change first", "remove first", "rename"])
    func reloads(change: String) throws {
        let driver = try Self.fetched()
        let third = Self.third(TokenVariant(audience: "third"))
        let (routes, call): ([(named: NamedVariant, index: UserIndex)], TokenVariant?) =
            switch change {
            case "reorder": ([Self.namedStock, Self.namedOrders], nil)
            case "add first": ([third, Self.namedOrders, Self.namedStock], third.named.variant)
            case "change first": ([third, Self.namedStock], third.named.variant)
            case "remove first": ([Self.namedStock], nil)
            default: ([(NamedVariant("other", Self.orders), UserIndex(9)), Self.namedStock], nil)
            }
        Self.reload(driver, routes)
        #expect(driver.call?.variant == call && driver.call?.standIn == nil && driver.state == .valid)
        #expect(driver.token == nil && Self.text(driver, 1) == "for stock")
        if call != nil { try driver.fail(.transient(retryAfter: nil), status: 503) }
        let keepsOrders = routes.contains { $0.index == UserIndex(9) }
        #expect(Self.text(driver, 9) == (keepsOrders ? "for orders" : nil) && Self.text(driver, 1) == "for stock")
        let names = driver.coordinator.variantStatus(
            at: EventContext(instant: driver.now, wall: driver.wall, chance: 0)
        ).map(\.named.name)
        #expect(Set(names) == Set(routes.map(\.named.name)))
        // A restart of the same configuration has the same tokens.
        driver.disk.holder = nil
        let next = Self.driver(disk: driver.disk)
        next.coordinator = SessionCoordinator(driver.coordinator.setup)
        (next.now, next.wall) = (driver.now, driver.wall)
        next.begin()
        #expect(Self.text(next, 1) == "for stock" && next.token == nil)
    }

    @Test("a reload while the first route has no token: another one's token is the session's, and it is fetched beside")
    func reloadWithoutToken() throws {
        let driver = Self.driver()
        driver.begin()
        try driver.fail(.clientRefused, status: 400)
        try driver.grant(proof: Self.account, token: "plain")
        try driver.fail(.clientRefused, status: 400)
        try driver.grant(proof: Self.account, token: "for stock")
        // The same configuration: what was refused is not asked for again in place of the plain token.
        Self.reload(driver, [Self.namedOrders, Self.namedStock])
        #expect(driver.call == nil && Tokens.text(driver.token?.token) == "plain" && driver.state == .valid)
        let third = Self.third(TokenVariant(audience: "third"))
        Self.reload(driver, [third, Self.namedStock])
        #expect(driver.token == nil && driver.state == .valid && Self.text(driver, 1) == "for stock")
        #expect(driver.call?.variant == third.named.variant)
    }

    @Test("a reload while a renewal is in progress: what it brings late serves for nobody")
    func reloadDuringRenewal() throws {
        for plain in [true, false] {
            let driver = try Self.fetched()
            driver.toCall()
            let late = try #require(driver.call)
            #expect(late.standIn == Self.orders)
            Self.reload(driver, plain: plain, plain ? [Self.namedOrders, Self.namedStock] : [Self.namedStock])
            driver.handle(.callCompleted(.success(SessionDriver.grant()), late))
            #expect(Self.text(driver, 9) == (plain ? "for orders" : nil) && Self.text(driver, 1) == "for stock")
            guard plain else {
                #expect(driver.state != .loggingIn)
                continue
            }
            #expect(driver.token == nil && driver.call?.variant == .plain && driver.call?.standIn == nil)
            try driver.grant(proof: Self.account, token: "plain")
            #expect(Tokens.text(driver.token?.token) == "plain" && Self.text(driver, 9) == "for orders")
            // The other way: a plain token that comes late is not sent for a route.
            driver.refreshNow(ticket: 1)
            let plainCall = try #require(driver.call)
            Self.reload(driver, [Self.namedOrders, Self.namedStock])
            #expect(driver.token == nil)
            driver.handle(.callCompleted(.success(SessionDriver.grant()), plainCall))
            driver.handle(.session(.clockJumped))
            #expect(driver.token == nil && Self.text(driver, 9) == "for orders")
        }
    }

    @Test("a reload keeps the session of an operator's login with a refresh token, and its tokens")
    func reloadOfOperatorSession() throws {
        let driver = try Self.fetched()
        driver.login(.configured(.password(username: "a", "/x")), ticket: 1)
        try driver.grant(refresh: "one", token: "plain")
        try driver.grant(refresh: "two", token: "orders 2")
        try driver.grant(refresh: "three", token: "stock 2")
        Self.reload(driver, [Self.namedStock, Self.namedOrders])
        #expect(driver.call == nil && driver.refresh == "three" && Tokens.text(driver.token?.token) == "plain")
        #expect(Self.text(driver, 9) == "orders 2" && Self.text(driver, 1) == "stock 2")
    }

    @Test("a reload that takes the login away: the tokens serve to their ends")
    func reloadWithoutLogin() throws {
        let driver = try Self.fetched()
        var setup = driver.coordinator.setup
        (setup.standIn, setup.variants) = (nil, [Self.namedOrders, Self.namedStock])
        setup.credential = nil
        driver.handle(.reconfigured(setup, isCredentialNew: true))
        #expect(driver.state == .valid && driver.token == nil)
        #expect(Self.text(driver, 9) == "for orders" && Self.text(driver, 1) == "for stock")
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
        guard case .none(.variantRefused)? = driver.variantAvailability[UserIndex(9)] else {
            return #expect(Bool(false), "\(driver.variantAvailability)")
        }
    }

    // MARK: Refused renewals

    /// The renewal of the first route's token is due; the other one has a longer life.
    private static func renewing() throws -> CoordinatorDriver {
        let driver = driver()
        driver.begin()
        try driver.grant(.seconds(600), proof: account, token: "for orders")
        try driver.grant(.seconds(7200), proof: account, token: "for stock")
        driver.toCall()
        try #require(driver.call?.standIn == orders)
        return driver
    }

    /// Replies to the tries of the first route's token until the plain one is asked for.
    private static func toPlain(_ driver: CoordinatorDriver, _ reply: () throws -> Void) throws {
        for _ in 0..<40 where driver.call == nil || driver.call?.standIn != nil {
            if driver.call == nil { driver.toDue() } else { try reply() }
            #expect(text(driver, 1) == "for stock" && driver.token == nil)
        }
    }

    @Test(
        "a refused renewal leaves the token to its end; then the plain token proves the session", arguments: [400, 403])
    func refusedRenewal(status: Int) throws {
        let driver = try Self.renewing()
        let until = try #require(driver.variant(9)?.usableUntil)
        try driver.fail(.clientRefused, status: status)
        #expect(driver.state == .stale && driver.call == nil && driver.token == nil)
        #expect(Self.text(driver, 9) == "for orders" && Self.text(driver, 1) == "for stock")
        try Self.toPlain(driver) { try driver.fail(.clientRefused, status: status) }
        #expect(driver.now >= until)
        #expect(driver.call?.variant == .plain && driver.call?.standIn == nil && Self.text(driver, 1) == "for stock")
        try driver.grant(proof: Self.account, token: "plain")
        #expect(driver.state == .valid && driver.call?.variant == Self.orders && Self.text(driver, 1) == "for stock")
        try driver.fail(.clientRefused, status: status)
        #expect(driver.state == .valid && driver.variant(9) == nil && Self.text(driver, 1) == "for stock")
    }

    @Test("a renewal that is refused for the client, or for its credential, is followed by no call for the plain token")
    func refusedClient() throws {
        let driver = try Self.renewing()
        for _ in 0..<8 {
            try driver.fail(.clientRefused, status: 401, isOfClient: true)
            #expect(driver.call == nil && Self.text(driver, 1) == "for stock")
            driver.toDue { driver.call != nil }
            #expect(driver.call?.standIn == Self.orders)
        }
        #expect(driver.state == .unreachable)
        #expect(driver.calls.allSatisfy { $0.standIn == Self.orders || $0.variant == Self.stock })
        try driver.grant(proof: Self.account, token: "orders 2")
        #expect(Self.text(driver, 9) == "orders 2" && Self.text(driver, 1) == "for stock" && driver.state == .valid)
    }

    @Test(
        "a first login that is refused for the client is one of the client: made again after 10 s, for the same token")
    func refusedFirst() throws {
        let driver = Self.driver()
        driver.begin()
        let since = driver.now
        try driver.fail(
            .clientRefused, credential: CredentialFingerprint(bytes: [1]), status: 401, isOfClient: true)
        #expect(driver.state == .refused && driver.call == nil)
        driver.toDue { driver.call != nil }
        #expect(driver.call?.standIn == Self.orders && driver.now - since == .seconds(10))
        try driver.grant(proof: Self.account, token: "for orders")
        #expect(Self.text(driver, 9) == "for orders" && driver.state == .valid)
    }

    @Test("neither the first route's token nor the plain one is given: the other routes keep theirs")
    func refusedPlain() throws {
        let driver = try Self.renewing()
        try Self.toPlain(driver) { try driver.fail(.clientRefused, status: 403) }
        try driver.fail(.credentialRefused, status: 403)
        #expect(
            driver.state == .unreachable && Self.text(driver, 1) == "for stock" && driver.call?.variant == Self.orders)
        try driver.fail(.clientRefused, status: 403)
        // The other route's token is renewed all the same.
        for _ in 0..<200 where driver.call?.variant != Self.stock {
            guard let call = driver.call else {
                driver.toDue()
                continue
            }
            try driver.fail(call.variant == .plain ? .credentialRefused : .clientRefused, status: 403)
        }
        try driver.grant(.seconds(7200), proof: Self.account, token: "stock 2")
        #expect(Self.text(driver, 1) == "stock 2")
    }

    @Test(
        "a renewal that brings a token for another audience leaves the present one to its end, and the others as they are"
    )
    func mismatchOfRenewal() throws {
        let driver = try Self.renewing()
        try driver.grant(proof: Self.account, token: "for all", mismatch: "for the audience all")
        #expect(driver.state == .stale && driver.call == nil && driver.token == nil)
        #expect(Self.text(driver, 9) == "for orders" && Self.text(driver, 1) == "for stock")
        try Self.toPlain(driver) { try driver.grant(proof: Self.account, token: "for all", mismatch: "for all") }
        #expect(driver.call?.variant == .plain && driver.call?.standIn == nil && Self.text(driver, 1) == "for stock")
    }

    @Test("a renewal that brings a refresh token: the plain token is fetched, and the routes keep theirs")
    func refreshTokenOfRenewal() throws {
        let driver = try Self.renewing()
        try driver.grant(refresh: "one", proof: Self.account, token: "orders 2")
        #expect(driver.revoked == ["one"] && driver.call?.variant == .plain && driver.call?.standIn == nil)
        #expect(Self.text(driver, 9) == "for orders" && Self.text(driver, 1) == "for stock" && driver.token == nil)
    }

    @Test("an operator's login that the service refuses for the route: the present token is not sent for another one")
    func refusedOperatorLogin() throws {
        let driver = try Self.fetched()
        driver.login(try #require(driver.coordinator.setup.credential), ticket: 1)
        try driver.fail(.clientRefused, status: 400)
        #expect(driver.call?.standIn == nil && driver.call?.variant == .plain)
        driver.handle(.session(.clockJumped))
        #expect(driver.token == nil && Self.text(driver, 9) == "for orders" && Self.text(driver, 1) == "for stock")
        try driver.fail(.credentialRefused, status: 401)
        driver.handle(.session(.clockJumped))
        #expect(driver.token == nil && Self.text(driver, 9) == "for orders" && Self.text(driver, 1) == "for stock")
        // The account of a login with another credential may be another user's.
        driver.ownership = .inUse(by: "bob")
        driver.login(.configured(.password(username: "a", "/x")), ticket: 2)
        try driver.grant(refresh: "one", account: "b", token: "plain")
        driver.handle(.session(.clockJumped))
        #expect(driver.token == nil && Self.text(driver, 9) == "for orders")
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
