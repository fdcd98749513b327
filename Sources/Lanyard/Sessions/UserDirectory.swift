/// Who is known on this device, and who of them is active: architecture.md 5.6, 5.7, as decisions. An event goes in,
/// acts come out, in their order; `SessionHome` performs them. It does no I/O, and sees no secret.
package struct UserDirectory: Sendable {
    /// One thing that a person asked for, until it is answered.
    package struct Ask: Hashable, Sendable {
        package let number: UInt64
        package init(_ number: UInt64) { self.number = number }
    }

    package enum Event: Sendable {
        case asked(UserRequest, Ask)
        /// What came of an ask's login.
        case loggedIn(Ask)
        /// The login succeeded in the account of this user, who has no session: it is that user's.
        case belongs(Ask, to: String)
        case failed(Ask, UserFault)
        /// Another process has made a user of the name that was asked for, who is that user from now on.
        case taken(Ask)
        /// Something came in between, such as a logout.
        case overtaken(Ask)
        /// Where a user's session stands.
        case changed(UserIndex, Standing)
        /// Nothing is left of a forgotten user: its name may be given anew.
        case gone(UserIndex)
    }

    /// What a session tells whenever it has changed.
    package struct Standing: Equatable, Sendable {
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

    package enum Act: Equatable, Sendable {
        /// There is a new user, whom nobody sees before its login has succeeded.
        case admit(KnownUser)
        /// Log in with what the ask brought, else with the user's configured credential; then `loggedIn`, `belongs`, `failed` or `overtaken`.
        case logIn(Ask, UserIndex)
        /// What the ask's login brought is this user's; then `loggedIn`, `failed` or `overtaken`.
        case give(Ask, UserIndex)
        /// Routes without a user of their own follow this one from now on, and after a restart.
        case activate(StoreContents.ActiveChoice, UserIndex?)
        case refresh(Ask, UserIndex)
        /// The session is over: tokens go, then the service is told and the ask answered.
        case logOut(Ask, UserIndex)
        /// The same, and nobody sees the user any more.
        case hide(Ask, UserIndex)
        /// The same, and everything else that is known of the user goes, too; then `gone`.
        case forget(Ask?, UserIndex)
        /// The store forgets a stranger, and the service is told; then the ask is answered.
        case expel(Ask, String)
        /// Whose login never succeeded: nothing but the name is left to be given back; then `gone`.
        case drop(UserIndex)
        case answer(Ask, Answer)
    }

    package enum Answer: Equatable, Sendable {
        case added(UserIndex)
        case user(UserIndex)
        case loggedOutBefore(UserIndex)
        case fault(UserFault)
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
    package internal(set) var users: [KnownUser]
    package internal(set) var active: UserIndex?
    /// Names, and whether each is a static one.
    let identities: [String: Bool]
    /// `active_user`, as configured.
    let configuredActive: String?
    let activatesNext: Bool
    let names: UserNames
    var logins: [Ask: Login] = [:]
    /// Configured anonymous users that a person has logged out: forgotten with their account until the next start, or until a person logs
    /// one of that name in.
    var hidden: [KnownUser] = []
    /// Names that the store has kept of users who are not known.
    var strangers: Set<String> = []
    /// Users whose stored session is of an account that another one goes on with, each with that one's name.
    var sharers: [UserIndex: String] = [:]
    /// Forgotten, but the store does not know yet.
    var leaving: Set<UserIndex> = []

    /// - Parameters:
    ///   - users: in their order; each with what the store held of it.
    ///   - identities: names, and whether each is a static one.
    ///   - configuredActive: `active_user`; nil: not configured, so it is the first configured user.
    ///   - remembered: what the store held; it counts until `active_user` says something else.
    ///   - activatesNext: `on_active_logout: next`.
    ///   - names: gives newcomers their places.
    package init(
        _ users: [KnownUser], identities: [String: Bool], configuredActive: String?,
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
    subscript(name: String?) -> KnownUser? { users.first { $0.name == name } }

    subscript(index: UserIndex) -> KnownUser? {
        get { users.first { $0.index == index } }
        set {
            guard let place = users.firstIndex(where: { $0.index == index }), let newValue else { return }
            users[place] = newValue
        }
    }

    /// Forgotten, but its cell has still something to do.
    func isLeaving(_ user: UserIndex) -> Bool { leaving.contains(user) }

    /// The users that are shown, in their order.
    package var shown: [UserIndex] { users.filter { !$0.isNewcomer }.map(\.index) }

    /// The one way in.
    package mutating func take(_ event: Event) -> [Act] {
        switch event {
        case .asked(let request, let ask): answer(request, ask)
        case .loggedIn(let ask): welcome(ask)
        case .belongs(let ask, let name): handOver(ask, to: name)
        case .failed(let ask, let fault): turnAway(ask, fault)
        case .taken(let ask): makeKnown(ask)
        case .overtaken(let ask): turnAway(ask, nil)
        case .changed(let user, let standing): follow(user, standing)
        case .gone(let user): giveBack(user)
        }
    }

    private mutating func giveBack(_ user: UserIndex) -> [Act] {
        leaving.remove(user)
        names.giveBack(user)
        return []
    }

    private mutating func answer(_ request: UserRequest, _ ask: Ask) -> [Act] {
        do throws(UserFault) {
            switch request {
            case .add(let name, let identity, let credential):
                return try add(name, identity, credential.provider, ask)
            case .login(let name, let credential): return try logIn(name, credential?.provider, ask)
            case .activate(let name): return try activate(try known(name), ask)
            case .refresh(let name): return try refresh(try known(name), ask)
            case .logOut(let name): return try logOut(try known(name), ask)
            case .remove(let name):
                if self[name] == nil, strangers.contains(name) { return [.expel(ask, name)] }
                return forget(try known(name), ask)
            }
        } catch {
            return [.answer(ask, .fault(error))]
        }
    }

    /// A newcomer is nobody yet.
    private func known(_ name: String) throws(UserFault) -> KnownUser {
        guard let user = self[name], !user.isNewcomer else { throw .noSuchUser }
        return user
    }

    // MARK: The active user

    private mutating func activate(_ user: KnownUser, _ ask: Ask) throws(UserFault) -> [Act] {
        guard user.isAuthenticated else { throw .notLoggedIn }
        return makeActive(user.index) + [.answer(ask, .user(user.index))]
    }

    mutating func makeActive(_ user: UserIndex?) -> [Act] {
        guard active != user else { return [] }
        active = user
        let name = user.flatMap { self[$0]?.name }
        return [.activate(StoreContents.ActiveChoice(user: name, configured: configuredActive), user)]
    }

    /// A user that leaves is active no more; who is then is as configured.
    private mutating func leave(_ user: UserIndex) -> [Act] {
        guard active == user else { return [] }
        return makeActive(activatesNext ? users.first { $0.isAuthenticated && $0.index != user }?.index : nil)
    }

    private func refresh(_ user: KnownUser, _ ask: Ask) throws(UserFault) -> [Act] {
        guard !user.isFixed else { throw .notSupported }
        guard user.isAuthenticated else { throw .notLoggedIn }
        return [.refresh(ask, user.index)]
    }

    // MARK: The end

    private mutating func logOut(_ user: KnownUser, _ ask: Ask) throws(UserFault) -> [Act] {
        guard !user.isFixed else { throw .notSupported }
        // Twice is once (appservices.md 7.1).
        guard !user.isLoggedOut else { return [.answer(ask, .loggedOutBefore(user.index))] }
        if user.isAnonymous { return user.isConfigured ? hide(user, ask) : forget(user, ask) }
        let acts = leave(user.index)
        self[user.index]?.isAuthenticated = false
        self[user.index]?.isLoggedOut = true
        return acts + [.logOut(ask, user.index)]
    }

    private mutating func hide(_ user: KnownUser, _ ask: Ask) -> [Act] {
        let acts = leave(user.index)
        users.removeAll { $0.index == user.index }
        hidden.append(user)
        return acts + [.hide(ask, user.index)]
    }

    mutating func forget(_ user: KnownUser, _ ask: Ask?) -> [Act] {
        let acts = leave(user.index)
        users.removeAll { $0.index == user.index }
        leaving.insert(user.index)
        return acts + [.forget(ask, user.index)]
    }
}
