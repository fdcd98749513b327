/// How a user's stay ends: by a person, or with the process; and what is left of an end that nobody saw.
extension SessionDesk {
    /// Local first: the shards hear it at once, then the store, then the service. What is under way comes too late.
    mutating func leave(_ leaving: Leaving, ticket: UInt64?) {
        tellRefreshersBeforeLeaving()
        var newest = strandedRefresh?.token ?? session.tokens?.refresh
        strandedRefresh = nil
        if let errand {
            if let token = errand.unsavedRefresh {
                // A login's session is another one than that which is left; a refresh's is the same, further on.
                if errand.call.kind == .login { revoke(token) } else { newest = token }
            }
            if case .asked(let ticket) = errand.purpose { reply(ticket, .overtaken) }
        }
        if let token = asked?.gift?.grant.refreshToken { revoke(token) }
        reply(asked?.ticket, .overtaken)
        (errand, asked, wanted, adopting, ours, unanswered) = (nil, nil, nil, nil, nil, 0)
        for step in session.take(.logoutRequested, at: moment, &ledger) {
            switch step {
            case .publish(let availability): act(.publish(availability))
            case .note(let note): act(.note(note))
            default: break
            }
        }
        let evicted = hasStood ? nil : stranger?.eviction(at: moment.wall)
        write(.leave(leaving, newest.map(revocation) ?? evicted), for: .leaving(ticket: ticket))
    }

    // MARK: The end of the process

    /// What has not begun does not begin: an intent without its call would have an unknown outcome. A session that is at hand already is
    /// stored, whatever it waits for.
    mutating func settle() {
        guard !isSettling else { return }
        isSettling = true
        wanted = nil
        if let login = asked, login.gift == nil {
            reply(login.ticket, .stopping)
            asked = nil
        }
        guard let errand, !errand.hasBegun else { return }
        if case .asked(let ticket) = errand.purpose { reply(ticket, .stopping) }
        finish()
    }

    /// Nothing more comes of the session's own call.
    var isStandingDown: Bool { isSettling && errand == nil }

    /// Nothing is left to be done before the end of the process; see `isUnsaved` for what could not be.
    package var isSettled: Bool { isStandingDown && asked == nil && writes.lane.isEmpty && !writes.isOpen }

    /// A crash, or the end of the process, would lose something that the store has not taken.
    package var isUnsaved: Bool { !writes.backlog.isEmpty }

    /// The store holds a session that has ended here.
    package var hasUnsavedEnd: Bool { writes.holdsEnding }

    /// The store has the session at hand as it is; where it holds another identity's user in its place, it never will.
    var isStored: Bool { !isUnsaved && !isDisplaced }

    /// One more try of the backlog, when nothing else is on its way; then the process may end.
    mutating func tryLast() {
        guard isSettled, !hasTriedLast else { return }
        hasTriedLast = true
        retryNext()
    }

    // MARK: What a crash left

    /// An open call of a user who is not logged in, whom nothing will log in by itself: settled under the user's lock, since it may just as
    /// well be another process's that is under way.
    mutating func tidy(_ result: Result<StoredUser?, StoreFault>) {
        guard case .success(let user?) = result, user.session == nil, user.intent != nil, user.mark == base else {
            return finish()
        }
        close(with: .settle)
    }
}
