import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Rule 9: what a whole response says of the refresh token that it was for.
@Suite("Coordinator: responses to refreshes that bring no tokens")
struct NamedErrorTests {
    private static let orders = TokenVariant(audience: "orders")

    static func error(
        _ status: Int, _ stated: RefreshResponse.StatedError,
        _ verdict: IdentityError.Verdict = .transient(retryAfter: nil)
    ) -> IdentityError {
        var error = IdentityError(verdict, status: status, message: "planned")
        error.refreshResponse = RefreshResponse(status: status, error: stated)
        return error
    }

    /// Logged in with the refresh token `one`, without a credential from then on, and a refresh in progress.
    private static func refreshing(
        _ rotation: RefreshTokenRotation, hasCredential: Bool = false, asksBeforeSending: Bool = true
    ) throws -> CoordinatorDriver {
        let first = CoordinatorDriver(rotation: rotation)
        try first.logIn()
        let driver = CoordinatorDriver(
            hasCredential: hasCredential, rotation: rotation, disk: first.disk, asksBeforeSending: asksBeforeSending)
        first.disk.holder = nil
        (driver.now, driver.wall) = (first.now + .seconds(1), first.wall + .seconds(1))
        driver.begin()
        driver.toDue()
        driver.toCall()
        if driver.trail.last == "prepare" { try driver.connect() }
        try #require(driver.call?.kind == .refresh)
        return driver
    }

