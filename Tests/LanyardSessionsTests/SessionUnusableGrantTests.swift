import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Sessions: successes that cannot be used")
struct SessionUnusableGrantTests {
    private static func error(_ token: String?, isLogin: Bool = true) -> IdentityError {
        var error = IdentityError(.transient(retryAfter: nil), status: 200, message: "planned")
        error.unusedRefreshToken = token.map(Tokens.secret)
        error.hasMadeSession = isLogin
        return error
    }

    @Test("the next login comes after 15 to 30 s, then twice as late, at most 5 minutes; requests do not shorten that")
    func backOff() throws {
        let driver = SessionDriver(chance: 0)
        driver.handle(.logIn)
        for least in [15.0, 30, 60, 120, 150, 150] {
            driver.handle(.failed(Self.error("new"), try #require(driver.call)))
            driver.handle(.tokenNeeded)
            #expect(driver.dueIn == least)
            driver.toDue()
        }
    }

    @Test("failures of another kind before it do not lengthen that")
    func afterOutage() throws {
        let driver = SessionDriver(chance: 0)
        driver.handle(.logIn)
        for _ in 0..<8 {
            driver.handle(
                .failed(IdentityError(.transient(retryAfter: nil), message: "planned"), try #require(driver.call)))
            driver.toDue()
        }
        driver.handle(.failed(Self.error("new"), try #require(driver.call)))
        #expect(driver.dueIn == 15)
    }

    @Test("one whose Retry-After is waited for counts")
    func afterRetryAfter() {
        let context = EventContext(instant: Instant(nanoseconds: 0), wall: WallTime(nanoseconds: 0), chance: 0)
        let rest = RetryState(waitingUntil: context.instant, because: Self.error("new"))
        let call = SessionCall(
            number: 1, kind: .login, cause: .retry, startedAt: context.instant, startedAtWall: context.wall)
        let next = rest.calling(call).failed(
            Self.error("new"), holding: nil, by: ClockPolicy(RefreshSettings()), at: context)
        #expect(next.nextAttemptAt == context.instant + .seconds(30))
    }

    @Test("a login's session is revoked, its own and a requested one; the current session is not")
    func login() throws {
        let driver = CoordinatorDriver()
        driver.begin()
        driver.handle(.callCompleted(.failure(Self.error("stray")), try #require(driver.call)))
        #expect(driver.revoked == ["stray"] && driver.state == .loggingIn)
        driver.toCall()
        try driver.grant(refresh: "one", account: "a")
        driver.login(.configured(.anonymous), ticket: 7)
        driver.handle(.callCompleted(.failure(Self.error("second")), try #require(driver.call)))
        #expect(driver.revoked == ["stray", "second"] && driver.state == .valid && driver.replies[7] != nil)
        driver.login(.configured(.anonymous), ticket: 8)
        driver.handle(.callCompleted(.failure(Self.error("one")), try #require(driver.call)))
        #expect(driver.revoked == ["stray", "second"], "the current session")
    }

    @Test("the result of a call that ends after a logout is revoked, whatever the call")
    func late() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toCall()
        let call = try #require(driver.call)
        driver.terminate(.logOut, ticket: nil)
        driver.handle(.callCompleted(.failure(Self.error("late", isLogin: false)), call))
        #expect(driver.revoked.contains("late"))
    }

    /// A refresh whose response had a new refresh token and no usable access token.
    private static func stranded(_ rotation: RefreshTokenRotation, hasCredential: Bool = true) throws
        -> CoordinatorDriver
    {
        let driver = CoordinatorDriver(hasCredential: hasCredential, rotation: rotation)
        if hasCredential {
            try driver.logIn()
        } else {
            driver.begin()
            driver.login(.configured(.anonymous), ticket: nil)
            try driver.grant(refresh: "one", account: "a")
        }
        driver.toCall()
        driver.handle(.callCompleted(.failure(error("two", isLogin: false)), try #require(driver.call)))
        return driver
    }

    @Test(
        "where refresh tokens rotate, the one that came is the session's: stored, and sent by the next try",
        arguments: [RefreshTokenRotation.oneUse, .grace, .auto])
    func successor(_ rotation: RefreshTokenRotation) throws {
        for hasCredential in [true, false] {
            let driver = try Self.stranded(rotation, hasCredential: hasCredential)
            #expect(driver.storedRefresh == "two" && driver.revoked.isEmpty && !driver.noted(.outcomeUnknown))
            #expect(driver.state == .valid || driver.state == .refreshing || driver.state == .stale)
            driver.toCall()
            #expect(driver.call?.kind == .refresh && driver.sent == ["one", "two"])
            try driver.grant(refresh: "three")
            #expect(driver.state == .valid && driver.storedRefresh == "three")
        }
        let left = try Self.stranded(rotation)
        left.terminate(.logOut, ticket: nil)
        #expect(left.revoked == ["two"])
    }

    @Test("a response that was cut off after its refresh token counts as well, by a status of success alone")
    func cutOff() throws {
        for status in [200, nil, 500] {
            let driver = CoordinatorDriver(rotation: .oneUse)
            try driver.logIn()
            driver.toCall()
            var error = IdentityError(.unknownOutcome, status: status, message: "cut off")
            error.unusedRefreshToken = Tokens.secret("two")
            driver.handle(.callCompleted(.failure(error), try #require(driver.call)))
            #expect((driver.storedRefresh == "two") == (status == 200))
            #expect(driver.noted(.outcomeUnknown) == (status != 200))
        }
    }

    @Test("without rotation the current refresh token stays, whatever else came")
    func none() throws {
        let driver = try Self.stranded(.none)
        driver.toCall()
        #expect(driver.sent.last == "one")
        try driver.grant()
        #expect(driver.revoked.isEmpty && driver.storedRefresh == "one")
    }

    @Test("another process's change takes precedence: a logout ends the session that is taken over")
    func takenOver() throws {
        let one = try Self.stranded(.grace)
        let two = one.another(rotation: .grace)
        two.login(.configured(.anonymous), ticket: 1)
        try two.grant(refresh: "three", account: "a")
        one.handle(.storeSnapshot(two.stored))
        #expect(one.refresh == "three")
        one.terminate(.logOut, ticket: nil)
        #expect(one.revoked.last == "three")
    }
}
