/// How a user's stay ends: by a person, or with the process; and what is left of an end that nobody saw.
extension SessionCoordinator {
    /// Local first: the shards hear it at once, then the store, then the service. What is under way comes too late.
    mutating func terminate(_ termination: Termination, ticket: UInt64?) {
        replyToRefreshRequestsBeforeTermination()
        var newest = orphanedRefresh?.token ?? session.tokens?.refresh
        orphanedRefresh = nil
        if let operation {
            if let token = operation.unsavedRefreshToken {
                // A login's session is another one than that which is left; a refresh's is the same, further on.
                if operation.call.kind == .login { revoke(token) } else { newest = token }
            }
            if case .asked(let ticket) = operation.purpose { reply(ticket, .overtaken) }
        }
        if let token = asked?.obtained?.grant.refreshToken { revoke(token) }
        reply(asked?.ticket, .overtaken)
        (operation, asked, pendingCall, adopting, storedUser, unansweredRefreshes) = (nil, nil, nil, nil, nil, 0)
        for action in session.handle(.logoutRequested, at: eventContext, &context) {
            switch action {
            case .publish(let availability): emit(.publish(availability))
            case .logEvent(let logEvent): emit(.logEvent(logEvent))
            default: break
            }
        }
        let evicted = wasStored ? nil : foreignUser?.evictionRevocation(at: eventContext.wall)
        write(.terminate(termination, newest.map(revocation) ?? evicted), for: .termination(ticket: ticket))
    }

    // MARK: The end of the process

    /// What has not begun does not begin: an intent without its call would have an unknown outcome. A session that is at hand already is
    /// stored, whatever it waits for.
    mutating func settle() {
        guard !isDraining else { return }
        isDraining = true
        pendingCall = nil
        if let login = asked, login.obtained == nil {
            reply(login.ticket, .stopping)
            asked = nil
        }
        guard let operation, !operation.hasBegun else { return }
        if case .asked(let ticket) = operation.purpose { reply(ticket, .stopping) }
        finish()
    }

    /// Nothing more comes of the session's own call.
    var hasStoppedCalling: Bool { isDraining && operation == nil }

    /// Nothing is left to be done before the end of the process; see `isUnsaved` for what could not be.
    package var isDrained: Bool {
        hasStoppedCalling && asked == nil && writes.writesInFlight.isEmpty && !writes.isWriting
    }

    /// A crash, or the end of the process, would lose something that the store has not taken.
    package var isUnsaved: Bool { !writes.unsavedChanges.isEmpty }

    /// The store holds a session that has ended here.
    package var hasUnsavedEnd: Bool { writes.hasUnsavedEnding }

    /// The store has the session at hand as it is; where it holds another identity's user in its place, it never will.
    var isStored: Bool { !isUnsaved && !isDisplaced }

    /// One more try of the backlog, when nothing else is on its way; then the process may end.
    mutating func retryBeforeExit() {
        guard isDrained, !hasRetriedBeforeExit else { return }
        hasRetriedBeforeExit = true
        retryNext()
    }

    // MARK: What a crash left

    /// An open call of a user who is not logged in, whom nothing will log in by itself: settled under the user's lock, since it may just as
    /// well be another process's that is under way.
    mutating func closeStoredIntent(_ result: Result<StoredUser?, StoreError>) {
        guard case .success(let user?) = result, user.session == nil, user.intent != nil, user.fingerprint == base
        else {
            return finish()
        }
        close(with: .settle)
    }
}
