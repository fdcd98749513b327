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
    /// In the order of the file; names are unique.
    package var identities: [IdentitySettings] = []
    /// In the order of the file; names are unique.
    package var users: [UserSettings] = []
    /// The configured active user, or the first one.
    package var activeUser: String?
    /// In the order of the file, never empty; names are unique.
    package var routes: [Route] = []
    package var refresh = RefreshSettings()
    package var limits = LimitSettings()
    /// Status of the problem `login-required`.
    package var loginRequiredStatus = 503
    package var log = LogSettings()
    package var shutdown = ShutdownSettings()
    /// nil: as many as the CPUs that this process may use.
    package var shards: Int?

    package init() {}
}

/// What loading came to: a configuration, or what is wrong with it.
package struct LoadedConfiguration: Sendable {
    /// nil if there is a fault; warnings leave it.
    package var configuration: Configuration?
    /// In the order of their places: the file from top to bottom, environment, flags.
    package var faults: [ConfigurationFault]
    /// The effective configuration as YAML, defaults written out; secrets are paths. Empty if there is a fault.
    package var printed: String

    package var warnings: [ConfigurationFault] { faults.filter { $0.severity == .warning } }

    /// How a program ends that cannot go on: 64 usage, 78 configuration (sysexits); nil if it can.
    package var exitCode: Int32? {
        if faults.contains(where: { $0.severity == .usage }) { return 64 }
        return configuration == nil ? 78 : nil
    }
}
