import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardSessions

/// Which sessions begin a call, and when.
@Suite("Turns of sessions at one identity service")
struct CallTurnsTests {
    private typealias Turns = CallTurns<Int>
    private typealias Begun = (ticket: Turns.Ticket, caller: Int)

    private static let start = Instant(nanoseconds: 1_000_000_000_000)

    /// All that begin now.
    private static func begun(_ turns: inout Turns, at now: Instant = start) -> [Begun] {
        var begun: [Begun] = []
        while let next = turns.next(at: now) { begun.append((next.ticket, next.caller)) }
        return begun
    }

    private static func ask(
        _ turns: inout Turns, _ callers: some Sequence<Int>, of identity: String = "a",
        _ urgency: Turns.Urgency = .login, _ kind: Turns.Kind = .refresh, at now: Instant = start
    ) -> [Turns.Ticket] {
        callers.map { turns.ask($0, of: identity, kind, urgency, timeout: .seconds(30), at: now) }
    }

    @Test("Rule 18: sixteen begin, in the order of their coming; the end of one lets the next begin")
    func order() {
        var turns = Turns()
        _ = Self.ask(&turns, 0..<40)
        var begun = Self.begun(&turns)
        #expect(begun.map(\.caller) == Array(0..<16) && turns.waitingCount == 24)
        for next in 16..<40 {
            turns.end(begun.removeFirst().ticket, at: Self.start)
            let now = Self.begun(&turns)
            #expect(now.map(\.caller) == [next])
            begun += now
        }
        for each in begun { turns.end(each.ticket, at: Self.start) }
        #expect(Self.begun(&turns).isEmpty && turns.waitingCount == 0)
    }

    @Test(
        "Rule 18: operators go first, then users with waiting requests, then renewals; who becomes more urgent goes to the end of that line"
    )
    func urgency() {
        var turns = Turns()
        let held = Self.ask(&turns, 0..<16)
        _ = Self.begun(&turns)
        let logins = Self.ask(&turns, [20, 21, 22])
        _ = Self.ask(&turns, [30], .renewal)
        _ = Self.ask(&turns, [40, 41], .awaited)
        _ = Self.ask(&turns, [50], .operatorCall)
        turns.raise(logins[1], to: .awaited, at: Self.start)
        turns.raise(logins[1], to: .renewal, at: Self.start)
        for ticket in held { turns.end(ticket, at: Self.start) }
        #expect(Self.begun(&turns).map(\.caller) == [50, 40, 41, 21, 30, 20, 22])
    }

    @Test("who leaves while it waits takes nobody's place, in each line")
    func leaving() {
        var turns = Turns()
        let held = Self.ask(&turns, 0..<16)
        _ = Self.begun(&turns)
        let waiting = Self.ask(&turns, 20..<200)
        turns.raise(waiting[5], to: .awaited, at: Self.start)
        for ticket in waiting where ticket != waiting[7] { turns.end(ticket, at: Self.start) }
        #expect(turns.waitingCount == 1)
        for ticket in held { turns.end(ticket, at: Self.start) }
        #expect(Self.begun(&turns).map(\.caller) == [27])
    }

    @Test(
        "identities share what there is for all in turn: the one with many users delays none of the others by more than a round"
    )
    func identities() {
        var turns = Turns()
        var held = (0..<16).flatMap { Self.ask(&turns, 0..<16, of: "\($0)") }
        #expect(Self.begun(&turns).count == Turns.totalMax)
        _ = Self.ask(&turns, 100..<140, of: "0")
        _ = Self.ask(&turns, [200, 201], of: "small")
        #expect(Self.begun(&turns).isEmpty)
        // The places of identity 0 first.
        for ticket in held[..<4] { turns.end(ticket, at: Self.start) }
        held.removeFirst(4)
        #expect(Self.begun(&turns).map(\.caller) == [200, 100, 201, 101])
        for ticket in held { turns.end(ticket, at: Self.start) }
        #expect(Self.begun(&turns).map(\.caller) == Array(102..<116), "sixteen of one identity at most")
    }

