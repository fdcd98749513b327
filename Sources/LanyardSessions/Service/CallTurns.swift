import LanyardFoundations

/// Which sessions may begin a call, and in which order the others follow. A session that waits for its turn has no lock, no intent and no
/// descriptor: of ten thousand that want a call at once a few have begun.
///
/// Decides and does no I/O. Belongs to the queue of `SessionService`, which its owner checks.
struct CallTurns<Caller> {
    /// Who goes first.
    enum Urgency: Int, CaseIterable, Comparable {
        /// An operator waits.
        case operatorCall
        /// A request waits, or has found no token.
        case awaited
        /// A session is renewed.
        case renewal
        /// A user without a session, whom no request has asked for.
        case login

        static func < (one: Urgency, other: Urgency) -> Bool { one.rawValue < other.rawValue }
    }

    /// What a call has come to.
    enum Response {
        /// The service has given a token.
        case served
        /// It asks to wait so long (`Retry-After`).
        case asksToWait(Duration)
        /// Another response.
        case failed
    }

    /// Of a call that waits or has begun.
    typealias Ticket = UInt64

    /// A login takes the place of no other call, however long the service takes for it.
    enum Kind: Int, CaseIterable {
        case refresh, login
    }

    private struct Wait {
        let caller: Caller
        let identity: String
        let kind: Kind
        let since: Instant
        let timeout: Duration
        var urgency: Urgency
    }

    /// Tickets in the order of their coming. Those that have left stay in it until they come first.
    private struct Line {
        private var tickets: [Ticket] = []
        private var head = 0

        mutating func append(_ ticket: Ticket) { tickets.append(ticket) }

        mutating func removeFirst() -> Ticket? {
            guard head < tickets.count else { return nil }
            defer {
                head += 1
                if head >= 64, 2 * head >= tickets.count {
                    tickets.removeFirst(head)
                    head = 0
                }
            }
            return tickets[head]
        }
    }

    /// The calls of one identity.
    private struct Group {
        private var lines = Urgency.allCases.map { _ in Kind.allCases.map { _ in Line() } }
        /// By kind.
        private(set) var waiting = [0, 0]
        private(set) var begun = [0, 0]
        /// It is in `ready`.
        var isReady = false
        /// The service has asked to wait.
        var heldUntil = Instant.past
        /// The next call while it is held.
        var nextAt = Instant.past
        /// The service's latest response, or the latest time at which nothing waited.
        var respondedAt = Instant.past

        var isWaiting: Bool { waiting != [0, 0] }
        var isUnused: Bool { !isWaiting && begun == [0, 0] && !isReady }
        /// A call that waits has a place.
        var hasNext: Bool { Kind.allCases.contains { waiting[$0.rawValue] > 0 && hasPlace(for: $0) } }

        private func hasPlace(for kind: Kind) -> Bool {
            let all = begun[0] + begun[1]
            return all < groupMax && (kind == .refresh || begun[Kind.login.rawValue] < loginsMax)
        }

        mutating func wait(_ ticket: Ticket, _ kind: Kind, _ urgency: Urgency) {
            waiting[kind.rawValue] += 1
            line(ticket, kind, urgency)
        }

        mutating func line(_ ticket: Ticket, _ kind: Kind, _ urgency: Urgency) {
            lines[urgency.rawValue][kind.rawValue].append(ticket)
        }

        mutating func leave(_ kind: Kind) { waiting[kind.rawValue] -= 1 }
        mutating func end(_ kind: Kind) { begun[kind.rawValue] -= 1 }

        /// Begins the next call.
        ///
        /// - Parameter isInLine: whether a ticket still stands in this line.
        mutating func begin(_ isInLine: (Ticket, Urgency) -> Bool) -> Ticket? {
            for urgency in Urgency.allCases {
                for kind in Kind.allCases where hasPlace(for: kind) {
                    while let ticket = lines[urgency.rawValue][kind.rawValue].removeFirst() {
                        guard isInLine(ticket, urgency) else { continue }
                        waiting[kind.rawValue] -= 1
                        begun[kind.rawValue] += 1
                        return ticket
                    }
                }
            }
            return nil
        }
    }

    /// Calls of one identity that have begun: twice what is in flight at once (`IdentityCallKind`). So the store's work on the next ones
    /// does not keep the service waiting.
    static var groupMax: Int { 16 }
    /// Logins among them.
    static var loginsMax: Int { 10 }
    /// The same of all identities: each has a descriptor for its user's lock, and one for its connection.
    static var totalMax: Int { 256 }
    /// Between two calls of an identity whose service has asked to wait.
    static var heldInterval: Duration { .seconds(1) }
    /// The longest time for which one session's `Retry-After` slows the others down.
    static var holdMax: Duration { .seconds(60) }
    /// How often sessions are looked for that wait for a service which responds to none of them.
    static var stuckInterval: Duration { .seconds(5) }

    private var waits: [Ticket: Wait] = [:]
    private var begun: [Ticket: (identity: String, kind: Kind)] = [:]
    private var groups: [String: Group] = [:]
    /// Identities that have a call which may begin, in turn.
    private var ready: [String] = []
    /// Identities that have calls waiting, and whose service has asked to wait.
    private var held: Set<String> = []
    private var tickets: Ticket = 0
    /// When sessions are looked for that are stuck: no event in between puts it off.
    private var stuckCheckAt = Instant.never

