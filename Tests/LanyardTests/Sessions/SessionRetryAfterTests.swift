import Testing

@testable import Lanyard

/// A service that wants to be left alone for a while is left alone, whichever session that leads to.
@Suite("Desk: Retry-After over another process's session")
struct SessionRetryAfterTests {
    /// A process whose first login has heard of twenty seconds, and another on the same store where a person has logged in meanwhile.
    private static func pair(_ lifetime: Duration = .seconds(1800)) throws -> (DeskDriver, DeskDriver) {
        let one = DeskDriver()
        one.begin()
        try one.fail(.transient(retryAfter: .seconds(20)))
        let two = one.another(hasCredential: false)
        two.take(.login(.given(.anonymous), ticket: 1))
        try two.grant(lifetime, refresh: "theirs", account: "a")
        return (one, two)
    }

    @Test("a token that was taken over is not renewed before, though an upstream refuses it")
    func refused() throws {
        let (one, _) = try Self.pair()
        one.pass(5)
        one.take(.seen(one.stored))
        let token = try #require(one.token)
        #expect(token.renewal == .failing(until: one.now + .seconds(15)))
        one.take(.session(.tokenRefused(token.generation)))
        #expect(one.state == .valid && one.call == nil && one.sent.isEmpty)
        one.pass(15)
        one.take(.session(.tokenRefused(token.generation)))
        #expect(one.call?.cause == .forced && one.sent == ["theirs"])
    }

    @Test("a success lifts it")
    func lifted() throws {
        let (one, _) = try Self.pair()
        one.take(.seen(one.stored))
        one.take(.refresh(ticket: 7))
        try one.grant(refresh: "ours")
        #expect(one.token?.renewal == .possible(from: .past))
    }

    @Test("an expired token that was taken over is not renewed before")
    func expired() throws {
        let (one, _) = try Self.pair(.seconds(8))
        one.pass(10)
        one.take(.seen(one.stored))
        #expect(one.state == .unreachable && one.call == nil && one.desk.due == one.now + .seconds(10))
        #expect(one.refusal == .identityUnreachable(nextAttempt: one.desk.due))
        one.toDue()
        #expect(one.call?.kind == .refresh && one.sent == ["theirs"])
    }

    @Test("a session that died at the other process is not followed by a login before")
    func died() throws {
        let (one, two) = try Self.pair()
        one.take(.seen(one.stored))
        two.toCall()
        try two.fail(.sessionDead)
        #expect(two.state == .loginRequired)
        one.take(.seen(one.stored))
        #expect(one.state == .loggingIn && one.call == nil && one.desk.due == one.now + .seconds(20))
        #expect(one.refusal == .identityUnreachable(nextAttempt: one.desk.due))
        one.toDue()
        #expect(one.call?.kind == .login)
    }
}
