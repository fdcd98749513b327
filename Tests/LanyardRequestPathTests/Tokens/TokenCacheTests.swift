import LanyardFoundations
import LanyardRequestPath
import Testing

@Suite struct TokenCacheTests {
    private let user = UserIndex(0)
    private let source = AskCounter()

    private func cache() -> TokenCache { TokenCache(source: source) }

    private func token(
        _ generation: UInt64 = 1, account: UInt64 = 0, waitsFrom: Int64 = 50, usableUntil: Int64 = 100,
        renewal: AccessToken.Renewal = .possible(from: .past)
    ) -> AccessToken {
        AccessToken(
            user: user, generation: generation, account: AccountNumber(account),
            token: Secret(copying: .init(start: nil, count: 0)),
            waitsFrom: Instant(nanoseconds: waitsFrom), usableUntil: Instant(nanoseconds: usableUntil), renewal: renewal
        )
    }

    private func at(_ nanoseconds: Int64) -> Instant { Instant(nanoseconds: nanoseconds) }

    /// A verdict in a word.
    private func word(_ verdict: TokenCache.Decision) -> String {
        switch verdict {
        case .use(let token): "use \(token.generation)"
        case .park: "park"
        case .refuse(let refusal): "refuse \(refusal)"
        case .replaced: "replaced"
        }
    }

    @Test("a user of whom nothing is known is asked for once, however many requests come")
    func asksOnce() {
        let cache = cache()
        for _ in 0..<5 { #expect(word(cache.decide(user, at: at(1))) == "park") }
        #expect(source.asked == [0])
    }

    @Test("after a publication it may ask again, once")
    func asksAgain() {
        let cache = cache()
        _ = cache.decide(user, at: at(1))
        cache.receive(.pending, for: user)
        for _ in 0..<3 { _ = cache.decide(user, at: at(2)) }
        #expect(source.asked == [0, 0])
    }

    @Test("users are asked for each on their own")
    func users() {
        let cache = cache()
        _ = cache.decide(UserIndex(3), at: at(1))
        _ = cache.decide(UserIndex(1), at: at(1))
        _ = cache.decide(UserIndex(3), at: at(1))
        #expect(source.asked == [3, 1])
    }

    @Test("a token serves without asking until the mandatory zone")
    func serves() {
        let cache = cache()
        cache.receive(.token(token()), for: user)
        #expect(word(cache.decide(user, at: at(0))) == "use 1")
        #expect(word(cache.decide(user, at: at(49))) == "use 1")
        #expect(source.asked == [])
        #expect(word(cache.decide(user, at: at(50))) == "park")
        #expect(source.asked == [0])
    }

    @Test("without a zone the token serves to its end, and never after")
    func noZone() {
        let cache = cache()
        cache.receive(.token(token(waitsFrom: .max)), for: user)
        #expect(word(cache.decide(user, at: at(99))) == "use 1")
        #expect(word(cache.decide(user, at: at(100))) == "park")
        #expect(cache.unexpiredToken(user, at: at(100)) == nil)
    }

    @Test("the last resort of who waited in the zone is the token while it is unexpired")
    func unexpiredToken() {
        let cache = cache()
        #expect(cache.unexpiredToken(user, at: at(0)) == nil)
        cache.receive(.token(token()), for: user)
        #expect(cache.unexpiredToken(user, at: at(99))?.generation == 1)
        #expect(cache.unexpiredToken(user, at: at(100)) == nil)
        cache.receive(.none(.loginRequired), for: user)
        #expect(cache.unexpiredToken(user, at: at(60)) == nil)
    }

    @Test("refusals refuse at once; only an unreachable service is asked again")
    func refusals() {
        let cache = cache()
        cache.receive(.none(.loginRequired), for: user)
        #expect(word(cache.decide(user, at: at(1))) == "refuse loginRequired")
        cache.receive(.none(.credentialRefused(because: "why")), for: user)
        #expect(
            word(cache.decide(user, at: at(1)))
                == "refuse credentialRefused(because: \"why\", action: LanyardFoundations.ResponsibleParty.operator)")
        cache.receive(.none(.userUnknown(wasRemoved: false)), for: user)
        #expect(word(cache.decide(user, at: at(1))) == "refuse userUnknown(wasRemoved: false)")
        #expect(source.asked == [])
        cache.receive(.none(.identityUnreachable(nextAttemptAt: at(9))), for: user)
        for _ in 0..<3 {
            guard case .refuse(.identityUnreachable) = cache.decide(user, at: at(1)) else {
                Issue.record("not refused")
                return
            }
        }
        #expect(source.asked == [0])
    }