    @Test(
        "Rule 18: a Retry-After of one session slows its identity down to one call a second, until the service serves one, or for a minute"
    )
    func retryAfter() {
        var turns = Turns()
        let held = Self.ask(&turns, 0..<16)
        _ = Self.begun(&turns)
        _ = Self.ask(&turns, 20..<40)
        _ = Self.ask(&turns, [90], of: "b")
        #expect(Self.begun(&turns).map(\.caller) == [90], "another service has asked for nothing")
        turns.record(.asksToWait(.seconds(3600)), of: "a", at: Self.start)
        for ticket in held { turns.end(ticket, at: Self.start) }
        #expect(Self.begun(&turns).isEmpty && turns.checkAt == Self.start + .seconds(1))
        for second in 1...5 {
            let begun = Self.begun(&turns, at: Self.start + .seconds(second))
            #expect(begun.map(\.caller) == [19 + second])
        }
        #expect(Self.begun(&turns, at: Self.start + .seconds(5.9)).isEmpty)
        turns.record(.failed, of: "a", at: Self.start + .seconds(5.9))
        #expect(Self.begun(&turns, at: Self.start + .seconds(5.9)).isEmpty)
        turns.record(.served, of: "a", at: Self.start + .seconds(5.95))
        #expect(Self.begun(&turns, at: Self.start + .seconds(5.95)).count == 11)
        turns.record(.asksToWait(.seconds(3600)), of: "a", at: Self.start + .seconds(6))
        #expect(Self.begun(&turns, at: Self.start + .seconds(66)).isEmpty, "sixteen have begun")
        #expect(turns.checkAt == Self.start + .seconds(5), "the check for those that are stuck")
    }

    @Test("Rule 18: ten of the sixteen are logins at most; the others are for calls whose session has a token to keep")
    func logins() {
        var turns = Turns()
        _ = Self.ask(&turns, 0..<30, .login, .login)
        let first = Self.begun(&turns)
        #expect(first.map(\.caller) == Array(0..<10) && turns.waitingCount == 20)
        _ = Self.ask(&turns, 40..<47, .renewal, .refresh)
        let second = Self.begun(&turns)
        #expect(second.map(\.caller) == Array(40..<46))
        for call in second.prefix(1) { turns.end(call.ticket, at: Self.start) }
        #expect(Self.begun(&turns).map(\.caller) == [46])
        for call in first.prefix(1) { turns.end(call.ticket, at: Self.start) }
        #expect(Self.begun(&turns).map(\.caller) == [10])
    }

    @Test(
        "Rule 18: who has waited for its timeout while the service responded to nobody does not wait on; a response begins the time anew"
    )
    func stuck() {
        var turns = Turns()
        _ = Self.ask(&turns, 0..<16)
        _ = Self.begun(&turns)
        _ = Self.ask(&turns, [20, 21])
        _ = Self.ask(&turns, [22], at: Self.start + .seconds(10))
        // Whatever comes in between does not put the checks off.
        for second in 1..<30 {
            _ = Self.begun(&turns, at: Self.start + .seconds(second))
            #expect(turns.checkAt <= Self.start + .seconds(second + 5))
            #expect(turns.removeStuck(at: Self.start + .seconds(second)).isEmpty)
        }
        #expect(turns.checkAt == Self.start + .seconds(30))
        #expect(turns.removeStuck(at: Self.start + .seconds(30)) == [20, 21])
        turns.record(.failed, of: "a", at: Self.start + .seconds(35))
        #expect(turns.removeStuck(at: Self.start + .seconds(64)).isEmpty)
        #expect(turns.removeStuck(at: Self.start + .seconds(69)) == [22] && turns.waitingCount == 0)
        #expect(turns.checkAt == .never)
    }

    /// Ten thousand users want a token at once. The service serves eight calls at a time.
    @Test(
        "Rule 18: a storm of ten thousand: sixteen in progress at most, requests first, and a 429 in the midst of it costs a call a second"
    )
    func storm() {
        var turns = Turns()
        var now = Self.start
        var random = SeededGenerator(54)
        let tickets = Self.ask(&turns, 0..<10_000)
        var inProgress: [Begun] = []
        var served: [Int] = []
        var refused = 0
        var awaited: Set<Int> = []
        let limited = Self.start + .seconds(5)..<Self.start + .seconds(35)
        while served.count < 10_000, now < Self.start + .seconds(3600) {
            if now < limited.lowerBound, awaited.count < 50 {
                let user = Int.random(in: 5000..<10_000, using: &random)
                awaited.insert(user)
                turns.raise(tickets[user], to: .awaited, at: now)
            }
            inProgress += Self.begun(&turns, at: now)
            #expect(inProgress.count <= Turns.groupMax)
            let done = inProgress.prefix(8)
            inProgress.removeFirst(done.count)
            for call in done {
                if limited.contains(now) {
                    refused += 1
                    turns.record(.asksToWait(.seconds(30)), of: "a", at: now)
                    _ = Self.ask(&turns, [call.caller], at: now)
                } else {
                    served.append(call.caller)
                    turns.record(.served, of: "a", at: now)
                }
                turns.end(call.ticket, at: now)
            }
            now = now + .milliseconds(50)
        }
        #expect(Set(served).count == 10_000 && turns.waitingCount == 0)
        #expect(refused <= Turns.groupMax + 30, "\(refused) calls in the half minute of the 429")
        let last = served.indices.filter { awaited.contains(served[$0]) }.max() ?? 0
        #expect(last < 1100, "the last of the fifty with waiting requests was call \(last)")
    }
}
