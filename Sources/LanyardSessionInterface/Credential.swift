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

extension CredentialFingerprint {
    /// No `error_code` of a service has this character.
    private static let spentCode = "-spent"

    /// The credential has served its only login, and was not refused.
    package var isSpent: Bool { code == Self.spentCode }

    /// The same credential after its only login.
    package var spent: CredentialFingerprint { CredentialFingerprint(bytes: bytes, code: Self.spentCode) }
}

/// A credential whose secret is at hand.
package enum GivenCredential: Sendable {
    case anonymous
    case emailPassword(email: String, password: Secret)
    case apiKey(Secret)
    /// The argument of a custom function: the text of a JSON object.
    case function(payload: Secret)
    case jwt(Secret)
    case facebook(accessToken: Secret)
    case googleIDToken(Secret)
    case googleAuthCode(Secret)
    case apple(idToken: Secret)

    /// The credential of a configured login.
    ///
    /// - Parameter secret: the content of its file.
    package init(_ login: UserSettings.Login, secret: Secret) {
        switch login {
        case .anonymous: self = .anonymous
        case .emailPassword(let email, _): self = .emailPassword(email: email, password: secret)
        case .apiKey: self = .apiKey(secret)
        case .function: self = .function(payload: secret)
        case .jwt: self = .jwt(secret)
        case .facebook: self = .facebook(accessToken: secret)
        case .googleIDToken: self = .googleIDToken(secret)
        case .googleAuthCode: self = .googleAuthCode(secret)
        case .apple: self = .apple(idToken: secret)
        }
    }

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

    /// What must not be shown; nil: there is nothing.
    package var secret: Secret? {
        switch self {
        case .anonymous: nil
        case .emailPassword(_, let secret), .apiKey(let secret), .function(let secret), .jwt(let secret),
            .facebook(let secret), .googleIDToken(let secret), .googleAuthCode(let secret), .apple(let secret):
            secret
        }
    }
}

/// A keyed hash of a credential. It tells only whether a credential is the one that was refused, or that has served its
/// only login.
package struct CredentialFingerprint: Equatable, Sendable {
    /// HMAC-SHA256 under the store's own random key: 32 bytes. It reveals no secret without that key.
    package let bytes: [UInt8]
    /// The service's `error_code` that came with the refusal, or the mark of `isSpent`.
    package var code: String?

    package init(bytes: [UInt8], code: String? = nil) {
        self.bytes = bytes
        self.code = code
    }

    /// Whether both belong to one credential.
    package func isSame(as other: CredentialFingerprint?) -> Bool { bytes == other?.bytes }
}
