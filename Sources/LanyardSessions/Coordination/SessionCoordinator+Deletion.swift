import LanyardSessionInterface

/// How an account is deleted so that a crash at any instant leaves nothing that logs in by itself: the store learns of
/// it before the service does (architecture.md 5.11).
extension SessionCoordinator {
    /// The deletion of the session's account, from the store's mark to its end.
    struct Deletion: Sendable {
        /// The id of the session whose account is deleted.
        let session: UInt64
        /// The service has deleted the account: its sessions are over, so nothing is to be revoked.
        var isDone = false
    }

    /// The id of the session at hand in the store; 0: none. It stays the same over all renewals.
    package var sessionID: UInt64 { session.tokens == nil ? 0 : writes.unsaved?.session.id ?? view.base.session }

    /// Stores the mark; the reply `deletionBegun` says that the service may be called. A store that cannot hold the
    /// mark refuses the deletion.
    mutating func beginDeletion(_ ticket: UInt64) {
        guard sessionID != 0 else { return reply(ticket, .notLoggedIn) }
        guard !isDraining else { return reply(ticket, .stopping) }
        guard deletion == nil, !isLoggingIn else { return reply(ticket, .loginInProgress) }
        guard writes.unsavedChanges.isEmpty else { return reply(ticket, .storeFailing) }
        write(.beginDeletion(session: sessionID), for: .deletion(ticket: ticket))
    }

    mutating func handleDeletionMarked(_ session: UInt64, _ ticket: UInt64?, _ verdict: StoreChange.Verdict) {
        switch verdict {
        case .stored: break
        case .overtaken(let user?) where user.session?.id == session: return reply(ticket, .loginInProgress)
        case .overtaken, .inUse: return reply(ticket, .overtaken)
        }
        // A logout came first.
        guard sessionID == session else { return reply(ticket, .overtaken) }
        deletion = Deletion(session: session)
        reply(ticket, .deletionBegun)
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
        write(.cancelDeletion(session: deletion.session), for: .deletion(ticket: nil))
    }

    /// The session continues as before, at the version that other processes notice.
    mutating func handleDeletionCancelled(_ session: UInt64, _ user: StoredUser?) {
        // Another process may have renewed the session: its tokens are not at hand here.
        guard let user, user.session == view.user?.session, view.base.session == session,
            user.generation == view.base.generation.next
        else { return }
        view.rebase(on: user)
        view.current = view.base.generation
    }

    /// The stored mark may be this process's own.
    var hasDeletionMark: Bool { deletion != nil || writes.isCancellingDeletion }

    /// Another process is deleting the account, or a crash has cut that off: the session must not be continued here.
    func isBeingDeletedElsewhere(_ user: StoredUser) -> Bool {
        if case .deleting = user.status { !hasDeletionMark } else { false }
    }

    /// Whether the operation is a login of the session's own while its account is being deleted. It would make another
    /// account.
    func isLoginDuringDeletion(_ operation: TokenOperation) -> Bool {
        deletion != nil && operation.purpose == .own && operation.call.kind == .login
    }

    /// A crash has cut a deletion off. Whether the service has deleted the account is unknown. The session is revoked,
    /// and the user stays logged out.
    mutating func endInterruptedDeletion(_ stored: StoredSession) {
        logEvent(.deletionInterrupted, .error, reason: "outcome_unknown")
        if let token = stored.refresh { revoke(token) }
        writes.keep(.end)
        retryNext()
    }
}
