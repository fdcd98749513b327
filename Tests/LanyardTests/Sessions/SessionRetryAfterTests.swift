import Testing

@testable import Lanyard

/// A service that wants to be left alone for a while is left alone, whichever session that leads to.
@Suite("Desk: Retry-After over another process's session")
struct SessionRetryAfterTests {
    /// A process whose first login has heard of twenty seconds, and another on the same store where a person has logged in meanwhile.
    private static func pair(_ lifetime: Duration = .seconds(1800)) throws -> (CoordinatorDriver, CoordinatorDriver) {
        let one = CoordinatorDriver()
        one.begin()
        try one.fail(.transient(retryAfter: .seconds(20)))
        let two = one.another(hasCredential: false)
        two.handle(.login(.given(.anonymous), ticket: 1))
        try two.grant(lifetime, refresh: "theirs", account: "a")
        return (one, two)
    }

    @Test("a token that was taken over is not renewed before, though an upstream refuses it")
    func refused() throws {
        let (one, _) = try Self.pair()
        one.pass(5)
        one.handle(.storeSnapshot(one.stored))
        let token = try #require(one.token)
        #expect(token.renewal == .failing(until: one.now + .seconds(15)))
        one.handle(.session(.tokenRefused(token.generation)))
        #expect(one.state == .valid && one.call == nil && one.sent.isEmpty)
        one.pass(15)
        one.handle(.session(.tokenRefused(token.generation)))
        #expect(one.call?.cause == .forced && one.sent == ["theirs"])
    }

    @Test("a success lifts it")
    func lifted() throws {
        let (one, _) = try Self.pair()
        one.handle(.storeSnapshot(one.stored))
        one.handle(.refresh(ticket: 7))
        try one.grant(refresh: "ours")
        #expect(one.token?.renewal == .possible(from: .past))
    }

