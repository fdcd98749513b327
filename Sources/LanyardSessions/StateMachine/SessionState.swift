import LanyardFoundations
import LanyardSessionInterface

/// The eight states of a session (architecture-control.md 5.1), for status, metrics and log.
package enum SessionState: String, Sendable, CaseIterable {
    case loggedOut = "logged_out"
    case loggingIn = "logging_in"
    case valid
    case refreshing
    case stale
    case unreachable
    case loginRequired = "login_required"
    case refused
}

/// The reason of a user's readiness: the machine-readable `reason` of health's `session:USER` check
/// (architecture-control.md 7.1).
package enum SessionReason: String, Sendable, CaseIterable {
    /// There is a valid token.
    case tokenValid = "token_valid"
    /// There is a valid token, but its renewal fails, or nothing can renew it. Still ready.
    case refreshFailing = "refresh_failing"
    /// The first login is in progress, or the store has not said yet what it holds of the user.
    case loggingIn = "logging_in"
    /// An operator logged the user out, or no login was made yet and no configured credential can make one.
    case loggedOut = "logged_out"
    /// The session has ended and nothing configured can begin a new one.
    case loginRequired = "login_required"
    /// The configured credential or the client was refused, or cannot be read, or the application does not exist.
    case credentialRefused = "credential_refused"
    /// The identity service gives no token: it does not respond, or not with what was asked for.
    case identityUnreachable = "identity_unreachable"
    /// The identity service responded 410.
    case identityGone = "identity_gone"
    /// A refresh's response was lost, its refresh token must not be sent again, and nothing configured can log in.
    case outcomeUnknown = "outcome_unknown"
    /// The configured credential leads to an account that another user of this device is logged in to.
    case accountInUse = "account_in_use"
    /// The service refuses the audience, the resources or the scopes that a route asks for.
    case variantRefused = "variant_refused"
    /// The service's access token for a route is for another audience than the one that the route asks for.
    case audienceMismatch = "audience_mismatch"

    /// Who must act (operating.md).
    ///
    /// - Parameters:
    ///   - latest: the error of the latest call; nil: it has succeeded, or there was none.
    ///   - canLogIn: a configured credential can begin another session.
    package func action(latest: IdentityError?, canLogIn: Bool) -> ResponsibleParty {
        switch self {
        case .tokenValid, .loggingIn: .nobody
        // Nothing renews the token, and only a login can bring another one.
        case .refreshFailing where !canLogIn && (latest == nil || latest?.verdict == .credentialUnavailable): .user
        case .refreshFailing, .identityUnreachable: latest?.action(canLogIn: canLogIn) ?? .nobody
        // The service wants the user: a consent, or a second factor.
        case .credentialRefused, .variantRefused: latest?.responsible == .user ? .user : .operator
        case .identityGone, .accountInUse, .audienceMismatch: .operator
        // The configured credential logs in again when an operator asks for it.
        case .loggedOut: canLogIn ? .operator : .user
        case .loginRequired, .outcomeUnknown: .user
        }
    }
}
