import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import Testing

@Suite struct RevocationQueueTests {
    private static let start = WallTime(seconds: 1_800_000_000)

    private static func revocation(
        _ token: String, of identity: String = "demo", since: WallTime = start
    ) -> StoredRevocation {
        let refresh = Array(token.utf8).withUnsafeBytes { Secret(copying: $0) }
        return StoredRevocation(identity: identity, token: refresh, since: since)
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

    @Test("each identity has slots of its own: one that does not respond delays no revocation of another")
    func slots() {
        var queue = RevocationQueue()
        let hanging = (0..<10).map { Self.revocation("token-\($0)", of: "hanging") }
        for revocation in hanging { _ = queue.add(revocation, at: Self.eventContext(0)) }
        let other = Self.revocation("other", of: "good")
        #expect(queue.add(other, at: Self.eventContext(0)) == [.call(other)])
        #expect(queue.dueAt == .never, "the other six wait for a slot")
        #expect(
            queue.handleCallCompleted(other.token, .success(()), at: Self.eventContext(1)) == [.done(other, .told)])
        let next = queue.handleCallCompleted(hanging[0].token, .success(()), at: Self.eventContext(1))
        #expect(next == [.done(hanging[0], .told), .call(hanging[4])])
    }

    @Test("operators' revocations are called first")
    func operatorsFirst() {
        var queue = RevocationQueue()
        for number in 0..<6 { _ = queue.add(Self.revocation("token-\(number)"), at: Self.eventContext(0)) }
        let asked = Self.revocation("asked").byOperator
        #expect(queue.add(asked, at: Self.eventContext(0)) == [])
        let actions = queue.handleCallCompleted(
            Self.revocation("token-0").token, .success(()), at: Self.eventContext(1))
        #expect(actions.last == .call(asked))
    }

    @Test(
        "an identity has one revocation for each of its users and 64 more; the oldest automatic one is given up first")
    func share() {
        var queue = RevocationQueue()
        let max = 3 + StoreShare.spareRevocationsMax
        let asked = Self.revocation("asked").byOperator
        _ = queue.add(asked, userCount: 3, at: Self.eventContext(0))
        var givenUp: [StoredRevocation] = []
        for number in 0..<200 {
            let actions = queue.add(Self.revocation("token-\(number)"), userCount: 3, at: Self.eventContext(0))
            for case .done(let revocation, .shareUsedUp) in actions { givenUp.append(revocation) }
            #expect(queue.count <= max)
        }
        #expect(queue.count == max && queue.contains(asked.token))
        #expect(givenUp == (0..<(201 - max)).map { Self.revocation("token-\($0)") })
        // The calls of the first four are still in progress: their slots are taken until the results come.
        #expect(queue.dueAt == .never)
        let actions = queue.handleCallCompleted(givenUp[0].token, .failure(Self.down), at: Self.eventContext(1))
        #expect(actions == [.call(Self.revocation("token-\(201 - max)"))])
        // Of another identity none is given up.
        #expect(queue.add(Self.revocation("x", of: "other"), at: Self.eventContext(1)).count == 1)
        #expect(queue.count == max + 1)
    }

    @Test("operators' revocations alone: the oldest is given up; long tokens have the eighth part of a store")
    func bytes() {
        var queue = RevocationQueue()
        for number in 0..<100 {
            _ = queue.add(Self.revocation("token-\(number)").byOperator, at: Self.eventContext(0))
        }
        #expect(queue.count == StoreShare.spareRevocationsMax)
        #expect(!queue.contains(Self.revocation("token-35").token) && queue.contains(Self.revocation("token-36").token))
        let long = String(repeating: "a", count: 64_000)
        for number in 0..<60 {
            _ = queue.add(Self.revocation("\(number)\(long)", of: "long"), at: Self.eventContext(0))
        }
        #expect(queue.count == StoreShare.spareRevocationsMax + StoreShare.revocationBytesMax / 64_100)
    }
}