    @Test("a publication tells the parked of that user, once and in order, and who parks again waits for the next")
    func parked() {
        let cache = cache()
        let log = WaiterLog()
        let waiters = (0..<3).map { Waiter($0, log) }
        waiters[1].again = { cache.park(waiters[1], for: self.user) }
        for waiter in waiters { cache.park(waiter, for: user) }
        let other = Waiter(9, log)
        cache.park(other, for: UserIndex(1))
        cache.receive(.pending, for: user)
        #expect(log.told == [0, 1, 2])
        cache.receive(.token(token()), for: user)
        #expect(log.told == [0, 1, 2, 1])
    }

    @Test("who has left is told nothing")
    func unparked() {
        let cache = cache()
        let log = WaiterLog()
        let waiters = (0..<3).map { Waiter($0, log) }
        for waiter in waiters { cache.park(waiter, for: user) }
        cache.unpark(waiters[1], for: user)
        cache.receive(.pending, for: user)
        #expect(log.told == [0, 2])
    }

    /// An outlook in a word.
    private func word(_ outlook: TokenCache.ReplacementOutlook) -> String {
        switch outlook {
        case .renewed(let token): "renewed \(token.generation)"
        case .awaited: "awaited"
        case .inProgress: "renewing"
        case .coolingDown: "cooling down"
        case .unchanged: "unchanged"
        case .replaced: "replaced"
        case .none: "none"
        }
    }

