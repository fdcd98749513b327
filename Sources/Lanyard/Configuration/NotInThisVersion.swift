/// What the configuration knows and this version does not do yet. Whoever builds a part deletes its lines here.
package struct UnsupportedSetting: Equatable, Sendable {
    package enum Values: Equatable, Sendable {
        /// Any value, or a mapping that is not empty.
        case any
        /// Any value but these.
        case otherThan([String])
        /// These values.
        case only([String])
        /// Values that begin so.
        case beginning(String)
    }

    package let path: String
    package let values: Values
    /// It protects somebody, or nothing could stand in its place: Lanyard does not start without it. Else a warning.
    package let isError: Bool
    /// What to write instead of a fault; what holds instead of a warning's value, if that is not its key's default.
    package let alternative: String?

    private static let address = "use host:port, [v6]:port or unix:/path"
    private static let login = "use anonymous, email_password or api_key"
    private static let user = "start Lanyard as that user (systemd's User=, setpriv), and remove it"
    private static let logout = "remove it, and log users out by the admin API before the stop"

    package static let all: [UnsupportedSetting] = [
        // What guards.
        .init("listeners[].address", .beginning("systemd:"), isError: true, alternative: address),
        .init("listeners[].tls", .any, isError: true),
        .init("listeners[].capability_file", .any, isError: true),
        .init("listeners[].capability_credential", .any, isError: true),
        .init("listeners[].required_header", .any, isError: true),
        .init("listeners[].peers", .any, isError: true),
        .init("routes[].upstream", .beginning("https://"), isError: true, alternative: "use http:// or unix:/path"),
        .init("routes[].tls", .any, isError: true),
        .init("sandbox", .only(["require"]), isError: true),
        .init("shutdown.logout", .otherThan(["false"]), isError: true, alternative: logout),
        .init("user", .otherThan(["none"]), isError: true, alternative: user),
        // Without these a user could never log in.
        .init("identities.*.oauth2", .any, isError: true, alternative: "use app_services or static"),
        .init("users.*.login.function", .any, isError: true, alternative: login),
        .init("users.*.login.jwt", .any, isError: true, alternative: login),
        .init("users.*.login.facebook", .any, isError: true, alternative: login),
        .init("users.*.login.google", .any, isError: true, alternative: login),
        .init("users.*.login.apple", .any, isError: true, alternative: login),
        .init("users.*.login.client_credentials", .any, isError: true, alternative: login),
        .init("users.*.login.password", .any, isError: true, alternative: login),
        .init("users.*.login.refresh_token", .any, isError: true, alternative: login),
        .init("users.*.login.device", .any, isError: true, alternative: login),
        .init("users.*.login.jwt_bearer", .any, isError: true, alternative: login),
        .init("users.*.login.token_exchange", .any, isError: true, alternative: login),
        // What is merely missed.
        .init("health.address", .beginning("systemd:"), isError: true, alternative: address),
        .init("admin.address", .beginning("systemd:"), isError: true, alternative: address),
        .init("admin.expose_tokens", .otherThan(["false"]), isError: false),
        .init("log.access", .only(["true"]), isError: false, alternative: "no line is written for a request"),
        // Best effort by its meaning; without any sandbox an operator who wrote it should know.
        .init("sandbox", .only(["auto"]), isError: false, alternative: "off holds"),
    ]

    private static let byPath = Dictionary(grouping: all, by: \.path)

    /// What forbids this value of the key at a path.
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
            values == .any && (path.contains(".login.") || entries.contains { covers($0.value) })
        case .sequence(let elements): elements.contains(where: covers)
        case .scalar(let text):
            switch values {
            case .any: true
            case .otherThan(let words): !words.contains(text)
            case .only(let words): words.contains(text)
            case .beginning(let start): text.hasPrefix(start)
            }
        }
    }
}
