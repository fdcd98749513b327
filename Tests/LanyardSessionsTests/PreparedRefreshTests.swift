import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// Rule 9: before a refresh token is sent that may work only once, the service is connected, and only then the intent is stored.
@Suite("Coordinator: refreshes that are prepared")
struct PreparedRefreshTests {
    private static let orders = TokenVariant(audience: "orders")

    /// Logged in, with the refresh token `one` in the store, and a refresh that is being prepared.
    private static func preparing(
        _ rotation: RefreshTokenRotation = .oneUse, graceWindow: Duration? = nil,
        disk: CoordinatorDriver.Disk = CoordinatorDriver.Disk()
    ) throws -> CoordinatorDriver {
        let driver = CoordinatorDriver(
            rotation: rotation, graceWindow: graceWindow, disk: disk, asksBeforeSending: true)
        try driver.logIn()
        driver.toCall()
        try #require(driver.sent == ["one"] && driver.trail.last == "prepare")
        return driver
    }

    /// Refreshed once, with a second refresh that is being prepared, and what the store held before the first.
    private static func preparingAgain(
        _ rotation: RefreshTokenRotation
    ) throws -> (driver: CoordinatorDriver, old: StoreContents) {
        let driver = CoordinatorDriver(rotation: rotation, asksBeforeSending: true)
        try driver.logIn()
        let old = driver.contents
        driver.toCall()
        try driver.connect()
        try driver.grant(refresh: "two")
        driver.toCall()
        return (driver, old)
    }

    /// A start on what the store holds, by a process of the same kind.
    private static func restarted(_ driver: CoordinatorDriver, hasCredential: Bool = false) -> CoordinatorDriver {
        if driver.disk.holder === driver { driver.disk.holder = nil }
        let next = CoordinatorDriver(
            hasCredential: hasCredential, rotation: .oneUse, disk: driver.disk, asksBeforeSending: true)
        (next.now, next.wall) = (driver.now + .seconds(1), driver.wall + .seconds(1))
        next.begin()
        return next
    }

    @Test(
        "Rule 9: lock, read, connection, intent, refresh token: in this order",
        arguments: [RefreshTokenRotation.oneUse, .grace])
    func order(_ rotation: RefreshTokenRotation) throws {
        let driver = try Self.preparing(rotation)
        #expect(driver.trail == ["lock", "read", "prepare"] && driver.stored?.intent == nil)
        driver.holdsStore = true
        try driver.connect()
        #expect(driver.trail.last == "prepare")
        driver.release()
        #expect(driver.trail == ["lock", "read", "prepare", "intend", "send"])
        #expect(driver.stored?.intent?.tries == 1)
        try driver.grant(refresh: "two")
        #expect(driver.storedRefresh == "two" && driver.stored?.intent == nil && driver.trail.last == "unlock")
    }

    @Test(
        "Rule 9: a service that does not ask, and tokens that do not rotate: the intent is stored first, with one call of the store"
    )
    func others() throws {
        for (rotation, asks) in [(RefreshTokenRotation.oneUse, false), (.none, true)] {
            let driver = CoordinatorDriver(rotation: rotation, asksBeforeSending: asks)
            try driver.logIn()
            driver.toCall()
            #expect(driver.trail == ["begin", "refresh"] && driver.stored?.intent?.tries == 1)
        }
    }

    @Test(
        "Rule 9: a crash while the service is being connected: the refresh token is sent after the start, and there is no login"
    )
    func crash() throws {
        let driver = try Self.preparing()
        let next = Self.restarted(driver)
        next.toCall()
        #expect(next.sent == ["one"] && next.call?.kind == .refresh && next.state != .loginRequired)
        try next.connect()
        try next.grant(refresh: "two")
        #expect(next.state == .valid && next.storedRefresh == "two")
    }

    @Test("Rule 9: a crash after the intent was stored: the refresh token may have been sent, and is not sent again")
    func crashAfterIntent() throws {
        let driver = try Self.preparing()
        try driver.connect()
        let next = Self.restarted(driver, hasCredential: true)
        next.toCall()
        #expect(next.sent.isEmpty && next.call?.kind == .login && next.call?.cause == .outcomeUnknown)
    }

