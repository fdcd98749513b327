import LanyardConfiguration
import LanyardFoundations
import LanyardIdentity
import LanyardSessions
import LanyardSettings

/// Makes the identity services and the users of a configuration. What a new configuration has in common with the running
/// one stays the same object, so that a reload does not touch it (architecture.md 7.9).
final class SessionSources: Sendable {
    /// A configuration with what was made of it.
    struct Made: Sendable {
        fileprivate var identities: [(settings: IdentitySettings, made: ConfiguredIdentity)] = []
        fileprivate var users: [(settings: UserSettings, identity: IdentitySettings, made: ManagedUser)] = []
        fileprivate var settings = SessionSettings()

        var configuration: SessionConfiguration {
            SessionConfiguration(users: users.map(\.made), identities: identities.map(\.made), settings: settings)
        }

        /// Whether both come from the same settings.
        func isSame(as other: Made) -> Bool {
            settings == other.settings && identities.map(\.settings) == other.identities.map(\.settings)
                && users.map(\.settings) == other.users.map(\.settings)
        }
    }

    private let files: FileReader
    private let loop: EventLoop
    private let warning: SecretFileWarning
    /// The running configuration.
    private let running = Guarded(Made())

    init(by files: FileReader, on loop: EventLoop, _ warning: SecretFileWarning) {
        self.files = files
        self.loop = loop
        self.warning = warning
    }

    /// Applies the users and identities of a new configuration.
    ///
    /// - Parameter apply: see `SessionService.reload`. Not called if nothing differs.
    /// - Returns: why nothing was changed; empty: the configuration is in force.
    func reload(_ configuration: Configuration, apply: (SessionConfiguration) -> [String]) -> [String] {
        let made = make(configuration)
        guard !made.isSame(as: running.withLock { $0 }) else { return [] }
        let obstacles = apply(made.configuration)
        if obstacles.isEmpty { use(made) }
        return obstacles
    }

    /// This configuration is the running one from now on.
    func use(_ made: Made) { running.withLock { $0 = made } }

    /// Makes what the running configuration does not have. Nothing of it does I/O yet.
    func make(_ configuration: Configuration) -> Made {
        let running = running.withLock { $0 }
        var made = Made()
        made.settings = SessionSettings(
            refresh: configuration.refresh, login: configuration.login, activeUser: configuration.configuredActiveUser,
            activatesNextOnLogout: configuration.activatesNextOnLogout)
        made.identities = configuration.identities.map { settings in
            (settings, running.identities.first { $0.settings == settings }?.made ?? identity(settings))
        }
        made.users = configuration.users.compactMap { settings in
            guard let identity = made.identities.first(where: { $0.settings.name == settings.identity }) else {
                return nil
            }
            let kept = running.users.first { $0.settings == settings && $0.identity == identity.settings }
            return (settings, identity.settings, kept?.made ?? user(settings, identity.settings, identity.made))
        }
        return made
    }

    private func identity(_ settings: IdentitySettings) -> ConfiguredIdentity {
        switch settings.kind {
        case .fixed: return ConfiguredIdentity(settings.name, .fixed)
        case .appServices(let app):
            let service = AppServicesIdentity(
                settings, app: app, version: BuildVersion.number, by: files, on: loop, warning: warning)
            return ConfiguredIdentity(settings.name, .service(service, app.rotation))
        }
    }

    /// Users of one identity share its service. A static token is read for each of its users.
    private func user(
        _ settings: UserSettings, _ identity: IdentitySettings, _ made: ConfiguredIdentity
    ) -> ManagedUser {
        switch (made.kind, identity.kind) {
        case (.service(let service, let rotation), _):
            return ManagedUser(
                settings, source: .service(service), credential: CredentialFileWatch(by: files, on: loop),
                rotation: rotation)
        case (.fixed, .fixed(let file)):
            let feed = StaticIdentity(name: identity.name, tokenFile: file, by: files, on: loop, warning: warning)
            return ManagedUser(settings, source: .feed(feed))
        case (.fixed, .appServices):
            preconditionFailure("an App Services identity was made as a static one")
        }
    }
}
