/// The whole configuration, read and checked: what the program builds itself from.
package struct Configuration: Equatable, Sendable {
    /// A route and where it leads.
    package struct Route: Equatable, Sendable {
        package var route: RouteSettings
        package var upstream: UpstreamSettings
        package init(route: RouteSettings, upstream: UpstreamSettings) {
            self.route = route
            self.upstream = upstream
        }
    }

    /// Never empty.
    package var listeners: [ListenerSettings] = []
    /// nil: off.
    package var health: HealthSettings? = HealthSettings()
    /// nil: off.
    package var admin: AdminSettings? = AdminSettings()
    /// In the order of the file; names are unique.
    package var identities: [IdentitySettings] = []
    /// In the order of the file; names are unique.
    package var users: [UserSettings] = []
    /// The configured active user, or the first one.
    package var activeUser: String?
    /// `active_user`, if it was written: what a remembered choice is held against.
    package var configuredActiveUser: String?
    /// `on_active_logout: next`: after the active user has logged out another one is active, if there is one.
    package var activatesNextOnLogout = false
    /// In the order of the file, never empty; names are unique.
    package var routes: [Route] = []
    package var store = StoreSettings.memory
    package var refresh = RefreshSettings()
    package var login = LoginSettings()
    package var limits = LimitSettings()
    /// Status of the problem `login-required`.
    package var loginRequiredStatus = 503
    package var log = LogSettings()
    package var shutdown = ShutdownSettings()
    /// Secret files that everybody on this machine could read when they were looked at: a warning has been given.
    package var openSecretFiles: Set<String> = []
    /// nil: as many as the CPUs that this process may use.
    package var shards: Int?

    package init() {}
}

/// What loading came to: a configuration, or what is wrong with it.
package struct LoadedConfiguration: Sendable {
    /// nil if there is a fault; warnings leave it.
    package var configuration: Configuration?
    /// In the order of their places: the file from top to bottom, environment, flags.
    package var diagnostics: [ConfigurationError]
    /// The effective configuration as YAML, defaults written out; secrets are paths. Empty if there is a fault.
    package var printed: String

    /// Where the addresses came from, for what may be wrong with them when they are bound.
    package var addresses = AddressPlaces()

    package var warnings: [ConfigurationError] { diagnostics.filter { $0.severity == .warning } }

    /// How a program ends that cannot go on: 64 usage, 78 configuration (sysexits); nil if it can.
    package var exitCode: Int32? {
        if diagnostics.contains(where: { $0.severity == .usage }) { return 64 }
        return configuration == nil ? 78 : nil
    }
}
