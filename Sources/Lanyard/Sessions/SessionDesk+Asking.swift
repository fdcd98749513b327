/// What the start and people ask of a user's session.
extension SessionDesk {
    /// The start: goes on with what the store holds; without that, logs in.
    mutating func begin(_ stored: StoredUser?, sharing other: String?) {
        isNewcomer = setup.isAdded && stored?.isAdded != true
        guard let stored, stored.belongs(to: home) else {
            // Whoever changes a user's identity means another account: the new login takes the place of what is stored.
            if let stored { meet(stored) }
            ledger.expect(generation: base.generation + 1)
            return tell(.loginRequested)
        }
        stand(on: stored)
        hasStood = !isNewcomer
        learn(stored)
        if stored.isLoggedOut {
            tell(.ended(reason: "remembered"))
            isUntidy = stored.intent != nil
        } else if let session = stored.session, let other {
            giveWay(session, to: other)
        } else if let session = stored.session, !stored.isRefused {
            compareLogins(stored)
            restore(session, of: stored, isAdopted: false)
        } else {
            ledger.expect(generation: base.generation + 1)
            tell(.loginRequested)
            isUntidy = stored.intent != nil && wanted == nil
        }
    }

    /// An older release has let two users have one account: this one's session ends, and what is configured may log in to whatever it leads to.
    private mutating func giveWay(_ session: StoredSession, to other: String) {
        note(.accountShared, .error, reason: "account_in_use", details: ["other": other])
        if let token = session.refresh { revoke(token) }
        writes.keep(.end)
        retryNext()
        ledger.expect(generation: base.generation + 1)
        tell(.loginRequested)
    }

    /// The stored session goes on whatever is configured. Of its login the store knows the kind; of the account only the service's id, which
    /// no configuration names.
    private mutating func compareLogins(_ stored: StoredUser) {
        guard let configured = setup.credential?.provider, let provider = stored.provider, provider != configured
        else { return }
        note(.credentialDiffers, .warning, reason: "kind", details: ["stored": provider, "configured": configured])
    }

    /// A person's login, or a session that came of one: it begins when the errand under way has ended.
    mutating func ask(_ login: AskedLogin) {
        let refusal: SessionReply? =
            if asked != nil || isLoggingIn { .loginInProgress } else if isSettling, login.gift == nil { .stopping } else
            { nil }
        guard let refusal else { return asked = login }
        if let token = login.gift?.grant.refreshToken { revoke(token) }
        reply(login.ticket, refusal)
    }

    /// A login's outcome is awaited: a second one would end in two sessions.
    var isLoggingIn: Bool {
        guard let errand, errand.call.kind == .login else { return false }
        if case .closing = errand.stage { return false }
        return true
    }

    mutating func refresh(_ ticket: UInt64) {
        guard session.tokens != nil else { return reply(ticket, .notLoggedIn) }
        tell(.refreshRequested)
        guard session.call != nil else { return reply(ticket, .notSupported) }
        refreshers.append(ticket)
    }

    /// Once the session's call is answered for good, and stored.
    mutating func answerRefreshers() {
        guard !refreshers.isEmpty, session.call == nil || isStandingDown else { return }
        // A crash right after the answer must not undo what it tells of.
        if case .closing? = errand?.stage { return }
        tellRefreshers()
    }

    /// Whoever leaves now is told what had become of the call, if it was answered: only the store was waited for.
    mutating func tellRefreshersBeforeLeaving() {
        if !refreshers.isEmpty, session.call == nil { tellRefreshers() }
    }

    private mutating func tellRefreshers() {
        let reply: SessionReply =
            switch session {
            case _ where session.call != nil: .stopping
            case .valid: .refreshed
            case .loggedOut: .overtaken
            // What is said of a call that may be made again no longer holds: there is nothing left to make it with.
            case .loginRequired(let fault) where fault?.isPassing != false: .loginRequired
            default:
                .failed(
                    ledger.lastFault ?? IdentityFault(.transient(retryAfter: nil), words: "the session has ended"))
            }
        for ticket in refreshers { act(.reply(ticket, reply)) }
        refreshers = []
    }

    mutating func reply(_ ticket: UInt64?, _ reply: SessionReply) {
        if let ticket { act(.reply(ticket, reply)) }
    }
}
