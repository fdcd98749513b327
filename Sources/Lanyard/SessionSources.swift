import LanyardAdmin
import LanyardConfiguration
import LanyardFoundations
import LanyardIdentity
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings

/// Makes the identity services and the users of a configuration. What a new configuration has in common with the running
/// one stays the same object, so that a reload does not touch it (architecture-control.md 7.9).
final class SessionSources: Sendable {
    /// A configuration with what was made of it.
    struct Made: Sendable {
        fileprivate var identities: [(settings: IdentitySettings, made: ConfiguredIdentity)] = []
        fileprivate var users: [ManagedUser] = []
        fileprivate var settings = SessionSettings()
        fileprivate var tls = IdentityTLS()

        var configuration: SessionConfiguration {
            SessionConfiguration(users: users, identities: identities.map(\.made), settings: settings)
        }

        /// By the name of the identity.
        fileprivate var services: [String: any IdentityClient] {
            Dictionary(
                uniqueKeysWithValues: identities.compactMap { settings, made in
                    guard case .service(let service as any IdentityClient, _) = made.kind else { return nil }
                    return (settings.name, service)
                })
        }

        /// Whether both come from the same settings.
        func isSame(as other: Made) -> Bool {
            settings == other.settings && identities.map(\.settings) == other.identities.map(\.settings)
                && users.map(\.settings) == other.users.map(\.settings)
        }
    }

    private struct State {
        /// The running configuration.
        var running = Made()
        /// Loops of identities run.
        var isStarted = false
    }

    private let files: FileReader
    /// Of secret files. Identity calls are not on it.
    private let loop: EventLoop
    private let warning: SecretFileWarning
    private let tlsWatches: IdentityTLSWatches
    private let state = Guarded(State())

    /// - Parameter tlsWatches: follow the TLS files of the running configuration.
    init(by files: FileReader, on loop: EventLoop, _ warning: SecretFileWarning, _ tlsWatches: IdentityTLSWatches) {
        self.files = files
        self.loop = loop
        self.warning = warning
        self.tlsWatches = tlsWatches
    }

    /// Makes the users and identities of a new configuration. Nothing has changed yet.
    ///
    /// - Parameter tls: of its identities.
    /// - Throws: there is no descriptor for the loop of an identity.
    func prepare(_ configuration: Configuration, _ tls: IdentityTLS) throws(SystemError) -> Made {
        try make(configuration, tlsWatches.renewed(tls))
    }

    /// What differs from the running configuration; nil: nothing.
    func changes(to made: Made) -> SessionConfiguration? {
        made.isSame(as: state.withLock { $0.running }) ? nil : made.configuration
    }

    /// This configuration is the running one from now on.
    func use(_ made: Made) {
        let (former, isStarted) = state.withLock { state in
            defer { state.running = made }
            return (state.running.services, state.isStarted)
        }
        if isStarted {
            for (name, service) in made.services where former[name] !== service { service.start() }
        }
        tlsWatches.follow(made.tls, of: made.services)
    }

    /// Revocations and calls about accounts that have had no response for some seconds. From any thread.
    var slowCalls: [ProgramConditions.SlowCall] {
        state.withLock(\.running).services.sorted { $0.key < $1.key }.flatMap { name, service in
            service.slowCalls.map { .init(identity: name, progress: $0) }
        }
    }

    /// The certificates that identity services have shown last. From any thread.
    var certificates: [ProgramConditions.Certificate] {
        let running = state.withLock(\.running)
        let services = running.services
        return running.identities.compactMap { settings, _ in
            services[settings.name]?.contact.state.certificateEnd.map {
                .init(owner: "the identity service \(settings.name)", file: nil, expiresAt: $0)
            }
        }
    }

    /// The identity services in the order of the configuration, as their latest calls have found them. From any thread.
    var identities: [ProgramActivity.Identity] {
        let running = state.withLock(\.running)
        let services = running.services
        return running.identities.compactMap { settings, _ in
            guard let contact = services[settings.name]?.contact.state else { return nil }
            return .init(
                name: settings.name, url: settings.url, isReachable: contact.isReachable,
                succeededAt: contact.succeededAt, failure: contact.failure)
        }
    }

    /// Where a user logs in in a browser; nil: neither the user nor the identity is known. From any thread.
    func browserLogin(of user: String, at identity: String?) -> BrowserLoginTarget? {
        let running = state.withLock(\.running)
        let settings = running.users.first { $0.settings.name == user }?.settings
        guard let name = settings?.identity ?? identity else { return nil }
        return BrowserLoginTarget(running.services[name]?.browserLogins, configured: settings?.interactiveLogin)
    }

