import LanyardFoundations
import LanyardRequestPath
import Testing

/// Upstreams' refusals that a token cache reports, and the publications that reply to them.
@Suite struct TokenCacheRefusalTests {
    private final class Source: TokenSource {
        private let reported = Guarded<[(generation: UInt64, number: RefusalNumber)]>([])
        /// The generations that were reported as refused.
        var refused: [UInt64] { reported.withLock { $0.map(\.generation) } }

        /// The session path has heard of the first refusals; nil: of all.
        func heard(_ count: Int? = nil) -> HeardRefusals {
            var heard = HeardRefusals.none
            reported.withLock { for refusal in $0.prefix(count ?? $0.count) { heard.record(refusal.number) } }
            return heard
        }

        func tokenNeeded(by user: UserIndex) {}

        func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber) {
            reported.withLock { $0.append((generation, number)) }
        }
    }

    private let user = UserIndex(0)

    private func at(_ nanoseconds: Int64) -> Instant { Instant(nanoseconds: nanoseconds) }

    private func token(
        _ generation: UInt64 = 4, of user: UserIndex = UserIndex(0), waitsFrom: Int64 = 50,
        renewal: AccessToken.Renewal = .possible(from: .past)
    ) -> AccessToken.Availability {
        .token(
            AccessToken(
                user: user, generation: generation, token: Secret(copying: .init(start: nil, count: 0)),
                waitsFrom: at(waitsFrom), usableUntil: at(100), renewal: renewal))
    }

    /// An upstream refuses the token of this generation.
    ///
    /// - Returns: a refresh is expected.
    private func refuse(_ cache: TokenCache, _ generation: UInt64 = 4, of user: UserIndex = UserIndex(0)) -> Bool {
        if case .awaited = cache.handleRefusal(generation, of: user, at: at(6), forces: true) { true } else { false }
    }

    /// What the session path may publish before it hears of a refusal, and afterwards.
    private var publications: [AccessToken.Availability] {
        [
            token(), token(waitsFrom: 60), token(renewal: .inProgress), token(renewal: .possible(from: at(5))),
            token(renewal: .possible(from: at(9))), token(renewal: .failing(until: at(5))),
            token(renewal: .impossible), token(renewal: .elsewhere), .pending,
            .none(.identityUnreachable(nextAttemptAt: at(9))),
        ]
    }

    @Test("a publication that has crossed a refusal is no reply to it, whatever it says: nothing is reported twice")
    func crossed() {
        for crossing in publications {
            let source = Source()
            let cache = TokenCache(source: source)
            cache.receive(token(), for: user, heard: .none)
            #expect(refuse(cache) && source.refused == [4])
            cache.receive(crossing, for: user, heard: .none)
            cache.receive(token(), for: user, heard: .none)
            #expect(refuse(cache) && source.refused == [4], "after \(crossing)")
            cache.receive(token(renewal: .inProgress), for: user, heard: source.heard())
            cache.receive(token(), for: user, heard: source.heard())
            #expect(refuse(cache) && source.refused == [4, 4])
        }
    }

    @Test(
        "a publication that has heard of a refusal is the reply to it, whatever it says: the next refusal is reported")
    func reply() {
        for reply in publications {
            let source = Source()
            let cache = TokenCache(source: source)
            cache.receive(token(), for: user, heard: .none)
            #expect(refuse(cache))
            cache.receive(reply, for: user, heard: source.heard())
            cache.receive(token(), for: user, heard: source.heard())
            #expect(refuse(cache) && source.refused == [4, 4], "after \(reply)")
        }
    }

    @Test("the reply to the refusal of a token is no reply to that of the next token")
    func nextToken() {
        let source = Source()
        let cache = TokenCache(source: source)
        cache.receive(token(4), for: user, heard: .none)
        #expect(refuse(cache, 4))
        cache.receive(token(5), for: user, heard: .none)
        #expect(refuse(cache, 5) && source.refused == [4, 5])
        cache.receive(token(5, renewal: .possible(from: at(5))), for: user, heard: source.heard(1))
        #expect(refuse(cache, 5) && source.refused == [4, 5])
        cache.receive(token(5), for: user, heard: source.heard(2))
        #expect(refuse(cache, 5) && source.refused == [4, 5, 5])
    }

    @Test("two subscribers whose refusals cross: each gets the reply to its own, and neither that to the other's")
    func twoSubscribers() {
        let sources = [Source(), Source()]
        let caches = sources.map { TokenCache(source: $0) }
        func receive(_ heard: HeardRefusals) {
            for cache in caches { cache.receive(token(), for: user, heard: heard) }
        }
        func refuse() -> Bool { caches.allSatisfy { self.refuse($0) } }
        receive(.none)
        #expect(refuse() && sources.map(\.refused) == [[4], [4]])
        // The session path has heard of the first one's.
        receive(sources[0].heard())
        #expect(refuse() && sources.map(\.refused) == [[4, 4], [4]])
        // It has heard of the second one's, and not of the first one's second.
        receive(sources[1].heard())
        #expect(refuse() && sources.map(\.refused) == [[4, 4], [4, 4]])
        receive(.none)
        #expect(refuse() && sources.map(\.refused) == [[4, 4], [4, 4]])
    }

    @Test("the tokens of a user's variants are refused on their own: a reply to one is no reply to another")
    func variants() {
        let (source, variant) = (Source(), UserIndex(1))
        let cache = TokenCache(source: source)
        func receive(_ heard: HeardRefusals) {
            for index in [user, variant] { cache.receive(token(of: index), for: index, heard: heard) }
        }
        receive(.none)
        #expect(refuse(cache, of: variant) && refuse(cache, of: user) && source.refused == [4, 4])
        // The variant's was the first.
        receive(source.heard(1))
        #expect(refuse(cache, of: user) && source.refused.count == 2)
        #expect(refuse(cache, of: variant) && source.refused.count == 3)
        receive(source.heard(2))
        #expect(refuse(cache, of: variant) && source.refused.count == 3)
        #expect(refuse(cache, of: user) && source.refused.count == 4)
    }

    @Test("a user that a reload has replaced waits for no reply to what its predecessor reported")
    func replaced() {
        let (source, next) = (Source(), UserIndex(0, epoch: 1))
        let cache = TokenCache(source: source)
        cache.receive(token(), for: user, heard: .none)
        #expect(refuse(cache))
        cache.receive(token(of: next), for: next, heard: .none)
        #expect(refuse(cache, of: next) && source.refused == [4, 4])
    }
}
