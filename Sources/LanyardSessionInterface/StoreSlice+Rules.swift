import LanyardFoundations

/// How a change is applied to what is stored (architecture-control.md 4.8). It merges by user and generation, so that no write loses
/// another one's rotated token.
extension StoreSlice {
    /// Applies `change`. On `overtaken` and `inUse` nothing has changed, and nothing is to be written.
    ///
    /// - Parameter now: the time from which a new account is known.
    package mutating func apply(_ change: StoreChange, now: WallTime) -> StoreChange.Verdict {
        let verdict = make(change, now: now)
        defer { giveUpSurplus() }
        guard case .stored(let user) = verdict else { return verdict }
        let own = change.revocations.map(\.token)
        let ended = added.filter { !own.contains($0.token) }
        return ended.isEmpty ? verdict : .storedEnding(user, ended)
    }

    private mutating func make(_ change: StoreChange, now: WallTime) -> StoreChange.Verdict {
        switch change {
        case .storeIntent(let name, let identity, let intent, let base, let isFirstLook, let token, let isLastTry):
            if isFirstLook, let user, !user.allows(intent, at: identity) { return .overtaken(by: user) }
            if isLastTry, user?.allowsLastTry(with: token) != true { return .overtaken(by: user) }
            return edit(name, identity, base: base, now: now) { user in
                user.intent = intent
                if isLastTry { user.markLastTry() }
            }
        case .clearIntent(_, let sent, let isOfLogin):
            // A later token than the stored one was sent: what is known of the stored one stays.
            if let sent, let stored = user?.session?.refresh, stored != sent.token { return .stored(user) }
            user?.closeIntent(leaving: sent?.openCalls, isOfLogin: isOfLogin)
            // The intent of a first login has added the user.
            if user?.isBlank == true { user = nil }
            return .stored(user)
        case .dropRefreshToken(let name, let base):
            if isUnknown(base) { return .stored(nil) }
            return edit(name, nil, base: base, now: now) { user in
                user.dropRefreshToken()
                user.intent = nil
            }
        case .saveSession(let name, let login, let base):
            // A write whose last step failed may have reached the disk. A repetition is then recognised as ours. A
            // response that leaves the session as it is moves the generation, too: it closes the intent.
            if let present = user, present.session == login.session, present.generation >= login.generationMin {
                if !login.keepsLogout { user?.save(login.session, keepsLogout: false) }
                return .stored(user)
            }
            if login.keepsLogout, let user, case .deleting(let marked) = user.status,
                marked.id != login.session.id
            {
                return .overtaken(by: user)
            }
            if let holder = holder(of: login) { return .inUse(by: holder) }
            let isAhead =
                user.map { $0.session?.id == login.session.id && $0.generation < login.generationMin } ?? false
            return edit(name, StoredIdentity(login.identity, login.fingerprint), base: isAhead ? nil : base, now: now) {
                $0.saveSession(login, now: now)
            }
        case .recordRefusal(let name, let identity, let fingerprint, let endedVersion):
            return edit(name, identity, base: nil, now: now) { user in
                user.refused = fingerprint
                user.closeIntent()
                guard user.session != nil, user.version == endedVersion else { return }
                // The new generation tells other processes that the session has moved.
                user.generation = user.generation.next
                user.endSession()
            }
        case .end(let name, let base):
            if isUnknown(base) { return .stored(nil) }
            if let user, user.session == nil, user.generation == base.generation { return .stored(user) }
            return edit(name, nil, base: base, now: now) { user in
                user.endSession()
                user.intent = nil
            }
        case .logOut(let name, let identity, let end):
            if let user, end.isOvertaken(by: user) { return .overtaken(by: user) }
            keep(end, now: now)
            return edit(name, identity, base: nil, now: now) { user in
                // A login that is in progress then finds its base moved, with or without a session.
                user.generation = user.generation.next
                user.status = .loggedOut
                user.intent = nil
            }
        case .beginDeletion(let name, let session):
            // Another process that is deleting the account may take its own mark away.
            guard let user, case .active(let present) = user.status, present.id == session else {
                return .overtaken(by: user)
            }
            return edit(name, nil, base: nil, now: now) { $0.markDeletion(true) }
        case .cancelDeletion(let name, let session):
            guard let user, case .deleting(let marked) = user.status, marked.id == session else {
                return .stored(user)
            }
            return edit(name, nil, base: nil, now: now) { user in
                user.generation = user.generation.next
                user.markDeletion(false)
            }
        case .remove(_, let end):
            if let user, end.isOvertaken(by: user) { return .overtaken(by: user) }
            keep(end, now: now)
            user = nil
            return .stored(nil)
        case .activate(let choice):
            active = choice
            return .stored(nil)
        case .addRevocation(let revocation):
            keep(revocation)
            return .stored(nil)
        case .removeRevocation(let token):
            remove(token)
            return .stored(nil)
        case .saveMetadata(let metadata):
            save(metadata)
            return .stored(nil)
        }
    }

    /// The store does not know the user, because it could not take the user's login: there is nothing to end.
    private func isUnknown(_ base: SessionVersion) -> Bool { user == nil && base == .absent }

