import LanyardFoundations
import LanyardSettings

/// A credential for a login: as configured, or as an operator gave it just now.
package indirect enum Credential: Sendable {
    /// Secrets are read from their files when the call is made.
    case configured(UserSettings.Login)
    /// Used once and not kept.
    case given(LoginMethod<Secret>)

    /// The kind of login.
    package var kind: LoginKind {
        switch self {
        case .configured(let login): login.kind
        case .given(let credential): credential.kind
        }
    }

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

/// A keyed hash of a credential. It tells only whether a credential is the one that was refused, or that has served its
/// only login.
package struct CredentialFingerprint: Equatable, Sendable {
    /// HMAC-SHA256 under the store's own random key: 32 bytes. It reveals no secret without that key.
    package let bytes: [UInt8]
    /// The service's `error_code` that came with the refusal, or the mark of `isSpent`.
    package var code: String?
    /// A login was refused for its client, not for this credential, and is tried a few more times (refresh-outcomes.md 12). nil: the
    /// refusal is definite.
    package var clientTries: ClientTries?

    package init(bytes: [UInt8], code: String? = nil, clientTries: ClientTries? = nil) {
        self.bytes = bytes
        self.code = code
        self.clientTries = clientTries
    }

    /// Whether both belong to one credential.
    package func isSame(as other: CredentialFingerprint?) -> Bool { bytes == other?.bytes }
}

/// Logins that were refused for their client (refresh-outcomes.md 12).
package struct ClientTries: Equatable, Sendable {
    /// How many, 1 to 65,535.
    package var count: Int
    /// The wall clock at the latest one.
    package var at: WallTime

    package init(count: Int, at: WallTime) {
        self.count = count
        self.at = at
    }
}
