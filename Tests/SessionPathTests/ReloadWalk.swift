import TestSupport

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// A random walk of reloads and operators' calls over a real session service, with a store in memory and identity
/// services in this process. A seed repeats it.
final class ReloadWalk {
    static let names = ["alice", "bob", "carol"]
    static let identityNames = ["one", "two"]

    /// The configuration as a file would have it.
    struct File {
        struct User {
            var name: String
            var identity: String
            /// nil: an operator logs in.
            var login: UserSettings.Login?
        }

        /// The name of each identity, with the number of its application.
        var identities: [String: Int] = [:]
        var users: [User] = []
        var active: String?

        var words: String {
            let users = users.map {
                "\($0.name) at \($0.identity) as \($0.login?.account ?? "-") \($0.login?.secret ?? "")"
            }
            let identities = identities.sorted { $0.key < $1.key }.map { "\($0.key).\($0.value)" }
            return "\(identities) \(users) active \(active ?? "-")"
        }

        func identity(of name: String) -> String? { users.first { $0.name == name }?.identity }
    }

    /// What an operator does.
    struct Call {
        let words: String
        let request: UserCall
    }

    private(set) var file: File
    let service: SessionService
    let shards: SimulatedShards
    /// What has happened, for the report of a failure.
    private(set) var story: [String] = []
    private let store: KeptStore
    private let names: UserNames
    private let services: ScriptedServices
    private var dice: SeededGenerator

    init(seed: UInt64, fault: SimulatedShards.Fault? = nil) throws {
        dice = SeededGenerator(seed)
        store = KeptStore()
        services = ScriptedServices()
        var file = File(identities: ["one": 0, "two": 0])
        file.users = [File.User(name: "alice", identity: "one", login: Self.login("alice"))]
        self.file = file
        shards = SimulatedShards(fault: fault)
        (service, names) = try Self.start(file, store, services, subscriber: shards)
        shards.names = names
        settle()
        shards.serve(
            file.served(number: 0), active: service.loop.perform { [service] in service.userService.registry.active })
        noteOwners()
    }

    deinit { service.stop() }

    private static func login(_ account: String, isRight: Bool = true) -> UserSettings.Login {
        .emailPassword(email: account, password: isRight ? "/right" : "/wrong")
    }

    private static func start(
        _ file: File, _ store: KeptStore, _ services: ScriptedServices, subscriber: any TokenSubscriber
    ) throws -> (SessionService, UserNames) {
        let made = services.made(file)
        let names = UserNames(made.users.map(\.settings.name))
        let service = try SessionService(
            made.users, identities: made.identities, names: names, settings: made.settings, store: store,
            contents: store.contents, subscribers: [subscriber], logger: LogRecorder().logger)
        shardsConnect(subscriber, service)
        service.loop.freezeTime()
        service.start()
        return (service, names)
    }

    private static func shardsConnect(_ subscriber: any TokenSubscriber, _ service: SessionService) {
        (subscriber as? SimulatedShards)?.connect(to: service)
    }

    // MARK: Steps

    /// Everything that can be done without time is done.
    func settle() { service.loop.settle() }

    private func pick<Element>(_ list: [Element]) -> Element { list.randomElement(using: &dice)! }
    private func flip(_ chance: Double = 0.5) -> Bool { dice.chance() < chance }

    /// One random change of the file, and a reload.
    ///
    /// - Returns: why nothing was changed.
    func reload() -> [String] {
        var next = file
        for _ in 0..<Int.random(in: 1...3, using: &dice) { mutate(&next) }
        return reload(next)
    }

    /// Reloads with this file.
    func reload(_ next: File) -> [String] {
        let number = shards.latestNumber + 1
        let made = services.made(next)
        let served = next.served(number: number)
        let obstacles = service.reload(made) { [shards] active in shards.serve(served, active: active) }
        story.append("reload \(next.words) \(obstacles)")
        guard obstacles.isEmpty else { return obstacles }
        file = next
        return []
    }

    private func mutate(_ file: inout File) {
        switch Int.random(in: 0..<8, using: &dice) {
        case 0:
            let name = pick(Self.identityNames)
            if file.identities[name] == nil {
                file.identities[name] = 0
            } else if file.identities.count > 1 {
                file.identities[name] = nil
                file.users.removeAll { $0.identity == name }
            }
        case 1:
            let name = pick(Array(file.identities.keys.sorted()))
            file.identities[name]! += 1
        case 2, 3:
            let name = pick(Self.names)
            let place = file.users.firstIndex { $0.name == name }
            if let place { file.users.remove(at: place) }
            if place == nil || flip() {
                let user = File.User(
                    name: name, identity: pick(file.identities.keys.sorted()),
                    login: flip(0.7) ? Self.login(flip(0.8) ? name : pick(Self.names), isRight: flip(0.9)) : nil)
                file.users.insert(user, at: Int.random(in: 0...file.users.count, using: &dice))
            }
        case 4, 5:
            guard let place = file.users.indices.randomElement(using: &dice) else { return }
            file.users[place].identity = pick(file.identities.keys.sorted())
        case 6: file.active = flip(0.3) ? nil : pick(Self.names)
        default:
            guard let place = file.users.indices.randomElement(using: &dice) else { return }
            file.users[place].login = flip() ? Self.login(file.users[place].name, isRight: flip(0.8)) : nil
        }
    }

