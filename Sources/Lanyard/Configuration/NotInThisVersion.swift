/// What the configuration knows and this version does not do yet. Whoever builds a part deletes its lines here.
package struct NotInThisVersion: Equatable, Sendable {
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
    package let isFault: Bool
    /// What to write instead of a fault; what holds instead of a warning's value, if that is not its key's default.
    package let instead: String?

    private static let address = "use host:port, [v6]:port or unix:/path"
    private static let login = "use anonymous, email_password or api_key"
    private static let user = "start Lanyard as that user (systemd's User=, setpriv), and remove it"
    private static let logout = "remove it, and log users out by the admin API before the stop"

    package static let all: [NotInThisVersion] = [
        // What guards.
        .init("listeners[].address", .beginning("systemd:"), isFault: true, instead: address),
        .init("listeners[].tls", .any, isFault: true),
        .init("listeners[].capability_file", .any, isFault: true),
        .init("listeners[].capability_credential", .any, isFault: true),
        .init("listeners[].required_header", .any, isFault: true),
        .init("listeners[].peers", .any, isFault: true),
        .init("routes[].upstream", .beginning("https://"), isFault: true, instead: "use http:// or unix:/path"),
        .init("routes[].tls", .any, isFault: true),
        .init("sandbox", .only(["require"]), isFault: true),
        .init("shutdown.logout", .otherThan(["false"]), isFault: true, instead: logout),
        .init("user", .otherThan(["none"]), isFault: true, instead: user),
        // Without these a user could never log in.
        .init("identities.*.oauth2", .any, isFault: true, instead: "use app_services or static"),
        .init("users.*.login.function", .any, isFault: true, instead: login),
        .init("users.*.login.jwt", .any, isFault: true, instead: login),
        .init("users.*.login.facebook", .any, isFault: true, instead: login),
        .init("users.*.login.google", .any, isFault: true, instead: login),
        .init("users.*.login.apple", .any, isFault: true, instead: login),
        .init("users.*.login.client_credentials", .any, isFault: true, instead: login),
        .init("users.*.login.password", .any, isFault: true, instead: login),
        .init("users.*.login.refresh_token", .any, isFault: true, instead: login),
        .init("users.*.login.device", .any, isFault: true, instead: login),
        .init("users.*.login.jwt_bearer", .any, isFault: true, instead: login),
        .init("users.*.login.token_exchange", .any, isFault: true, instead: login),
        // What is merely missed.
        .init("health.address", .beginning("systemd:"), isFault: true, instead: address),
        .init("admin.address", .beginning("systemd:"), isFault: true, instead: address),
        .init("admin.expose_tokens", .otherThan(["false"]), isFault: false),
        .init("log.access", .only(["true"]), isFault: false, instead: "no line is written for a request"),
        // Best effort by its meaning; without any sandbox an operator who wrote it should know.
        .init("sandbox", .only(["auto"]), isFault: false, instead: "off holds"),
    ]

    private static let byPath = Dictionary(grouping: all, by: \.path)

    /// What forbids this value of the key at a path.
    package static func forbids(_ node: ConfigurationNode, at path: String) -> NotInThisVersion? {
        byPath[path]?.first { $0.covers(node) }
    }

    private init(_ path: String, _ values: Values, isFault: Bool, instead: String? = nil) {
        self.path = path
        self.instead = instead
        self.values = values
        self.isFault = isFault
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
