import LanyardFoundations
import LanyardSessionInterface

/// The parts from which the account of a login is hashed (refresh-outcomes.md 11).
extension AccountFingerprint {
    /// A configured or given user name.
    static func password(username: String) -> Self { Self(of: ["password", username]) }

    /// A client that logs in as itself.
    static func client(_ clientID: String) -> Self { Self(of: ["client", clientID]) }

    /// An assertion that Lanyard signs. Without a subject the issuer is the account, as with a service account of Google.
    static func signed(by clientID: String, issuer: String, subject: String?) -> Self {
        Self(of: ["signed", clientID, issuer, subject ?? ""])
    }

    /// An installation of a GitHub App.
    static func installation(_ installationID: String, of appID: String) -> Self {
        Self(of: ["github_app", appID, installationID])
    }

    /// A user of another Lanyard.
    static func broker(user: String) -> Self { Self(of: ["broker", user]) }

    /// An ID token that was checked as far as its login demands; nil: it lacks `iss` or `sub`.
    static func idToken(_ token: Secret) -> Self? {
        JWTClaims.account(in: token).map { Self(of: ["id_token", $0.issuer, $0.subject]) }
    }

    /// An assertion or a subject token of another program, which the service has taken; nil: it is no JWT, or lacks `iss` or `sub`.
    static func assertion(_ token: Secret) -> Self? {
        JWTClaims.account(in: token).map { Self(of: ["assertion", $0.issuer, $0.subject]) }
    }
}
