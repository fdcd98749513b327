import LanyardSettings
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions

/// A service's Retry-After applies to every session, also to one that is taken over.
@Suite("Coordinator: Retry-After and another process's session")
struct SessionRetryAfterTests {
    /// A process whose first login got a Retry-After of twenty seconds, and another process on the same store in which
    /// an operator has logged in since.
    private static func pair(_ lifetime: Duration = .seconds(1800)) throws -> (CoordinatorDriver, CoordinatorDriver) {
        let one = CoordinatorDriver()
        one.begin()
        try one.fail(.transient(retryAfter: .seconds(20)))
        let two = one.another(hasCredential: false)
        two.login(.given(.anonymous), ticket: 1)
        try two.grant(lifetime, refresh: "theirs", account: "a")
        return (one, two)
    }

    @Test("a token that was taken over is not renewed before it, though an upstream refuses the token")
    func refused() throws {
        let (one, _) = try Self.pair()
        one.pass(5)
        one.handle(.storeSnapshot(one.stored))
        let token = try #require(one.token)
        #expect(token.renewal == .failing(until: one.now + .seconds(15)))
        one.handle(.session(.tokenRefused(Generation(token.generation))))
        #expect(one.state == .valid && one.call == nil && one.sent.isEmpty)
        one.pass(15)
        one.handle(.session(.tokenRefused(Generation(token.generation))))
        #expect(one.call?.cause == .forced && one.sent == ["theirs"])
    }

    @Test("a success clears it")
    func lifted() throws {
        let (one, _) = try Self.pair()
        one.handle(.storeSnapshot(one.stored))
        one.refreshNow(ticket: 7)
        try one.grant(refresh: "ours")
        #expect(one.token?.renewal == .possible(from: .past))
    }

    @Test("an expired token that was taken over is not renewed before it")
    func expired() throws {
        let (one, _) = try Self.pair(.seconds(8))
        one.pass(10)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.state == .unreachable && one.call == nil && one.coordinator.due == one.now + .seconds(10))
        #expect(one.refusal == .identityUnreachable(nextAttemptAt: one.coordinator.due, because: "planned"))
        one.toDue()
        #expect(one.call?.kind == .refresh && one.sent == ["theirs"])
    }

    @Test(
        "without a usable token it is honoured for at most half a minute, whatever token it was given for"
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

    @Test("a 410 is honoured in full, and reported as the reason")
    func gone() throws {
        let one = CoordinatorDriver()
        one.begin()
        try one.fail(.gone)
        let until = one.coordinator.due
        let two = one.another(hasCredential: false)
        two.login(.given(.anonymous), ticket: 1)
        try two.grant(.seconds(8), refresh: "theirs", account: "a")
        one.pass(10)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.state == .unreachable && one.reason == .identityGone && one.coordinator.due == until)
    }

    /// The other process has another session whose token has ended, and this one takes it over.
    private static func takeOver(_ one: CoordinatorDriver, _ two: CoordinatorDriver) throws {
        two.pass((one.now - two.now).inSeconds)
        two.login(.given(.anonymous), ticket: 9)
        try two.grant(.seconds(8), refresh: "brief", account: "a")
        one.pass(10)
        one.handle(.storeSnapshot(one.stored))
        try #require(one.refresh == "brief" && one.state == .unreachable)
    }

    @Test("a 410 that another failure has followed is honoured no longer than that")
    func goneNoMore() throws {
        let one = CoordinatorDriver()
        one.begin()
        try one.fail(.gone)
        let two = one.another(hasCredential: false)
        try Self.takeOver(one, two)
        one.refreshNow(ticket: 7)
        try one.fail(.transient(retryAfter: nil))
        let until = one.coordinator.due
        #expect(until <= one.now + .seconds(30))
        try Self.takeOver(one, two)
        #expect(one.coordinator.due <= until)
    }

    @Test("if the service asks twice, the later time applies: a 410 in full, though it is shorter")
    func later() throws {
        let one = CoordinatorDriver()
        try one.logIn(.seconds(7200))
        let two = one.another()
        one.refreshNow(ticket: 7)
        try one.fail(.transient(retryAfter: .seconds(3600)))
        one.refreshNow(ticket: 8)
        try one.fail(.gone)
        let until = one.coordinator.due
        #expect(until > one.now + .seconds(250) && until < one.now + .seconds(350))
        try Self.takeOver(one, two)
        #expect(one.coordinator.due == until && one.reason == .identityGone)
    }

    @Test("a failure without a Retry-After does not clear it")
    func notLifted() throws {
        let driver = CoordinatorDriver()
        try driver.logIn()
        driver.toDue()
        let began = driver.now
        try driver.fail(.transient(retryAfter: .seconds(100)))
        driver.refreshNow(ticket: 7)
        try driver.fail(.transient(retryAfter: nil))
        #expect(driver.state == .stale && driver.coordinator.due == began + .seconds(100))
    }

    @Test("a requested refresh of a token that was taken over does not clear it if it fails")
    func askedOverAdopted() throws {
        let (one, _) = try Self.pair()
        one.handle(.storeSnapshot(one.stored))
        let until = one.now + .seconds(20)
        one.refreshNow(ticket: 7)
        try one.fail(.transient(retryAfter: nil))
        #expect(one.state == .stale && one.coordinator.due == until && one.token?.renewal == .failing(until: until))
    }

    @Test("a refresh that could not wait, because its token was about to expire, does not clear it")
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
        one.handle(.session(.tokenRefused(Generation(token.generation))))
        #expect(one.now < until && one.call == nil && token.renewal == .failing(until: until))
    }

    @Test("a login with a changed credential does not clear it")
    func changedCredential() throws {
        let (one, two) = try Self.pair()
        one.handle(.storeSnapshot(one.stored))
        two.toCall()
        try two.fail(.unknownApp)
        one.refreshNow(ticket: 7)
        try one.fail(.unknownApp)
        let until = one.coordinator.context.notBefore
        #expect(one.state == .refused && until > one.now)
        one.handle(.session(.credentialChanged))
        try one.fail(.transient(retryAfter: nil))
        #expect(one.state == .loggingIn && one.coordinator.due == until)
    }

    @Test("a jump of the clocks does not clear it, unless the token that was taken over expires by the jump")
    func jump() throws {
        let (one, _) = try Self.pair()
        one.handle(.storeSnapshot(one.stored))
        one.wall = one.wall + .seconds(1300)
        one.handle(.session(.clockJumped))
        #expect(one.state == .valid && one.coordinator.due == one.now + .seconds(20))
    }

    @Test("a session that died in the other process is not followed by a login before it")
    func died() throws {
        let (one, two) = try Self.pair()
        one.handle(.storeSnapshot(one.stored))
        two.toCall()
        try two.fail(.sessionDead)
        #expect(two.state == .loginRequired)
        one.handle(.storeSnapshot(one.stored))
        #expect(one.state == .loggingIn && one.call == nil && one.coordinator.due == one.now + .seconds(20))
        #expect(one.refusal == .identityUnreachable(nextAttemptAt: one.coordinator.due, because: "planned"))
        one.toDue()
        #expect(one.call?.kind == .login)
    }
}
