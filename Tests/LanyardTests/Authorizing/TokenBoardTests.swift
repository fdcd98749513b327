import Lanyard
import Testing

@Suite struct TokenBoardTests {
    private let user = UserIndex(0)
    private let source = AskCounter()

    private func board() -> TokenBoard { TokenBoard(source: source) }

    private func token(_ generation: UInt64 = 1, waitsFrom: Int64 = 50, usableUntil: Int64 = 100) -> AccessToken {
        AccessToken(
            user: user, generation: generation, token: Secret(copying: .init(start: nil, count: 0)),
            waitsFrom: Instant(nanoseconds: waitsFrom), usableUntil: Instant(nanoseconds: usableUntil))
    }

    private func at(_ nanoseconds: Int64) -> Instant { Instant(nanoseconds: nanoseconds) }

    /// A verdict in a word.
    private func word(_ verdict: TokenBoard.Verdict) -> String {
        switch verdict {
        case .use(let token): "use \(token.generation)"
        case .park: "park"
        case .refuse(let refusal): "refuse \(refusal)"
        }
    }

    @Test("a user of whom nothing is known is asked for once, however many requests come")
    func asksOnce() {
        let board = board()
        for _ in 0..<5 { #expect(word(board.decide(user, at: at(1))) == "park") }
        #expect(source.asked == [0])
    }

    @Test("after a publication it may ask again, once")
    func asksAgain() {
        let board = board()
        _ = board.decide(user, at: at(1))
        board.receive(.pending, for: user)
        for _ in 0..<3 { _ = board.decide(user, at: at(2)) }
        #expect(source.asked == [0, 0])
    }

    @Test("users are asked for each on their own")
    func users() {
        let board = board()
        _ = board.decide(UserIndex(3), at: at(1))
        _ = board.decide(UserIndex(1), at: at(1))
        _ = board.decide(UserIndex(3), at: at(1))
        #expect(source.asked == [3, 1])
    }

    @Test("a token serves without asking until the mandatory zone")
    func serves() {
        let board = board()
        board.receive(.token(token()), for: user)
        #expect(word(board.decide(user, at: at(0))) == "use 1")
        #expect(word(board.decide(user, at: at(49))) == "use 1")
        #expect(source.asked == [])
        #expect(word(board.decide(user, at: at(50))) == "park")
        #expect(source.asked == [0])
    }

    @Test("without a zone the token serves to its end, and never after")
    func noZone() {
        let board = board()
        board.receive(.token(token(waitsFrom: .max)), for: user)
        #expect(word(board.decide(user, at: at(99))) == "use 1")
        #expect(word(board.decide(user, at: at(100))) == "park")
        #expect(board.lastResort(user, at: at(100)) == nil)
    }

    @Test("the last resort of who waited in the zone is the token while it is unexpired")
    func lastResort() {
        let board = board()
        #expect(board.lastResort(user, at: at(0)) == nil)
        board.receive(.token(token()), for: user)
        #expect(board.lastResort(user, at: at(99))?.generation == 1)
        #expect(board.lastResort(user, at: at(100)) == nil)
        board.receive(.none(.loginRequired), for: user)
        #expect(board.lastResort(user, at: at(60)) == nil)
    }

    @Test("refusals refuse at once; only an unreachable service is asked again")
    func refusals() {
        let board = board()
        board.receive(.none(.loginRequired), for: user)
        #expect(word(board.decide(user, at: at(1))) == "refuse loginRequired")
        board.receive(.none(.credentialRefused), for: user)
        #expect(word(board.decide(user, at: at(1))) == "refuse credentialRefused")
        #expect(source.asked == [])
        board.receive(.none(.identityUnreachable(nextAttempt: at(9))), for: user)
        for _ in 0..<3 {
            guard case .refuse(.identityUnreachable) = board.decide(user, at: at(1)) else {
                Issue.record("not refused")
                return
            }
        }
        #expect(source.asked == [0])
    }

    @Test("a publication tells the parked of that user, once and in order, and who parks again waits for the next")
    func parked() {
        let board = board()
        let log = WaiterLog()
        let waiters = (0..<3).map { Waiter($0, log) }
        waiters[1].again = { board.park(waiters[1], for: self.user) }
        for waiter in waiters { board.park(waiter, for: user) }
        let other = Waiter(9, log)
        board.park(other, for: UserIndex(1))
        board.receive(.pending, for: user)
        #expect(log.told == [0, 1, 2])
        board.receive(.token(token()), for: user)
        #expect(log.told == [0, 1, 2, 1])
    }

    @Test("who has left is told nothing")
    func unparked() {
        let board = board()
        let log = WaiterLog()
        let waiters = (0..<3).map { Waiter($0, log) }
        for waiter in waiters { board.park(waiter, for: user) }
        board.unpark(waiters[1], for: user)
        board.receive(.pending, for: user)
        #expect(log.told == [0, 2])
    }

    @Test("the active user is what was activated last, or none")
    func active() {
        let board = board()
        #expect(board.active == nil)
        board.activate(UserIndex(2))
        #expect(board.active == UserIndex(2))
        board.activate(nil)
        #expect(board.active == nil)
    }

    private final class AskCounter: TokenSource {
        private let numbers = Guarded<[Int]>([])
        var asked: [Int] { numbers.withLock { $0 } }
        func tokenNeeded(by user: UserIndex) { numbers.withLock { $0.append(user.number) } }
    }

    private final class WaiterLog { var told: [Int] = [] }

    private final class Waiter: TokenBoard.Waiter {
        private let number: Int
        private let log: WaiterLog
        var again: () -> Void = {}

        init(_ number: Int, _ log: WaiterLog) { (self.number, self.log) = (number, log) }

        func tokenBoardChanged() {
            log.told.append(number)
            let again = again
            self.again = {}
            again()
        }
    }
}
