import LanyardFoundations

/// Logins that operators ask for, the ownership of their accounts, and changes of sessions (architecture-control.md 5.7).
extension UserRegistry {
    mutating func add(
        _ name: String, _ identity: String, _ provider: String, activates: Bool, _ callID: UserCallID
    ) throws(UserError) -> [Action] {
        guard let isStatic = identities[identity] else { throw .noSuchIdentity }
        guard !isStatic else { throw .notSupported }
        if provider == RegisteredUser.anonymous {
            // A second anonymous login makes no second account (app-services.md 2.5).
            if let user = users.first(where: { $0.identity == identity && $0.isAnonymous && $0.isAuthenticated }) {
                return (activates ? makeActive(user.index) : []) + [.respond(callID, .user(user.index))]
            }
            // Two anonymous logins at the same time would make two accounts.
            let isUnderWay = logins.values.contains { $0.provider == provider && self[$0.user]?.identity == identity }
            guard !isUnderWay else { throw .loginInProgress }
        }
        if let user = self[name] { throw user.isProvisional ? .loginInProgress : .nameInUse }
        let index = names.reserveIndex(of: name)
        guard members[index] == nil else { throw .nameInUse }
        let user = RegisteredUser(
            name: name, index: index, identity: identity, isConfigured: false, standing: .provisional)
        members.append(user)
        logins[callID] = Login(name: name, provider: provider, isNew: true, user: index, activates: activates)
        return [.admit(user), .logIn(callID, index)]
    }

    /// - Parameter given: the kind of the credential that was given.
    mutating func logIn(
        _ name: String, _ given: String?, activates: Bool, _ callID: UserCallID
    ) throws(UserError) -> [Action] {
        // A configured anonymous user is not shown after its logout, but can log in.
        guard let user = self[name] ?? hidden(named: name), !user.isProvisional else {
            throw .noSuchUser
        }
        guard !user.isStatic else { throw .notSupported }
        guard let provider = given ?? user.configuredProvider else { throw .noCredential }
        if provider == RegisteredUser.anonymous, user.isAnonymous, let known = self[name], known.isAuthenticated {
            return (activates ? makeActive(user.index) : []) + [.respond(callID, .user(user.index))]
        }
        guard !hasChangeUnderWay(user.index) else { throw .loginInProgress }
        logins[callID] = Login(
            name: name, provider: provider, isNew: false, user: user.index, activates: activates)
        return [.logIn(callID, user.index)]
    }

    // MARK: Account ownership

    /// Whether a login of `user` may keep the account in which it ended. `free` also reserves the account: of two
    /// logins in progress, the second finds the first.
    ///
    /// - Parameter accountID: nil: the service names no accounts, as most OAuth servers do; then users share what they share there.
    package mutating func claim(_ accountID: String?, for user: UserIndex) -> AccountOwnership {
        guard let accountID else { return .free }
        guard let own = self[user] ?? hidden(at: user) else { return .free }
        let others = members.holders(of: accountID, at: own.identity, besides: user).filter(\.isNamed)
        let holder = others.first {
            $0.claimedAccountID == accountID || $0.accountID == accountID && $0.isAuthenticated
        }
        if let holder { return .inUse(by: holder.name) }
        if let holder = others.first(where: { $0.accountID == accountID }) { return .belongs(to: holder.name) }
        self[user]?.claimedAccountID = accountID
        return .free
    }

    /// The account belongs to another known user, which has no session. The login continues as that user's.
    mutating func transferLogin(_ callID: UserCallID, to name: String) -> [Action] {
        guard let login = logins[callID] else { return [] }
        guard let holder = self[name] else { return failLogin(callID, nil) }
        logins[callID]?.user = holder.index
        return dropProvisional(login) + [.adopt(callID, holder.index)]
    }

    // MARK: Ends of logins

    /// The session becomes the user's, and the user becomes active unless the call says otherwise.
    mutating func completeLogin(_ callID: UserCallID) -> [Action] {
        guard let login = logins.removeValue(forKey: callID) else { return [] }
        if let user = hidden(at: login.user) { move(user, to: .known) }
        guard let user = self[login.user] else { return [.respond(callID, .error(.noSuchUser))] }
        // Requests may name the user from now on.
        _ = names.index(of: user.name)
        self[user.index]?.loginState = .authenticated
        self[user.index]?.standing = .known
        self[user.index]?.provider = login.provider
        let isNew = login.isNew && user.name == login.name
        return (login.activates ? makeActive(user.index) : [])
            + [.respond(callID, isNew ? .added(user.index) : .user(user.index))]
    }

    /// The login has failed, and the users are as before.
    ///
    /// - Parameter error: nil: something else happened first.
    mutating func failLogin(_ callID: UserCallID, _ error: UserError?) -> [Action] {
        guard let login = logins.removeValue(forKey: callID) else { return [] }
        let provisional = dropProvisional(login)
        let isKnown = self[login.user] != nil || hidden(at: login.user) != nil
        return provisional + [.respond(callID, .error(error ?? (isKnown ? .notLoggedIn : .noSuchUser)))]
    }

    /// The provisional user exists already, added by another process.
    mutating func confirmProvisional(_ callID: UserCallID) -> [Action] {
        guard let login = logins.removeValue(forKey: callID) else { return [] }
        self[login.user]?.standing = .known
        _ = names.index(of: login.name)
        return [.respond(callID, .error(.nameInUse))]
    }

    private mutating func dropProvisional(_ login: Login) -> [Action] {
        guard login.isNew, let user = self[login.user], user.isProvisional else { return [] }
        move(user, to: .leaving)
        return [.drop(user.index)]
    }

    /// The state of a session has changed.
    mutating func handleSessionChange(_ index: UserIndex, _ snapshot: SessionSnapshot) -> [Action] {
        guard var user = self[index] else { return [] }
        let wasAuthenticated = user.isAuthenticated
        if snapshot.state.isAuthenticated {
            user.loginState = .authenticated
        } else if user.isAuthenticated {
            user.loginState = .none
        }
        if !snapshot.isLoggingIn { user.claimedAccountID = nil }
        user.accountID = snapshot.accountID ?? user.accountID
        user.provider = snapshot.provider ?? user.provider
        self[index] = user
        // An anonymous account cannot be logged in to again. Without a configured login its user is forgotten.
        guard wasAuthenticated, snapshot.state == .loginRequired, user.isAnonymous, !user.isConfigured else {
            return []
        }
        return forget(user, nil)
    }
}
