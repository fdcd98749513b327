/// How a change meets what is there (architecture.md 4.8): merged by user and generation, so that nobody's rotation is lost to another's
/// write.
extension StoreContents {
    /// Applies `change`; on `overtaken` and `inUse` nothing has changed, and nothing is to be written.
    ///
    /// - Parameter now: for how long an account is known.
    package mutating func apply(_ change: StoreChange, now: WallTime) -> StoreChange.Verdict {
        switch change {
        case .storeIntent(let name, let identity, let intent, let base):
            return edit(name, identity, base: base, now: now) { $0.intent = intent }
        case .settle(let name):
            guard self[name] != nil else { return .stored(nil) }
            return edit(name, nil, base: nil, now: now) { $0.settleIntent() }
        case .dropRefreshToken(let name, let base):
            if isUnknown(name, base) { return .stored(nil) }
            return edit(name, nil, base: base, now: now) { user in
                user.session?.refresh = nil
                user.intent = nil
            }
        case .saveSession(let name, let login, let base):
            // A write whose last step failed may have been made: repeated, it is no other's.
            if let user = self[name], user.session == login.session { return .stored(user) }
            if let holder = holder(of: login, besides: name) { return .inUse(by: holder) }
            let isAhead =
                self[name].map { $0.session?.id == login.session.id && $0.generation < login.generationMin } ?? false
            return edit(name, StoredIdentity(login.identity, login.fingerprint), base: isAhead ? nil : base, now: now) {
                $0.saveSession(login, now: now)
            }
        case .recordRefusal(let name, let identity, let fingerprint, let endedVersion):
            return edit(name, identity, base: nil, now: now) { user in
                user.refused = fingerprint
                user.settleIntent()
                guard user.session != nil, user.fingerprint == endedVersion else { return }
                // Other processes that serve it on see that it has moved.
                user.generation += 1
                user.session = nil
            }
        case .end(let name, let base):
            if isUnknown(name, base) { return .stored(nil) }
            if let user = self[name], user.session == nil, user.generation == base.generation { return .stored(user) }
            return edit(name, nil, base: base, now: now) { user in
                user.session = nil
                user.intent = nil
            }
        case .logOut(let name, let identity, let revocation):
            keep(revocation)
            return edit(name, identity, base: nil, now: now) { user in
                // A login that is under way meanwhile finds its base moved, whether or not there was a session.
                user.generation += 1
                user.session = nil
                user.intent = nil
                user.isLoggedOut = true
            }
        case .remove(let name, let revocation):
            keep(revocation)
            users.removeAll { $0.name == name }
            return .stored(nil)
        case .activate(let choice):
            active = choice
            return .stored(nil)
        case .addRevocation(let revocation):
            keep(revocation)
            return .stored(nil)
        case .revoked(let token):
            revocations.removeAll { $0.refresh == token }
            return .stored(nil)
        }
    }

    /// The store has never heard of the user, whose login it could not take: there is nothing to end.
    private func isUnknown(_ name: String, _ base: SessionVersion) -> Bool { self[name] == nil && base == .nobody }

    /// - Parameters:
    ///   - identity: makes the user if it is not there, and takes the place of another identity's, whose service is to be told; nil: there must
    ///     be one.
    ///   - base: what the change is based on; nil: whatever is there.
    private mutating func edit(
        _ name: String, _ identity: StoredIdentity?, base: SessionVersion?, now: WallTime,
        _ body: (inout StoredUser) -> Void
    ) -> StoreChange.Verdict {
        var place = users.firstIndex { $0.name == name }
        if let base, (place.map { users[$0].fingerprint } ?? .nobody) != base {
            return .overtaken(by: place.map { users[$0] })
        }
        if place == nil, let identity {
            users.append(StoredUser(name: name, home: identity))
            place = users.count - 1
        }
        if let place, let identity, !users[place].belongs(to: identity) {
            keep(users[place].evictionRevocation(at: now))
            let generation = users[place].generation
            users[place] = StoredUser(name: name, home: identity)
            users[place].generation = generation
        }
        guard let place else { return .overtaken(by: nil) }
        body(&users[place])
        return .stored(users[place])
    }

    /// Whoever else is logged in to the account of a login: two users of one device share none, in whatever processes they came
    /// (architecture.md 5.7). What goes on with the session that stands there is no login.
    private func holder(of login: StoreChange.StoredLogin, besides name: String) -> String? {
        guard let account = login.accountID, self[name]?.session?.id != login.session.id else { return nil }
        let home = StoredIdentity(login.identity, login.fingerprint)
        let holder = users.first { other in
            other.name != name && other.accountID == account && other.isAuthenticated && other.belongs(to: home)
                && (other.isAdded || login.configured.contains(other.name))
        }
        return holder?.name
    }

    private mutating func keep(_ revocation: StoredRevocation?) {
        guard let revocation, !revocations.contains(where: { $0.refresh == revocation.refresh }) else { return }
        revocations.append(revocation)
    }
}

extension StoredUser {
    /// What a login or a refresh brought stands from now on; what stood in its way is forgotten.
    fileprivate mutating func saveSession(_ login: StoreChange.StoredLogin, now: WallTime) {
        identity = login.identity
        identityFingerprint = login.fingerprint ?? identityFingerprint
        generation = max(generation + 1, login.generationMin)
        session = login.session
        if let account = login.accountID, account != accountID {
            accountID = account
            accountSince = now
        }
        if let provider = login.provider {
            self.provider = provider
            isAdded = login.isAdded
        }
        isLoggedOut = false
        intent = nil
        refused = nil
    }
}