    @Test("a refused token is told once until the next publication; a newer one serves at once, unless it has ended")
    func refused() {
        let cache = cache()
        cache.receive(.token(token(4)), for: user)
        for _ in 0..<3 { #expect(word(cache.handleRefusal(4, of: user, at: at(1), forces: true)) == "awaited") }
        #expect(source.refused == [4])
        cache.receive(.token(token(4, renewal: .inProgress)), for: user)
        #expect(word(cache.handleRefusal(4, of: user, at: at(1), forces: true)) == "renewing")
        cache.receive(.token(token(5)), for: user)
        #expect(word(cache.handleRefusal(4, of: user, at: at(1), forces: true)) == "renewed 5")
        #expect(word(cache.handleRefusal(4, of: user, at: at(1), forces: false)) == "renewed 5")
        #expect(source.refused == [4])
        #expect(word(cache.handleRefusal(5, of: user, at: at(1), forces: true)) == "awaited")
        #expect(word(cache.handleRefusal(4, of: user, at: at(100), forces: true)) == "awaited")
        #expect(source.refused == [4, 5] && source.asked == [])
    }

    @Test("no refresh is asked for where nothing may or can be renewed")
    func noRenewal() {
        let cache = cache()
        for (renewal, word) in [
            (.possible(from: at(9)), "cooling down"), (.failing(until: at(9)), "none"), (.impossible, "none"),
            (.elsewhere, "unchanged"), (.inProgress, "renewing"),
        ] as [(AccessToken.Renewal, String)] {
            cache.receive(.token(token(renewal: renewal)), for: user)
            #expect(self.word(cache.handleRefusal(1, of: user, at: at(8), forces: true)) == word)
        }
        cache.receive(.token(token()), for: user)
        #expect(word(cache.handleRefusal(1, of: user, at: at(8), forces: false)) == "none")
        #expect(word(cache.handleRefusal(1, of: UserIndex(7), at: at(8), forces: true)) == "renewing")
        cache.receive(.none(.loginRequired), for: user)
        #expect(word(cache.handleRefusal(1, of: user, at: at(8), forces: true)) == "none")
        #expect(source.refused == [])
    }

    @Test("from the instant on at which a renewal is possible it is asked for")
    func possibleAgain() {
        let cache = cache()
        cache.receive(.token(token(renewal: .possible(from: at(9)))), for: user)
        #expect(word(cache.handleRefusal(1, of: user, at: at(9), forces: true)) == "awaited")
        cache.receive(.token(token(renewal: .failing(until: at(9)))), for: user)
        #expect(word(cache.handleRefusal(1, of: user, at: at(9), forces: true)) == "awaited")
    }

    @Test("what a session sent that a logout has ended is not sent again with the next session's token")
    func accountEpochs() throws {
        let cache = cache()
        cache.receive(.token(token(1)), for: user)
        guard case .use(let old) = cache.decide(user, at: at(1)) else { return }
        func outlook() -> String {
            word(cache.handleRefusal(1, of: user, accountEpoch: old.accountEpoch, at: at(1), forces: true))
        }
        cache.receive(.none(.loginRequired), for: user)
        #expect(outlook() == "none")
        cache.receive(.pending, for: user)
        #expect(outlook() == "replaced")
        cache.receive(.token(token(2)), for: user)
        #expect(outlook() == "replaced" && source.refused == [])
        guard case .use(let new) = cache.decide(user, at: at(1)) else { return }
        #expect(
            word(cache.handleRefusal(2, of: user, accountEpoch: new.accountEpoch, at: at(1), forces: true)) == "awaited"
        )
        // An outage is no end of a session.
        cache.receive(.none(.identityUnreachable(nextAttemptAt: at(5))), for: user)
        cache.receive(.token(token(3)), for: user)
        #expect(
            word(cache.handleRefusal(2, of: user, accountEpoch: new.accountEpoch, at: at(1), forces: true))
                == "renewed 3")
    }

    @Test("what was sent as one account is not sent again as another, although no logout came in between")
    func accounts() throws {
        let between: [AccessToken.Availability?] = [
            nil, .pending, .none(.credentialRefused(because: "why")), .none(.identityUnreachable(nextAttemptAt: at(5))),
        ]
        for news in between {
            let cache = cache()
            cache.receive(.token(token(1, account: 7)), for: user)
            let old = try used(cache)
            func outlook() -> String {
                word(cache.handleRefusal(1, of: user, accountEpoch: old.accountEpoch, at: at(1), forces: true))
            }
            cache.receive(.token(token(2, account: 7)), for: user)
            #expect(outlook() == "renewed 2" && cache.account(of: user) == AccountNumber(7))
            if let news { cache.receive(news, for: user) }
            #expect(cache.account(of: user) == AccountNumber(7))
            cache.receive(.token(token(3, account: 8)), for: user)
            #expect(outlook() == "replaced" && cache.account(of: user) == AccountNumber(8))
            let new = try used(cache)
            #expect(
                word(cache.handleRefusal(2, of: user, accountEpoch: new.accountEpoch, at: at(1), forces: true))
                    == "renewed 3"
            )
            // Its own account again: what came in between may have seen to it that nothing of it is true any more.
            cache.receive(.token(token(4, account: 7)), for: user)
            #expect(outlook() == "replaced")
            // An account whose owner is unknown may be any.
            cache.receive(.token(token(5)), for: user)
            #expect(outlook() == "replaced" && source.refused == [])
        }
    }

    @Test(
        "another account is told before its token: the former one's token is not used any more, and what waits with it is told"
    )
    func accountBeforeToken() throws {
        let cache = cache()
        let log = WaiterLog()
        cache.receive(.token(token(1, account: 7)), for: user)
        let old = try used(cache)
        cache.receive(AccountNumber(7), for: user)
        #expect(try used(cache).generation == 1)
        cache.park(Waiter(0, log), for: user)
        cache.receive(AccountNumber(8), for: user)
        #expect(log.told == [0] && cache.account(of: user) == AccountNumber(8))
        #expect(word(cache.decide(user, at: at(1))) == "park" && source.asked == [0])
        #expect(cache.unexpiredToken(user, at: at(1)) == nil)
        #expect(
            word(cache.handleRefusal(1, of: user, accountEpoch: old.accountEpoch, at: at(1), forces: true))
                == "replaced"
        )
        cache.receive(.token(token(2, account: 8)), for: user)
        let new = try used(cache)
        #expect(
            word(cache.handleRefusal(1, of: user, accountEpoch: new.accountEpoch, at: at(1), forces: true))
                == "renewed 2")
        // A user without a token stays without one.
        cache.receive(.none(.loginRequired), for: user)
        cache.receive(AccountNumber(9), for: user)
        #expect(word(cache.decide(user, at: at(1))).hasPrefix("refuse"))
        // What is said of a user that a reload has replaced counts no more.
        cache.add(moved(1))
        cache.receive(AccountNumber(10), for: user)
        #expect(cache.account(of: user) == nil && cache.account(of: moved(1)) == .unknown)
    }

    // MARK: Users that a reload replaces (architecture-control.md 7.9)

    private func moved(_ epoch: UInt32) -> UserIndex { UserIndex(user.number, epoch: epoch) }

    @Test(
        "the tokens of a user and of the one that replaces it never meet, whatever comes first",
        arguments: [false, true])
    func replacedUser(_ comesWithRoutes: Bool) {
        let cache = cache()
        cache.receive(.token(token(5)), for: user)
        if comesWithRoutes {
            cache.add(moved(1))
            #expect(word(cache.decide(moved(1), at: at(1))) == "park" && source.asked == [0])
        }
        cache.receive(.token(token(1)), for: moved(1))
        #expect(word(cache.decide(moved(1), at: at(1))) == "use 1")
        #expect(word(cache.decide(user, at: at(1))) == "replaced")
        #expect(cache.unexpiredToken(user, at: at(1)) == nil)
        #expect(word(cache.handleRefusal(5, of: user, at: at(1), forces: true)) == "replaced" && source.refused == [])
        #expect(cache.isSessionOver(user) && cache.account(of: user) == nil)
        // What the former runner still says counts no more.
        cache.receive(.token(token(6)), for: user)
        cache.receive(.none(.loginRequired), for: user)
        #expect(word(cache.decide(moved(1), at: at(1))) == "use 1")
        #expect(word(cache.decide(user, at: at(1))) == "replaced")
        #expect(word(cache.decide(moved(2), at: at(1))) == "replaced")
    }

    @Test("requests that wait for a user are told when it is replaced, and wait for no token of the next one")
    func replacedWaiters() {
        let cache = cache()
        let log = WaiterLog()
        let waiters = (0..<3).map { Waiter($0, log) }
        cache.add(user)
        for waiter in waiters {
            waiter.again = { #expect(self.word(cache.decide(self.user, at: self.at(1))) == "replaced") }
            #expect(word(cache.decide(user, at: at(1))) == "park")
            cache.park(waiter, for: user)
        }
        cache.add(moved(1))
        #expect(log.told == [0, 1, 2])
        cache.park(waiters[0], for: user)
        cache.receive(.token(token(1)), for: moved(1))
        #expect(log.told == [0, 1, 2])
    }

    /// The token that a request gets now.
    private func used(_ cache: TokenCache) throws -> AccessToken {
        guard case .use(let token) = cache.decide(user, at: at(1)) else { throw NoToken() }
        return token
    }

    private struct NoToken: Error {}

    private final class AskCounter: TokenSource {
        private let numbers = Guarded<[Int]>([])
        var asked: [Int] { numbers.withLock { $0 } }
        func tokenNeeded(by user: UserIndex) { numbers.withLock { $0.append(user.number) } }
        private let generations = Guarded<[UInt64]>([])
        var refused: [UInt64] { generations.withLock { $0 } }
        func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber) {
            generations.withLock { $0.append(generation) }
        }
    }

    private final class WaiterLog { var told: [Int] = [] }

    private final class Waiter: TokenCache.Waiter {
        private let number: Int
        private let log: WaiterLog
        var again: () -> Void = {}

        init(_ number: Int, _ log: WaiterLog) { (self.number, self.log) = (number, log) }

        func handleTokenCacheChange() {
            log.told.append(number)
            let again = again
            self.again = {}
            again()
        }
    }
}

extension TokenCache {
    /// A publication that confirms no refusal.
    fileprivate func receive(_ availability: AccessToken.Availability, for user: UserIndex) {
        receive(availability, for: user, heard: .none)
    }
}
