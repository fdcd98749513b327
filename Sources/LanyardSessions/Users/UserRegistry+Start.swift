import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

extension UserRegistry {
    /// The users at the start: the configured ones, then those that only the store has kept.
    ///
    /// - Parameters:
    ///   - managedUsers: in the order of the configuration.
    ///   - identities: all configured identities.
    init(
        _ managedUsers: [ManagedUser], identities: [ConfiguredIdentity], contents: StoreContents,
        settings: SessionSettings, names: UserNames
    ) {
        var kinds = Dictionary(identities.map { ($0.name, $0.isStatic) }) { first, _ in first }
        var users: [RegisteredUser] = []
        let storedUsers = contents.usersByName
        for managedUser in managedUsers {
            let (name, identity) = (managedUser.settings.name, managedUser.settings.identity)
            let isStatic = if case .feed = managedUser.source { true } else { false }
            kinds[identity] = isStatic
            // A changed identity means another account.
            let stored = storedUsers[name].flatMap { $0.belongs(to: managedUser.storedIdentity) ? $0 : nil }
            users.append(
                RegisteredUser(
                    name: name, index: names.index(of: name), identity: identity, isConfigured: true,
                    configuredProvider: managedUser.settings.login?.provider, isStatic: isStatic,
                    accountID: stored?.accountID,
                    provider: stored?.provider, loginState: stored?.isLoggedOut == true ? .loggedOut : .none))
        }
        let configured = Set(users.map(\.name))
        let knownIdentities = identities.compactMap(\.storedIdentity)
        let storedIdentities = Dictionary(knownIdentities.map { ($0.name, $0) }) { first, _ in first }
        for stored in contents.users where stored.isAdded && kinds[stored.identity] == false {
            guard !configured.contains(stored.name) else { continue }
            // The identity's name may stand for another service by now. The stored account and session are then
            // ignored.
            let isSame = storedIdentities[stored.identity].map(stored.belongs) ?? false
            users.append(
                RegisteredUser(
                    name: stored.name, index: names.index(of: stored.name), identity: stored.identity,
                    isConfigured: false, accountID: isSame ? stored.accountID : nil,
                    provider: isSame ? stored.provider : nil, loginState: stored.isLoggedOut ? .loggedOut : .none))
        }
        self.init(
            users, identities: kinds, configuredActive: settings.activeUser, remembered: contents.active,
            activatesNext: settings.activatesNextOnLogout, names: names)
        noteStored(Set(contents.users.map(\.name)).subtracting(users.map(\.name)))
        duplicateAccounts = duplicateAccounts(among: storedUsers)
    }

    /// Older releases let two users of two processes have one account. One session is kept: the active user's,
    /// otherwise that of the first name.
    private func duplicateAccounts(among stored: [String: StoredUser]) -> [UserIndex: String] {
        let holders = users.filter { $0.accountID != nil && stored[$0.name]?.isAuthenticated == true }
        var duplicateAccounts: [UserIndex: String] = [:]
        for group in Dictionary(grouping: holders, by: { [$0.identity, $0.accountID] }).values where group.count > 1 {
            let first = group.first { $0.index == active } ?? group.min { $0.name < $1.name }
            for user in group where user.index != first?.index { duplicateAccounts[user.index] = first?.name }
        }
        return duplicateAccounts
    }
}
