import LanyardFoundations
import LanyardRequestPath
import Testing

/// Tokens that clients get themselves (fleet.md 2): how long they must live, and refusals that other programs report.
@Suite struct TokenCacheGrantTests {
    private final class Source: TokenSource {
        private let calls = Guarded<(asked: Int, refused: [UInt64])>((0, []))
        var asked: Int { calls.withLock { $0.asked } }
        var refused: [UInt64] { calls.withLock { $0.refused } }

        func tokenNeeded(by user: UserIndex) { calls.withLock { $0.asked += 1 } }

        func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber) {
            calls.withLock { $0.refused.append(generation) }
        }
    }

    private let user = UserIndex(0)
    private let source = Source()
    private static let now = Instant(nanoseconds: 1_000_000_000_000)

    private func token(
        _ rest: Duration?, lifetime: Duration = .zero, allowance: Duration = .zero, generation: UInt64 = 4,
        renewal: AccessToken.Renewal = .possible(from: .past)
    ) -> AccessToken {
        let expiresAt = rest.map { Self.now + $0 } ?? .never
        return AccessToken(
            user: user, generation: generation, token: Secret(copying: .init(start: nil, count: 0)), waitsFrom: .never,
            usableUntil: rest.map { Self.now + $0 - allowance } ?? .never, expiresAt: expiresAt, lifetime: lifetime,
            renewal: renewal)
    }

    private func cache(_ token: AccessToken) -> TokenCache {
        let cache = TokenCache(source: source)
        cache.receive(.token(token), for: user, heard: .none)
        return cache
    }

    @Test(
        "the new holder is told less than the token lives: 5 s, or a tenth of the rest, and never less than 2 s",
        arguments: [
            (3600.0, 3595), (50, 45), (40, 36), (20, 18), (10, 9), (4, 3), (3, 2), (2, 2), (1, 2), (0.5, 2),
        ])
    func seconds(_ rest: Double, _ told: Int) {
        #expect(token(.seconds(rest)).secondsForOthers(at: Self.now) == told)
    }

    @Test("of a token without a known end no seconds are told")
    func unknownEnd() {
        let token = token(nil)
        #expect(token.secondsForOthers(at: Self.now) == nil)
        #expect(token.mayBeHandedOut(at: Self.now))
    }

    @Test(
        "a token is given out with 3 s to live or more; one that lives less than 12 s as a whole with a quarter of it",
        arguments: [
            (3.0, 3600.0, true), (2.999, 3600, false), (3, 12, true), (2.999, 12, false), (2, 8, true),
            (1.999, 8, false),
            (1, 4, true), (0.999, 4, false), (3, 0, true), (2.999, 0, false), (0, 3600, false), (-1, 8, false),
        ])
    func margin(_ rest: Double, _ lifetime: Double, _ isGiven: Bool) {
        let token = token(.seconds(rest), lifetime: .seconds(lifetime))
        #expect(token.mayBeHandedOut(at: Self.now) == isGiven)
        let cache = cache(token)
        if case .use(let used) = cache.decideGrant(user, at: Self.now) {
            #expect(isGiven && used.generation == 4)
        } else {
            #expect(!isGiven)
        }
        // The next one is asked for, once.
        _ = cache.decideGrant(user, at: Self.now)
        #expect(source.asked == (isGiven ? 0 : 1))
    }

    @Test("a token that must not be used any more is not given out, although its end is ahead")
    func allowance() {
        let token = token(.seconds(20), allowance: .seconds(20))
        #expect(!token.mayBeHandedOut(at: Self.now))
    }

    @Test("a copy under another name or in another epoch ends when the token does")
    func copies() {
        let token = token(.seconds(20), lifetime: .seconds(30))
        for copy in [token.inEpoch(3), token.renamed(UserIndex(5))] {
            #expect(copy.expiresAt == token.expiresAt && copy.lifetime == token.lifetime)
            #expect(copy.usableUntil == token.usableUntil && copy.generation == token.generation)
        }
        #expect(token.renamed(UserIndex(5)).user == UserIndex(5) && token.inEpoch(3).accountEpoch == 3)
    }

    @Test("without a token a grant waits or is refused as any request is")
    func none() {
        let cache = TokenCache(source: source)
        guard case .park = cache.decideGrant(user, at: Self.now) else {
            Issue.record("it does not wait")
            return
        }
        cache.receive(.none(.loginRequired), for: user, heard: .none)
        guard case .refuse(.loginRequired) = cache.decideGrant(user, at: Self.now) else {
            Issue.record("it is not refused")
            return
        }
    }

    @Test("a reported refusal of the present token forces one refresh, however often it is reported")
    func report() {
        let cache = cache(token(.seconds(100)))
        for _ in 0..<5 { cache.handleReportedRefusal(4, of: user, at: Self.now) }
        #expect(source.refused == [4])
    }

    @Test(
        "a report of an earlier token, or of one that never was, forces nothing",
        arguments: [3, 5, 0, .max] as [UInt64])
    func otherGeneration(_ generation: UInt64) {
        let cache = cache(token(.seconds(100)))
        cache.handleReportedRefusal(generation, of: user, at: Self.now)
        #expect(source.refused == [])
    }

    @Test("a report forces nothing while a refresh runs, cools down or fails, or where none is possible")
    func notNow() {
        let renewals: [AccessToken.Renewal] = [
            .inProgress, .possible(from: Self.now + .seconds(1)), .failing(until: Self.now + .seconds(1)), .impossible,
            .elsewhere,
        ]
        for renewal in renewals {
            let cache = cache(token(.seconds(100), renewal: renewal))
            cache.handleReportedRefusal(4, of: user, at: Self.now)
            #expect(source.refused == [], "\(renewal)")
        }
    }

    @Test("a report for a user that a reload has replaced, or without a token, forces nothing")
    func replaced() {
        let cache = cache(token(.seconds(100)))
        cache.add(UserIndex(0, epoch: 1))
        cache.handleReportedRefusal(4, of: user, at: Self.now)
        cache.handleReportedRefusal(4, of: UserIndex(0, epoch: 1), at: Self.now)
        cache.handleReportedRefusal(4, of: UserIndex(9), at: Self.now)
        #expect(source.refused == [])
    }
}
