import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

@Suite("Coordinator: lost responses")
struct SessionUnknownOutcomeTests {
    /// A driver whose first refresh has an unknown outcome.
    private static func driver(_ rotation: RefreshTokenRotation, hasCredential: Bool = true) throws -> CoordinatorDriver
    {
        let first = CoordinatorDriver(rotation: rotation)
        try first.logIn()
        let driver = first.restart(hasCredential: hasCredential, rotation: rotation)
        driver.begin()
        driver.toDue()
        driver.toCall()
        try driver.fail(.unknownOutcome)
        if rotation != .oneUse { #expect(driver.stored?.intent?.tries == 1 && driver.trail.last == "unlock") }
        driver.forget()
        return driver
    }

    @Test(
        "Rule 9: the same refresh token is sent once more, after two seconds",
        arguments: [RefreshTokenRotation.none, .grace])
    func retried(_ rotation: RefreshTokenRotation) throws {
        let driver = try Self.driver(rotation)
        let began = driver.now
        driver.toCall()
        #expect(driver.now - began >= .seconds(2) && driver.sent == ["one", "one"])
        #expect(driver.stored?.intent?.tries == 2 && driver.token?.generation == 1)
        try driver.grant(refresh: rotation == .grace ? "two" : nil)
        #expect(driver.stored?.intent == nil && driver.token?.generation == 2)
        #expect(driver.storedRefresh == (rotation == .grace ? "two" : "one"))
    }

    @Test(
        "Rule 9: a retry without a response ends in a login with the credential",
        arguments: [RefreshTokenRotation.none, .grace])
    func twice(_ rotation: RefreshTokenRotation) throws {
        let driver = try Self.driver(rotation)
        driver.toCall()
        try driver.fail(.unknownOutcome)
        driver.toCall()
        #expect(driver.call?.kind == .login && driver.call?.cause == .outcomeUnknown && driver.sent.count == 2)
        #expect(driver.noted(.outcomeUnknown) && driver.stored?.session?.refresh == nil && driver.token != nil)
        try driver.grant(refresh: "new", account: "a")
        // One that may have a successor is not sent again, not even to revoke it.
        #expect(driver.state == .valid && driver.revoked == (rotation == .none ? ["one"] : []))
    }

    @Test(
        "a logout revokes a session that was given up for lost responses and whose refresh token stays the same",
        arguments: [false, true])
    func loggedOut(isStored: Bool) throws {
        let driver = try Self.driver(.none)
        driver.toCall()
        if !isStored { driver.storeError = CoordinatorDriver.full }
        try driver.fail(.unknownOutcome)
        driver.toCall()
        try #require(driver.call?.kind == .login && driver.storedRefresh == (isStored ? nil : "one"))
        driver.storeError = nil
        driver.terminate(.logOut, ticket: 1)
        #expect(driver.stored?.isLoggedOut == true && driver.revoked == ["one"])
        #expect(driver.contents.revocations.map { Tokens.text($0.token) } == ["one"])
    }

    @Test(
        "Rule 9: auto repeats a lost refresh until a response has brought another refresh token, and over a restart never after it"
    )
    func auto() throws {
        let unknown = try Self.driver(.auto)
        unknown.toCall()
        #expect(unknown.call?.kind == .refresh && unknown.sent == ["one", "one"])
        try unknown.grant()
        #expect(unknown.state == .valid && unknown.stored?.session?.hasRotated == false)
        unknown.toDue()
        unknown.toCall()
        try unknown.grant(refresh: "two")
        #expect(unknown.stored?.session?.hasRotated == true)
        for driver in [unknown, unknown.restart(rotation: .auto)] {
            if driver !== unknown { driver.begin() }
            let sent = driver.sent.count
            driver.toDue()
            driver.toCall()
            #expect(driver.call?.kind == .refresh && driver.sent.dropFirst(sent) == ["two"])
            guard driver !== unknown else {
                try driver.fail(.transient(retryAfter: nil))
                continue
            }
            try driver.fail(.unknownOutcome)
            driver.toCall()
            #expect(driver.call?.kind == .login && driver.sent.dropFirst(sent) == ["two"])
        }
    }

    @Test(
        "Rule 9: auto without a credential: what has not rotated is sent until a response comes; what has is not sent again"
    )
    func autoWithoutCredential() throws {
        let driver = try Self.driver(.auto, hasCredential: false)
        for _ in 0..<3 {
            driver.toCall()
            try driver.fail(.unknownOutcome)
        }
        driver.toCall()
        try driver.grant(refresh: "two")
        driver.toDue()
        driver.toCall()
        let sent = driver.sent.count
        try driver.fail(.unknownOutcome)
        for _ in 0..<5 { driver.toDue() }
        #expect(driver.state == .loginRequired && driver.reason == .outcomeUnknown && driver.sent.count == sent)
    }

    @Test("Rule 9: an unusable response that has another refresh token shows rotation as well")
    func autoUnusable() throws {
        let driver = CoordinatorDriver(rotation: .auto)
        try driver.logIn()
        driver.toDue()
        var error = IdentityError(.transient(retryAfter: nil), status: 200, message: "no access token")
        error.unusedRefreshToken = Tokens.secret("two")
        driver.handle(.callCompleted(.failure(error), try #require(driver.call)))
        driver.toCall()
        #expect(driver.call?.kind == .refresh && driver.sent == ["one", "two"])
        try driver.fail(.unknownOutcome)
        #expect(driver.call?.kind == .login, "as one_use")
    }

    @Test(
        "Rule 9: with a window, the repetition comes inside it less the skew allowance, and not later",
        arguments: [(after: 20.0, isRepeated: true), (24.0, true), (25.0, false), (31.0, false), (-10.0, false)])
    func window(_ after: Double, _ isRepeated: Bool) throws {
        let first = CoordinatorDriver(rotation: .grace, graceWindow: .seconds(30))
        try first.logIn()
        first.toDue()
        #expect(first.call?.kind == .refresh)
        let driver = first.restart(after: 1, rotation: .grace, graceWindow: .seconds(30))
        driver.wall = driver.wall + .seconds(after - 1)
        driver.begin()
        driver.toCall()
        #expect(driver.call?.kind == (isRepeated ? .refresh : .login) && driver.sent == (isRepeated ? ["one"] : []))
        guard isRepeated else { return }
        // Only what the repetition brings counts.
        try driver.grant(refresh: "three")
        #expect(driver.storedRefresh == "three" && driver.refresh == "three" && driver.revoked.isEmpty)
    }

    @Test(
        "Rule 9: a repetition whose intent took so long to store that the window may have ended is not sent",
        arguments: [(after: 15.0, isRepeated: true), (25.0, false), (-20.0, false)])
    func windowWhileStoring(_ after: Double, _ isRepeated: Bool) throws {
        let driver = CoordinatorDriver(rotation: .grace, graceWindow: .seconds(30))
        try driver.logIn()
        driver.toDue()
        try driver.fail(.unknownOutcome)
        driver.holdsStore = true
        driver.toDue { driver.isHeld }
        driver.release(holdingOn: true)
        driver.toDue { driver.isHeld }
        driver.wall = driver.wall + .seconds(after)
        driver.release()
        driver.toCall()
        #expect(driver.call?.kind == (isRepeated ? .refresh : .login))
        #expect(driver.sent == (isRepeated ? ["one", "one"] : ["one"]))
        #expect(driver.storedRefresh == (isRepeated ? "one" : nil))
    }

    @Test("Rule 9: the window counts from the first call, whatever the repetition got")
    func windowOfFirstCall() throws {
        let driver = CoordinatorDriver(rotation: .grace, graceWindow: .seconds(30))
        try driver.logIn()
        driver.toDue()
        let sentAt = driver.wall
        try driver.fail(.unknownOutcome)
        driver.toCall()
        #expect(driver.stored?.intent == StoredIntent(kind: .refresh, at: sentAt, tries: 2))
        try driver.fail(.transient(retryAfter: .seconds(40)))
        #expect(driver.stored?.intent == StoredIntent(kind: .refresh, at: sentAt, tries: 1))
        driver.toCall()
        #expect(driver.call?.kind == .login && driver.sent == ["one", "one"])
    }

    @Test(
        "Rule 9: one use means no retry: a login with the credential follows at once, and the current token serves on")
    func oneUse() throws {
        let driver = try Self.driver(.oneUse)
        #expect(driver.call?.kind == .login && driver.sent == ["one"] && driver.token?.generation == 1)
        #expect(driver.stored?.session != nil && driver.stored?.session?.refresh == nil)
    }

    @Test("Rule 9: without a credential a rotating session ends in login_required, reason outcome_unknown")
    func withoutCredential() throws {
        let once = try Self.driver(.oneUse, hasCredential: false)
        #expect(once.state == .loginRequired && once.reason == .outcomeUnknown && once.sent == ["one"])
        #expect(once.stored?.session == nil)
        let grace = try Self.driver(.grace, hasCredential: false)
        grace.toCall()
        try grace.fail(.unknownOutcome)
        for _ in 0..<5 { grace.toDue() }
        #expect(grace.state == .loginRequired && grace.reason == .outcomeUnknown && grace.sent == ["one", "one"])
    }

    @Test("Rule 9: without rotation and without a credential the token cannot have changed: it is sent again")
    func noRotationNoCredential() throws {
        let driver = try Self.driver(.none, hasCredential: false)
        for _ in 0..<4 {
            driver.toCall()
            try driver.fail(.unknownOutcome)
        }
        driver.toCall()
        try driver.grant()
        #expect(driver.state == .valid && driver.stored?.intent == nil)
    }

    @Test(
        "Rule 9: a crash with an open intent counts as a response that never came",
        arguments: [(RefreshTokenRotation.none, SessionCall.Kind.refresh), (.grace, .refresh), (.oneUse, .login)])
    func crash(_ rotation: RefreshTokenRotation, _ kind: SessionCall.Kind) throws {
        let driver = CoordinatorDriver(rotation: rotation)
        try driver.logIn()
        driver.toDue()
        #expect(driver.call?.kind == .refresh)
        let next = driver.restart(after: 0.5, rotation: rotation)
        next.begin()
        // The current access token serves on.
        #expect(next.token?.generation == 1)
        let began = next.now
        next.toCall()
        #expect(next.call?.kind == kind && next.token?.generation == 1)
        if kind == .refresh {
            #expect(next.now - began == .seconds(1.5) && next.stored?.intent?.tries == 2)
            // A second crash: the token was sent twice.
            let third = next.restart(rotation: rotation)
            third.begin()
            third.toCall()
            #expect(third.call?.kind == .login && third.sent.isEmpty)
        }
    }

    @Test(
        "Rule 9: a success that cannot be read has an unknown outcome where refresh tokens rotate, and is transient elsewhere",
        arguments: RefreshTokenRotation.allCases)
    func unreadable(_ rotation: RefreshTokenRotation) throws {
        let driver = CoordinatorDriver(rotation: rotation)
        try driver.logIn()
        driver.toDue()
        let error = IdentityError(.transient(retryAfter: nil), status: 200, message: "not JSON")
        driver.handle(.callCompleted(.failure(error), try #require(driver.call)))
        if rotation != .oneUse { #expect(driver.stored?.intent?.tries == (rotation == .none ? nil : 1)) }
        driver.toCall()
        #expect(driver.call?.kind == (rotation == .oneUse ? .login : .refresh))
    }

    @Test(
        "Rule 9: what fails before it was sent costs no try: its intent is closed, and the same refresh token is sent later",
        arguments: RefreshTokenRotation.allCases)
    func unsent(_ rotation: RefreshTokenRotation) throws {
        let first = CoordinatorDriver(hasCredential: true, rotation: rotation)
        try first.logIn()
        let driver = first.restart(hasCredential: false, rotation: rotation)
        driver.begin()
        for sent in 1...5 {
            driver.toCall()
            // Sent means stored: the intent is there before the call begins.
            #expect(driver.call?.kind == .refresh && driver.sent.count == sent && driver.stored?.intent?.tries == 1)
            try driver.fail(.transient(retryAfter: nil))
            #expect(driver.stored?.intent == nil && driver.storedRefresh == "one")
        }
        driver.toCall()
        try driver.grant(refresh: "two")
        #expect(driver.state == .valid && driver.storedRefresh == "two" && Set(driver.sent) == ["one"])
    }

    @Test("a transient response to the retry leaves the first call's outcome open, and the retry is still to be made")
    func settledRetry() throws {
        let driver = try Self.driver(.grace)
        driver.toCall()
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.stored?.intent == StoredIntent(kind: .refresh, at: driver.stored!.intent!.at, tries: 1))
        driver.toCall()
        #expect(driver.call?.kind == .refresh && driver.stored?.intent?.tries == 2)
    }

    @Test("a login in between does not erase the fact that the refresh token was sent")
    func loginBetween() throws {
        let driver = try Self.driver(.grace, hasCredential: false)
        driver.login(.given(.anonymous), ticket: 1)
        #expect(driver.stored?.intent?.kind == .login && driver.stored?.intent?.tries == 1)
        let next = driver.restart(hasCredential: false, rotation: .oneUse)
        next.begin()
        for _ in 0..<5 { next.toDue() }
        #expect(next.sent.isEmpty && next.state == .loginRequired && next.reason == .outcomeUnknown)
        // A failed login leaves it as open as before.
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.stored == nil || driver.stored?.intent == nil || driver.stored?.intent?.kind == .refresh)
    }
}
