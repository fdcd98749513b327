import LanyardSettings

/// The whole configuration, read and checked.
package struct Configuration: Equatable, Sendable {
    /// A route with its upstream.
    package struct Route: Equatable, Sendable {
        /// How the route matches and forwards.
        package var route: RouteSettings
        /// Where it forwards to.
        package var upstream: UpstreamSettings
        /// `proxy: environment`: the variables may name a proxy for it.
        package var readsProxyVariables: Bool
        package init(route: RouteSettings, upstream: UpstreamSettings, readsProxyVariables: Bool = false) {
            self.route = route
            self.upstream = upstream
            self.readsProxyVariables = readsProxyVariables
        }

        /// Tokens go to any server that responds in the upstream's place (`unsafe_skip_verify`).
        package var skipsVerification: Bool {
            if case .tcp(_, _, tls: true) = upstream.endpoint { upstream.tls.skipsVerification } else { false }
        }
    }

    /// Never empty. Those of `brokers` follow those of `listeners`.
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
    /// `active_user` if it was given. A stored choice is valid only for the value that was configured when it was made.
    package var configuredActiveUser: String?
    /// `on_active_logout: next`: when the active user logs out, another authenticated user becomes active if there is one.
    package var activatesNextOnLogout = false
    /// In the order of the file; names are unique. Empty only beside brokers.
    package var routes: [Route] = []
    /// `store`.
    package var store = StoreSettings.memory
    /// `refresh`.
    package var refresh = RefreshSettings()
    /// `login`.
    package var login = LoginSettings()
    /// `limits`.
    package var limits = LimitSettings()
    /// Status of the problem `login-required`.
    package var loginRequiredStatus = 503
    /// `log`.
    package var log = LogSettings()
    /// `shutdown`.
    package var shutdown = ShutdownSettings()
    /// Secret files that every Unix user of this machine could read when they were checked. A warning has been given.
    package var openSecretFiles: Set<String> = []
    /// nil: as many as the CPUs that this process may use.
    package var shards: Int?

    package init() {}

    /// An identity or a route has `proxy: environment`: the variables stay in the environment.
    package var readsProxyVariables: Bool {
        identities.contains { $0.proxy == .environment } || routes.contains(where: \.readsProxyVariables)
    }

    /// Users whose plain access token no request can carry: each route that may have them names a `token`, and no route follows the active
    /// user, who may be any of them. `GET …/token` shows the plain one.
    package var usersWithoutPlainToken: Set<String> {
        guard admin?.exposesTokens != true, routes.allSatisfy({ $0.route.user != nil }) else { return [] }
        let others = Set(routes.filter { $0.route.token == .plain }.compactMap(\.route.user))
        let callers = listeners.compactMap(\.broker).flatMap(\.callers)
        let ofCallers = Set(callers.filter { $0.audiences == nil && $0.scopes == nil }.flatMap(\.users))
        return ofCallers.contains(BrokerSettings.activeUser)
            ? [] : Set(variants.keys).subtracting(others.union(ofCallers))
    }

    /// The variants of access tokens that routes and brokers name, by user, in the order of the routes and then of the brokers.
    package var variants: [String: [NamedVariant]] {
        var variants: [String: [NamedVariant]] = [:]
        func add(_ variant: TokenVariant, of user: String, _ name: @autoclosure () -> String) {
            guard variants[user]?.contains(where: { $0.variant == variant }) != true else { return }
            variants[user, default: []].append(NamedVariant(name(), variant))
        }
        for route in routes.map(\.route) where route.token != .plain {
            if let user = route.user { add(route.token, of: user, route.name) }
        }
        for broker in listeners.compactMap(\.broker) {
            for (row, caller) in broker.callers.enumerated() {
                for (place, variant) in caller.variants.enumerated() {
                    for user in caller.users {
                        add(variant, of: user, "brokers[\(broker.index)].callers[\(row)].\(place)")
                    }
                }
            }
        }
        return variants
    }
}

/// The result of loading: a configuration, or the errors in it.
package struct LoadedConfiguration: Sendable {
    /// nil if there is an error. Warnings do not prevent it.
    package var configuration: Configuration?
    /// Errors and warnings in the order of their places: the file from top to bottom, environment, flags.
    package var diagnostics: [ConfigurationError]
    /// All given values, for the comparison with another configuration.
    var tree = ConfigurationNode(.mapping([]), at: .commandLine)

    /// The places of the addresses, for errors when they are bound.
    package var addresses = AddressPlaces()

    /// The effective configuration as YAML with defaults; secrets are paths. Empty if there is an error.
    package var printed: String {
        configuration == nil ? "" : ConfigurationPrinter.print(ConfigurationLoader.completed(tree))
    }

    /// The diagnostics that do not stop the program.
    package var warnings: [ConfigurationError] { diagnostics.filter { $0.severity == .warning } }

    /// The exit code if the program cannot continue: 64 usage, 78 configuration (sysexits.h); nil if it can.
    package var exitCode: Int32? {
        if diagnostics.contains(where: { $0.severity == .usage }) { return 64 }
        return configuration == nil ? 78 : nil
    }
}
