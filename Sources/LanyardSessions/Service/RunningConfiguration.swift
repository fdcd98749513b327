import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The configuration in force, by name. It says how each user is kept logged in.
struct RunningConfiguration {
    /// What all users have in common.
    private let settings: SessionSettings
    /// The configured identities.
    let identities: [String: ConfiguredIdentity]
    /// The configured users, whether or not an operator has removed them.
    let users: [String: ManagedUser]
    private let boot = Machine.bootID
    // Made once: each runner has them.
    private let storedIdentities: [StoredIdentity]
    private let userNames: Set<String>

    init(_ configuration: SessionConfiguration) {
        settings = configuration.settings
        identities = Dictionary(configuration.identities.map { ($0.name, $0) }) { first, _ in first }
        users = Dictionary(configuration.users.map { ($0.settings.name, $0) }) { first, _ in first }
        storedIdentities = identities.values.compactMap(\.storedIdentity)
        userNames = Set(users.keys)
    }

    /// When identity services are called.
    var policy: ClockPolicy { ClockPolicy(settings.refresh) }

    /// A registered user with its token source; nil: its identity is not configured any more.
    func managedUser(for user: RegisteredUser) -> ManagedUser? {
        user.isConfigured ? users[user.name] : addedUser(user)
    }

    /// How a user that is not configured is kept logged in; nil: its identity is not configured any more.
    func addedUser(_ user: RegisteredUser) -> ManagedUser? {
        guard case .service(let service, let refreshTokens)? = identities[user.identity]?.kind else { return nil }
        return ManagedUser(
            UserSettings(name: user.name, identity: user.identity), source: .service(service),
            refreshTokens: refreshTokens, isAdded: true)
    }

    /// - Parameter names: assigns the indexes of variants.
    func setup(of managedUser: ManagedUser, _ index: UserIndex, _ names: UserNames) -> SessionCoordinator.Setup {
        let credential: Credential? =
            if case .service = managedUser.source { managedUser.settings.login.map { .configured($0) } } else { nil }
        var setup = SessionCoordinator.Setup(
            user: managedUser.settings.name, identity: managedUser.settings.identity, index: index,
            credential: credential,
            refreshTokens: managedUser.refreshTokens, isAdded: managedUser.isAdded, refresh: settings.refresh,
            offline: settings.login.offline, boot: boot, fingerprint: managedUser.storedIdentity.fingerprint,
            others: storedIdentities, configured: userNames)
        setup.variants = variants(of: managedUser, names)
        // The grant of a machine is the renewal as well, so it can ask for what the first route wants.
        if settings.withoutPlainToken.contains(managedUser.settings.name),
            managedUser.settings.login?.kind.isRefresh == true, !setup.variants.isEmpty
        {
            setup.standIn = setup.variants.removeFirst()
        }
        if case .service(let service) = managedUser.source {
            setup.service.tokenRequest = service.tokenRequest
            setup.service.revokesAccessTokens = service.revokesAccessTokens
            setup.service.asksBeforeSending = service.asksBeforeSending
            setup.service.allowsSecondCall = service.allowsSecondCall
        }
        return setup
    }

    /// The variants that routes ask for, each with its index. The admin API may have given the name to a user elsewhere, which has
    /// none.
    private func variants(of managedUser: ManagedUser, _ names: UserNames) -> [(named: NamedVariant, index: UserIndex)]
    {
        guard users[managedUser.settings.name]?.storedIdentity == managedUser.storedIdentity else { return [] }
        return variantIndexes(of: managedUser.settings.name, names)
    }

    /// The variants that routes ask for of the user of this name, which may be another one by now.
    func variantIndexes(of name: String, _ names: UserNames) -> [(named: NamedVariant, index: UserIndex)] {
        (settings.variants[name] ?? []).map { ($0, names.index(of: name, variant: $0.variant.key)) }
    }

    /// The names of users of which routes ask for variants.
    var namesWithVariants: [String] { settings.variants.keys.sorted() }
}