    /// Starts the loops of all identities. Once.
    func start() {
        let services = state.withLock { state in
            state.isStarted = true
            return state.running.services
        }
        for service in services.values { service.start() }
    }

    /// Makes what the running configuration does not have. Nothing of it does I/O yet.
    ///
    /// - Throws: there is no descriptor for the loop of an identity.
    func make(_ configuration: Configuration, _ tls: IdentityTLS) throws(SystemError) -> Made {
        let running = state.withLock { $0.running }
        var made = Made()
        made.tls = tls
        made.settings = SessionSettings(
            refresh: configuration.refresh, login: configuration.login, activeUser: configuration.configuredActiveUser,
            activatesNextOnLogout: configuration.activatesNextOnLogout, variants: configuration.variants,
            withoutPlainToken: configuration.usersWithoutPlainToken)
        let runningIdentities = Dictionary(uniqueKeysWithValues: running.identities.map { ($0.settings.name, $0) })
        var keptIdentities: Set<String> = []
        for settings in configuration.identities {
            if let kept = runningIdentities[settings.name], kept.settings == settings {
                keptIdentities.insert(settings.name)
                made.identities.append(kept)
            } else {
                made.identities.append((settings, try identity(settings, tls)))
            }
        }
        let identities = Dictionary(uniqueKeysWithValues: made.identities.map { ($0.settings.name, $0) })
        let runningUsers = Dictionary(uniqueKeysWithValues: running.users.map { ($0.settings.name, $0) })
        made.users = configuration.users.compactMap { settings in
            guard let identity = identities[settings.identity] else { return nil }
            if let kept = runningUsers[settings.name], kept.settings == settings,
                keptIdentities.contains(settings.identity)
            {
                return kept
            }
            return user(settings, identity.settings, identity.made)
        }
        return made
    }

    /// Each service has a loop of its own, so one that keeps libcurl busy delays the calls of no other.
    private func identity(
        _ settings: IdentitySettings, _ tls: IdentityTLS
    ) throws(SystemError) -> ConfiguredIdentity {
        switch settings.kind {
        case .staticToken: return ConfiguredIdentity(settings.name, .staticToken)
        case .appServices(let app):
            let service = AppServicesIdentity(
                settings, app: app, tls: tls.contents(of: settings), version: BuildVersion.number, by: files,
                on: try EventLoop(label: "lanyard.identity.\(settings.name)"), ownsLoop: true, warning: warning)
            return ConfiguredIdentity(settings.name, .service(service, RefreshTokenSettings(app.rotation)))
        case .oauth(let client):
            let service = OAuthIdentity(
                settings, oauth: client, tls: tls.contents(of: settings), version: BuildVersion.number, by: files,
                on: try EventLoop(label: "lanyard.identity.\(settings.name)"), ownsLoop: true, warning: warning)
            return ConfiguredIdentity(settings.name, .service(service, client.refreshTokens))
        case .gitHubApp(let app):
            let service = GitHubAppIdentity(
                settings, app: app, tls: tls.contents(of: settings), by: files,
                on: try EventLoop(label: "lanyard.identity.\(settings.name)"), ownsLoop: true, warning: warning)
            return ConfiguredIdentity(settings.name, .service(service, RefreshTokenSettings()))
        case .lanyard(let other):
            let service = BrokerIdentity(
                settings, lanyard: other, tls: tls.contents(of: settings), version: BuildVersion.number, by: files,
                on: try EventLoop(label: "lanyard.identity.\(settings.name)"), ownsLoop: true, warning: warning)
            return ConfiguredIdentity(settings.name, .service(service, RefreshTokenSettings()))
        }
    }

    /// Users of one identity share its service. A static token is read for each of its users.
    private func user(
        _ settings: UserSettings, _ identity: IdentitySettings, _ made: ConfiguredIdentity
    ) -> ManagedUser {
        switch (made.kind, identity.kind) {
        case (.service(let service, let refreshTokens), _):
            return ManagedUser(
                settings, source: .service(service),
                credential: CredentialFileWatch(besides: identity.clientFiles, by: files, on: loop),
                refreshTokens: refreshTokens)
        case (.staticToken, .staticToken(let file)):
            let feed = StaticIdentity(name: identity.name, tokenFile: file, by: files, on: loop, warning: warning)
            return ManagedUser(settings, source: .feed(feed))
        case (.staticToken, .appServices), (.staticToken, .oauth), (.staticToken, .gitHubApp),
            (.staticToken, .lanyard):
            preconditionFailure("an identity service was made as a static identity")
        }
    }
}