    /// A random call of an operator.
    ///
    /// - Returns: whether it was carried out.
    func call() -> Bool {
        let name = pick(Self.names)
        let account = flip(0.8) ? name : pick(Self.names)
        let isRight = flip(0.7)
        let given: LoginMethod<Secret> = .emailPassword(
            email: account, password: Tokens.secret(isRight ? "right" : "wrong"))
        switch Int.random(in: 0..<9, using: &dice) {
        case 0, 1, 2:
            let identity = pick(Self.identityNames), activates = flip()
            return perform(
                Call(
                    words: "add \(name) at \(identity) as \(account) \(isRight) \(activates)",
                    request: .add(name: name, identity: identity, given, activates: activates)))
        case 3:
            return perform(Call(words: "login \(name) as \(account) \(isRight)", request: .login(name, given)))
        case 4: return perform(Call(words: "login \(name)", request: .login(name, nil)))
        case 5: return perform(Call(words: "activate \(name)", request: .activate(name)))
        case 6: return perform(Call(words: "logout \(name)", request: .logOut(name)))
        case 7: return perform(Call(words: "refresh \(name)", request: .refresh(name)))
        // A restart brings a configured user back (architecture-control.md 7.9).
        case 8 where file.identity(of: name) == nil:
            return perform(Call(words: "remove \(name)", request: .remove(name)))
        default: return perform(Call(words: "refresh \(name)", request: .refresh(name)))
        }
    }

    private func perform(_ call: Call) -> Bool {
        let outcome = Guarded<Result<UserOutcome, UserError>?>(nil)
        service.perform(call.request) { result in outcome.withLock { $0 = result } }
        settle()
        let result = outcome.withLock { $0 }
        let isCarriedOut = if case .success? = result { true } else { false }
        story.append(
            "\(call.words): \(result.map { isCarriedOut ? "done" : String("\($0)".prefix(100)) } ?? "in progress")")
        return isCarriedOut
    }

    /// The identity services hold their responses from now on, or give those that they have held.
    func hold(_ holds: Bool) {
        services.hold(holds)
        story.append(holds ? "responses are held" : "responses come")
    }

    /// A random event of a walk with shards: a reload, a call, responses, or turns and requests of a shard.
    func stepOfShards() {
        switch Int.random(in: 0..<10, using: &dice) {
        case 0: _ = reload()
        case 1: _ = call()
        case 2: hold(flip())
        case 3, 4, 5: shards.turn(&dice)
        default: shards.request(&dice, names: Self.names)
        }
        settle()
        noteOwners()
    }

    // MARK: What is compared

    /// The users and the active one, as an operator sees them.
    private static func shownUsers(_ service: SessionService, without waived: Set<String> = []) -> [String] {
        let report = service.report
        // A user whose account another one has at its login stays refused until its next login; a restart tries it again.
        let users = report.reportedUsers.filter { !waived.contains($0.status.user) }.map { user in
            let account = user.status.accountID ?? "-"
            let state = "\(user.userState) \(user.status.state) \(user.status.reason)"
            return "\(user.status.user) at \(user.status.identity) \(account) \(state)"
        }
        let active = report.users.first { $0.index == report.activeUser }?.user
        return users.sorted() + ["active \(active ?? "none")"]
    }

    /// What an operator sees, and what the store holds.
    var snapshot: [String] {
        let contents = store.contents
        let stored = contents.users.map { user in
            "\(user.name) at \(user.identity) \(user.version) \(user.isAdded) \(user.isLoggedOut) \(user.intent != nil)"
        }
        return Self.shownUsers(service) + stored + ["\(String(describing: contents.active))"]
    }

    /// What differs from a start with the same file and the same store, in words.
    func differencesFromRestart() throws -> [String] {
        let copy = KeptStore()
        let contents = store.contents
        copy.edit { $0 = contents }
        let (restarted, _) = try Self.start(file, copy, services, subscriber: PublicationLog())
        restarted.loop.settle()
        defer { restarted.stop() }
        let waived = Set(service.report.users.filter { $0.reason == .accountInUse }.map(\.user))
        let (present, expected) = (
            Self.shownUsers(service, without: waived), Self.shownUsers(restarted, without: waived)
        )
        let twice = Dictionary(grouping: service.report.users.map(\.user)) { $0 }.filter { $1.count > 1 }.keys
        return (present == expected ? [] : ["\(present) in place of \(expected)"])
            + twice.map { "\($0) is there twice" }
    }

