import LanyardSettings

/// The keys whose values differ between a running configuration and a new one (architecture.md 7.9).
package struct ConfigurationChanges: Equatable, Sendable {
    /// Keys that a reload applies.
    package var live: [String] = []
    /// Keys that need a restart. A route, user or identity that only one configuration has is named as a whole.
    package var restartOnly: [String] = []

    /// Paths of the keys that a reload applies. All other keys need a restart.
    package static let livePaths: Set<String> = [
        "log.level", "shutdown.drain_min", "shutdown.drain_max", "shutdown.exit_zero_on_sigterm",
    ]

    /// - Parameters:
    ///   - running: the configuration of the running program.
    ///   - new: a valid one.
    package init(from running: LoadedConfiguration, to new: LoadedConfiguration) {
        compare(running.tree, new.tree, section: "", shown: "")
        guard var expected = running.configuration, let configuration = new.configuration else { return }
        expected.log.level = configuration.log.level
        expected.shutdown = configuration.shutdown
        // The permissions of secret files are no key.
        expected.openSecretFiles = configuration.openSecretFiles
        // Another spelling of the same value, such as 1000ms for 1s, is no change.
        if expected == configuration { restartOnly = [] }
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
        case .value, .values, .fields: if Self.text(old, key) != Self.text(new, key) { record(key, shown) }
        case .section: compareSections(old, new, key, shown)
        case .sections:
            for index in 0..<max(old?.elements.count ?? 0, new?.elements.count ?? 0) {
                let (left, right) = (old?.element(index), new?.element(index))
                compareElements(left, right, key, "\(shown)[\(index)]")
            }
        case .named:
            let names = (old?.entries.map(\.key) ?? [], new?.entries.map(\.key) ?? [])
            for name in names.0 + names.1.filter({ !names.0.contains($0) }) {
                compareElements(old?[name], new?[name], key, "\(shown).\(name)")
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
        compare(old, new, section: key.below, shown: shown)
    }

    /// The value as text; the default if it is not given.
    private static func text(_ node: ConfigurationNode?, _ key: ConfigurationKey) -> String? {
        switch node?.content {
        case .scalar(let text): text
        case .sequence(let elements): "[\(elements.compactMap(\.text).joined(separator: ", "))]"
        case .mapping(let entries): entries.map { "\($0.key): \($0.value.text ?? "")" }.joined(separator: "\n")
        case .invalid, nil: key.defaultValue
        }
    }

    private mutating func record(_ key: ConfigurationKey, _ shown: String) {
        if Self.livePaths.contains(key.path) { live.append(shown) } else { restartOnly.append(shown) }
    }
}

extension ConfigurationNode {
    /// nil: a sequence has no such element, or this is no sequence.
    fileprivate func element(_ index: Int) -> ConfigurationNode? { index < elements.count ? elements[index] : nil }
}
