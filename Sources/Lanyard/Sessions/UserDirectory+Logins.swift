/// Logins that a person asks for, whose accounts they end in, and what sessions do by themselves (architecture.md 5.7).
extension UserDirectory {
    mutating func add(
        _ name: String, _ identity: String, _ provider: String, _ ask: Ask
    ) throws(UserFault) -> [Act] {
        guard let isFixed = identities[identity] else { throw .noSuchIdentity }
        guard !isFixed else { throw .notSupported }
        if provider == KnownUser.anonymous {
            // A second anonymous login makes no second account (appservices.md 2.5).
            if let user = users.first(where: { $0.identity == identity && $0.isAnonymous && $0.isAuthenticated }) {
                return makeActive(user.index) + [.answer(ask, .user(user.index))]
            }
            // Nor do two at once.
            let isUnderWay = logins.values.contains { $0.provider == provider && self[$0.user]?.identity == identity }
            guard !isUnderWay else { throw .loginInProgress }
        }
        if let user = self[name] { throw user.isNewcomer ? .loginInProgress : .nameInUse }
        let index = names.reserveIndex(of: name)
        guard !leaving.contains(index), !hidden.contains(where: { $0.index == index }) else { throw .nameInUse }
        let user = KnownUser(name: name, index: index, identity: identity, isConfigured: false, isNewcomer: true)
        users.append(user)
        logins[ask] = Login(name: name, provider: provider, isNew: true, user: index)
        return [.admit(user), .logIn(ask, index)]
    }

    /// - Parameter given: the kind of the credential that was given.
    mutating func logIn(_ name: String, _ given: String?, _ ask: Ask) throws(UserFault) -> [Act] {
        // A configured anonymous user that was logged out is not shown any more, but can be logged in.
        guard let user = self[name] ?? hidden.first(where: { $0.name == name }), !user.isNewcomer else {
            throw .noSuchUser
        }
        guard !user.isFixed else { throw .notSupported }
        guard let provider = given ?? user.configuredProvider else { throw .noCredential }
        if provider == KnownUser.anonymous, user.isAnonymous, let known = self[name], known.isAuthenticated {
            return makeActive(user.index) + [.answer(ask, .user(user.index))]
        }
        guard !logins.values.contains(where: { $0.user == user.index }) else { throw .loginInProgress }
        logins[ask] = Login(name: name, provider: provider, isNew: false, user: user.index)
        return [.logIn(ask, user.index)]
    }

    // MARK: Whose account it is

    /// Whether a login of `user` may keep the account in which it ended. Whoever is told `free` has it from now on: of two logins under way
    /// the second finds the first.
    package mutating func claim(_ accountID: String, for user: UserIndex) -> SessionClaim {
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
    mutating func handOver(_ ask: Ask, to name: String) -> [Act] {
        guard let login = logins[ask] else { return [] }
        guard let holder = self[name] else { return turnAway(ask, nil) }
        logins[ask]?.user = holder.index
        return dropNewcomer(login) + [.give(ask, holder.index)]
    }

    // MARK: How logins end

    /// The login is the user's session now, and the user is active.
    mutating func welcome(_ ask: Ask) -> [Act] {
        guard let login = logins.removeValue(forKey: ask) else { return [] }
        bringBack(login.user)
        guard let user = self[login.user] else { return [.answer(ask, .fault(.noSuchUser))] }
        // Requests may name the user from now on.
        _ = names.index(of: user.name)
        self[user.index]?.isAuthenticated = true
        self[user.index]?.isLoggedOut = false
        self[user.index]?.isNewcomer = false
        self[user.index]?.provider = login.provider
        let isNew = login.isNew && user.name == login.name
        return makeActive(user.index) + [.answer(ask, isNew ? .added(user.index) : .user(user.index))]
    }

    private mutating func bringBack(_ index: UserIndex) {
        guard let place = hidden.firstIndex(where: { $0.index == index }) else { return }
        let user = hidden.remove(at: place)
        // Where the configuration has it: before those who came later.
        users.insert(user, at: users.firstIndex { !$0.isConfigured || $0.index.number > index.number } ?? users.count)
    }

    /// The login came to nothing, and all is as it was.
    ///
    /// - Parameter fault: nil: something came in between.
    mutating func turnAway(_ ask: Ask, _ fault: UserFault?) -> [Act] {
        guard let login = logins.removeValue(forKey: ask) else { return [] }
        let newcomer = dropNewcomer(login)
        let isKnown = self[login.user] != nil || hidden.contains { $0.index == login.user }
        return newcomer + [.answer(ask, .fault(fault ?? (isKnown ? .notLoggedIn : .noSuchUser)))]
    }

    /// Whoever was to be new has been there all along.
    mutating func makeKnown(_ ask: Ask) -> [Act] {
        guard let login = logins.removeValue(forKey: ask) else { return [] }
        self[login.user]?.isNewcomer = false
        _ = names.index(of: login.name)
        return [.answer(ask, .fault(.nameInUse))]
    }

    private mutating func dropNewcomer(_ login: Login) -> [Act] {
        guard login.isNew, let user = self[login.user], user.isNewcomer else { return [] }
        users.removeAll { $0.index == user.index }
        leaving.insert(user.index)
        return [.drop(user.index)]
    }

    /// A session has changed, by itself or not.
    mutating func follow(_ index: UserIndex, _ standing: Standing) -> [Act] {
        guard var user = self[index] else { return [] }
        let wasAuthenticated = user.isAuthenticated
        user.isAuthenticated = standing.state.isAuthenticated
        if !standing.isLoggingIn { user.claimedAccountID = nil }
        user.accountID = standing.accountID ?? user.accountID
        user.provider = standing.provider ?? user.provider
        if user.isAuthenticated { user.isLoggedOut = false }
        self[index] = user
        // An anonymous account cannot be logged in to again: without a configured login nothing is left of its user.
        guard wasAuthenticated, standing.state == .loginRequired, user.isAnonymous, !user.isConfigured else {
            return []
        }
        return forget(user, nil)
    }
}
