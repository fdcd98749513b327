/// What is on its way into the store, one change at a time, and what it could not take yet.
struct SessionWrites: Sendable {
    /// A change without the base that it will meet.
    enum PendingChange: Sendable {
        case storeIntent(StoredIntent)
        case settle, dropRefreshToken, end
        case saveSession(StoreChange.StoredLogin)
        /// - over: the session that has ended with it, as it stood then, whatever base there is when it can be stored.
        case recordRefusal(CredentialFingerprint, endedVersion: SessionVersion?)
        case terminate(SessionCoordinator.Termination, StoredRevocation?)
    }

    /// Who waits for it.
    enum Origin: Equatable, Sendable {
        case operation(UInt64)
        case termination(ticket: UInt64?)
        /// It failed before.
        case unsavedChanges
    }

    struct Write: Sendable {
        var pendingChange: PendingChange
        var origin: Origin
    }

    /// The first is under way, if `isOpen`.
    var writesInFlight: [Write] = []
    var isWriting = false
    /// What failed, in order; nobody waits for it, but a crash would lose it.
    private(set) var unsavedChanges: [PendingChange] = []
    /// Why; nil while the store works.
    private(set) var error: StoreError?
    private(set) var retryAt = Instant.never
    private var failures = 0
    /// What the latest login or refresh that failed would have made of the user.
    private var possiblyWritten: (fingerprint: SessionVersion, issuedAt: WallTime)?

    var isTerminating: Bool {
        writesInFlight.contains { if case .termination = $0.origin { true } else { false } }
    }

    /// The login or refresh that is not stored yet.
    var unsaved: StoreChange.StoredLogin? {
        for case .saveSession(let login) in unsavedChanges { return login }
        return nil
    }

    /// A new session is not stored yet.
    var hasUnsavedSession: Bool { unsaved != nil }

    /// A person's logout or removal is not stored yet.
    var hasUnsavedTermination: Bool {
        unsavedChanges.contains { if case .terminate = $0 { true } else { false } }
    }

    /// The store holds what it said that it could not take: a write whose last step failed may have been made.
    func mayHaveWritten(_ user: StoredUser) -> Bool {
        possiblyWritten?.fingerprint == user.fingerprint && possiblyWritten?.issuedAt == user.session?.issuedAt
    }

    /// The store has not heard yet that the refresh token is dead.
    var hasUnsavedTokenDrop: Bool {
        unsavedChanges.contains { if case .dropRefreshToken = $0 { true } else { false } }
    }

    /// The store has not heard yet that the session has ended.
    var hasUnsavedEnding: Bool {
        unsavedChanges.contains { pendingChange in
            switch pendingChange {
            case .terminate, .end, .recordRefusal: true
            default: false
            }
        }
    }

    /// Remembers what could not be stored. What it makes pointless goes.
    mutating func keep(_ pendingChange: PendingChange) {
        switch pendingChange {
        case .storeIntent: return
        case .settle: if !unsavedChanges.isEmpty { return }
        case .dropRefreshToken, .recordRefusal:
            unsavedChanges.removeAll { if case .settle = $0 { true } else { false } }
        case .end, .terminate: unsavedChanges = []
        case .saveSession(let login):
            unsavedChanges = []
            let fingerprint = SessionVersion(session: login.session.id, generation: login.generationMin)
            possiblyWritten = (fingerprint, login.session.issuedAt)
        }
        unsavedChanges.append(pendingChange)
    }

    /// An intent that was not stored before its call, whose outcome is unknown.
    mutating func keepIntent(_ intent: StoredIntent) { unsavedChanges.append(.storeIntent(intent)) }

    /// Returns whether that is news.
    mutating func failed(_ error: StoreError, at eventContext: EventContext) -> Bool {
        defer { self.error = error }
        failures += 1
        // 1 s to 30 s, the later half of it at random: all users of a full disk come back apart.
        let most = Duration.seconds(1) * Double(min(30, 1 << min(failures - 1, 5)))
        retryAt = unsavedChanges.isEmpty ? .never : eventContext.instant + most * (0.5 + 0.5 * eventContext.chance)
        return self.error == nil
    }

    /// One of the backlog has been stored, or is pointless.
    mutating func dropFirst() {
        if !unsavedChanges.isEmpty { unsavedChanges.removeFirst() }
    }

    /// The refresh token of the session at hand must not be sent any more.
    mutating func dropRefreshToken() {
        unsavedChanges = unsavedChanges.map { pendingChange in
            guard case .saveSession(var login) = pendingChange else { return pendingChange }
            login.session.refresh = nil
            return .saveSession(login)
        }
    }

    /// The session at hand is over: of what was to be said of it nothing is left but that.
    mutating func dropSession() {
        unsavedChanges.removeAll { pendingChange in
            switch pendingChange {
            case .saveSession, .storeIntent, .settle, .dropRefreshToken: true
            case .end, .recordRefusal, .terminate: false
            }
        }
    }

    /// A newer session stands in the store: nothing older is worth storing.
    mutating func dropAll() {
        unsavedChanges = []
        possiblyWritten = nil
    }

    /// The store works. Returns whether that is news, with nothing left to store.
    mutating func succeeded() -> Bool {
        guard unsavedChanges.isEmpty else { return false }
        defer { error = nil }
        failures = 0
        retryAt = .never
        return error != nil
    }

    mutating func wait(until instant: Instant) { retryAt = instant }
}
