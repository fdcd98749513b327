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
        /// A custom function. The file holds its argument, a JSON object.
        case function(payloadFile: String)
        /// A JSON Web Token of another issuer, which the service verifies.
        case jwt(tokenFile: String)
        case facebook(accessTokenFile: String)
        case googleIDToken(file: String)
        /// Google's authorization code, which works for one login.
        case googleAuthCode(file: String)
        case apple(idTokenFile: String)

        /// The `provider` of each kind.
        package static let providers = [
            "anonymous", "email_password", "api_key", "function", "jwt", "facebook", "google", "apple",
        ]

        /// The kind's name, as the configuration and the metrics' `provider` label spell it.
        package var provider: String {
            switch self {
            case .anonymous: "anonymous"
            case .emailPassword: "email_password"
            case .apiKey: "api_key"
            case .function: "function"
            case .jwt: "jwt"
            case .facebook: "facebook"
            case .googleIDToken, .googleAuthCode: "google"
            case .apple: "apple"
            }
        }

        /// The file with the secret; nil: there is none.
        package var secretFile: String? {
            switch self {
            case .anonymous: nil
            case .emailPassword(_, let file), .apiKey(let file), .function(let file), .jwt(let file),
                .facebook(let file), .googleIDToken(let file), .googleAuthCode(let file), .apple(let file):
                file
            }
        }
    }

    package init(name: String, identity: String, login: Login? = nil) {
        self.name = name
        self.identity = identity
        self.login = login
    }
}

/// A name of a user, identity or route, in the configuration, the admin API and the store (architecture.md 4.1).
package enum ConfiguredName {
    /// Bytes of a name.
    package static let bytesMax = 64

    /// Whether `text` is `[A-Za-z0-9._-]{1,64}`: users' names become parts of file names.
    package static func isValid(_ text: String) -> Bool {
        (1...bytesMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}