    /// The accounts that requests of the present configuration may get.
    private func noteOwners() {
        let (users, active) = service.loop.perform { [service] in
            let registry = service.userService.registry
            return (registry.users.map { ($0.name, $0.identity) }, registry.active.flatMap { registry[$0]?.name })
        }
        let services = Dictionary(uniqueKeysWithValues: file.identities.map { ($0.key, "\($0.key).\($0.value)") })
        shards.noteOwners(
            users.compactMap { name, identity in services[identity].map { (name, $0) } }, active: active)
    }
}

extension ReloadWalk.File {
    /// The routes: each name has one that pins it, and one follows the active user.
    fileprivate func served(number: Int) -> SimulatedShards.Routes { SimulatedShards.Routes(number: number) }
}

/// Identity services in this process. Each knows an account for each email.
final class ScriptedServices: @unchecked Sendable {
    private struct State {
        var made: [String: ScriptedService] = [:]
        var isHolding = false
        var held: [@Sendable () -> Void] = []
        var tokens = 0
    }

    private let state: Guarded<State>

    init(isHolding: Bool = false) { state = Guarded(State(isHolding: isHolding)) }

    /// - Returns: objects that stay the same for what stays the same, as `SessionSources` makes them.
    func made(_ file: ReloadWalk.File) -> SessionConfiguration {
        let services = file.identities.sorted { $0.key < $1.key }.map { name, number in
            (name, service("\(name).\(number)"))
        }
        let users = file.users.compactMap { user in
            services.first { $0.0 == user.identity }.map { _, service in
                ManagedUser(
                    UserSettings(name: user.name, identity: user.identity, login: user.login),
                    source: .service(service))
            }
        }
        return SessionConfiguration(
            users: users, identities: services.map { ConfiguredIdentity($0.0, .service($0.1, RefreshTokenSettings())) },
            settings: SessionSettings(activeUser: file.active))
    }

    func service(_ name: String) -> ScriptedService {
        state.withLock { state in
            let service = state.made[name] ?? ScriptedService(name, of: self)
            state.made[name] = service
            return service
        }
    }

    func hold(_ holds: Bool) {
        let held = state.withLock { state in
            state.isHolding = holds
            guard !holds else { return [@Sendable () -> Void]() }
            defer { state.held = [] }
            return state.held
        }
        for reply in held { reply() }
    }

    fileprivate func reply(_ work: @escaping @Sendable () -> Void) {
        let isHeld = state.withLock { state in
            if state.isHolding { state.held.append(work) }
            return state.isHolding
        }
        if !isHeld { work() }
    }

    /// A token that says whose it is.
    fileprivate func token(of account: String, at service: String) -> Secret {
        let number = state.withLock { state in
            state.tokens += 1
            return state.tokens
        }
        return Tokens.secret("\(service)/\(account)/\(number)")
    }
}

final class ScriptedService: IdentityService {
    let fingerprint: IdentityFingerprint?
    private let name: String
    private unowned let services: ScriptedServices

    init(_ name: String, of services: ScriptedServices) {
        self.name = name
        self.services = services
        fingerprint = IdentityFingerprint(of: [name])
    }

    private func grant(_ account: String, refresh: Bool) -> Grant {
        Grant(
            accessToken: services.token(of: account, at: name), refreshToken: refresh ? Tokens.secret(account) : nil,
            userID: refresh ? account : nil, lifetime: .seconds(1_800), refreshTokenExpiry: nil, serverDate: nil)
    }

    func login(
        _ credential: Credential, guarded: LoginGuard?,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        let (account, isRight): (String, Bool) =
            switch credential {
            case .configured(let login): (login.account ?? "", login.secretFile == "/right")
            case .given(let login): (login.account ?? "", Tokens.text(login.secret) == "right")
            }
        services.reply { [self] in
            guard !isRight else { return reply(.success(grant(account, refresh: true))) }
            let print: CredentialFingerprint? =
                if case .configured = credential { CredentialFingerprint(bytes: Array((name + account).utf8)) } else {
                    nil
                }
            reply(.failure(IdentityError(.credentialRefused, message: "wrong", credential: print)))
        }
    }

    func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void) {
        let account = Tokens.text(refreshToken) ?? ""
        services.reply { [self] in reply(.success(grant(account, refresh: false))) }
    }

    func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
        services.reply { reply(.success(())) }
    }
}