    /// Calls that wait.
    var waitingCount: Int { waits.count }

    /// A session wants to make a call. `next` says when it begins.
    ///
    /// - Parameter timeout: see `removeStuck`.
    mutating func ask(
        _ caller: Caller, of identity: String, _ kind: Kind, _ urgency: Urgency, timeout: Duration, at now: Instant
    ) -> Ticket {
        tickets += 1
        waits[tickets] = Wait(
            caller: caller, identity: identity, kind: kind, since: now, timeout: timeout, urgency: urgency)
        var group = groups[identity] ?? Group()
        if !group.isWaiting { group.respondedAt = now }
        if stuckCheckAt == .never { stuckCheckAt = now + Self.stuckInterval }
        group.wait(tickets, kind, urgency)
        groups[identity] = group
        makeReady(identity, at: now)
        return tickets
    }

    /// A request waits for the call, or an operator does. Its time of coming in the more urgent line is now.
    mutating func raise(_ ticket: Ticket, to urgency: Urgency, at now: Instant) {
        guard let wait = waits[ticket], urgency < wait.urgency else { return }
        waits[ticket]?.urgency = urgency
        groups[wait.identity]?.line(ticket, wait.kind, urgency)
        makeReady(wait.identity, at: now)
    }

    /// The call has ended, or is not wanted any more.
    mutating func end(_ ticket: Ticket, at now: Instant) {
        if let wait = waits.removeValue(forKey: ticket) {
            groups[wait.identity]?.leave(wait.kind)
            forgetIfUnused(wait.identity, at: now)
        } else if let (identity, kind) = begun.removeValue(forKey: ticket) {
            groups[identity]?.end(kind)
            makeReady(identity, at: now)
            forgetIfUnused(identity, at: now)
        }
    }

    /// The service has responded to a call. While it asks to wait, one call begins in a second, until it serves one.
    mutating func record(_ response: Response, of identity: String, at now: Instant) {
        // What the service has asked for holds for later calls, too.
        let isRemembered = if case .asksToWait = response { true } else { groups[identity] != nil }
        guard isRemembered else { return }
        var group = groups[identity] ?? Group()
        group.respondedAt = now
        switch response {
        case .served: group.heldUntil = .past
        case .asksToWait(let delay):
            group.heldUntil = max(group.heldUntil, now + min(delay, Self.holdMax))
            group.nextAt = max(group.nextAt, now + Self.heldInterval)
        case .failed: break
        }
        groups[identity] = group
        makeReady(identity, at: now)
    }

    /// The next call that begins; nil: none does before the next event, or before `checkAt`.
    mutating func next(at now: Instant) -> (ticket: Ticket, caller: Caller)? {
        for identity in held where groups[identity].map({ nextAt(of: $0) <= now }) ?? true {
            held.remove(identity)
            makeReady(identity, at: now)
        }
        while begun.count < Self.totalMax, !ready.isEmpty {
            let identity = ready.removeFirst()
            groups[identity]?.isReady = false
            let begun = begin(identity, at: now)
            // The others of it, or all: the service may have asked to wait since.
            makeReady(identity, at: now)
            guard let (ticket, wait) = begun else { continue }
            return (ticket, wait.caller)
        }
        return nil
    }

    /// Sessions that have waited for their timeout, with no response of the service to any call of their identity in all that time.
    mutating func removeStuck(at now: Instant) -> [Caller] {
        guard stuckCheckAt <= now else { return [] }
        let stuck = waits.filter { _, wait in
            now - max(wait.since, groups[wait.identity]?.respondedAt ?? .past) >= wait.timeout
        }
        for ticket in stuck.keys.sorted() { end(ticket, at: now) }
        stuckCheckAt = waits.isEmpty ? .never : now + Self.stuckInterval
        return stuck.sorted { $0.key < $1.key }.map(\.value.caller)
    }

    /// When `removeStuck` and `next` must be asked again at the latest; `.never`: after the next event.
    var checkAt: Instant { held.compactMap { groups[$0] }.map { nextAt(of: $0) }.reduce(stuckCheckAt, min) }

    private func nextAt(of group: Group) -> Instant { min(group.nextAt, group.heldUntil) }

    private mutating func begin(_ identity: String, at now: Instant) -> (Ticket, Wait)? {
        guard var group = groups[identity], nextAt(of: group) <= now else { return nil }
        // Others have left, or have a place in a more urgent line.
        let ticket = group.begin { waits[$0]?.urgency == $1 }
        if ticket != nil, now < group.heldUntil { group.nextAt = now + Self.heldInterval }
        groups[identity] = group
        guard let ticket, let wait = waits.removeValue(forKey: ticket) else { return nil }
        begun[ticket] = (identity, wait.kind)
        return (ticket, wait)
    }

    private mutating func makeReady(_ identity: String, at now: Instant) {
        guard var group = groups[identity], group.hasNext, !group.isReady else { return }
        guard nextAt(of: group) <= now else {
            held.insert(identity)
            return
        }
        group.isReady = true
        groups[identity] = group
        ready.append(identity)
    }

    private mutating func forgetIfUnused(_ identity: String, at now: Instant) {
        guard let group = groups[identity], group.isUnused else { return }
        held.remove(identity)
        // What the service has asked for outlives its calls.
        if group.heldUntil <= now { groups[identity] = nil }
    }
}
