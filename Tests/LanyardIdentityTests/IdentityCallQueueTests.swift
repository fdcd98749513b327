import LanyardFoundations
import Testing

@testable import LanyardIdentity

@Suite struct IdentityCallQueueTests {
    private let start = Instant(nanoseconds: 1_000_000_000)
    private var queue = IdentityCallQueue<Int>(timeLeftMin: .seconds(2))

    private var due: Instant { start + .seconds(30) }

    private mutating func add(_ calls: Range<Int>, _ kind: IdentityCallKind = .session) {
        for call in calls { queue.append(call, kind, deadline: due, at: start) }
    }

    /// The calls that start now. One that fails instead is negative.
    private mutating func starts(at now: Instant) -> [Int] {
        var list: [Int] = []
        while let step = queue.next(at: now) {
            switch step {
            case .start(let call, _): list.append(call)
            case .fail(let call, _): list.append(-call)
            }
        }
        return list
    }

    @Test("eight calls start in order, and each further one when a call has ended")
    mutating func bound() {
        add(1..<11)
        #expect(starts(at: start) == Array(1...8))
        queue.end(.session, at: start)
        #expect(starts(at: start) == [9])
    }

    @Test("five logins start, behind the calls of sessions, and leave three slots")
    mutating func logins() {
        add(1..<8, .login)
        add(11..<13)
        #expect(starts(at: start) == [11, 12, 1, 2, 3, 4, 5])
        add(13..<15)
        #expect(starts(at: start) == [13])
        queue.end(.login, at: start)
        #expect(starts(at: start) == [14])
        queue.end(.login, at: start)
        #expect(starts(at: start) == [6])
    }

    @Test("four second calls start whatever is in flight, and take no slot of another call")
    mutating func secondCalls() {
        add(1..<10)
        #expect(starts(at: start).count == 8)
        add(21..<26, .second)
        #expect(starts(at: start) == [21, 22, 23, 24])
        queue.end(.session, at: start)
        #expect(starts(at: start) == [9])
        queue.end(.second, at: start)
        #expect(starts(at: start) == [25])
    }

    @Test("a call that was started before goes first")
    mutating func prepended() {
        add(1..<10)
        #expect(starts(at: start).count == 8)
        queue.end(.session, at: start)
        queue.prepend(20, .session, deadline: due)
        #expect(starts(at: start) == [20])
    }

    @Test("a call that timed out in name resolution keeps its slot for ten seconds, and a login's counts as a login")
    mutating func lostSlots() {
        add(1..<7, .login)
        #expect(starts(at: start) == [1, 2, 3, 4, 5])
        queue.end(.login, keepsSlot: true, at: start)
        #expect(starts(at: start + .seconds(9)) == [])
        #expect(queue.checkAt == start + .seconds(10))
        #expect(starts(at: start + .seconds(10)) == [6])
    }

    @Test("a call without a slot fails when too little time is left, also a login behind calls")
    mutating func late() {
        add(1..<10)
        add(11..<12, .login)
        #expect(starts(at: start) == Array(1...8))
        #expect(queue.checkAt == start + .seconds(28))
        #expect(starts(at: start + .seconds(27)) == [])
        #expect(starts(at: start + .seconds(28)) == [-9, -11])
        #expect(queue.checkAt == .never)
    }

    @Test("a call that fails has waited for a slot, or has come too late itself")
    mutating func causes() {
        func causes(at now: Instant) -> [IdentityCallQueue<Int>.Cause] {
            var list: [IdentityCallQueue<Int>.Cause] = []
            while let step = queue.next(at: now) { if case .fail(_, let cause) = step { list.append(cause) } }
            return list
        }
        add(1..<10)
        queue.append(10, .login, deadline: due, at: start)
        #expect(causes(at: start).isEmpty)
        queue.append(11, .session, deadline: due, at: start + .seconds(28))
        queue.append(12, .login, deadline: due, at: start + .seconds(29))
        #expect(causes(at: start + .seconds(29)) == [.noSlot(.session), .late, .noSlot(.login), .late])
    }

    @Test("nothing is in flight or waits after all calls were removed")
    mutating func removed() {
        add(1..<11)
        #expect(starts(at: start).count == 8)
        #expect(queue.removeAll() == [9, 10])
        add(1..<3)
        #expect(starts(at: start) == [1, 2])
    }
}
