import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Coordinator: what the tokens of variants cost the session")
struct VariantCostTests {
    private static let reading = TokenVariant(scopes: ["read"])
    private static let orders = TokenVariant(resources: ["https://orders.example"])
    private static let both: Set<String> = ["read", "write"]

    /// Logged in with both scopes; the variant that reads has its token.
    private static func narrowed(hasCredential: Bool = true) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(hasCredential: hasCredential, rotation: .oneUse, variants: [reading])
        driver.begin()
        if !hasCredential { driver.login(.configured(.emailPassword(email: "a", password: "/x")), ticket: 1) }
        try driver.grant(refresh: "one", account: "a", token: "plain", scopes: both)
        try driver.grant(refresh: "two", token: "to read", scopes: ["read"])
        try #require(driver.variant(1) != nil && driver.call == nil)
        driver.forget()
        return driver
    }

    // MARK: Scopes

    @Test("the scopes that the login has granted are sent in each refresh once a variant has scopes of its own")
    func granted() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.reading, Self.orders])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", scopes: Self.both)
        #expect(driver.stored?.session?.grantedScopes == Self.both)
        try driver.grant(refresh: "two", token: "to read", scopes: ["read"])
        #expect(driver.call?.variant == Self.orders && driver.call?.scopes == ["read", "write"])
        try driver.grant(refresh: "three", token: "for orders")
        driver.refreshNow(ticket: 1)
        #expect(driver.call?.variant == .plain && driver.call?.scopes == ["read", "write"])
        try driver.grant(refresh: "four", token: "plain 2", scopes: Self.both)
        #expect(driver.stored?.session?.grantedScopes == Self.both && !driver.noted(.scopesNarrowed))
        // So it is after a restart, and in another process.
        let next = driver.restart(rotation: .oneUse, variants: [Self.reading])
        next.begin()
        next.refreshNow(ticket: 1)
        #expect(next.call?.scopes == ["read", "write"])
        // The store still has the variant's token: the session is narrowed, although no route asks for it any more.
        try next.grant(refresh: "five", token: "plain 3", scopes: Self.both)
        let last = next.restart(rotation: .oneUse)
        last.begin()
        last.refreshNow(ticket: 1)
        #expect(last.call?.scopes == ["read", "write"])
    }

    @Test("without scopes of a variant a refresh asks for none, and so does one of a session whose scopes are unknown")
    func none() throws {
        for (variants, scopes) in [([Self.orders], Self.both), ([Self.reading], nil)] {
            let driver = CoordinatorDriver(rotation: .oneUse, variants: variants)
            driver.begin()
            try driver.grant(refresh: "one", account: "a", scopes: scopes)
            try driver.grant(refresh: "two", token: "variant", scopes: ["read"])
            driver.refreshNow(ticket: 1)
            #expect(driver.call?.variant == .plain && driver.call?.scopes == [])
        }
    }

    @Test("a login without a refresh token has no scopes to keep")
    func machine() throws {
        let driver = CoordinatorDriver(variants: [Self.reading])
        driver.begin()
        try driver.grant(token: "plain", scopes: Self.both)
        #expect(driver.stored?.session != nil && driver.stored?.session?.grantedScopes == nil)
    }

    @Test(
        "a variant has narrowed the session: the configured login follows at once, and the variant is not fetched again"
    )
    func narrowedByVariant() throws {
        let driver = try Self.narrowed()
        driver.refreshNow(ticket: 1)
        try driver.grant(refresh: "three", token: "narrow", scopes: ["read"])
        // The former token serves until the login has brought another one.
        #expect(Tokens.text(driver.token?.token) == "plain" && driver.call?.kind == .login)
        #expect(driver.logEvents.contains { $0.event == .scopesNarrowed && $0.details["missing"] == "write" })
        guard case .none(.variantRefused(let reason, .operator))? = driver.variantAvailability[UserIndex(1)] else {
            return #expect(Bool(false), "\(driver.variantAvailability)")
        }
        #expect(reason.contains("token.scopes"))
        try driver.grant(refresh: "fresh", account: "a", token: "wide", scopes: Self.both)
        #expect(Tokens.text(driver.token?.token) == "wide" && driver.call == nil && driver.revoked == ["three"])
        #expect(driver.stored?.session?.blockedVariants.map(\.value) == [.narrowsSession])
        // A refresh that brings all scopes is no reason for a line or a login, and the variant stays where it is.
        driver.forget()
        driver.refreshNow(ticket: 2)
        #expect(driver.call?.variant == .plain && driver.call?.kind == .refresh)
        try driver.grant(refresh: "next", token: "wide 2", scopes: Self.both)
        #expect(driver.call == nil && !driver.noted(.scopesNarrowed) && driver.variant(1) == nil)
        // Nor is it after a restart. An operator's login has it fetched again.
        let next = driver.restart(rotation: .oneUse, variants: [Self.reading])
        next.begin()
        #expect(next.call == nil && next.variant(1) == nil && next.coordinator.variants[0].isHeld)
        next.login(try #require(next.coordinator.setup.credential), ticket: 1)
        try next.grant(refresh: "asked", account: "a", scopes: Self.both)
        #expect(next.call?.variant == Self.reading && next.stored?.session?.blockedVariants == [:])
    }

    @Test("without a credential the narrower token serves, an error says so once, and the variant is not fetched again")
    func narrowedWithoutCredential() throws {
        let driver = try Self.narrowed(hasCredential: false)
        for count in 1...2 {
            driver.refreshNow(ticket: UInt64(count + 1))
            try driver.grant(refresh: "three \(count)", token: "narrow \(count)", scopes: ["read"])
            #expect(Tokens.text(driver.token?.token) == "narrow \(count)" && driver.call == nil)
        }
        #expect(driver.logEvents.count { $0.event == .scopesNarrowed } == 1 && driver.variant(1) == nil)
        #expect(driver.stored?.session?.blockedVariants.map(\.value) == [.narrowsSession])
        #expect(driver.stored?.session?.grantedScopes == Self.both)
    }

    @Test("a service that takes scopes away by itself: the token serves, and one error says which are missing")
    func narrowedByService() throws {
        let driver = CoordinatorDriver(rotation: .oneUse)
        driver.begin()
        try driver.grant(refresh: "one", account: "a", scopes: Self.both)
        for (count, scopes) in [["read"], ["read"], Self.both, []].enumerated() {
            driver.refreshNow(ticket: UInt64(count))
            try driver.grant(refresh: "r\(count)", token: "t\(count)", scopes: scopes)
            #expect(driver.state == .valid && driver.call == nil && Tokens.text(driver.token?.token) == "t\(count)")
        }
        let missing = driver.logEvents.filter { $0.event == .scopesNarrowed }.map { $0.details["missing"] }
        #expect(missing == ["write", "read write"])
    }

    @Test(
        "scopes that no fetch can have taken away: no variant is blamed for them, and the token serves",
        arguments: [["read", "write"], ["write"], []])
    func narrowedByNobody(stated: [String]) throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.reading])
        driver.begin()
        let granted: Set<String> = ["read", "write", "offline_access"]
        try driver.grant(refresh: "one", account: "a", token: "plain", scopes: granted)
        try driver.grant(refresh: "two", token: "to read", scopes: ["read"])
        for count in 1...2 {
            driver.refreshNow(ticket: UInt64(count))
            #expect(driver.call?.scopes == granted.sorted())
            try driver.grant(refresh: "three \(count)", token: "plain \(count)", scopes: Set(stated))
            #expect(driver.state == .valid && driver.call == nil && driver.variant(1) != nil)
        }
        let lines = driver.logEvents.filter { $0.event == .scopesNarrowed }
        #expect(lines.map(\.reason) == ["service"] && driver.stored?.session?.blockedVariants == [:])
        #expect(driver.coordinator.refreshToken.narrowedSince == nil)
    }

    @Test("a fetch that asks for the granted scopes and gets fewer: nothing is served before the plain token says why")
    func narrowedFetch() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.reading, Self.orders])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain", scopes: Self.both)
        try driver.grant(refresh: "two", token: "to read", scopes: ["read"])
        #expect(driver.call?.variant == Self.orders && driver.call?.scopes == ["read", "write"])
        try driver.grant(refresh: "three", token: "narrow", scopes: ["read"])
        #expect(driver.variant(2) == nil && driver.storedRefresh == "three" && driver.state == .refreshing)
        #expect(driver.call?.variant == .plain && driver.sent.last == "three")
        try driver.grant(refresh: "four", token: "narrow plain", scopes: ["read"])
        #expect(driver.call?.kind == .login && Tokens.text(driver.token?.token) == "plain")
        try driver.grant(refresh: "fresh", account: "a", token: "wide", scopes: Self.both)
        #expect(driver.call?.variant == Self.orders && driver.call?.kind == .refresh && driver.revoked == ["four"])
        try driver.grant(refresh: "five", token: "for orders", scopes: Self.both)
        #expect(Tokens.text(driver.variant(2)?.token) == "for orders" && driver.variant(1) == nil && driver.call == nil)
    }

    @Test("an audience that has fewer scopes has narrowed nothing: one refresh shows it, and its token serves")
    func scopesOfAudience() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.reading, Self.orders])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain", scopes: Self.both)
        try driver.grant(refresh: "two", token: "to read", scopes: ["read"])
        try driver.grant(refresh: "three", token: "for orders", scopes: ["read"])
        #expect(driver.variantAvailability[UserIndex(2)].map { if case .pending = $0 { true } else { false } } == true)
        try driver.grant(refresh: "four", token: "plain 2", scopes: Self.both)
        #expect(driver.state == .valid && driver.variant(1) != nil && Tokens.text(driver.token?.token) == "plain 2")
        let calls = driver.calls.count
        #expect(driver.call?.variant == Self.orders && driver.sent.last == "four")
        try driver.grant(refresh: "five", token: "for orders", scopes: ["read"])
        #expect(Tokens.text(driver.variant(2)?.token) == "for orders" && driver.calls.count == calls)
        driver.handle(.variant(UserIndex(2), .tokenRefused(Generation(try #require(driver.variant(2)?.generation)))))
        try driver.grant(refresh: "six", token: "orders 2", scopes: ["read"])
        #expect(Tokens.text(driver.variant(2)?.token) == "orders 2" && driver.call == nil)
        #expect(!driver.noted(.scopesNarrowed) && driver.stored?.session?.blockedVariants == [:])
    }

    @Test("a refresh that does not show why: the fetch is tried again with a back-off, and nothing is served unseen")
    func narrowedFetchUndecided() throws {
        let driver = CoordinatorDriver(rotation: .none, variants: [Self.reading, Self.orders])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain", scopes: Self.both)
        try driver.grant(token: "to read", scopes: ["read"])
        let since = driver.now
        for _ in 0..<400 where driver.now - since < .seconds(300) {
            guard let call = driver.call else {
                driver.toDue()
                continue
            }
            if call.variant == Self.orders {
                try driver.grant(token: "narrow", scopes: ["read"])
            } else {
                try driver.fail(.transient(retryAfter: nil), status: 503)
            }
            #expect(driver.variant(2) == nil && driver.variant(1) != nil)
        }
        #expect(driver.calls.count < 60, "\(driver.calls.count)")
    }

    @Test("a narrowed fetch without a credential: the narrower tokens serve, and the status says so")
    func narrowedFetchWithoutCredential() throws {
        let driver = CoordinatorDriver(hasCredential: false, rotation: .oneUse, variants: [Self.reading, Self.orders])
        driver.begin()
        driver.login(.configured(.emailPassword(email: "a", password: "/x")), ticket: 1)
        try driver.grant(refresh: "one", account: "a", token: "plain", scopes: Self.both)
        try driver.grant(refresh: "two", token: "to read", scopes: ["read"])
        try driver.grant(refresh: "three", token: "narrow", scopes: ["read"])
        try driver.grant(refresh: "four", token: "narrow plain", scopes: ["read"])
        #expect(Tokens.text(driver.token?.token) == "narrow plain" && driver.variant(1) == nil)
        #expect(driver.coordinator.refreshToken.narrowedSince == driver.wall)
        #expect(driver.coordinator.refreshToken.missingScopes == ["write"])
        driver.toDue { driver.call != nil }
        try driver.grant(refresh: "five", token: "narrow orders", scopes: ["read"])
        #expect(Tokens.text(driver.variant(2)?.token) == "narrow orders" && driver.call == nil)
        // The status keeps it until all scopes are there again.
        driver.refreshNow(ticket: 2)
        try driver.grant(refresh: "six", token: "narrow 2", scopes: ["read"])
        #expect(driver.coordinator.refreshToken.narrowedSince != nil)
        driver.login(.configured(.emailPassword(email: "a", password: "/x")), ticket: 3)
        try driver.grant(refresh: "new", account: "a", scopes: Self.both)
        #expect(driver.coordinator.refreshToken.narrowedSince == nil)
    }

    // MARK: Refused fetches that end the session

    /// The fetch of `orders` was refused, and the refresh token is dead by it; the login that follows has begun.
    private static func spent(_ rotation: RefreshTokenRotation) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(rotation: rotation, variants: [orders, reading])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain")
        try driver.fail(.clientRefused, status: 400)
        try driver.fail(.sessionDead, status: 400)
        #expect(driver.call?.kind == .refresh && driver.call?.variant == .plain && driver.call?.cause == .fetchRefused)
        try driver.fail(.sessionDead, status: 400)
        return driver
    }

    @Test(
        "a refused fetch has used up the refresh token: the login follows while the token serves, and no session is lost again",
        arguments: [RefreshTokenRotation.auto, .oneUse, .grace])
    func spentByRefusal(_ rotation: RefreshTokenRotation) throws {
        let driver = try Self.spent(rotation)
        #expect(driver.call?.kind == .login && Tokens.text(driver.token?.token) == "plain")
        try driver.grant(refresh: "fresh", account: "a", token: "plain 2")
        #expect(driver.call?.variant == Self.reading && driver.sent.last == "fresh")
        try driver.grant(refresh: "next", token: "to read")
        #expect(driver.stored?.session?.blockedVariants.map(\.value) == [.endsSession])
        guard case .none(.variantRefused(let reason, .operator))? = driver.variantAvailability[UserIndex(1)] else {
            return #expect(Bool(false), "\(driver.variantAvailability)")
        }
        #expect(reason.contains("params.resource"))
        for step in 0..<200 {
            driver.toDue()
            if driver.call != nil { try driver.grant(refresh: "r\(step)", token: "t\(step)") }
        }
        driver.refreshNow(ticket: 1)
        try driver.grant(refresh: "asked", token: "asked")
        #expect(driver.calls.count { $0.variant == Self.orders } == 1 && driver.state == .valid)
    }

    @Test("such a variant is fetched again after an operator's login, and after a change of the configuration alone")
    func spentEnds() throws {
        let driver = try Self.spent(.oneUse)
        try driver.grant(refresh: "fresh", account: "a", token: "plain 2")
        try driver.grant(refresh: "next", token: "to read")
        let stored = driver.contents
        let next = driver.restart(rotation: .oneUse, variants: [Self.orders, Self.reading])
        next.begin()
        #expect(next.call == nil && next.variant(2) != nil)
        guard case .none(.variantRefused)? = next.variantAvailability[UserIndex(1)] else {
            return #expect(Bool(false), "\(next.variantAvailability)")
        }
        var setup = next.coordinator.setup
        next.handle(.reconfigured(setup, isCredentialNew: false))
        #expect(next.call == nil)
        setup.service.tokenRequest = IdentityFingerprint(of: ["other params"])
        next.handle(.reconfigured(setup, isCredentialNew: true, isRequestNew: true))
        for _ in 0..<20 where next.call?.variant != Self.orders {
            if next.call == nil { next.toDue() } else { try next.grant(refresh: "x") }
        }
        #expect(next.call?.variant == Self.orders)
        (driver.disk.contents, driver.disk.holder) = (stored, nil)
        let other = driver.restart(rotation: .oneUse, variants: [Self.orders, Self.reading])
        other.begin()
        other.login(try #require(other.coordinator.setup.credential), ticket: 1)
        try other.grant(refresh: "asked", account: "a")
        #expect(other.call?.variant == Self.orders)
    }

    @Test(
        "a service that names the refresh token for it costs two sessions, and no more; one that ends by itself costs none"
    )
    func refusedToken() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders])
        driver.begin()
        for count in 1...2 {
            try driver.grant(refresh: "one", account: "a", token: "plain \(count)")
            #expect(driver.call?.variant == Self.orders, "\(count)")
            try driver.fail(.sessionDead, status: 400)
            try driver.fail(.sessionDead, status: 400)
            // The second login in a row is put off (refresh-outcomes.md 12).
            driver.toCall()
            #expect(driver.call?.kind == .login)
        }
        try driver.grant(refresh: "last", account: "a", token: "plain 3")
        #expect(driver.call == nil && driver.state == .valid && driver.variant(1) == nil)
        // A refusal that the refresh token outlives is no such end.
        let other = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders])
        other.begin()
        try other.grant(refresh: "one", account: "a")
        try other.fail(.clientRefused, status: 400)
        other.refreshNow(ticket: 1)
        try other.grant(refresh: "two")
        try other.grant(refresh: "three", token: "for orders")
        other.refreshNow(ticket: 2)
        try other.fail(.sessionDead, status: 400)
        try other.grant(refresh: "new", account: "a")
        #expect(other.call?.variant == Self.orders)
    }

    @Test("refresh tokens that stay are not used up by a refusal")
    func withoutRotation() throws {
        let driver = CoordinatorDriver(rotation: .none, variants: [Self.orders])
        driver.begin()
        try driver.grant(refresh: "one", account: "a")
        try driver.fail(.clientRefused, status: 400)
        driver.refreshNow(ticket: 1)
        try driver.fail(.sessionDead, status: 400)
        try driver.grant(refresh: "new", account: "a")
        #expect(driver.call?.variant == Self.orders)
    }

    // MARK: Temporary errors

    @Test(
        "a temporary error in a fetch is the variant's: the session and its refresh token stay, and it is tried again",
        arguments: [200, 400, 429, 503])
    func temporary(status: Int) throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders, Self.reading])
        driver.begin()
        try driver.grant(refresh: "one", account: "a", token: "plain")
        try driver.fail(.transient(retryAfter: nil), status: status, isNamed: true)
        #expect(!driver.noted(.outcomeUnknown) && driver.state == .valid && driver.storedRefresh == "one")
        #expect(driver.call?.variant == Self.reading && driver.stored?.intent?.tries == 1)
        try driver.grant(refresh: "two", token: "to read")
        driver.toDue { driver.call != nil }
        #expect(driver.call?.variant == Self.orders && driver.sent.last == "two")
        try driver.grant(refresh: "three", token: "for orders")
        #expect(driver.variant(1) != nil && driver.variant(2) != nil && Tokens.text(driver.token?.token) == "plain")
    }
}
