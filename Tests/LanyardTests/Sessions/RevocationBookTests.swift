import Lanyard
import Testing

@Suite struct RevocationBookTests {
    private static let start = WallTime(seconds: 1_800_000_000)

    private static func revocation(_ token: String, since: WallTime = start) -> StoredRevocation {
        let refresh = Array(token.utf8).withUnsafeBytes { Secret(copying: $0) }
        return StoredRevocation(identity: "demo", refresh: refresh, since: since)
    }

    private static func moment(_ seconds: Double, chance: Double = 0.999) -> SessionMoment {
        SessionMoment(
            instant: Instant(nanoseconds: 1) + .seconds(seconds), wall: start + .seconds(seconds), chance: chance)
    }

    private static let down = IdentityFault(.transient(retryAfter: nil), words: "down")

    @Test("the service is told at once, and that is all if it answers")
    func told() {
        var book = RevocationBook()
        let one = Self.revocation("one")
        #expect(book.add(one, at: Self.moment(0)) == [.call(one)])
        #expect(book.add(one, at: Self.moment(0)) == [])
        #expect(book.dueAt == .never)
        #expect(book.answered(one.refresh, .success(()), at: Self.moment(1)) == [.done(one, .told)])
        #expect(book.count == 0)
        #expect(book.answered(one.refresh, .success(()), at: Self.moment(1)) == [])
    }

    @Test("what is owed is owed for a user; of what an earlier process has left nobody knows for whom")
    func owed() {
        var book = RevocationBook()
        let (one, two) = (Self.revocation("one"), Self.revocation("two"))
        _ = book.add(one, of: "alice", at: Self.moment(0))
        #expect(book.contains(user: "alice") && !book.contains(user: "bob") && !book.containsOrphan(of: "demo"))
        _ = book.add(two, at: Self.moment(0))
        #expect(book.containsOrphan(of: "demo") && !book.containsOrphan(of: "corp"))
        _ = book.answered(two.refresh, .success(()), at: Self.moment(1))
        _ = book.answered(one.refresh, .failure(Self.down), at: Self.moment(1))
        #expect(book.contains(user: "alice") && !book.containsOrphan(of: "demo"))
        _ = book.answered(one.refresh, .success(()), at: Self.moment(2))
        #expect(!book.contains(user: "alice"))
    }

    @Test("a session that the service does not know is as good as revoked")
    func unknown() {
        var book = RevocationBook()
        let one = Self.revocation("one")
        _ = book.add(one, at: Self.moment(0))
        let dead = IdentityFault(.sessionDead, status: 401, words: "unknown")
        #expect(book.answered(one.refresh, .failure(dead), at: Self.moment(1)) == [.done(one, .told)])
    }

    @Test("after failures it is told again, after 1 s doubling up to 5 minutes, for a day")
    func backOff() {
        var book = RevocationBook()
        let one = Self.revocation("one")
        var acts = book.add(one, at: Self.moment(0))
        var now = 0.0
        var pauses: [Double] = []
        while acts == [.call(one)], pauses.count < 1000 {
            let answer = book.answered(one.refresh, .failure(Self.down), at: Self.moment(now))
            guard case .postponed(_, _, let until) = answer.first else {
                #expect(answer == [.done(one, .givenUp)])
                break
            }
            let pause = (until - Self.moment(now).instant).inSeconds
            pauses.append(pause)
            #expect(book.due(at: Self.moment(now + pause - 0.001)) == [])
            // A microsecond late: the sum is rounded.
            now += pause + 0.000_001
            acts = book.due(at: Self.moment(now))
        }
        #expect(now >= 86_400 && now < 86_400 + 301)
        #expect(pauses.prefix(4).map { $0.rounded() } == [1, 2, 4, 8])
        #expect(pauses.allSatisfy { $0 >= 1 && $0 <= 300 })
        #expect((pauses.last ?? 0) > 250)
        #expect(book.count == 0)
    }

    @Test("Retry-After is honoured up to 5 minutes", arguments: [(30, 30), (3600, 300)])
    func retryAfter(_ asked: Int, _ waited: Int) {
        var book = RevocationBook()
        let one = Self.revocation("one")
        _ = book.add(one, at: Self.moment(0))
        let fault = IdentityFault(.transient(retryAfter: .seconds(asked)), words: "busy")
        _ = book.answered(one.refresh, .failure(fault), at: Self.moment(0))
        #expect(book.dueAt == Self.moment(Double(waited)).instant)
    }

    @Test("what a crash left behind is told of; what is older than a day, once more")
    func old() {
        var book = RevocationBook()
        let old = Self.revocation("old", since: Self.start + .seconds(-90_000))
        #expect(book.add(old, at: Self.moment(0)) == [.call(old)])
        #expect(book.answered(old.refresh, .failure(Self.down), at: Self.moment(1)) == [.done(old, .givenUp)])
    }

    @Test("however many there are, four calls are made at once, and each is made in the end")
    func crowd() {
        var book = RevocationBook()
        let all = (0..<10).map { Self.revocation("token-\($0)") }
        var calls = all.flatMap { book.add($0, at: Self.moment(0)) }
        #expect(calls.count == 4)
        #expect(book.dueAt == .never)
        var told = 0
        while case .call(let revocation)? = calls.first {
            calls.removeFirst()
            let acts = book.answered(revocation.refresh, .success(()), at: Self.moment(1))
            told += acts.count { $0 == .done(revocation, .told) }
            calls += acts.filter { if case .call = $0 { true } else { false } }
        }
        #expect(told == 10)
        #expect(book.count == 0)
    }
}
