import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Coordinator: a start with stored sessions")
struct SessionRestoreTests {
    private static func loggedIn(_ lifetime: Duration = .seconds(1800), refreshExpiry: WallTime? = nil) throws
        -> CoordinatorDriver
    {
        let driver = CoordinatorDriver()
        try driver.logIn(lifetime, refreshExpiry: refreshExpiry)
        return driver
    }

    @Test("Rule 15: a stored access token serves at once, and no call is made before its schedule")
    func servesAtOnce() throws {
        let first = try Self.loggedIn()
        let driver = first.restart(after: 60)
        driver.begin()
        #expect(driver.state == .valid && driver.token?.generation == 1 && driver.calls.isEmpty)
        #expect(driver.coordinator.context.hasEverBeenReady && driver.token?.usableUntil == first.now + .seconds(1795))
        driver.toCall()
        #expect(driver.sent == ["one"])
    }

    @Test(
        "Rule 15: a restarted fleet is spread over a tenth of the lifetime, never into the mandatory zone",
        arguments: [60.0, 1500, 1730])
    func spread(_ age: Double) throws {
        let first = try Self.loggedIn()
        var dues: [Double] = []
        for chance in [0, 0.25, 0.5, 0.75, 0.999] {
            let driver = first.restart(after: age)
            driver.chance = chance
            driver.begin()
            dues.append((driver.coordinator.due - first.now).inSeconds)
        }
        #expect(dues == dues.sorted() && dues.last! <= 1740.001 && dues.first! >= min(age, 1170))
        if age == 60 { #expect(dues.last! - dues.first! > 350) }
        if age == 1500 { #expect(dues.first! == 1500 && dues.last! - dues.first! > 170) }
    }

    @Test("an expired access token is never served: one refresh first, for which requests wait")
    func expired() throws {
        let driver = try Self.loggedIn().restart(after: 1796)
        driver.begin()
        #expect(driver.token == nil && driver.call?.kind == .refresh && driver.state == .refreshing)
        guard case .pending? = driver.availability else { throw SessionCoordinatorTests.Missing() }
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.state == .unreachable && driver.storedRefresh == "one")
        driver.toCall()
        try driver.grant()
        #expect(driver.state == .valid && driver.token?.generation == 2)
    }

    @Test("Rule 15: offline: never lets a stored token wait until one refresh has succeeded")
    func never() throws {
        let driver = try Self.loggedIn().restart(after: 60, offline: .never)
        driver.begin()
        #expect(driver.token == nil && driver.call?.kind == .refresh && !driver.coordinator.context.hasEverBeenReady)
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.state == .unreachable && driver.token == nil)
        driver.toCall()
        try driver.grant()
        #expect(driver.token?.generation == 2)
    }

    @Test(
        "Rule 1: after another boot the wall clock judges; one before the token was issued makes no sense",
        arguments: [(60.0, true), (1794, true), (1796, false), (-3, true), (-6, false), (-1e8, false), (1e9, false)])
    func otherBoot(_ age: Double, _ isServed: Bool) throws {
        let first = try Self.loggedIn()
        let driver = first.restart(boot: "boot-2")
        driver.now = Instant(nanoseconds: 5_000_000_000)
        driver.wall = first.wall + .seconds(age)
        driver.begin()
        #expect((driver.token != nil) == isServed)
        #expect((driver.call == nil) == isServed || driver.coordinator.due <= driver.now)
        if let token = driver.token {
            #expect(abs((token.usableUntil - driver.now).inSeconds - (1795 - max(age, 0))) < 0.001)
        }
    }

    @Test(
        "Rule 1: on the same boot the boot clock judges, whatever the wall clock was set back to; forwards the earlier end wins"
    )
    func sameBoot() throws {
        let first = try Self.loggedIn()
        let back = first.restart(after: 600)
        back.wall = WallTime(seconds: 0)
        back.begin()
        #expect(back.token?.usableUntil == first.now + .seconds(1795))
        let old = first.restart(after: 1800)
        old.wall = first.wall
        old.begin()
        #expect(old.token == nil)
        old.disk.holder = nil
        let forward = first.restart(after: 60)
        forward.wall = first.wall + .seconds(3600)
        forward.begin()
        #expect(forward.token == nil && forward.call?.kind == .refresh)
    }

    @Test("an unknown boot: the wall clock decides")
    func unknownBoot() throws {
        let first = CoordinatorDriver(boot: "")
        try first.logIn()
        let driver = first.restart(after: 0, boot: "")
        driver.wall = first.wall + .seconds(1796)
        driver.begin()
        #expect(driver.token == nil)
    }

    @Test("a session without a refresh token serves its access token, and logs in on schedule")
    func spent() throws {
        let first = try Self.loggedIn()
        first.toDue()
        try first.fail(.sessionDead)
        let driver = first.restart(after: 1)
        driver.begin()
        #expect(driver.token?.generation == 1)
        driver.toCall()
        #expect(driver.call?.kind == .login && driver.sent.isEmpty)
    }

    @Test("a user that has moved to another identity logs in there; the stored tokens serve no request")
    func otherIdentity() throws {
        let first = try Self.loggedIn()
        first.disk.contents.users[0].identity = "elsewhere"
        let driver = first.restart()
        driver.begin()
        #expect(driver.token == nil && driver.call?.kind == .login && driver.refused == nil)
        try driver.grant(refresh: "here", account: "z")
        #expect(driver.stored?.identity == "demo" && driver.storedRefresh == "here" && driver.token?.generation == 2)
    }

    @Test(
        "Rule 15: no network at the start costs nothing while the access token is valid, and recovery comes by itself")
    func offline() throws {
        let driver = try Self.loggedIn().restart(after: 1000)
        driver.begin()
        for _ in 0..<1000 where driver.state != .unreachable {
            try #require(driver.token != nil)
            driver.toDue()
            if driver.call != nil { try driver.fail(.transient(retryAfter: nil)) }
        }
        #expect(driver.state == .unreachable)
        #expect(driver.now >= driver.coordinator.session.tokens!.usableUntil && driver.storedRefresh == "one")
        driver.toCall()
        try driver.grant()
        #expect(driver.state == .valid)
    }
}
