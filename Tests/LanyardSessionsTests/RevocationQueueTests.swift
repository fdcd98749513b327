import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import Testing

@Suite struct RevocationQueueTests {
    private static let start = WallTime(seconds: 1_800_000_000)

    private static func revocation(_ token: String, since: WallTime = start) -> StoredRevocation {
        let refresh = Array(token.utf8).withUnsafeBytes { Secret(copying: $0) }
        return StoredRevocation(identity: "demo", token: refresh, since: since)
    }

    private static func eventContext(_ seconds: Double, chance: Double = 0.999) -> EventContext {
        EventContext(
            instant: Instant(nanoseconds: 1) + .seconds(seconds), wall: start + .seconds(seconds), chance: chance)
    }

    private static let down = IdentityError(.transient(retryAfter: nil), message: "down")

    @Test("the service is told at once, and a success ends the revocation")
    func told() {
        var queue = RevocationQueue()
        let one = Self.revocation("one")
        #expect(queue.add(one, at: Self.eventContext(0)) == [.call(one)])
        #expect(queue.add(one, at: Self.eventContext(0)) == [])
        #expect(queue.dueAt == .never)
        #expect(queue.handleCallCompleted(one.token, .success(()), at: Self.eventContext(1)) == [.done(one, .told)])
        #expect(queue.count == 0)
        #expect(queue.handleCallCompleted(one.token, .success(()), at: Self.eventContext(1)) == [])
    }

    @Test("a revocation is pending for its user; one of an earlier process has no known user")
    func owed() {
        var queue = RevocationQueue()
        let (one, two) = (Self.revocation("one"), Self.revocation("two"))
        _ = queue.add(one, of: "alice", at: Self.eventContext(0))
        #expect(queue.contains(user: "alice") && !queue.contains(user: "bob") && !queue.containsOrphan(of: "demo"))
        _ = queue.add(two, at: Self.eventContext(0))
        #expect(queue.containsOrphan(of: "demo") && !queue.containsOrphan(of: "corp"))
        _ = queue.handleCallCompleted(two.token, .success(()), at: Self.eventContext(1))
        _ = queue.handleCallCompleted(one.token, .failure(Self.down), at: Self.eventContext(1))
        #expect(queue.contains(user: "alice") && !queue.containsOrphan(of: "demo"))
        _ = queue.handleCallCompleted(one.token, .success(()), at: Self.eventContext(2))
        #expect(!queue.contains(user: "alice"))
    }

    @Test("a session that the service does not know counts as revoked")
    func unknown() {
        var queue = RevocationQueue()
        let one = Self.revocation("one")
        _ = queue.add(one, at: Self.eventContext(0))
        let dead = IdentityError(.sessionDead, status: 401, message: "unknown")
        #expect(queue.handleCallCompleted(one.token, .failure(dead), at: Self.eventContext(1)) == [.done(one, .told)])
    }

    @Test("after failures the call is repeated, after 1 s doubling up to 5 minutes, for a day")
    func backOff() {
        var queue = RevocationQueue()
        let one = Self.revocation("one")
        var actions = queue.add(one, at: Self.eventContext(0))
        var now = 0.0
        var pauses: [Double] = []
        while actions == [.call(one)], pauses.count < 1000 {
            let decided = queue.handleCallCompleted(one.token, .failure(Self.down), at: Self.eventContext(now))
            guard case .postponed(_, _, let until) = decided.first else {
                #expect(decided == [.done(one, .givenUp)])
                break
            }
            let pause = (until - Self.eventContext(now).instant).inSeconds
            pauses.append(pause)
            #expect(queue.due(at: Self.eventContext(now + pause - 0.001)) == [])
            // A microsecond late: the sum is rounded.
            now += pause + 0.000_001
            actions = queue.due(at: Self.eventContext(now))
        }
        #expect(now >= 86_400 && now < 86_400 + 301)
        #expect(pauses.prefix(4).map { $0.rounded() } == [1, 2, 4, 8])
        #expect(pauses.allSatisfy { $0 >= 1 && $0 <= 300 })
        #expect((pauses.last ?? 0) > 250)
        #expect(queue.count == 0)
    }

    @Test("Retry-After is honoured up to 5 minutes", arguments: [(30, 30), (3600, 300)])
    func retryAfter(_ asked: Int, _ waited: Int) {
        var queue = RevocationQueue()
        let one = Self.revocation("one")
        _ = queue.add(one, at: Self.eventContext(0))
        let error = IdentityError(.transient(retryAfter: .seconds(asked)), message: "busy")
        _ = queue.handleCallCompleted(one.token, .failure(error), at: Self.eventContext(0))
        #expect(queue.dueAt == Self.eventContext(Double(waited)).instant)
    }

    @Test("a revocation from before a crash is repeated; one older than a day is tried once more")
    func old() {
        var queue = RevocationQueue()
        let old = Self.revocation("old", since: Self.start + .seconds(-90_000))
        #expect(queue.add(old, at: Self.eventContext(0)) == [.call(old)])
        #expect(
            queue.handleCallCompleted(old.token, .failure(Self.down), at: Self.eventContext(1)) == [
                .done(old, .givenUp)
            ])
    }

    @Test("at most four calls are made at once, and each revocation is called in the end")
    func crowd() {
        var queue = RevocationQueue()
        let all = (0..<10).map { Self.revocation("token-\($0)") }
        var calls = all.flatMap { queue.add($0, at: Self.eventContext(0)) }
        #expect(calls.count == 4)
        #expect(queue.dueAt == .never)
        var told = 0
        while case .call(let revocation)? = calls.first {
            calls.removeFirst()
            let actions = queue.handleCallCompleted(revocation.token, .success(()), at: Self.eventContext(1))
            told += actions.count { $0 == .done(revocation, .told) }
            calls += actions.filter { if case .call = $0 { true } else { false } }
        }
        #expect(told == 10)
        #expect(queue.count == 0)
    }
}
