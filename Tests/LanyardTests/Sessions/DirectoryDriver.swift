import Lanyard

/// A directory with the acts it asked for as words, and a home that carries out what it is told at once.
struct DirectoryDriver {
    static let service = "demo"
    static let fixed = "fixed"

    var directory: UserDirectory
    let names: UserNames
    private var asks: UInt64 = 0

    /// Alice (email), kiosk (anonymous), robot (static), carol (no login); all configured, nobody logged in.
    init(
        active: String? = nil, remembered: StoreContents.ActiveChoice? = nil, next: Bool = false,
        stored: [KnownUser] = []
    ) {
        let names = UserNames(["alice", "kiosk", "robot", "carol"] + stored.map(\.name))
        self.names = names
        func configured(_ name: String, _ provider: String?, isFixed: Bool = false) -> KnownUser {
            stored.first { $0.name == name }
                ?? KnownUser(
                    name: name, index: names.index(of: name), identity: isFixed ? Self.fixed : Self.service,
                    isConfigured: true, configuredProvider: provider, isFixed: isFixed)
        }
        let users = [
            configured("alice", "email_password"), configured("kiosk", "anonymous"),
            configured("robot", nil, isFixed: true), configured("carol", nil),
        ]
        directory = UserDirectory(
            users + stored.filter { !$0.isConfigured }, identities: [Self.service: false, Self.fixed: true],
            configuredActive: active, remembered: remembered, activatesNext: next, names: names)
    }

    static func email(_ email: String = "a@example.com") -> GivenCredential {
        .emailPassword(email: email, password: Secret(copying: .init(start: nil, count: 0)))
    }

    func index(_ name: String) -> UserIndex { names.index(of: name) }

    /// Who is active, by name.
    var active: String? { directory.active.map { names[$0] } }
    var known: [String] { directory.shown.map { names[$0] } }
    /// Those that have a session.
    var authenticated: [String] { directory.users.filter(\.isAuthenticated).map(\.name) }

    /// Asks without an answer of the service; the acts as words.
    mutating func ask(_ request: UserRequest) -> [String] {
        asks += 1
        return words(directory.take(.asked(request, UserDirectory.Ask(asks))))
    }

    /// The latest ask.
    var latest: UserDirectory.Ask { UserDirectory.Ask(asks) }

    /// The login of an ask, which is for `name`, succeeds in `account`: what follows, to the answer.
    mutating func succeed(
        _ ask: UserDirectory.Ask, _ name: String, _ account: String?, _ provider: String = "email_password"
    ) -> [String] {
        switch account.map({ directory.claim($0, for: index(name)) }) ?? .free {
        case .free: return stand(ask, name, account, provider)
        case .inUse(let holder): return fail(ask, .accountInUse(by: holder))
        case .belongs(let holder):
            return words(directory.take(.belongs(ask, to: holder))) + stand(ask, holder, account, provider)
        }
    }

    /// What the login brought is the session of `name`.
    private mutating func stand(
        _ ask: UserDirectory.Ask, _ name: String, _ account: String?, _ provider: String
    ) -> [String] {
        _ = change(name, .valid, account, provider)
        return words(directory.take(.loggedIn(ask)))
    }

    mutating func fail(_ ask: UserDirectory.Ask, _ fault: UserFault) -> [String] {
        words(directory.take(.failed(ask, fault)))
    }

    mutating func taken(_ ask: UserDirectory.Ask) -> [String] { words(directory.take(.taken(ask))) }

    mutating func overtake(_ ask: UserDirectory.Ask) -> [String] { words(directory.take(.overtaken(ask))) }

    /// Nothing is left of a forgotten user.
    mutating func goes(_ name: String) { _ = directory.take(.gone(index(name))) }

    mutating func change(
        _ name: String, _ state: SessionState, _ account: String? = nil, _ provider: String? = nil,
        isLoggingIn: Bool = false
    ) -> [String] {
        let standing = UserDirectory.Standing(
            state: state, isLoggingIn: isLoggingIn, accountID: account, provider: provider)
        return words(directory.take(.changed(index(name), standing)))
    }

    /// A login of a new user from beginning to end, by an email account of that name unless told otherwise.
    mutating func add(_ name: String, _ credential: GivenCredential = email(), account: String? = nil) -> [String] {
        let first = ask(.add(name: name, identity: Self.service, credential))
        guard first.last == "log in \(name)" else { return first }
        return first + succeed(latest, name, account ?? "account-\(name)", credential.provider)
    }

    /// A configured user logs in by itself.
    mutating func begin(_ name: String, _ provider: String = "email_password", account: String? = nil) {
        _ = change(name, .valid, account ?? "account-\(name)", provider)
    }

    private func words(_ acts: [UserDirectory.Act]) -> [String] {
        acts.map { act in
            switch act {
            case .admit(let user): "admit \(user.name)"
            case .logIn(_, let user): "log in \(names[user])"
            case .give(_, let user): "give \(names[user])"
            case .activate(let choice, let user):
                "activate \(choice.user ?? "none") \(user.map { names[$0] } ?? "none") of \(choice.configured ?? "none")"
            case .refresh(_, let user): "refresh \(names[user])"
            case .logOut(_, let user): "log out \(names[user])"
            case .hide(_, let user): "hide \(names[user])"
            case .forget(_, let user): "forget \(names[user])"
            case .expel(_, let name): "expel \(name)"
            case .drop(let user): "drop \(names[user])"
            case .answer(_, .loggedOutBefore(let user)): "logged out before: \(names[user])"
            case .answer(_, .added(let user)): "added \(names[user])"
            case .answer(_, .user(let user)): "user \(names[user])"
            case .answer(_, .fault(.identity(let fault))): "fault \(fault.verdict.label)"
            case .answer(_, .fault(let fault)): "fault \(fault)"
            }
        }
    }
}
