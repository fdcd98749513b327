import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Rule 8: refresh tokens that work only once while the store cannot be written.
@Suite("Coordinator: one-use tokens and a store that fails")
struct StoreFailureTests {
    private static let orders = TokenVariant(audience: "orders")

    /// Logged in with the refresh token `one`, and the disk is full from then on.
    private static func full(
        _ rotation: RefreshTokenRotation = .oneUse, asks: Bool = true, variants: [TokenVariant] = []
    ) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(rotation: rotation, variants: variants, asksBeforeSending: asks)
        driver.begin()
        try driver.grant(refresh: "one", account: "a")
        driver.storeError = CoordinatorDriver.full
        driver.forget()
        return driver
    }

    /// The service can be connected. Continues until the token was sent.
    private static func untilSent(_ driver: CoordinatorDriver) {
        for _ in 0..<2000 where !driver.trail.contains("send") && !driver.trail.contains("refresh") {
            driver.toDue()
            // A write of the unsaved session may have followed.
            if driver.coordinator.operation?.isPreparing == true { try? driver.connect() }
        }
    }

    @Test(
        "Rule 8: a one-use token is not sent in the advisory zone, and is sent at the start of the mandatory zone",
        arguments: [RefreshTokenRotation.oneUse, .grace], [true, false])
    func mandatoryOnly(_ rotation: RefreshTokenRotation, _ asks: Bool) throws {
        let driver = try Self.full(rotation, asks: asks)
        let zone = try #require(driver.coordinator.session.tokens?.mandatoryFrom)
        Self.untilSent(driver)
        #expect(driver.now == zone && driver.token != nil)
        #expect(driver.stored?.intent == nil && driver.coordinator.operation?.stage != nil)
        try driver.grant(refresh: "two")
        #expect(driver.refresh == "two" && driver.storedRefresh == "one" && driver.coordinator.hasUnsavedRefreshToken)
    }

    @Test("Rule 8: the token serves until then, and the operator is told why it is not renewed")
    func told() throws {
        let driver = try Self.full()
        driver.toCall()
        try driver.connect()
        #expect(driver.state == .stale && driver.trail.contains("cancel"))
        let error = try #require(driver.coordinator.context.lastError)
        #expect(error.message.contains("no space left on device") && error.action(canLogIn: true) == .operator)
        #expect(driver.reason == .refreshFailing && driver.token?.generation == 1)
        #expect(driver.logEvents.contains { $0.event == .refreshFailed && $0.nextAt != nil })
        // With room again the next attempt is the normal one.
        driver.storeError = nil
        Self.untilSent(driver)
        #expect(driver.stored?.intent?.tries == 1)
    }

    @Test(
        "Rule 8: a token that does not rotate, an operator's refresh, and one after a refusal by an upstream are sent at once"
    )
    func others() throws {
        let steady = try Self.full(.none)
        steady.toCall()
        #expect(steady.sent == ["one"] && steady.trail.last == "refresh")
        let asked = try Self.full()
        asked.refreshNow(ticket: 1)
        try asked.connect()
        #expect(asked.trail.last == "send")
        let forced = try Self.full()
        forced.handle(.session(.tokenRefused(1)))
        try forced.connect()
        #expect(forced.trail.last == "send")
    }

    @Test(
        "Rule 8: the first token of a variant is fetched, a renewal waits for the mandatory zone of the variant's token"
    )
    func variant() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders], asksBeforeSending: true)
        driver.begin()
        try driver.grant(.seconds(36_000), refresh: "one", account: "a")
        driver.storeError = CoordinatorDriver.full
        driver.forget()
        try driver.connect()
        #expect(driver.trail.last == "send", "there is no token for the route")
        try driver.grant(.seconds(1800), refresh: "two", token: "for orders")
        let zone = try #require(driver.coordinator.variants[0].session.tokens?.mandatoryFrom)
        driver.forget()
        Self.untilSent(driver)
        #expect(driver.now == zone && driver.sent.last == "two")
    }

    @Test(
        "the store is told which token is sent even without its intent: in the mandatory zone, and none that does not rotate",
        arguments: [RefreshTokenRotation.oneUse, .grace, .none], [true, false])
    func marked(_ rotation: RefreshTokenRotation, _ asks: Bool) throws {
        for isLate in [false, true] {
            let driver = CoordinatorDriver(rotation: rotation, asksBeforeSending: asks)
            try driver.logIn()
            let zone = try #require(driver.coordinator.session.tokens?.mandatoryFrom)
            if isLate { driver.pass((zone - driver.now).inSeconds) }
            driver.holdsStore = true
            driver.toDue { driver.isHeld }
            for _ in 0..<4 where driver.heldIntent == nil && driver.isHeld {
                driver.release(holdingOn: true)
                if driver.trail.last == "prepare" { try driver.connect() }
            }
            #expect(driver.heldIntent != nil)
            #expect(driver.heldToken == (rotation != .none && isLate ? "one" : nil), "\(isLate)")
        }
    }

    @Test(
        "the store is told which token has had its response, and how many calls with it had none, although it cannot write",
        arguments: [RefreshTokenRotation.oneUse, .grace, .none])
    func answered(_ rotation: RefreshTokenRotation) throws {
        let driver = CoordinatorDriver(rotation: rotation)
        try driver.refreshUnsaved()
        driver.toDue { driver.call != nil }
        #expect(driver.sent.last == "two")
        // With `grace` an unknown outcome comes first, whose call stays open.
        let openCalls = rotation == .grace ? 1 : 0
        if openCalls > 0 {
            try driver.fail(.unknownOutcome)
            driver.toDue { driver.call != nil }
        }
        try driver.fail(.transient(retryAfter: nil), status: 400, isNamed: true)
        #expect(driver.settledToken?.token == (rotation == .none ? nil : "two"))
        #expect(driver.settledToken?.openCalls == (rotation == .none ? nil : openCalls))
        driver.storeError = nil
        driver.toDue { driver.storedRefresh == "two" }
        let saved = driver.commits.compactMap { change -> StoreChange.StoredLogin? in
            if case .saveSession(_, let login, _) = change { login } else { nil }
        }
        #expect(saved.last?.hasOpenCall == (openCalls > 0))
    }

    @Test(
        "a token whose call waits for the store is not sent, although the mandatory zone begins while the store fails")
    func zoneBegins() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, asksBeforeSending: true)
        try driver.logIn()
        let zone = try #require(driver.coordinator.session.tokens?.mandatoryFrom)
        driver.toCall()
        driver.holdsStore = true
        try driver.connect()
        #expect(driver.heldIntent != nil && driver.heldToken == nil)
        driver.pass((zone - driver.now).inSeconds)
        driver.storeError = CoordinatorDriver.full
        driver.release()
        #expect(driver.trail.last { $0 != "unlock" } != "send" && driver.trail.contains("cancel"))
        Self.untilSent(driver)
        #expect(driver.now >= zone && driver.now < zone + .seconds(20))
    }

    @Test("a stop repeats the write of what only this process has", arguments: [true, false])
    func stop(hasCredential: Bool) throws {
        for rotation in [RefreshTokenRotation.oneUse, .none] {
            let driver = CoordinatorDriver(hasCredential: hasCredential, rotation: rotation)
            driver.begin()
            driver.login(.given(.anonymous), ticket: 1)
            driver.storeError = CoordinatorDriver.full
            for _ in 0..<3 where driver.call != nil { try driver.grant(refresh: "new", account: "a") }
            let isLost = rotation != .none || !hasCredential
            driver.handle(.drain)
            for _ in 0..<3 {
                #expect(driver.coordinator.isDrained && driver.coordinator.hasUnsavedRefreshToken == isLost)
                driver.handle(.retryUnsaved)
            }
            driver.storeError = nil
            driver.handle(.retryUnsaved)
            #expect(driver.storedRefresh == "new" && !driver.coordinator.hasUnsavedRefreshToken)
        }
    }
}