    @Test("an expired token that was taken over is not renewed before")
    func expired() throws {
        let (one, _) = try Self.pair(.seconds(8))
        one.pass(10)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.state == .unreachable && one.call == nil && one.coordinator.due == one.now + .seconds(10))
        #expect(one.refusal == .identityUnreachable(nextAttempt: one.coordinator.due))
        one.toDue()
        #expect(one.call?.kind == .refresh && one.sent == ["theirs"])
    }

    @Test(
        "without a usable token it is heeded for half a minute at the most, however long a token it was asked of would have lasted"
    )
    func halfAMinute() throws {
        let one = CoordinatorDriver()
        try one.logIn()
        let two = one.another()
        one.toDue()
        try one.fail(.transient(retryAfter: .seconds(600)))
        #expect(
            one.state == .stale && one.token?.renewal == .failing(until: one.coordinator.session.tokens!.mandatoryFrom))
        two.pass((one.now - two.now).inSeconds)
        two.toCall()
        try two.fail(.sessionDead)
        try two.fail(.credentialRefused, credential: CredentialFingerprint(bytes: Array(repeating: 1, count: 32)))
        one.handle(.storeSnapshot(one.stored))
        #expect(one.state == .loggingIn && one.call == nil && one.coordinator.due == one.now + .seconds(30))
        #expect(one.coordinator.context.lastError?.verdict == .transient(retryAfter: .seconds(600)))
    }

    @Test("a 410 is heeded whole, and said to be the reason")
    func gone() throws {
        let one = CoordinatorDriver()
        one.begin()
        try one.fail(.gone)
        let until = one.coordinator.due
        let two = one.another(hasCredential: false)
        two.handle(.login(.given(.anonymous), ticket: 1))
        try two.grant(.seconds(8), refresh: "theirs", account: "a")
        one.pass(10)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.state == .unreachable && one.reason == .identityGone && one.coordinator.due == until)
    }

    /// The other process has another session whose token has ended, and this one takes it over.
    private static func takeOver(_ one: CoordinatorDriver, _ two: CoordinatorDriver) throws {
        two.pass((one.now - two.now).inSeconds)
        two.handle(.login(.given(.anonymous), ticket: 9))
        try two.grant(.seconds(8), refresh: "brief", account: "a")
        one.pass(10)
        one.handle(.storeSnapshot(one.stored))
        try #require(one.refresh == "brief" && one.state == .unreachable)
    }

    @Test("a 410 that another failure has followed is heeded no longer than that")
    func goneNoMore() throws {
        let one = CoordinatorDriver()
        one.begin()
        try one.fail(.gone)
        let two = one.another(hasCredential: false)
        try Self.takeOver(one, two)
        one.handle(.refresh(ticket: 7))
        try one.fail(.transient(retryAfter: nil))
        let until = one.coordinator.due
        #expect(until <= one.now + .seconds(30))
        try Self.takeOver(one, two)
        #expect(one.coordinator.due <= until)
    }

    @Test("of two wishes the later holds: a 410 whole, though it is shorter")
    func later() throws {
        let one = CoordinatorDriver()
        try one.logIn(.seconds(7200))
        let two = one.another()
        one.handle(.refresh(ticket: 7))
        try one.fail(.transient(retryAfter: .seconds(3600)))
        one.handle(.refresh(ticket: 8))
        try one.fail(.gone)
        let until = one.coordinator.due
        #expect(until > one.now + .seconds(250) && until < one.now + .seconds(350))
        try Self.takeOver(one, two)
        #expect(one.coordinator.due == until && one.reason == .identityGone)
    }

    @Test("a failure that says nothing of it does not lift it")
    func notLifted() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        let began = driver.now
        try driver.fail(.transient(retryAfter: .seconds(100)))
        driver.handle(.refresh(ticket: 7))
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.state == .stale && driver.coordinator.due == began + .seconds(100))
    }

    @Test("a person's refresh of a token that was taken over does not lift it, should that fail")
    func askedOverAdopted() throws {
        let (one, _) = try Self.pair()
        one.handle(.storeSnapshot(one.stored))
        let until = one.now + .seconds(20)
        one.handle(.refresh(ticket: 7))
        try one.fail(.transient(retryAfter: nil))
        #expect(one.state == .stale && one.coordinator.due == until && one.token?.renewal == .failing(until: until))
    }

    @Test("nor does a refresh that could not wait for it, since its token would have ended")
    func mandatoryOverAdopted() throws {
        let (one, two) = try Self.pair(.seconds(8))
        one.handle(.storeSnapshot(one.stored))
        let until = one.now + .seconds(20)
        one.toDue()
        try one.fail(.transient(retryAfter: nil))
        #expect(one.state == .stale && one.now < until)
        two.pass((one.now - two.now).inSeconds)
        two.toCall()
        try two.grant(refresh: "theirs")
        for _ in 0..<20 where one.state != .valid { one.toDue() }
        let token = try #require(one.token)
        one.handle(.session(.tokenRefused(token.generation)))
        #expect(one.now < until && one.call == nil && token.renewal == .failing(until: until))
    }

    @Test("nor does a login with a changed credential")
    func changedCredential() throws {
        let (one, two) = try Self.pair()
        one.handle(.storeSnapshot(one.stored))
        two.toCall()
        try two.fail(.unknownApp)
        one.handle(.refresh(ticket: 7))
        try one.fail(.unknownApp)
        let until = one.coordinator.context.notBefore
        #expect(one.state == .refused && until > one.now)
        one.handle(.session(.credentialChanged))
        try one.fail(.transient(retryAfter: nil))
        #expect(one.state == .loggingIn && one.coordinator.due == until)
    }

    @Test("a jump of the clocks does not lift it, unless the token that was taken over ends by it")
    func jump() throws {
        let (one, _) = try Self.pair()
        one.handle(.storeSnapshot(one.stored))
        one.wall = one.wall + .seconds(1300)
        one.handle(.session(.clockJumped))
        #expect(one.state == .valid && one.coordinator.due == one.now + .seconds(20))
    }

    @Test("a session that died at the other process is not followed by a login before")
    func died() throws {
        let (one, two) = try Self.pair()
        one.handle(.storeSnapshot(one.stored))
        two.toCall()
        try two.fail(.sessionDead)
        #expect(two.state == .loginRequired)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.state == .loggingIn && one.call == nil && one.coordinator.due == one.now + .seconds(20))
        #expect(one.refusal == .identityUnreachable(nextAttempt: one.coordinator.due))
        one.toDue()
        #expect(one.call?.kind == .login)
    }
}
