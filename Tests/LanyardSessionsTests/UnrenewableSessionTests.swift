import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// A session that has an access token and nothing that renews it: it serves until the token ends.
@Suite("Session: no renewal is possible")
struct UnrenewableSessionTests {
    /// Passes to a nanosecond before the token's end, with every deadline on the way.
    private static func passAlmostToEnd(_ driver: SessionDriver) throws {
        let end = try #require(driver.tokens).usableUntil
        for _ in 0..<20 where driver.due < end { driver.toDue() }
        let left = end - driver.now - .nanoseconds(1)
        if left > .zero { driver.pass(left.inSeconds) }
        driver.handle(.due)
    }

    private static func expectServedToEnd(_ driver: SessionDriver) throws {
        let end = try #require(driver.tokens).usableUntil
        try passAlmostToEnd(driver)
        #expect(driver.state == .valid && driver.token?.usableUntil == end && driver.calls.count <= 1)
        driver.toDue()
        #expect(driver.state == .loginRequired && driver.refusal == .loginRequired && driver.due == .never)
        #expect(driver.now >= end)
    }

    @Test("an operator's login that brings no refresh token serves until its access token ends")
    func login() throws {
        let driver = SessionDriver(hasCredential: false)
        driver.handle(.logIn)
        let call = driver.context.begin(.login, .asked, at: .now)
        var asked = call
        (asked.startedAt, asked.startedAtWall) = (driver.now, driver.wall)
        driver.handle(.loggedIn(SessionDriver.grant(account: "a"), asked))
        try Self.expectServedToEnd(driver)
    }

    @Test("the same after a restart, and for a session of another process")
    func restored() throws {
        let driver = SessionDriver(hasCredential: false)
        driver.adopt(refresh: nil)
        try Self.expectServedToEnd(driver)
    }

    @Test("a warning says when it ends and that an operator must log in; the reason and the error say so, too")
    func warning() throws {
        let driver = SessionDriver(hasCredential: false)
        driver.adopt(refresh: nil)
        let end = try #require(driver.tokens).usableUntil
        let warnings = driver.logEvents.filter { $0.event == .loginRequired }
        #expect(warnings.count == 1 && warnings.first?.level == .warning && warnings.first?.nextAt == end)
        let error = driver.context.lastError
        #expect(driver.reason == .refreshFailing && error?.message.contains("log in") == true)
        #expect(error?.message.contains("offline_access") == true)
        #expect(driver.reason.action(latest: error, canLogIn: false) == .user)
    }

    @Test("an upstream's refusal, an operator's refresh and a jump of the clocks do not end it")
    func events() throws {
        let driver = SessionDriver(hasCredential: false)
        driver.adopt(refresh: nil)
        let generation = Generation(try #require(driver.token?.generation))
        for event in [.tokenRefused(generation), .refreshNow(.asked), .clockJumped, .tokenNeeded] as [Session.Event] {
            driver.handle(event)
            #expect(driver.state == .valid && driver.token?.renewal == .impossible, "\(event)")
        }
        try Self.expectServedToEnd(driver)
    }

    @Test("a reload that takes the credential away leaves the token, also while its renewal fails")
    func credentialGone() throws {
        let driver = SessionDriver()
        driver.adopt(refresh: nil)
        driver.context.hasCredential = false
        try Self.passAlmostToEnd(driver)
        #expect(driver.state == .valid && driver.token != nil)
        let failing = SessionDriver()
        failing.adopt(refresh: nil)
        failing.toCall()
        try failing.fail(.transient(retryAfter: nil))
        try #require(failing.state == .stale)
        failing.context.hasCredential = false
        try Self.passAlmostToEnd(failing)
        #expect(failing.state == .valid && failing.token != nil)
    }

    @Test("a reload that brings a credential renews it before it ends")
    func credentialBrought() throws {
        let driver = SessionDriver(hasCredential: false)
        driver.adopt(refresh: nil)
        driver.context.hasCredential = true
        driver.toDue()
        #expect(driver.state == .refreshing && driver.call?.kind == .login && driver.token != nil)
    }

    @Test("an operator's refresh is told why there is none")
    func refresh() throws {
        let driver = CoordinatorDriver(hasCredential: false)
        driver.begin()
        driver.login(.given(.anonymous), ticket: 1)
        try driver.grant(account: "a")
        driver.refreshNow(ticket: 2)
        guard case .failed(let error)? = driver.replies[2] else { throw SessionCoordinatorTests.Missing() }
        #expect(error.verdict == .credentialUnavailable && driver.state == .valid && driver.token != nil)
    }
}
