/// One entry of `users:`: an alias, its identity service, and its credential.
package struct UserSettings: Equatable, Sendable {
    package var name: String
    /// The name of an identity.
    package var identity: String
    /// nil: an operator logs in.
    package var login: Login?

    /// Login kinds as configured: secrets are paths, read when they are used and again when the file changes.
    package enum Login: Equatable, Sendable {
        case anonymous
        case emailPassword(email: String, passwordFile: String)
        case apiKey(keyFile: String)

        /// The `provider` of each kind.
        package static let providers = ["anonymous", "email_password", "api_key"]

        /// The kind's name, as the configuration and the metrics' `provider` label spell it.
        package var provider: String {
            switch self {
            case .anonymous: "anonymous"
            case .emailPassword: "email_password"
            case .apiKey: "api_key"
            }
        }
    }

    package init(name: String, identity: String, login: Login? = nil) {
        self.name = name
        self.identity = identity
        self.login = login
    }
}
