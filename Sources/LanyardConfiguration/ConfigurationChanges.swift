import LanyardSettings

/// The keys whose values differ between a running configuration and a new one (architecture-control.md 7.9).
package struct ConfigurationChanges: Equatable, Sendable {
    /// Keys that a reload applies.
    package var live: [String] = []
    /// Keys that need a restart. A route, user or identity that only one configuration has is named as a whole.
    package var restartOnly: [String] = []

    /// Paths of the keys that a reload applies. All other keys need a restart.
    package static let livePaths: Set<String> = {
        let sections = ["users", "identities", "login", "refresh", "routes", "limits", "http2", "upstream_dns", "log"]
        let paths = ConfigurationKeys.all.map(\.path)
        let below = paths.filter { path in
            sections.contains { path == $0 || path.hasPrefix($0 + ".") || path.hasPrefix($0 + "[]") }
        }
        // A socket is bound at the start: its address, its permissions, and whether it speaks TLS.
        let bound: Set = ["address", "socket_mode", "tls"]
        let listening = paths.filter { path in
            ["listeners[].", "brokers[]."].contains { list in
                path.hasPrefix(list) && !bound.contains(String(path.dropFirst(list.utf8.count)))
            }
        }
        let others = [
            "active_user", "on_active_logout", "login_required_status", "shutdown.drain_min", "shutdown.drain_max",
            "shutdown.exit_zero_on_sigterm", "health.allowed_hosts",
        ]
        return Set(below + listening + others)
    }()

    /// - Parameters:
    ///   - running: the configuration of the running program.
    ///   - new: a valid one.
    package init(from running: LoadedConfiguration, to new: LoadedConfiguration) {
        compare(running.tree, new.tree, section: "", shown: "")
        guard let former = running.configuration, let configuration = new.configuration else { return }
        var expected = former
        expected.log = configuration.log
        expected.shutdown = configuration.shutdown
        expected.applySessions(of: configuration)
        expected.applyRequestPath(of: configuration)
        // The permissions of secret files are no key.
        expected.openSecretFiles = configuration.openSecretFiles
        // Another spelling of the same value, such as 1000ms for 1s, is no change.
        if expected == configuration { restartOnly = [] }
        var same = former
        same.openSecretFiles = configuration.openSecretFiles
        if same == configuration { live = [] }
        requireRestartForProxyVariables(former, configuration)
    }

    /// The start removes the proxy variables if no identity and no route uses them.
    private mutating func requireRestartForProxyVariables(_ running: Configuration, _ new: Configuration) {
        guard !running.readsProxyVariables else { return }
        let identities = new.identities.filter { $0.proxy == .environment }.map { "identities.\($0.name)" }
        let routes = new.routes.indices.filter { new.routes[$0].readsProxyVariables }.map { "routes[\($0)]" }
        for path in identities + routes {
            live.removeAll { $0 == path || $0 == "\(path).proxy" }
            restartOnly.append("\(path).proxy")
        }
    }

    private mutating func compare(_ old: ConfigurationNode?, _ new: ConfigurationNode?, section: String, shown: String)
    {
        for key in ConfigurationKeys.keys(in: section) {
            compare(old?[key.name], new?[key.name], key, shown.isEmpty ? key.name : "\(shown).\(key.name)")
        }
    }

    private mutating func compare(
        _ old: ConfigurationNode?, _ new: ConfigurationNode?, _ key: ConfigurationKey, _ shown: String
    ) {
        switch key.kind {
        case .value, .values, .oneOrMore, .fields, .parameters:
            if Self.text(old, key) != Self.text(new, key) { record(key, shown) }
        case .section: compareSections(old, new, key, shown)
        case .sections:
            for index in 0..<max(old?.elements.count ?? 0, new?.elements.count ?? 0) {
                let (left, right) = (old?.element(index), new?.element(index))
                compareElements(left, right, key, "\(shown)[\(index)]")
            }
        case .named:
            let names = (old?.entries.map(\.key) ?? [], new?.entries.map(\.key) ?? [])
            let (left, right) = (old?.valuesByKey ?? [:], new?.valuesByKey ?? [:])
            for name in names.0 + names.1.filter({ left[$0] == nil }) {
                compareElements(left[name], right[name], key, "\(shown).\(name)")
            }
            // The first user is the default of active_user.
            if names.0 != names.1, Set(names.0) == Set(names.1) { record(key, shown) }
        }
    }

    /// A section is compared with the defaults of an absent one, unless its presence alone has a meaning.
    private mutating func compareSections(
        _ old: ConfigurationNode?, _ new: ConfigurationNode?, _ key: ConfigurationKey, _ shown: String
    ) {
        let below = ConfigurationKeys.keys(in: key.below)
        let hasMeaning = below.isEmpty || below.contains(where: \.isRequired)
        // A keyword such as `off` stands in place of a section.
        if old?.text != new?.text || (hasMeaning && (old == nil) != (new == nil)) { return record(key, shown) }
        compare(old, new, section: key.below, shown: shown)
    }

    private mutating func compareElements(
        _ old: ConfigurationNode?, _ new: ConfigurationNode?, _ key: ConfigurationKey, _ shown: String
    ) {
        guard let old, let new else { return record(key, shown) }
        // Nearly all of thousands are as before.
        guard old.content != new.content else { return }
        compare(old, new, section: key.below, shown: shown)
    }

    /// The value as text; the default if it is not given.
    private static func text(_ node: ConfigurationNode?, _ key: ConfigurationKey) -> String? {
        switch node?.content {
        case .scalar(let text): text
        case .sequence(let elements): "[\(elements.compactMap(\.text).joined(separator: ", "))]"
        case .mapping(let entries):
            entries.map { "\($0.key): \(ConfigurationPrinter.flow($0.value))" }.joined(separator: "\n")
        case .invalid, nil: key.defaultValue
        }
    }

    private mutating func record(_ key: ConfigurationKey, _ shown: String) {
        if Self.livePaths.contains(key.path) { live.append(shown) } else { restartOnly.append(shown) }
    }
}

extension Configuration {
    /// Takes what the session path applies.
    fileprivate mutating func applySessions(of other: Configuration) {
        users = other.users
        identities = other.identities
        login = other.login
        activeUser = other.activeUser
        configuredActiveUser = other.configuredActiveUser
        activatesNextOnLogout = other.activatesNextOnLogout
        refresh = other.refresh
    }

    /// Takes what the request path applies: all but the sockets that were bound at the start.
    fileprivate mutating func applyRequestPath(of other: Configuration) {
        routes = other.routes
        limits = other.limits
        loginRequiredStatus = other.loginRequiredStatus
        if let hosts = other.health?.allowedHosts { health?.allowedHosts = hosts }
        guard listeners.count == other.listeners.count else { return }
        for index in listeners.indices where (listeners[index].tls == nil) == (other.listeners[index].tls == nil) {
            let bound = listeners[index]
            listeners[index] = other.listeners[index]
            (listeners[index].address, listeners[index].socketMode) = (bound.address, bound.socketMode)
        }
    }
}

extension ConfigurationNode {
    /// nil: a sequence has no such element, or this is no sequence.
    fileprivate func element(_ index: Int) -> ConfigurationNode? { index < elements.count ? elements[index] : nil }
}
