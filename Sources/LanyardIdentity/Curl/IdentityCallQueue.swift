import LanyardFoundations

/// What a call needs a slot for. The order is that of the queues.
enum IdentityCallKind {
    /// Beside a call that has no response (refresh.md 17). It has slots of its own: calls without a response may have all the others.
    case second
    /// A refresh, a logout, a location request.
    case session
    /// A login, or an operator's call about an account.
    case login

    /// Calls of this kind at once. Further ones wait in order.
    ///
    /// Logins leave slots for the others. So slow logins never delay the refresh of a live session.
    var inFlightMax: Int {
        switch self {
        case .second: 4
        case .session: 8
        case .login: 5
        }
    }

    /// For messages.
    var plural: String {
        switch self {
        case .second: "second calls"
        case .session: "calls"
        case .login: "logins"
        }
    }
}

/// Which calls of one identity are in flight, and which wait for a slot: the limits, the order, and the calls that have waited too long.
///
/// It does no I/O: `CurlMulti` starts and ends the transfers. `CurlMulti` checks the loop.
struct IdentityCallQueue<Call> {
    /// What the owner does with a call that leaves the queue.
    enum Step {
        /// It has a slot until `end`.
        case start(Call, timeLeft: Duration)
        /// It has not enough time left.
        case fail(Call, Cause)
    }

    /// What has taken the time of a call that was not started.
    enum Cause: Equatable {
        /// It has waited for a slot.
        case noSlot(IdentityCallKind)
        /// It came too late: the steps before it have taken the time.
        case late
    }

    /// A call that waits.
    private struct Entry {
        let call: Call
        /// The response must be complete by then.
        let deadline: Instant
        /// Too little time was left when it came.
        let isLate: Bool
    }

    /// A slot that a thread in `getaddrinfo` occupies.
    private struct LostSlot {
        let kind: IdentityCallKind
        let freeAt: Instant
    }

    /// How long a call that timed out in name resolution keeps its slot. libcurl has left its thread in `getaddrinfo`, which ends by
    /// itself (10 s with one silent name server). So a silent name server occupies a bounded number of threads.
    static var lostSlotTimeout: Duration { .seconds(10) }

    /// A call with less time left is not started.
    var timeLeftMin: Duration
    private var secondCalls: [Entry] = []
    private var sessionCalls: [Entry] = []
    /// They wait behind all others.
    private var logins: [Entry] = []
    private var secondCallsInFlight = 0
    private var sessionCallsInFlight = 0
    private var loginsInFlight = 0
    /// In the order in which they become free.
    private var lostSlots: [LostSlot] = []

    init(timeLeftMin: Duration) { self.timeLeftMin = timeLeftMin }

    // MARK: Calls

    mutating func append(_ call: Call, _ kind: IdentityCallKind, deadline: Instant, at now: Instant) {
        let entry = Entry(call: call, deadline: deadline, isLate: deadline - now <= timeLeftMin)
        switch kind {
        case .second: secondCalls.append(entry)
        case .session: sessionCalls.append(entry)
        case .login: logins.append(entry)
        }
    }

    /// The call goes before all that wait: it was started already.
    mutating func prepend(_ call: Call, _ kind: IdentityCallKind, deadline: Instant) {
        let entry = Entry(call: call, deadline: deadline, isLate: false)
        switch kind {
        case .second: secondCalls.insert(entry, at: 0)
        case .session: sessionCalls.insert(entry, at: 0)
        case .login: logins.insert(entry, at: 0)
        }
    }

    /// The next call that leaves the queue; nil: the others wait.
    mutating func next(at now: Instant) -> Step? {
        lostSlots.removeAll { $0.freeAt <= now }
        return next(of: .second, at: now) ?? next(of: .session, at: now) ?? next(of: .login, at: now)
    }

    private mutating func next(of kind: IdentityCallKind, at now: Instant) -> Step? {
        guard let first = first(of: kind) else { return nil }
        let timeLeft = first.deadline - now
        let isLate = timeLeft <= timeLeftMin
        guard isLate || hasSlot(for: kind) else { return nil }
        switch kind {
        case .second: secondCalls.removeFirst()
        case .session: sessionCalls.removeFirst()
        case .login: logins.removeFirst()
        }
        if isLate { return .fail(first.call, first.isLate ? .late : .noSlot(kind)) }
        count(1, kind)
        return .start(first.call, timeLeft: timeLeft)
    }

    private func first(of kind: IdentityCallKind) -> Entry? {
        switch kind {
        case .second: secondCalls.first
        case .session: sessionCalls.first
        case .login: logins.first
        }
    }

    private func hasSlot(for kind: IdentityCallKind) -> Bool {
        let lost = { (kind: IdentityCallKind) in lostSlots.count { $0.kind == kind } }
        let logins = loginsInFlight + lost(.login)
        let used =
            switch kind {
            case .second: secondCallsInFlight + lost(.second)
            case .session, .login: sessionCallsInFlight + lost(.session) + logins
            }
        switch kind {
        case .second: return used < IdentityCallKind.second.inFlightMax
        case .session: return used < IdentityCallKind.session.inFlightMax
        case .login:
            return used < IdentityCallKind.session.inFlightMax && logins < IdentityCallKind.login.inFlightMax
        }
    }

    private mutating func count(_ change: Int, _ kind: IdentityCallKind) {
        switch kind {
        case .second: secondCallsInFlight += change
        case .session: sessionCallsInFlight += change
        case .login: loginsInFlight += change
        }
    }

    /// A call that was started has ended.
    ///
    /// - Parameter keepsSlot: it timed out in name resolution.
    mutating func end(_ kind: IdentityCallKind, keepsSlot: Bool = false, at now: Instant) {
        count(-1, kind)
        if keepsSlot { lostSlots.append(LostSlot(kind: kind, freeAt: now + Self.lostSlotTimeout)) }
    }

    /// Drops all that is in flight or waits.
    ///
    /// - Returns: the calls that waited, in order.
    mutating func removeAll() -> [Call] {
        defer { self = Self(timeLeftMin: timeLeftMin) }
        return (secondCalls + sessionCalls + logins).map(\.call)
    }

    /// When `next` must be asked again at the latest; `.never`: after the next event.
    var checkAt: Instant {
        [secondCalls.first, sessionCalls.first, logins.first].reduce(lostSlots.first?.freeAt ?? .never) { at, first in
            guard let first else { return at }
            return min(at, first.deadline + (.zero - timeLeftMin))
        }
    }
}
