/// What is on its way into the store, one change at a time, and what it could not take yet.
struct SessionWrites: Sendable {
    /// A change without the base that it will meet.
    enum Wish: Sendable {
        case intend(StoredIntent)
        case settle, spend, end
        case hold(StoreChange.StoredLogin)
        /// - over: the session that has ended with it, as it stood then, whatever base there is when it can be stored.
        case refuse(CredentialMark, over: SessionMark?)
        case leave(SessionDesk.Leaving, StoredRevocation?)
    }

    /// Who waits for it.
    enum Origin: Equatable, Sendable {
        case errand(UInt64)
        case leaving(ticket: UInt64?)
        /// It failed before.
        case backlog
    }

    struct Write: Sendable {
        var wish: Wish
        var origin: Origin
    }

    /// The first is under way, if `isOpen`.
    var lane: [Write] = []
    var isOpen = false
    /// What failed, in order; nobody waits for it, but a crash would lose it.
    private(set) var backlog: [Wish] = []
    /// Why; nil while the store works.
    private(set) var fault: StoreFault?
    private(set) var retryAt = Instant.never
    private var failures = 0
    /// What the latest login or refresh that failed would have made of the user.
    private var doubtful: (mark: SessionMark, issuedAt: WallTime)?

    var isLeaving: Bool {
        lane.contains { if case .leaving = $0.origin { true } else { false } }
    }

    /// The login or refresh that is not stored yet.
    var unsaved: StoreChange.StoredLogin? {
        for case .hold(let login) in backlog { return login }
        return nil
    }

    /// A new session is not stored yet.
    var holdsNewSession: Bool { unsaved != nil }

    /// A person's logout or removal is not stored yet.
    var holdsLeaving: Bool {
        backlog.contains { if case .leave = $0 { true } else { false } }
    }

    /// The store holds what it said that it could not take: a write whose last step failed may have been made.
    func mayHaveMade(_ user: StoredUser) -> Bool {
        doubtful?.mark == user.mark && doubtful?.issuedAt == user.session?.issuedAt
    }

    /// The store has not heard yet that the refresh token is dead.
    var holdsSpending: Bool {
        backlog.contains { if case .spend = $0 { true } else { false } }
    }

    /// The store has not heard yet that the session has ended.
    var holdsEnding: Bool {
        backlog.contains { wish in
            switch wish {
            case .leave, .end, .refuse: true
            default: false
            }
        }
    }

    /// Remembers what could not be stored. What it makes pointless goes.
    mutating func keep(_ wish: Wish) {
        switch wish {
        case .intend: return
        case .settle: if !backlog.isEmpty { return }
        case .spend, .refuse: backlog.removeAll { if case .settle = $0 { true } else { false } }
        case .end, .leave: backlog = []
        case .hold(let login):
            backlog = []
            let mark = SessionMark(session: login.session.id, generation: login.floor)
            doubtful = (mark, login.session.issuedAt)
        }
        backlog.append(wish)
    }

    /// An intent that was not stored before its call, whose outcome is unknown.
    mutating func keepOpen(_ intent: StoredIntent) { backlog.append(.intend(intent)) }

    /// Returns whether that is news.
    mutating func failed(_ fault: StoreFault, at moment: SessionMoment) -> Bool {
        defer { self.fault = fault }
        failures += 1
        // 1 s to 30 s, the later half of it at random: all users of a full disk come back apart.
        let most = Duration.seconds(1) * Double(min(30, 1 << min(failures - 1, 5)))
        retryAt = backlog.isEmpty ? .never : moment.instant + most * (0.5 + 0.5 * moment.chance)
        return self.fault == nil
    }

    /// One of the backlog has been stored, or is pointless.
    mutating func dropFirst() {
        if !backlog.isEmpty { backlog.removeFirst() }
    }

    /// The refresh token of the session at hand must not be sent any more.
    mutating func spend() {
        backlog = backlog.map { wish in
            guard case .hold(var login) = wish else { return wish }
            login.session.refresh = nil
            return .hold(login)
        }
    }

    /// The session at hand is over: of what was to be said of it nothing is left but that.
    mutating func dropSession() {
        backlog.removeAll { wish in
            switch wish {
            case .hold, .intend, .settle, .spend: true
            case .end, .refuse, .leave: false
            }
        }
    }

    /// A newer session stands in the store: nothing older is worth storing.
    mutating func dropAll() {
        backlog = []
        doubtful = nil
    }

    /// The store works. Returns whether that is news, with nothing left to store.
    mutating func succeeded() -> Bool {
        guard backlog.isEmpty else { return false }
        defer { fault = nil }
        failures = 0
        retryAt = .never
        return fault != nil
    }

    mutating func wait(until instant: Instant) { retryAt = instant }
}
