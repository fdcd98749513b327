/// Who is known on this device, and who of them is active: architecture.md 5.6, 5.7, as decisions. An event goes in,
/// acts come out, in their order; `SessionService` performs them. It does no I/O, and sees no secret.
package struct UserRegistry: Sendable {
    /// One thing that a person asked for, until it is answered.
    package struct RequestID: Hashable, Sendable {
        package let number: UInt64
        package init(_ number: UInt64) { self.number = number }
    }

    package enum Event: Sendable {
        case requested(UserRequest, RequestID)
        /// What came of an ask's login.
        case loggedIn(RequestID)
        /// The login succeeded in the account of this user, who has no session: it is that user's.
        case belongs(RequestID, to: String)
        case failed(RequestID, UserError)
        /// Another process has made a user of the name that was asked for, who is that user from now on.
        case nameExists(RequestID)
        /// Something came in between, such as a logout.
        case overtaken(RequestID)
        /// Where a user's session stands.
        case changed(UserIndex, SessionSnapshot)
        /// Nothing is left of a forgotten user: its name may be given anew.
        case removalCompleted(UserIndex)
    }

    /// What a session tells whenever it has changed.
    package struct SessionSnapshot: Equatable, Sendable {
        package var state: SessionState
        /// A login is under way, whoever asked for it.
        package var isLoggingIn: Bool
        package var accountID: String?
        /// The kind of the latest login.
        package var provider: String?

        package init(state: SessionState, isLoggingIn: Bool = false, accountID: String?, provider: String?) {
            self.state = state
            self.isLoggingIn = isLoggingIn
            self.accountID = accountID
            self.provider = provider
        }
    }

    package enum Action: Equatable, Sendable {
        /// There is a new user, whom nobody sees before its login has succeeded.
        case admit(RegisteredUser)
        /// Log in with what the ask brought, else with the user's configured credential; then `loggedIn`, `belongs`, `failed` or `overtaken`.
        case logIn(RequestID, UserIndex)
        /// What the ask's login brought is this user's; then `loggedIn`, `failed` or `overtaken`.
        case adopt(RequestID, UserIndex)
        /// Routes without a user of their own follow this one from now on, and after a restart.
        case activate(StoreContents.ActiveChoice, UserIndex?)
        case refresh(RequestID, UserIndex)
        /// The session is over: tokens go, then the service is told and the ask answered.
        case logOut(RequestID, UserIndex)
        /// The same, and nobody sees the user any more.
        case hide(RequestID, UserIndex)
        /// The same, and everything else that is known of the user goes, too; then `gone`.
        case forget(RequestID?, UserIndex)
        /// The store forgets a stranger, and the service is told; then the ask is answered.
        case removeStored(RequestID, String)
        /// Whose login never succeeded: nothing but the name is left to be given back; then `gone`.
        case drop(UserIndex)
        case response(RequestID, Response)
    }

    package enum Response: Equatable, Sendable {
        case added(UserIndex)
        case user(UserIndex)
        case loggedOutBefore(UserIndex)
        case error(UserError)
    }

    /// A login that a person asked for.
    struct Login: Sendable {
        /// The name that the person gave.
        let name: String
        let provider: String
        /// Somebody who is to get that name.
        let isNew: Bool
        /// Whom the login is for; the holder of the account, if that is another.
        var user: UserIndex
    }

    /// In the order of the configuration, then as they came; newcomers among them.
    package internal(set) var users: [RegisteredUser]
    package internal(set) var active: UserIndex?
    /// Names, and whether each is a static one.
    let identities: [String: Bool]
    /// `active_user`, as configured.
    let configuredActive: String?
    let activatesNext: Bool
    let names: UserNames
    var logins: [RequestID: Login] = [:]
    /// Configured anonymous users that a person has logged out: forgotten with their account until the next start, or until a person logs
    /// one of that name in.
    var hidden: [RegisteredUser] = []
    /// Names that the store has kept of users who are not known.
    var unknownStoredUsers: Set<String> = []
    /// Users whose stored session is of an account that another one goes on with, each with that one's name.
    var duplicateAccounts: [UserIndex: String] = [:]
    /// Forgotten, but the store does not know yet.
    var beingRemoved: Set<UserIndex> = []

    /// - Parameters:
    ///   - users: in their order; each with what the store held of it.
    ///   - identities: names, and whether each is a static one.
    ///   - configuredActive: `active_user`; nil: not configured, so it is the first configured user.
    ///   - remembered: what the store held; it counts until `active_user` says something else.
    ///   - activatesNext: `on_active_logout: next`.
    ///   - names: gives newcomers their places.
    package init(
        _ users: [RegisteredUser], identities: [String: Bool], configuredActive: String?,
        remembered: StoreContents.ActiveChoice?, activatesNext: Bool, names: UserNames
    ) {
        self.users = users
        self.identities = identities
        self.configuredActive = configuredActive
        self.activatesNext = activatesNext
        self.names = names
        let standard = configuredActive ?? users.first { $0.isConfigured }?.name
        if let remembered, remembered.configured == configuredActive {
            // Whoever was remembered may be known no more, because the configuration has changed.
            let isKnown = remembered.user.map { name in users.contains { $0.name == name } } ?? true
            active = self[isKnown ? remembered.user : standard]?.index
        } else {
            active = self[standard]?.index
        }
    }

    /// Whoever bears a name, newcomers included.
    subscript(name: String?) -> RegisteredUser? { users.first { $0.name == name } }

    subscript(index: UserIndex) -> RegisteredUser? {
        get { users.first { $0.index == index } }
        set {
            guard let place = users.firstIndex(where: { $0.index == index }), let newValue else { return }
            users[place] = newValue
        }
    }

    /// Forgotten, but its cell has still something to do.
    func isBeingRemoved(_ user: UserIndex) -> Bool { beingRemoved.contains(user) }

    /// The users that are shown, in their order.
    package var shown: [UserIndex] { users.filter { !$0.isProvisional }.map(\.index) }

    /// The one way in.
    package mutating func handle(_ event: Event) -> [Action] {
        switch event {
        case .requested(let request, let requestID): response(request, requestID)
        case .loggedIn(let requestID): completeLogin(requestID)
        case .belongs(let requestID, let name): transferLogin(requestID, to: name)
        case .failed(let requestID, let error): failLogin(requestID, error)
        case .nameExists(let requestID): confirmProvisional(requestID)
        case .overtaken(let requestID): failLogin(requestID, nil)
        case .changed(let user, let snapshot): sessionChanged(user, snapshot)
        case .removalCompleted(let user): giveBack(user)
        }
    }

    private mutating func giveBack(_ user: UserIndex) -> [Action] {
        beingRemoved.remove(user)
        names.giveBack(user)
        return []
    }

    private mutating func response(_ request: UserRequest, _ requestID: RequestID) -> [Action] {
        do throws(UserError) {
            switch request {
            case .add(let name, let identity, let credential):
                return try add(name, identity, credential.provider, requestID)
            case .login(let name, let credential): return try logIn(name, credential?.provider, requestID)
            case .activate(let name): return try activate(try known(name), requestID)
            case .refresh(let name): return try refresh(try known(name), requestID)
            case .logOut(let name): return try logOut(try known(name), requestID)
            case .remove(let name):
                if self[name] == nil, unknownStoredUsers.contains(name) { return [.removeStored(requestID, name)] }
                return forget(try known(name), requestID)
            }
        } catch {
            return [.response(requestID, .error(error))]
        }
    }

    /// A newcomer is nobody yet.
    private func known(_ name: String) throws(UserError) -> RegisteredUser {
        guard let user = self[name], !user.isProvisional else { throw .noSuchUser }
        return user
    }

    // MARK: The active user

    private mutating func activate(_ user: RegisteredUser, _ requestID: RequestID) throws(UserError) -> [Action] {
        guard user.isAuthenticated else { throw .notLoggedIn }
        return makeActive(user.index) + [.response(requestID, .user(user.index))]
    }

    mutating func makeActive(_ user: UserIndex?) -> [Action] {
        guard active != user else { return [] }
        active = user
        let name = user.flatMap { self[$0]?.name }
        return [.activate(StoreContents.ActiveChoice(user: name, configured: configuredActive), user)]
    }

    /// A user that leaves is active no more; who is then is as configured.
    private mutating func deactivate(_ user: UserIndex) -> [Action] {
        guard active == user else { return [] }
        return makeActive(activatesNext ? users.first { $0.isAuthenticated && $0.index != user }?.index : nil)
    }

    private func refresh(_ user: RegisteredUser, _ requestID: RequestID) throws(UserError) -> [Action] {
        guard !user.isStatic else { throw .notSupported }
        guard user.isAuthenticated else { throw .notLoggedIn }
        return [.refresh(requestID, user.index)]
    }

    // MARK: The end

    private mutating func logOut(_ user: RegisteredUser, _ requestID: RequestID) throws(UserError) -> [Action] {
        guard !user.isStatic else { throw .notSupported }
        // Twice is once (appservices.md 7.1).
        guard !user.isLoggedOut else { return [.response(requestID, .loggedOutBefore(user.index))] }
        if user.isAnonymous { return user.isConfigured ? hide(user, requestID) : forget(user, requestID) }
        let actions = deactivate(user.index)
        self[user.index]?.isAuthenticated = false
        self[user.index]?.isLoggedOut = true
        return actions + [.logOut(requestID, user.index)]
    }

    private mutating func hide(_ user: RegisteredUser, _ requestID: RequestID) -> [Action] {
        let actions = deactivate(user.index)
        users.removeAll { $0.index == user.index }
        hidden.append(user)
        return actions + [.hide(requestID, user.index)]
    }

    mutating func forget(_ user: RegisteredUser, _ requestID: RequestID?) -> [Action] {
        let actions = deactivate(user.index)
        users.removeAll { $0.index == user.index }
        beingRemoved.insert(user.index)
        return actions + [.forget(requestID, user.index)]
    }
}
