import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// A new configuration of users, beside what the running one has made.
struct UserReload: Sendable {
    /// An identity where users log in.
    struct Identity: Sendable {
        var stored: StoredIdentity
        var refreshTokens: RefreshTokenSettings
        /// The service's object.
        var source: ObjectIdentifier
    }

    /// What becomes of one user.
    enum Step: Equatable, Sendable {
        /// The user is new here: it starts with what the store holds.
        case add(RegisteredUser)
        /// The user has another account space, or another source of tokens: it starts anew.
        case replace(RegisteredUser)
        /// The user's settings are other ones, and its session continues.
        case update(RegisteredUser)
        /// The user is not known any more. Its session stays in the store.
        case retire(RegisteredUser)
    }

    /// The configured users with their origins, in the order of the new configuration.
    var users: [(name: String, origin: UserOrigin)] {
        didSet { origins = Self.origins(of: users) }
    }
    /// The same by name.
    private(set) var origins: [String: UserOrigin] = [:]
    /// All configured identities; nil: static.
    var identities: [String: Identity?]
    var configuredActive: String?
    var activatesNext: Bool
    /// What the runner of each known user was made of.
    var present: [UserIndex: UserOrigin]
    /// The users for which operators' calls wait, because their former runners have not ended.
    var waiting: Set<UserIndex> = []
    /// The configured users of the running configuration, whether or not an operator has removed them.
    var former: [String: UserOrigin]
    /// What the store holds of the users whose fate depends on it.
    var stored: [String: StoredUser]

    init(
        users: [(name: String, origin: UserOrigin)], identities: [String: Identity?], configuredActive: String?,
        activatesNext: Bool, present: [UserIndex: UserOrigin], waiting: Set<UserIndex> = [],
        former: [String: UserOrigin], stored: [String: StoredUser] = [:]
    ) {
        self.users = users
        origins = Self.origins(of: users)
        self.identities = identities
        self.configuredActive = configuredActive
        self.activatesNext = activatesNext
        self.present = present
        self.waiting = waiting
        self.former = former
        self.stored = stored
    }

    private static func origins(of users: [(name: String, origin: UserOrigin)]) -> [String: UserOrigin] {
        Dictionary(users.map { ($0.name, $0.origin) }) { first, _ in first }
    }

    /// A user of this identity that the admin API has added; nil: it cannot be one.
    func added(_ identity: String) -> UserOrigin? {
        guard case .some(.some(let identity)) = identities[identity] else { return nil }
        return UserOrigin(
            identity: identity.stored, isStatic: false, login: nil, isAdded: true,
            refreshTokens: identity.refreshTokens, source: identity.source)
    }

    func isConfigured(_ name: String) -> Bool { origins[name] != nil }
}

/// The users after a reload: those that a start would find, and each as a start would make it (architecture-control.md 7.9).
/// A user of which nothing has changed stays as it is.
extension UserRegistry {
    /// The users after a reload, and the way to them.
    struct ReloadPlan: Sendable {
        /// Those that are known, and those that are hidden.
        var configured: [RegisteredUser] = []
        var added: [RegisteredUser] = []
        /// The stored users that are not known any more.
        var unknown: Set<String> = []
        var steps: [UserReload.Step] = []
    }

    /// The users of which the store's record decides. Unknown stored users count only if the identities have changed,
    /// because the admin API may have added them at one that is back.
    func namesToRead(for reload: UserReload) -> Set<String> {
        let kinds = reload.identities.mapValues { $0 == nil }
        var names = kinds == identities ? [] : unknownStoredUsers
        for (name, origin) in reload.users where self.origin(of: name, reload) != origin { names.insert(name) }
        for user in users + hidden where !reload.isConfigured(user.name) {
            if user.isConfigured || reload.added(user.identity) != reload.present[user.index] {
                names.insert(user.name)
            }
        }
        return names
    }

    private func origin(of name: String, _ reload: UserReload) -> UserOrigin? {
        (self[name] ?? hidden(named: name)).flatMap { reload.present[$0.index] }
    }

    /// Why the users cannot be changed now, each with the remedy; empty: they can. No name gets an index by this.
    func obstacles(to reload: UserReload) -> [String] {
        var names = Set(storedRemovals.values.filter { reload.isConfigured($0) || returning($0, reload) != nil })
        names.formUnion(members.leaving.map(\.name).filter(reload.isConfigured))
        let removals = names.map { Self.obstacle($0, "is being removed by the admin API") }
        let changes = (users + hidden).compactMap { user in
            changeUnderWay(of: user, reload).map { Self.obstacle(user.name, $0) }
        }
        return (removals + changes).sorted()
    }

    /// What an operator is doing to the user that the reload would cut off; nil: nothing.
    private func changeUnderWay(of user: RegisteredUser, _ reload: UserReload) -> String? {
        let origin = origin(of: user, reload)
        if user.isProvisional, origin == nil || reload.isConfigured(user.name) {
            return "is being added by the admin API"
        }
        let present = reload.present[user.index]
        if let origin, let present, present == origin || present.hasSameAccounts(as: origin) { return nil }
        if reload.waiting.contains(user.index) { return "has a call of the admin API that waits for another call" }
        let isCutOff = origin == nil ? accountChanges.values.contains(user.index) : hasChangeUnderWay(user.index)
        return isCutOff ? "has a login, a link or a deletion of the admin API in progress" : nil
    }