    @Test("Rule 9: a service that cannot be connected: nothing is written, and each try sends the same refresh token")
    func unconnected() throws {
        let driver = try Self.preparing()
        for _ in 0..<5 {
            try driver.fail(.transient(retryAfter: nil))
            driver.toCall()
        }
        #expect(driver.sent == Array(repeating: "one", count: 6))
        #expect(
            !driver.trail.contains("intend") && !driver.trail.contains("settle") && !driver.trail.contains("cancel"))
        try driver.connect()
        try driver.grant(refresh: "two")
        #expect(driver.storedRefresh == "two" && driver.state == .valid)
    }

    @Test("Rule 9: an intent of an earlier call stays while the service cannot be connected")
    func earlierIntent() throws {
        let driver = try Self.preparing(.grace)
        try driver.connect()
        try driver.fail(.unknownOutcome)
        driver.toCall()
        try #require(driver.sent == ["one", "one"] && driver.trail.last == "prepare")
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.stored?.intent?.tries == 1)
        driver.toCall()
        try driver.connect()
        #expect(driver.stored?.intent?.tries == 2)
    }

    @Test(
        "a refusal that comes before the refresh token was sent counts: the store forgets the session",
        arguments: [false, true])
    func refusedEarly(hasCredential: Bool) throws {
        let disk = CoordinatorDriver.Disk()
        _ = try Self.preparing(disk: disk)
        disk.holder = nil
        let driver = CoordinatorDriver(
            hasCredential: hasCredential, rotation: .oneUse, disk: disk, asksBeforeSending: true)
        driver.now = driver.now + .seconds(1_300)
        driver.wall = driver.wall + .seconds(1_300)
        driver.begin()
        driver.toCall()
        try driver.fail(.sessionDead)
        #expect(driver.storedRefresh == nil && !driver.trail.contains("cancel"))
        #expect(driver.trail.contains(hasCredential ? "spend" : "end"))
    }

    @Test(
        "a logout while the service is being connected, or while the intent is being stored: nothing is sent",
        arguments: [false, true])
    func logout(isConnected: Bool) throws {
        let driver = try Self.preparing()
        let number = try #require(driver.call).number
        driver.holdsStore = true
        if isConnected { try driver.connect() }
        driver.terminate(.logOut, ticket: 1)
        #expect(driver.trail.filter { $0 == "cancel" }.count == 1)
        driver.release()
        driver.handle(.refreshPrepared(operation: number))
        #expect(!driver.trail.contains("send") && driver.state == .loggedOut && driver.stored?.isLoggedOut == true)
        #expect(driver.revoked == ["one"])
    }

    @Test("a stop does not wait for a connection, and nothing is sent after it")
    func stop() throws {
        let driver = try Self.preparing()
        driver.handle(.drain)
        #expect(
            driver.trail.suffix(2).contains("cancel") && driver.coordinator.isDrained && !driver.coordinator.isRotating)
        #expect(driver.stored?.intent == nil && driver.storedRefresh == "one")
    }

    @Test("a stop while the intent is being stored waits for the response")
    func stopAfterIntent() throws {
        let driver = try Self.preparing()
        driver.holdsStore = true
        try driver.connect()
        driver.handle(.drain)
        #expect(!driver.coordinator.isDrained && driver.coordinator.isRotating && !driver.trail.contains("cancel"))
        driver.release()
        try driver.grant(refresh: "two")
        #expect(driver.coordinator.isDrained && driver.storedRefresh == "two")
    }

    @Test("a logout of another process while the service is being connected: the refresh token is not sent")
    func logoutElsewhere() throws {
        let driver = try Self.preparing()
        let other = driver.another(rotation: .oneUse)
        other.terminate(.logOut, ticket: 1)
        try driver.connect()
        #expect(driver.trail.contains("cancel") && !driver.trail.contains("send") && driver.state == .loggedOut)
    }

    @Test(
        "a restored backup is found when the intent is stored: the newer session is written again, on the same connection"
    )
    func backup() throws {
        let (driver, old) = try Self.preparingAgain(.oneUse)
        try #require(driver.sent == ["one", "two"])
        driver.disk.contents = old
        driver.forget()
        try driver.connect()
        #expect(driver.trail.filter { $0 == "prepare" }.isEmpty && driver.trail.last == "send")
        #expect(driver.storedRefresh == "two" && driver.stored?.intent?.tries == 1)
    }

    @Test("an intent that cannot be stored: a call that an operator has asked for is still made")
    func fullDisk() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, asksBeforeSending: true)
        try driver.logIn()
        driver.refreshNow(ticket: 1)
        driver.storeError = CoordinatorDriver.full
        try driver.connect()
        #expect(driver.trail.last == "send")
        try driver.grant(refresh: "two")
        #expect(driver.refresh == "two" && driver.coordinator.isUnsaved)
    }

    @Test("Rule 9: the window of a repetition ends while the service is being connected: it is given up")
    func windowEnds() throws {
        let driver = try Self.preparing(.grace, graceWindow: .seconds(60))
        try driver.connect()
        try driver.fail(.unknownOutcome)
        driver.toCall()
        try #require(driver.trail.last == "prepare")
        driver.pass(120)
        try driver.connect()
        #expect(driver.trail.contains("cancel") && driver.trail.filter { $0 == "send" }.count == 1)
        driver.toCall()
        #expect(driver.call?.kind == .login)
    }

    @Test("the fetch of a variant is prepared like a refresh")
    func fetch() throws {
        let driver = CoordinatorDriver(rotation: .oneUse, variants: [Self.orders], asksBeforeSending: true)
        driver.begin()
        try driver.grant(refresh: "one", account: "a")
        #expect(driver.trail.last == "prepare" && driver.stored?.intent == nil && driver.call?.variant == Self.orders)
        try driver.fail(.transient(retryAfter: nil))
        driver.toCall()
        try driver.connect()
        try driver.grant(refresh: "two", token: "for orders")
        #expect(driver.sent == ["one", "one"] && driver.storedRefresh == "two" && driver.variant(1) != nil)
    }

    @Test("a repetition that has to wait after all is prepared anew")
    func pauseAfterPreparation() throws {
        let (driver, old) = try Self.preparingAgain(.grace)
        try driver.connect()
        try driver.fail(.unknownOutcome)
        driver.toCall()
        try #require(driver.sent == ["one", "two", "two"] && driver.trail.last == "prepare")
        // A backup is restored, and the wall clock is set back.
        driver.disk.contents = old
        driver.wall = driver.wall + .seconds(-3)
        driver.forget()
        try driver.connect()
        #expect(driver.trail.contains("cancel") && !driver.trail.contains("send"))
        driver.toCall()
        #expect(driver.trail.last == "prepare")
        try driver.connect()
        #expect(driver.trail.last == "send")
        try driver.grant(refresh: "three")
        #expect(driver.storedRefresh == "three" && driver.coordinator.isIdle)
    }

    @Test("nothing is prepared once the end has begun")
    func drainBeforePreparation() throws {
        let driver = CoordinatorDriver(rotation: .auto, asksBeforeSending: true)
        try driver.logIn()
        driver.holdsStore = true
        driver.toDue { driver.isHeld }
        var setup = driver.coordinator.setup
        setup.refreshTokens = RefreshTokenSettings(.oneUse)
        driver.handle(.reconfigured(setup, isCredentialNew: false))
        driver.handle(.drain)
        driver.storeError = CoordinatorDriver.full
        driver.release()
        #expect(!driver.trail.contains("prepare") && driver.coordinator.isDrained)
    }

    @Test("a page in place of the metadata is no response to the refresh: its token is sent again")
    func pageOfPlace() throws {
        let driver = try Self.preparing()
        try driver.connect()
        var error = IdentityError(.transient(retryAfter: nil), status: 200, message: "a page")
        error.isOfPlace = true
        driver.handle(.callCompleted(.failure(error), try #require(driver.call)))
        #expect(driver.stored?.intent == nil && driver.storedRefresh == "one")
        driver.toCall()
        #expect(driver.sent == ["one", "one"] && driver.call?.kind == .refresh)
    }
}
