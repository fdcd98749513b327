/// A credential for a login: as configured, or as an operator gave it just now.
package enum Credential: Sendable {
    /// Secrets are read from their files when the call is made.
    case configured(UserSettings.Login)
    /// Used once and not kept.
    case given(GivenCredential)

    /// The kind's name, as the configuration and the metrics' `provider` label spell it.
    package var provider: String {
        switch self {
        case .configured(let login): login.provider
        case .given(let credential): credential.provider
        }
    }
}

/// A credential whose secret is at hand.
package enum GivenCredential: Sendable {
    case anonymous
    case emailPassword(email: String, password: Secret)
    case apiKey(Secret)

    package var provider: String {
        switch self {
        case .anonymous: "anonymous"
        case .emailPassword: "email_password"
        case .apiKey: "api_key"
        }
    }
}