    private static func obstacle(_ name: String, _ what: String) -> String {
        "users.\(name): a user of this name \(what); reload again when that has ended"
    }

    /// What the user is made of after the reload; nil: it is not known any more.
    private func origin(of user: RegisteredUser, _ reload: UserReload) -> UserOrigin? {
        if let configured = reload.origins[user.name] { return configured }
        guard hidden(at: user.index) == nil else { return nil }
        let stored = reload.stored[user.name]
        let identity = user.isConfigured ? stored.flatMap { $0.isAdded ? $0.identity : nil } : user.identity
        return identity.flatMap(reload.added)
    }

    /// A stored user of the admin API whose identity is back; nil: it stays unknown.
    private func returning(_ name: String, _ reload: UserReload) -> (origin: UserOrigin, stored: StoredUser)? {
        guard let stored = reload.stored[name], stored.isAdded else { return nil }
        return reload.added(stored.identity).map { ($0, stored) }
    }

    /// Takes the users of the new configuration, and returns the way to them.
    mutating func apply(_ reload: UserReload) -> [UserReload.Step] {
        let plan = plan(reload)
        members.replaceAll(by: plan.configured + plan.added + members.leaving)
        identities = reload.identities.mapValues { $0 == nil }
        configuredActive = reload.configuredActive
        activatesNext = reload.activatesNext
        noteStored(plan.unknown)
        active = chosenUser
        return plan.steps
    }

    private func plan(_ reload: UserReload) -> ReloadPlan {
        var plan = ReloadPlan()
        for (name, origin) in reload.users { addConfigured(name, origin, reload, to: &plan) }
        for user in users where !reload.isConfigured(user.name) { addOther(user, reload, to: &plan) }
        for user in hidden where !reload.isConfigured(user.name) {
            plan.steps.append(.retire(user.renewed(by: names)))
            if reload.stored[user.name] != nil { plan.unknown.insert(user.name) }
        }
        for name in unknownStoredUsers.sorted() where !reload.isConfigured(name) {
            guard let (origin, stored) = returning(name, reload) else { continue }
            let user = registered(name, origin, stored)
            plan.added.append(user)
            plan.steps.append(.add(user))
        }
        return plan
    }

    private func addConfigured(_ name: String, _ origin: UserOrigin, _ reload: UserReload, to plan: inout ReloadPlan) {
        guard var user = self[name] ?? hidden(named: name),
            let present = reload.present[user.index]
        else {
            // An operator has removed the user, and its entry is as before: it comes back with the next start.
            guard reload.former[name] != origin else { return }
            let user = registered(name, origin, reload.stored[name])
            plan.configured.append(user)
            return plan.steps.append(.add(user))
        }
        guard present == origin || present.hasSameAccounts(as: origin) else {
            user = registered(name, origin, reload.stored[name])
            plan.configured.append(user)
            return plan.steps.append(.replace(user))
        }
        if present != origin {
            user.isConfigured = true
            user.configuredProvider = origin.login?.provider
            plan.steps.append(.update(user))
        }
        plan.configured.append(user)
    }

    /// A user that the new configuration does not name.
    private func addOther(_ user: RegisteredUser, _ reload: UserReload, to plan: inout ReloadPlan) {
        let stored = reload.stored[user.name]
        guard let origin = origin(of: user, reload), let present = reload.present[user.index] else {
            if stored != nil { plan.unknown.insert(user.name) }
            return plan.steps.append(.retire(user.renewed(by: names)))
        }
        guard present == origin || present.hasSameAccounts(as: origin) else {
            let user = registered(user.name, origin, stored)
            plan.added.append(user)
            return plan.steps.append(.replace(user))
        }
        var user = user
        if present != origin {
            user.isConfigured = false
            user.configuredProvider = nil
            plan.steps.append(.update(user))
        }
        plan.added.append(user)
    }

    /// A user as the start would find it. A changed identity means another account: the name gets its next index, so that
    /// nothing that is meant for one account reaches the other.
    private func registered(_ name: String, _ origin: UserOrigin, _ stored: StoredUser?) -> RegisteredUser {
        let own = stored.flatMap { $0.belongs(to: origin.identity) ? $0 : nil }
        return RegisteredUser(
            name: name, index: names.renew(name), identity: origin.identity.name, isConfigured: !origin.isAdded,
            configuredProvider: origin.login?.provider, isStatic: origin.isStatic, accountID: own?.accountID,
            provider: own?.provider,
            loginState: (origin.isAdded ? stored : own)?.isLoggedOut == true ? .loggedOut : .none)
    }

    /// Another user that has a session of the account that the store holds for this one.
    func holder(of stored: StoredUser?, besides index: UserIndex) -> String? {
        guard let account = stored?.accountID, let own = self[index], stored?.isAuthenticated == true else {
            return nil
        }
        return members.holders(of: account, at: own.identity, besides: index).first {
            $0.isNamed && $0.accountID == account && $0.isAuthenticated
        }?.name
    }
}
