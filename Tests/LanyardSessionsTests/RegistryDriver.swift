import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// A registry whose actions are recorded as words and carried out at once.
struct RegistryDriver {
    static let service = "demo"
    static let staticIdentity = "fixed"

    var registry: UserRegistry
    let names: UserNames
    private var asks: UInt64 = 0

    /// Alice (email), kiosk (anonymous), robot (static), carol (no login); all configured, none logged in.
    init(
        active: String? = nil, remembered: StoreContents.ActiveChoice? = nil, next: Bool = false,
        stored: [RegisteredUser] = []
    ) {
        let names = UserNames(["alice", "kiosk", "robot", "carol"] + stored.map(\.name))
        self.names = names
        func configured(_ name: String, _ provider: String?, isStatic: Bool = false) -> RegisteredUser {
            stored.first { $0.name == name }
                ?? RegisteredUser(
                    name: name, index: names.index(of: name), identity: isStatic ? Self.staticIdentity : Self.service,
                    isConfigured: true, configuredProvider: provider, isStatic: isStatic)
        }
        let users = [
            configured("alice", "email_password"), configured("kiosk", "anonymous"),
            configured("robot", nil, isStatic: true), configured("carol", nil),
        ]
        registry = UserRegistry(
            users + stored.filter { !$0.isConfigured }, identities: [Self.service: false, Self.staticIdentity: true],
            configuredActive: active, remembered: remembered, activatesNext: next, names: names)
    }

    static func email(_ email: String = "a@example.com") -> LoginMethod<Secret> {
        .emailPassword(email: email, password: Secret(copying: .init(start: nil, count: 0)))
    }

    func index(_ name: String) -> UserIndex { names.index(of: name) }

    /// The active user, by name.
    var active: String? { registry.active.map { names[$0] } }
    var known: [String] { registry.shown.map { names[$0] } }
    /// The users that have a session.
    var authenticated: [String] { registry.users.filter(\.isAuthenticated).map(\.name) }

    /// Sends a request without a response of the service; returns the actions as words.
    mutating func ask(_ call: UserCall) -> [String] {
        asks += 1
        return words(registry.handle(.called(call, UserRegistry.UserCallID(asks))))
    }

    /// The latest request.
    var latest: UserRegistry.UserCallID { UserRegistry.UserCallID(asks) }

    /// The request's login, which is for `name`, succeeds in `account`; returns the following actions up to the
    /// response.
    mutating func succeed(
        _ ask: UserRegistry.UserCallID, _ name: String, _ account: String?, _ provider: String = "email_password"
    ) -> [String] {
        switch account.map({ registry.claim($0, for: index(name)) }) ?? .free {
        case .free: return stand(ask, name, account, provider)
        case .inUse(let holder): return fail(ask, .accountInUse(by: holder))
        case .belongs(let holder):
            return words(registry.handle(.belongs(ask, to: holder))) + stand(ask, holder, account, provider)
        }
    }

    /// The session of the login becomes the session of `name`.
    private mutating func stand(
        _ ask: UserRegistry.UserCallID, _ name: String, _ account: String?, _ provider: String
    ) -> [String] {
        _ = change(name, .valid, account, provider)
        return words(registry.handle(.loggedIn(ask)))
    }

    mutating func fail(_ ask: UserRegistry.UserCallID, _ error: UserError) -> [String] {
        words(registry.handle(.failed(ask, error)))
    }

    mutating func nameExists(_ ask: UserRegistry.UserCallID) -> [String] {
        words(registry.handle(.nameExists(ask)))
    }

    /// The service has deleted the account of the request.
    mutating func deletes(_ ask: UserRegistry.UserCallID) -> [String] {
        words(registry.handle(.accountDeleted(ask)))
    }

    /// The request's link or deletion has changed no user.
    mutating func endsChange(_ ask: UserRegistry.UserCallID) -> [String] {
        words(registry.handle(.accountChangeEnded(ask)))
    }

    mutating func overtake(_ ask: UserRegistry.UserCallID) -> [String] {
        words(registry.handle(.overtaken(ask)))
    }

    /// The store was read for a second logout: the latest request, unless another one is named.
    mutating func finds(
        _ name: String, hasSession: Bool, _ ask: UserRegistry.UserCallID? = nil
    ) -> [String] {
        words(registry.handle(.storeRead(ask ?? latest, index(name), hasSession: hasSession)))
    }

    /// A forgotten user is gone completely.
    mutating func goes(_ name: String) { _ = registry.handle(.removalCompleted(index(name))) }

    mutating func change(
        _ name: String, _ state: SessionState, _ account: String? = nil, _ provider: String? = nil,
        isLoggingIn: Bool = false
    ) -> [String] {
        let standing = UserRegistry.SessionSnapshot(
            state: state, isLoggingIn: isLoggingIn, accountID: account, provider: provider)
        return words(registry.handle(.changed(index(name), standing)))
    }

    /// A login of a new user from beginning to end, by an email account of that name unless told otherwise.
    mutating func add(_ name: String, _ credential: LoginMethod<Secret> = email(), account: String? = nil) -> [String] {
        let first = ask(.add(name: name, identity: Self.service, credential))
        guard first.last == "log in \(name)" else { return first }
        return first + succeed(latest, name, account ?? "account-\(name)", credential.provider)
    }

    /// A configured user logs in automatically.
    mutating func begin(_ name: String, _ provider: String = "email_password", account: String? = nil) {
        _ = change(name, .valid, account ?? "account-\(name)", provider)
    }

    private func words(_ actions: [UserRegistry.Action]) -> [String] {
        actions.map { action in
            switch action {
            case .admit(let user): "admit \(user.name)"
            case .logIn(_, let user): "log in \(names[user])"
            case .adopt(_, let user): "give \(names[user])"
            case .activate(let choice, let user):
                "activate \(choice.user ?? "none") \(user.map { names[$0] } ?? "none") of \(choice.configured ?? "none")"
            case .follow(let user): "follow \(user.map { names[$0] } ?? "none")"
            case .refresh(_, let user): "refresh \(names[user])"
            case .callAccount(_, let user): "call \(names[user])"
            case .manageAccount(_, let identity): "manage at \(identity)"
            case .logOut(_, let user): "log out \(names[user])"
            case .readStored(_, let user): "read \(names[user])"
            case .hide(_, let user): "hide \(names[user])"
            case .forget(_, let user): "forget \(names[user])"
            case .removeStored(_, let name): "expel \(name)"
            case .drop(let user): "drop \(names[user])"
            case .respond(_, .loggedOutBefore(let user)): "logged out before: \(names[user])"
            case .respond(_, .added(let user)): "added \(names[user])"
            case .respond(_, .user(let user)): "user \(names[user])"
            case .respond(_, .error(.identity(let error))): "fault \(error.verdict.label)"
            case .respond(_, .error(let error)): "fault \(error)"
            }
        }
    }
}