    /// - Parameters:
    ///   - identity: adds the user if it is missing. It replaces a user of another identity, whose service is to be
    ///     told. nil: the user must exist.
    ///   - base: the version that the change is based on; nil: any.
    private mutating func edit(
        _ name: String, _ identity: StoredIdentity?, base: SessionVersion?, now: WallTime,
        _ body: (inout StoredUser) -> Void
    ) -> StoreChange.Verdict {
        if let base, (user?.version ?? .absent) != base { return .overtaken(by: user) }
        guard var edited = user ?? identity.map({ StoredUser(name: name, of: $0) }) else { return .overtaken(by: nil) }
        if let identity, !edited.belongs(to: identity) {
            keep(edited.evictionRevocation(at: now))
            let (generation, isAdded) = (edited.generation, edited.isAdded)
            edited = StoredUser(name: name, of: identity)
            // A user of the admin API stays one at another application: a restart finds it.
            (edited.generation, edited.isAdded) = (generation, isAdded)
        }
        body(&edited)
        user = edited
        return .stored(edited)
    }

    /// Another user that is logged in to the account of a login: two users of one device share none, in whatever
    /// process they log in (architecture-control.md 5.7). A refresh of the stored session is no login.
    private func holder(of login: StoreChange.StoredLogin) -> String? {
        guard let account = login.accountID, user?.session?.id != login.session.id else { return nil }
        let identity = StoredIdentity(login.identity, login.fingerprint)
        let holder = holders.first { other in
            other.accountID == account && other.isAuthenticated && other.belongs(to: identity)
                && (other.isAdded || login.configured.contains(other.name))
        }
        return holder?.name
    }

    /// Keeps what the service must be told of the end of a user's session.
    private mutating func keep(_ end: StoreChange.SessionEnd, now: WallTime) {
        for revocation in end.revocations { keep(revocation) }
        guard let user, let session = user.session else { return }
        if session.id == end.version.session {
            if end.isDeleted { return }
            // No intent is open any more: another process has learned since that the token is as good as before.
            let isGivenUpAndGood = end.hasGivenUpToken && user.intent == nil
            guard user.generation > end.version.generation || isGivenUpAndGood else { return }
        }
        for revocation in user.endRevocations(at: now, includesAccessTokens: end.includesAccessTokens) {
            keep(revocation)
        }
    }

    /// Of two processes' the later one counts.
    private mutating func save(_ new: StoredMetadata) {
        guard !metadata.contains(where: { $0.isOfSameServer(as: new) && $0.readAt > new.readAt }) else { return }
        metadata.removeAll { $0.isOfSameServer(as: new) }
        metadata.append(new)
        metadata.removeFirst(max(0, metadata.count - StoredMetadata.countMax))
    }
}

extension StoreChange {
    /// The revocations that the change brings.
    fileprivate var revocations: [StoredRevocation] {
        switch self {
        case .logOut(_, _, let end), .remove(_, let end): end.revocations
        case .addRevocation(let revocation): [revocation]
        case .storeIntent, .clearIntent, .dropRefreshToken, .saveSession, .recordRefusal, .end, .beginDeletion,
            .cancelDeletion, .activate, .removeRevocation, .saveMetadata:
            []
        }
    }
}

extension StoreChange.SessionEnd {
    /// The user is another identity's, or an operator has logged it in since, in another process.
    fileprivate func isOvertaken(by user: StoredUser) -> Bool {
        if let owner, !user.belongs(to: owner) { return true }
        guard isRepeated, case .active(let session) = user.status else { return false }
        return session.id != version.session && session.isByOperator && session.issuedAt >= at
    }
}

extension StoredUser {
    /// Whether a call may be made without a further look at the user.
    fileprivate func allows(_ intent: StoredIntent, at identity: StoredIdentity) -> Bool {
        guard belongs(to: identity), (self.intent?.tries ?? 0) == 0 else { return false }
        return switch (status, intent.kind) {
        case (.active(let session), .refresh): session.refresh != nil
        case (.none, .refresh): false
        case (.active, .login), (.none, .login): true
        case (.loggedOut, _), (.deleting, _): false
        }
    }

    /// The session's refresh token is this one, and was not sent once more after an unknown outcome.
    fileprivate func allowsLastTry(with token: Secret?) -> Bool {
        guard case .active(let session) = status else { return false }
        return token != nil && session.refresh == token && !session.hasMadeLastTry
    }

    /// Nothing has come of any call for the user: a store without it says the same.
    fileprivate var isBlank: Bool {
        var blank = StoredUser(name: name, identity: identity)
        blank.identityFingerprint = identityFingerprint
        return self == blank
    }

    /// Stores the tokens of a login, a refresh or a link. All but a link clear the intent and say which credential stays
    /// refused or spent.
    fileprivate mutating func saveSession(_ login: StoreChange.StoredLogin, now: WallTime) {
        identity = login.identity
        identityFingerprint = login.fingerprint ?? identityFingerprint
        generation = max(generation.next, login.generationMin)
        save(login.session, keepsLogout: login.keepsLogout)
        if let account = login.accountID, account != accountID {
            accountID = account
            accountSince = now
        }
        if let provider = login.provider {
            self.provider = provider
            subject = login.subject
            isAdded = login.isAdded
        }
        guard !login.isLink else { return }
        intent = nil
        refused = login.refused
    }
}
