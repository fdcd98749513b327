/// A key or value that the configuration knows and this version does not support. A change that implements it removes its line here.
package struct UnsupportedSetting: Equatable, Sendable {
    /// Which values are not supported.
    package enum Values: Equatable, Sendable {
        /// Any value, or a mapping that is not empty.
        case any
        /// Any value except these.
        case otherThan([String])
        /// These values.
        case only([String])
    }

    /// The key.
    package let path: String
    /// Which of its values are not supported.
    package let values: Values
    /// True: Lanyard does not start, because the setting protects something or has no substitute. False: a warning.
    package let isError: Bool
    /// For an error: what to write instead. For a warning: what applies instead; nil: the key's default.
    package let alternative: String?

    private static let user = "start Lanyard as that user (systemd's User=, setpriv), and remove it"
    private static let logout = "remove it, and log users out by the admin API before the stop"

    /// Every setting that is known and not built yet.
    package static let all: [UnsupportedSetting] = [
        // Settings that protect something.
        .init("sandbox", .only(["require"]), isError: true),
        .init("shutdown.logout", .otherThan(["false"]), isError: true, alternative: logout),
        .init("user", .otherThan(["none"]), isError: true, alternative: user),
        // Settings without a substitute, and settings that can be ignored.
        // `auto` means best effort. An operator that wrote it should know that there is no sandbox.
        .init("sandbox", .only(["auto"]), isError: false, alternative: "off holds"),
    ]

    private static let byPath = Dictionary(grouping: all, by: \.path)

    /// The entry that covers this value of the key at a path; nil: the value is supported.
    package static func matching(_ node: ConfigurationNode, at path: String) -> UnsupportedSetting? {
        byPath[path]?.first { $0.covers(node) }
    }

    private init(_ path: String, _ values: Values, isError: Bool, alternative: String? = nil) {
        self.path = path
        self.alternative = alternative
        self.values = values
        self.isError = isError
    }

    private func covers(_ node: ConfigurationNode) -> Bool {
        switch node.content {
        case .invalid: false
        case .mapping(let entries):
            values == .any
                && (path.split(separator: ".").dropFirst().contains("login") || entries.contains { covers($0.value) })
        case .sequence(let elements): elements.contains(where: covers)
        case .scalar(let text):
            switch values {
            case .any: true
            case .otherThan(let words): !words.contains(text)
            case .only(let words): words.contains(text)
            }
        }
    }
}
