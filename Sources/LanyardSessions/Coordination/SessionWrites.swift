import LanyardFoundations
import LanyardSessionInterface

/// The changes on their way into the store, one at a time, and those that it could not take yet.
struct SessionWrites: Sendable {
    /// A change without its base.
    enum PendingChange: Sendable {
        /// The refresh token is one that works only once; nil: another one, or a login.
        case storeIntent(StoredIntent, Secret?, isLastTry: Bool)
        case clearIntent, dropRefreshToken, end
        case saveSession(StoreChange.StoredLogin)
        /// - endedVersion: the session that has ended with it, at the version of that moment.
        case recordRefusal(CredentialFingerprint, endedVersion: SessionVersion?)
        case terminate(SessionCoordinator.Termination, StoreChange.SessionEnd)
        case beginDeletion(session: UInt64), cancelDeletion(session: UInt64)

        /// The result of a call that has not moved the session: what the store holds may be another process's.
        var appliesToAnyVersion: Bool {
            switch self {
            case .clearIntent, .recordRefusal: true
            case .storeIntent, .dropRefreshToken, .end, .saveSession, .terminate, .beginDeletion, .cancelDeletion: false
            }
        }

        /// It marks the user's account as one that is being deleted.
        var isDeletionMark: Bool { if case .beginDeletion = self { true } else { false } }

        /// An operator's logout or removal.
        var isTermination: Bool { if case .terminate = self { true } else { false } }
    }

    /// The origin of a write.
    enum Origin: Equatable, Sendable {
        case operation(UInt64)
        /// An operator's logout or removal, by its id.
        case termination(UInt64)
        /// The account is being deleted, or its deletion is cancelled.
        case deletion
        /// The credential has served in a login whose session is given up. Nothing waits for this write.
        case spentCredential
        /// The write failed before.
        case unsavedChanges
    }

    struct Write: Sendable {
        var pendingChange: PendingChange
        var origin: Origin
    }

    /// The first write is in progress if `isWriting`.
    var writesInFlight: [Write] = []
    var isWriting = false
    /// The failed changes, in order. No request waits for them, but a crash would lose them.
    private(set) var unsavedChanges: [PendingChange] = []
    /// The unsaved session took the place of an unsaved end of the session that the store holds. Without the one the other counts again.
    private var hasReplacedEnding = false
    /// The latest error; nil while the store works.
    private(set) var error: StoreError?
    private(set) var retryAt = Instant.never
    private var failures = 0
    /// Sessions of logins that were being stored when a termination came. They are revoked once the store has taken it:
    /// a crash before that would restore a session that the service has ended.
    var revokedAfterTermination: [StoredRevocation] = []
    /// What the latest failed login or refresh would have stored. A write whose last step failed may have been made.
    private(set) var failedWrite: StoredRelation.FailedWrite?

    var isTerminating: Bool {
        writesInFlight.contains { if case .termination = $0.origin { true } else { false } }
    }

    /// What a termination that the store has not taken is to revoke.
    var unsavedRevocations: [StoredRevocation] {
        for case .terminate(_, let end) in writesInFlight.map(\.pendingChange) + unsavedChanges
        where !end.revocations.isEmpty { return end.revocations }
        return []
    }

    /// Nothing is on its way into the store, and nothing is unsaved.
    var isIdle: Bool { writesInFlight.isEmpty && !isWriting && unsavedChanges.isEmpty }

    /// The login or refresh that is not stored yet.
    var unsaved: StoreChange.StoredLogin? {
        for case .saveSession(let login) in unsavedChanges { return login }
        return nil
    }

    /// A new session is not stored yet.
    var hasUnsavedSession: Bool { unsaved != nil }

    /// An operator's logout or removal is not stored yet.
    var hasUnsavedTermination: Bool {
        unsavedChanges.contains(where: \.isTermination)
    }

    /// The store does not know yet that the refresh token is dead.
    var hasUnsavedTokenDrop: Bool {
        unsavedChanges.contains { if case .dropRefreshToken = $0 { true } else { false } }
    }

    /// The store does not know yet that the session has ended.
    var hasUnsavedEnding: Bool {
        unsavedChanges.contains { pendingChange in
            switch pendingChange {
            case .terminate, .end, .recordRefusal: true
            case .storeIntent, .clearIntent, .dropRefreshToken, .saveSession, .beginDeletion, .cancelDeletion: false
            }
        }
    }

    /// The store does not know yet that a deletion was cancelled.
    var hasUnsavedCancellation: Bool {
        unsavedChanges.contains { if case .cancelDeletion = $0 { true } else { false } }
    }