    private static func fail(_ driver: CoordinatorDriver, _ error: IdentityError) throws {
        driver.handle(.callCompleted(.failure(error), try #require(driver.call)))
    }

    private static func toSentCall(_ driver: CoordinatorDriver) throws {
        driver.toCall()
        if driver.trail.last == "prepare" { try driver.connect() }
    }

    @Test(
        "Rule 9: a named error keeps the session, whatever the rotation, and the stored refresh token is sent again",
        arguments: RefreshTokenRotation.allCases, [200, 400, 403, 429, 503])
    func named(_ rotation: RefreshTokenRotation, _ status: Int) throws {
        let driver = try Self.refreshing(rotation)
        for _ in 0..<5 {
            try Self.fail(driver, Self.error(status, .named))
            #expect(driver.state == .stale && driver.storedRefresh == "one" && driver.stored?.intent == nil)
            try Self.toSentCall(driver)
            #expect(driver.call?.kind == .refresh && driver.sent.last == "one")
        }
        try driver.grant(refresh: "two")
        #expect(driver.state == .valid && driver.storedRefresh == "two")
    }

    @Test("Rule 9: Retry-After of a named error is honoured")
    func retryAfter() throws {
        let driver = try Self.refreshing(.oneUse)
        let failedAt = driver.now
        try Self.fail(driver, Self.error(200, .named, .transient(retryAfter: .seconds(90))))
        driver.toCall()
        #expect(driver.now - failedAt >= .seconds(90) && driver.call?.kind == .refresh)
    }

    @Test("Rule 9: a named error does not prove that the token works: after invalid_grant the login follows at once")
    func dead() throws {
        let driver = try Self.refreshing(.oneUse, hasCredential: true)
        try Self.fail(driver, Self.error(200, .named))
        try Self.toSentCall(driver)
        try Self.fail(driver, Self.error(400, .named, .sessionDead))
        #expect(driver.call?.kind == .login && driver.call?.cause == .sessionDead && driver.token != nil)
    }

    @Test(
        "Rule 9: 5xx without a name has an unknown outcome for a token that works once, but for one that refuses to act",
        arguments: [500, 501, 502, 503, 504, 505, 511, 520], [RefreshResponse.StatedError.none, .ofServer])
    func failing(_ status: Int, _ stated: RefreshResponse.StatedError) throws {
        let isKnown = [501, 503, 505, 511].contains(status)
        for rotation in RefreshTokenRotation.allCases {
            let driver = try Self.refreshing(rotation, hasCredential: true)
            try Self.fail(driver, Self.error(status, stated))
            let isLost = rotation == .oneUse && !isKnown
            #expect(driver.noted(.outcomeUnknown) == isLost && (driver.call?.kind == .login) == isLost, "\(rotation)")
            #expect(driver.storedRefresh == (isLost ? nil : "one") && driver.token != nil, "\(rotation)")
        }
    }

    @Test(
        "Rule 9: the login that follows a lost token waits for the service's Retry-After, up to the mandatory zone",
        arguments: [500, 502, 504, 200])
    func lostWithRetryAfter(_ status: Int) throws {
        let driver = try Self.refreshing(.oneUse, hasCredential: true)
        for (wait, isWhole) in [(Duration.seconds(90), true), (.seconds(7200), false)] {
            let failedAt = driver.now
            try Self.fail(driver, Self.error(status, .none, .transient(retryAfter: wait)))
            #expect(driver.noted(.outcomeUnknown) && driver.storedRefresh == nil && driver.stored?.intent == nil)
            #expect(driver.state == .stale && driver.token != nil && driver.call == nil)
            let zone = try #require(driver.coordinator.session.tokens).mandatoryFrom
            driver.toCall()
            #expect(driver.call?.kind == .login && driver.now == (isWhole ? failedAt + wait : zone), "\(status)")
            try driver.grant(refresh: "next", account: "a")
            driver.toDue()
            try Self.toSentCall(driver)
        }
        // Without a usable token: half a minute at most.
        let end = try #require(driver.coordinator.session.tokens).usableUntil
        driver.pass((end - driver.now).inSeconds + 1)
        driver.handle(.due)
        let failedAt = driver.now
        try Self.fail(driver, Self.error(status, .none, .transient(retryAfter: .seconds(7200))))
        #expect(driver.state == .unreachable && driver.call == nil)
        driver.toCall()
        #expect(driver.call?.kind == .login && driver.now - failedAt == .seconds(30))
    }

    @Test("Rule 9: a lost token that is sent once more waits for the Retry-After, and for 2 s at least")
    func repeatedWithRetryAfter() throws {
        for (wait, expected) in [(Duration.seconds(9), Duration.seconds(9)), (.seconds(1), .seconds(2))] {
            let driver = try Self.refreshing(.auto, hasCredential: true)
            driver.chance = 0
            let failedAt = driver.now
            try Self.fail(driver, Self.error(200, .none, .transient(retryAfter: wait)))
            try Self.toSentCall(driver)
            #expect(driver.call?.kind == .refresh && driver.now - failedAt == expected, "\(wait)")
        }
    }

    @Test("Rule 9: auto is as one_use once it has rotated, and not before")
    func auto() throws {
        let driver = try Self.refreshing(.auto, hasCredential: true)
        try Self.fail(driver, Self.error(502, .none))
        try Self.toSentCall(driver)
        #expect(driver.call?.kind == .refresh)
        try driver.grant(refresh: "two")
        driver.toDue()
        try Self.toSentCall(driver)
        try Self.fail(driver, Self.error(502, .none))
        #expect(driver.noted(.outcomeUnknown) && driver.call?.kind == .login)
    }

    @Test("Rule 9: the successor beside an error is stored, whatever the error, and the next try sends it")
    func successor() throws {
        let verdicts: [IdentityError.Verdict] = [
            .transient(retryAfter: nil), .sessionDead, .clientRefused, .credentialDoubted,
        ]
        for verdict in verdicts {
            let driver = try Self.refreshing(.oneUse)
            var error = Self.error(200, .named, verdict)
            error.unusedRefreshToken = Tokens.secret("two")
            try Self.fail(driver, error)
            #expect(driver.storedRefresh == "two" && driver.state == .stale, "\(verdict)")
            try Self.toSentCall(driver)
            #expect(driver.sent.last == "two")
        }
    }

    @Test("a fetch that gets a named error costs no session, and one without a name does where tokens work once")
    func fetches() throws {
        for stated in [RefreshResponse.StatedError.named, .none] {
            let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders])
            driver.begin()
            try driver.grant(refresh: "one", account: "a")
            try #require(driver.call?.variant == Self.orders && driver.call?.kind == .refresh)
            try Self.fail(driver, Self.error(200, stated))
            #expect((driver.storedRefresh == "one") == (stated == .named))
            driver.toCall()
            #expect(driver.call?.kind == (stated == .named ? .refresh : .login))
        }
    }
}
