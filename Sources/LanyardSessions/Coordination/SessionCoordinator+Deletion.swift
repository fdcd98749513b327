import LanyardFoundations
import LanyardSessionInterface

/// How an account is deleted so that a crash at any instant leaves nothing that logs in by itself: the store learns of
/// it before the service does (architecture-control.md 5.11).
extension SessionCoordinator {
    /// The deletion of the session's account, from the store's mark to its end.
    struct Deletion: Sendable {
        /// The id of the session whose account is deleted.
        let session: UInt64
        /// The service has deleted the account: its sessions have ended, so nothing is to be revoked.
        var isDone = false
        /// When the user's lock is tried again, while another process has it.
        var lockAt = Instant.never
    }

    /// The id of the current session in the store; 0: none. It stays the same across all renewals.
    package var sessionID: UInt64 { session.tokens == nil ? 0 : writes.unsaved?.session.id ?? knownRecord.base.session }

    /// Stores the mark; the result `deletionBegun` says that the service may be called. A store that cannot hold the
    /// mark refuses the deletion.
    ///
    /// The user's lock is tried first, and held until the end of the deletion: a start takes a mark without the lock for
    /// the rest of a crash. If another process has it, that process makes a call; the deletion does not wait for it.
    mutating func beginDeletion() {
        if let obstacle = deletionObstacle { return emit(.refuseCall(obstacle)) }
        guard lock == .free else { return markDeletion() }
        waiting.deletion = .locking
        lock = .requested
        emit(.tryLock)
    }

    /// Why no deletion can begin; nil: it can.
    private var deletionObstacle: SessionReply? {
        if sessionID == 0 { return .notLoggedIn }
        if isDraining { return .stopping }
        if deletion != nil || waiting.deletion != .none || isLoggingIn { return .loginInProgress }
        return writes.unsavedChanges.isEmpty ? nil : .storeFailing
    }

    private mutating func markDeletion() {
        knownRecord.isMarked = false
        waiting.deletion = .marking
        write(.beginDeletion(session: sessionID), for: .deletion)
    }

    /// The deletion begins, or it will not. Nothing happens if it has a result.
    mutating func endPreparation(_ result: SessionReply) {
        guard waiting.deletion != .none else { return }
        waiting.deletion = .none
        emit(.deletionPrepared(result))
    }

    /// The lock was tried. A deletion that has waited for that stores its mark. One that has begun tries again.
    mutating func continueDeletion(_ result: StoreLock) {
        if waiting.deletion == .locking {
            waiting.deletion = .none
            guard let obstacle = deletionObstacle else { return markDeletion() }
            return emit(.deletionPrepared(obstacle))
        }
        let delay = Backoff.storeLock.delay(after: 1, chance: eventContext.chance)
        deletion?.lockAt = result == .busy ? eventContext.instant + delay : .never
    }

    /// Tries the lock for a deletion that has begun.
    mutating func lockForDeletion() {
        guard deletion != nil else { return }
        deletion?.lockAt = .never
        guard lock == .free else { return }
        lock = .requested
        emit(.tryLock)
    }

    /// The store holds this process's mark, or is about to. Other processes make no call then, so that an unsaved
    /// cancellation may keep the lock as well.
    var keepsLockForDeletion: Bool { writes.isMarkingDeletion || knownRecord.isMarked && hasDeletionMark }

    mutating func handleDeletionMarked(_ session: UInt64, _ verdict: StoreChange.Verdict) {
        switch verdict {
        case .stored, .storedEnding: break
        case .overtaken(let user):
            return endPreparation(relation(of: user).hasKnownSession ? .loginInProgress : .overtaken)
        case .inUse: return endPreparation(.overtaken)
        }
        knownRecord.isMarked = true
        // A logout came first.
        guard sessionID == session else { return endPreparation(.overtaken) }
        deletion = Deletion(session: session)
        lockForDeletion()
        endPreparation(.deletionBegun)
    }

    /// The service has responded, or did not. A deleted account's session ends with the termination that follows.
    mutating func endDeletion(isDeleted: Bool) {
        guard let deletion else { return }
        if isDeleted {
            let isCurrent = deletion.session == sessionID
            self.deletion?.isDone = isCurrent
            return logEvent(.accountDeleted, .warning, reason: "asked")
        }
        self.deletion = nil
        write(.cancelDeletion(session: deletion.session), for: .deletion)
    }

    /// The session continues as before, at the version that other processes notice.
    mutating func handleDeletionCancelled(_ user: StoredUser?) {
        switch relation(of: user) {
        case .sameTokens:
            knownRecord.rebase(on: user)
            knownRecord.current = knownRecord.base.generation
        // Another process may have renewed the session: its tokens are not known here.
        case .foreign, .same, .sameWithoutRefreshToken, .sameDeletion, .sameLoggedOut, .sameWithoutSession, .sameAbsent,
            .older, .deletingElsewhere, .deletingOtherSession, .ownFailedWrite, .exchangedToken, .absent, .loggedOut,
            .ended, .newer, .otherSession:
            break
        }
    }

    /// The stored mark may be this process's own.
    var hasDeletionMark: Bool { deletion != nil || writes.isCancellingDeletion }

    /// Whether the operation is a login of the session's own while its account is being deleted. It would make another
    /// account.
    func isLoginDuringDeletion(_ operation: TokenOperation) -> Bool {
        deletion != nil && operation.purpose == .own && operation.call.kind == .login
    }

    /// A crash has cut a deletion off. Whether the service has deleted the account is unknown. The session is revoked,
    /// and the user stays logged out. The user's lock is held, so that the deletion is no other process's.
    mutating func endInterruptedDeletion(_ user: StoredUser) {
        logEvent(.deletionInterrupted, .error, reason: "outcome_unknown")
        if let token = user.session?.refresh { revoke(token) }
        close(with: .end)
    }
}
