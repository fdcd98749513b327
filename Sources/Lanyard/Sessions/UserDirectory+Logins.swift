/// Logins that a person asks for, whose accounts they end in, and what sessions do by themselves (architecture.md 5.7).
extension UserRegistry {
    mutating func add(
        _ name: String, _ identity: String, _ provider: String, _ requestID: RequestID
    ) throws(UserError) -> [Action] {
        guard let isStatic = identities[identity] else { throw .noSuchIdentity }
        guard !isStatic else { throw .notSupported }
        if provider == RegisteredUser.anonymous {
            // A second anonymous login makes no second account (appservices.md 2.5).
            if let user = users.first(where: { $0.identity == identity && $0.isAnonymous && $0.isAuthenticated }) {
                return makeActive(user.index) + [.response(requestID, .user(user.index))]
            }
            // Nor do two at once.
            let isUnderWay = logins.values.contains { $0.provider == provider && self[$0.user]?.identity == identity }
            guard !isUnderWay else { throw .loginInProgress }
        }
        if let user = self[name] { throw user.isProvisional ? .loginInProgress : .nameInUse }
        let index = names.reserveIndex(of: name)
        guard !beingRemoved.contains(index), !hidden.contains(where: { $0.index == index }) else { throw .nameInUse }
        let user = RegisteredUser(
            name: name, index: index, identity: identity, isConfigured: false, isProvisional: true)
        users.append(user)
        logins[requestID] = Login(name: name, provider: provider, isNew: true, user: index)
        return [.admit(user), .logIn(requestID, index)]
    }

    /// - Parameter given: the kind of the credential that was given.
    mutating func logIn(_ name: String, _ given: String?, _ requestID: RequestID) throws(UserError) -> [Action] {
        // A configured anonymous user that was logged out is not shown any more, but can be logged in.
        guard let user = self[name] ?? hidden.first(where: { $0.name == name }), !user.isProvisional else {
            throw .noSuchUser
        }
        guard !user.isStatic else { throw .notSupported }
        guard let provider = given ?? user.configuredProvider else { throw .noCredential }
        if provider == RegisteredUser.anonymous, user.isAnonymous, let known = self[name], known.isAuthenticated {
            return makeActive(user.index) + [.response(requestID, .user(user.index))]
        }
        guard !logins.values.contains(where: { $0.user == user.index }) else { throw .loginInProgress }
        logins[requestID] = Login(name: name, provider: provider, isNew: false, user: user.index)
        return [.logIn(requestID, user.index)]
    }

    // MARK: Whose account it is

    /// Whether a login of `user` may keep the account in which it ended. Whoever is told `free` has it from now on: of two logins under way
    /// the second finds the first.
    package mutating func claim(_ accountID: String, for user: UserIndex) -> AccountOwnership {
        guard let own = self[user] ?? hidden.first(where: { $0.index == user }) else { return .free }
        let others = users.filter { $0.identity == own.identity && $0.index != user }
        let holder = others.first {
            $0.claimedAccountID == accountID || $0.accountID == accountID && $0.isAuthenticated
        }
        if let holder { return .inUse(by: holder.name) }
        if let holder = others.first(where: { $0.accountID == accountID }) { return .belongs(to: holder.name) }
        self[user]?.claimedAccountID = accountID
        return .free
    }

    /// The login was somebody else's all along: an old user without a session.
    mutating func transferLogin(_ requestID: RequestID, to name: String) -> [Action] {
        guard let login = logins[requestID] else { return [] }
        guard let holder = self[name] else { return failLogin(requestID, nil) }
        logins[requestID]?.user = holder.index
        return dropProvisional(login) + [.adopt(requestID, holder.index)]
    }

    // MARK: How logins end

    /// The login is the user's session now, and the user is active.
    mutating func completeLogin(_ requestID: RequestID) -> [Action] {
        guard let login = logins.removeValue(forKey: requestID) else { return [] }
        restoreHidden(login.user)
        guard let user = self[login.user] else { return [.response(requestID, .error(.noSuchUser))] }
        // Requests may name the user from now on.
        _ = names.index(of: user.name)
        self[user.index]?.isAuthenticated = true
        self[user.index]?.isLoggedOut = false
        self[user.index]?.isProvisional = false
        self[user.index]?.provider = login.provider
        let isNew = login.isNew && user.name == login.name
        return makeActive(user.index) + [.response(requestID, isNew ? .added(user.index) : .user(user.index))]
    }

    private mutating func restoreHidden(_ index: UserIndex) {
        guard let place = hidden.firstIndex(where: { $0.index == index }) else { return }
        let user = hidden.remove(at: place)
        // Where the configuration has it: before those who came later.
        users.insert(user, at: users.firstIndex { !$0.isConfigured || $0.index.number > index.number } ?? users.count)
    }

    /// The login came to nothing, and all is as it was.
    ///
    /// - Parameter fault: nil: something came in between.
    mutating func failLogin(_ requestID: RequestID, _ error: UserError?) -> [Action] {
        guard let login = logins.removeValue(forKey: requestID) else { return [] }
        let provisional = dropProvisional(login)
        let isKnown = self[login.user] != nil || hidden.contains { $0.index == login.user }
        return provisional + [.response(requestID, .error(error ?? (isKnown ? .notLoggedIn : .noSuchUser)))]
    }

    /// Whoever was to be new has been there all along.
    mutating func confirmProvisional(_ requestID: RequestID) -> [Action] {
        guard let login = logins.removeValue(forKey: requestID) else { return [] }
        self[login.user]?.isProvisional = false
        _ = names.index(of: login.name)
        return [.response(requestID, .error(.nameInUse))]
    }

    private mutating func dropProvisional(_ login: Login) -> [Action] {
        guard login.isNew, let user = self[login.user], user.isProvisional else { return [] }
        users.removeAll { $0.index == user.index }
        beingRemoved.insert(user.index)
        return [.drop(user.index)]
    }

    /// A session has changed, by itself or not.
    mutating func sessionChanged(_ index: UserIndex, _ snapshot: SessionSnapshot) -> [Action] {
        guard var user = self[index] else { return [] }
        let wasAuthenticated = user.isAuthenticated
        user.isAuthenticated = snapshot.state.isAuthenticated
        if !snapshot.isLoggingIn { user.claimedAccountID = nil }
        user.accountID = snapshot.accountID ?? user.accountID
        user.provider = snapshot.provider ?? user.provider
        if user.isAuthenticated { user.isLoggedOut = false }
        self[index] = user
        // An anonymous account cannot be logged in to again: without a configured login nothing is left of its user.
        guard wasAuthenticated, snapshot.state == .loginRequired, user.isAnonymous, !user.isConfigured else {
            return []
        }
        return forget(user, nil)
    }
}