    /// The mark of a deletion is on its way into the store.
    var isMarkingDeletion: Bool {
        writesInFlight.contains(where: \.pendingChange.isDeletionMark)
    }

    /// A deletion was cancelled, and the store may still hold its mark.
    var isCancellingDeletion: Bool {
        hasUnsavedCancellation
            || writesInFlight.contains { if case .cancelDeletion = $0.pendingChange { true } else { false } }
    }

    /// Keeps an unsaved change and drops the earlier ones that it makes obsolete.
    mutating func keep(_ pendingChange: PendingChange) {
        switch pendingChange {
        case .storeIntent: return
        // Without its mark no deletion begins. The mark may still have reached the disk.
        case .beginDeletion(let session): return unsavedChanges.append(.cancelDeletion(session: session))
        case .clearIntent: if !unsavedChanges.isEmpty { return }
        case .dropRefreshToken, .recordRefusal, .cancelDeletion:
            unsavedChanges.removeAll { if case .clearIntent = $0 { true } else { false } }
        case .end: (unsavedChanges, hasReplacedEnding) = ([], false)
        case .terminate(let termination, var end):
            end.isRepeated = true
            hasReplacedEnding = false
            return unsavedChanges = [.terminate(termination, end)]
        case .saveSession(var login):
            if hasUnsavedCancellation { login.keepsLogout = false }
            let version = SessionVersion(session: login.session.id, generation: login.generationMin)
            failedWrite = StoredRelation.FailedWrite(
                version: version, issuedAt: login.session.issuedAt, refresh: login.session.refresh)
            hasReplacedEnding = hasReplacedEnding || hasUnsavedEnding || hasUnsavedTokenDrop
            return unsavedChanges = [.saveSession(login)]
        }
        unsavedChanges.append(pendingChange)
    }

    /// Keeps an intent that was not stored before its call, whose outcome is unknown.
    mutating func keepIntent(_ intent: StoredIntent) {
        let isKept = unsavedChanges.contains { if case .storeIntent = $0 { true } else { false } }
        if !isKept { unsavedChanges.append(.storeIntent(intent, nil, isLastTry: false)) }
    }

    /// Returns whether this is the first failure.
    mutating func recordFailure(
        _ error: StoreError, by policy: ClockPolicy, at eventContext: EventContext
    ) -> Bool {
        defer { self.error = error }
        failures += 1
        let delay = policy.unsavedBackoff.delay(after: failures, chance: eventContext.chance)
        retryAt = unsavedChanges.isEmpty ? .never : eventContext.instant + delay
        return self.error == nil
    }

    /// The first unsaved change has been stored, or is obsolete.
    mutating func dropFirst() {
        if !unsavedChanges.isEmpty { unsavedChanges.removeFirst() }
    }

    /// The refresh token of the current session must not be sent any more.
    mutating func dropRefreshToken() {
        unsavedChanges = unsavedChanges.map { pendingChange in
            guard case .saveSession(var login) = pendingChange else { return pendingChange }
            login.session.refresh = nil
            return .saveSession(login)
        }
    }

    /// The current session has ended: only changes that record this remain.
    mutating func dropSession() {
        let isEndingLeft = hasReplacedEnding && hasUnsavedSession
        unsavedChanges.removeAll { pendingChange in
            switch pendingChange {
            case .saveSession, .storeIntent, .clearIntent, .dropRefreshToken, .beginDeletion, .cancelDeletion: true
            case .end, .recordRefusal, .terminate: false
            }
        }
        if isEndingLeft { unsavedChanges.insert(.end, at: 0) }
        hasReplacedEnding = false
    }

    /// The store holds a termination: what came before it is obsolete. A refusal or a spent credential that was noted after a
    /// termination which was unsaved until now stays.
    mutating func dropUpToTermination() {
        let place = unsavedChanges.lastIndex(where: \.isTermination)
        unsavedChanges = place.map { Array(unsavedChanges[($0 + 1)...]) } ?? []
        (failedWrite, hasReplacedEnding) = (nil, false)
    }

    /// The store holds a newer session: older changes are obsolete.
    mutating func dropAll() {
        unsavedChanges = []
        (failedWrite, hasReplacedEnding) = (nil, false)
    }

    /// The store works. Returns whether it failed before and nothing is left to store.
    mutating func recordSuccess() -> Bool {
        guard unsavedChanges.isEmpty else { return false }
        defer { error = nil }
        failures = 0
        retryAt = .never
        return error != nil
    }

    mutating func wait(until instant: Instant) { retryAt = instant }
}
