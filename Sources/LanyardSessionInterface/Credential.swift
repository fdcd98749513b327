import LanyardFoundations
import LanyardSettings

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

/// A keyed hash of a credential. It tells only whether a credential is the one that was refused.
package struct CredentialFingerprint: Equatable, Sendable {
    /// HMAC-SHA256 under the store's own random key: 32 bytes. It reveals no secret without that key.
    package let bytes: [UInt8]
    /// The service's `error_code` that came with the refusal.
    package var code: String?

    package init(bytes: [UInt8], code: String? = nil) {
        self.bytes = bytes
        self.code = code
    }

    /// Whether both belong to one credential.
    package func isSame(as other: CredentialFingerprint?) -> Bool { bytes == other?.bytes }
}
