import LanyardFoundations
import LanyardSettings

/// An identity service as a session sees it: three calls. Each gets exactly one reply, on any queue.
///
/// Calls return at once. Each has its own deadline (connect 5 s, total `refresh.attempt_timeout`), independent of any client.
package protocol IdentityService: AnyObject, Sendable {
    /// The service and application, whatever the identity's name; nil: unknown.
    var fingerprint: IdentityFingerprint? { get }
    /// What the configuration asks for in each token call, such as scopes, as a hash; nil: nothing.
    var tokenRequest: IdentityFingerprint? { get }
    /// The service's calls about accounts; nil: it has none.
    var accounts: (any AccountService)? { get }
    /// The service's logins in a browser; nil: it has none.
    var browserLogins: (any BrowserLoginService)? { get }
    /// Logs in. A configured credential is read anew.
    ///
    /// - Parameter guarded: keeps a refused credential from being sent again, and makes each error carry the
    ///   fingerprint of the sent one. If nil, the credential is always sent, and no error carries a fingerprint.
    func login(
        _ credential: Credential, guarded: LoginGuard?,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void)
    /// The same; `progress` is told which URL is waited for.
    func login(
        _ credential: Credential, guarded: LoginGuard?, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void)
    /// Asks for a new access token.
    func refresh(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void)
    /// The same; `progress` is told which URL is waited for.
    func refresh(
        _ refreshToken: Secret, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void)
    /// The same, with the scopes that the session's login has granted (oauth-rules.md 2).
    ///
    /// - Parameter scopes: the refresh asks for them again; empty: it asks for none.
    func refresh(
        _ refreshToken: Secret, scopes: [String], progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void)
    /// Asks for the access token of a variant, in the session of a refresh token or of a credential that logs in by itself.
    func fetch(
        _ variant: TokenVariant, by proof: VariantProof, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void)
    /// A refresh, and a fetch by a refresh token, ask the gate of their `progress` before the refresh token is sent.
    var asksBeforeSending: Bool { get }
    /// A call may be made twice at once, if nothing in its grant works once: the client proves itself anew each time. The
    /// `cancellation` of each call's `progress` ends it.
    var allowsSecondCall: Bool { get }
    /// Tells the service that the session has ended.
    func revoke(_ refreshToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void)
    /// The service can revoke an access token: a session without a refresh token is revoked by its access tokens.
    var revokesAccessTokens: Bool { get }
    /// Tells a service of `revokesAccessTokens` that a session without a refresh token has ended.
    func revoke(accessToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void)
}

extension IdentityService {
    package var fingerprint: IdentityFingerprint? { nil }
    package var tokenRequest: IdentityFingerprint? { nil }
    package var accounts: (any AccountService)? { nil }
    package var browserLogins: (any BrowserLoginService)? { nil }
    package var revokesAccessTokens: Bool { false }
    package var asksBeforeSending: Bool { false }
    package var allowsSecondCall: Bool { false }

    /// For a service without `revokesAccessTokens`. A file of another release of Lanyard may ask for it.
    package func revoke(accessToken: Secret, reply: @escaping @Sendable (Result<Void, IdentityError>) -> Void) {
        var error = IdentityError(.callRefused, message: "the service does not revoke access tokens")
        error.isUnsupported = true
        reply(.failure(error))
    }

    package func login(
        _ credential: Credential, guarded: LoginGuard?, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { login(credential, guarded: guarded, reply: reply) }

    package func refresh(
        _ refreshToken: Secret, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { refresh(refreshToken, reply: reply) }

    /// For a service without scopes.
    package func refresh(
        _ refreshToken: Secret, scopes: [String], progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) { refresh(refreshToken, progress: progress, reply: reply) }

    /// For a service whose sessions have one access token.
    package func fetch(
        _ variant: TokenVariant, by proof: VariantProof, progress: CallProgress,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        reply(
            .failure(IdentityError(.clientRefused, message: "the identity has no access tokens for \(variant.text)")))
    }
}

/// What entitles the client to an access token of a variant.
package enum VariantProof: Sendable {
    /// The session's.
    ///
    /// - scopes: those that its login has granted. A variant that names none asks for them again; empty: it asks for none.
    case refreshToken(Secret, scopes: [String] = [])
    /// A credential that logs in without a refresh token.
    case login(Credential, LoginGuard?)
}

/// The tokens of a successful login or refresh (RFC 6749 §5.1).
package struct Grant: Sendable {
    /// The token that requests carry.
    package var accessToken: Secret
    /// nil: the current refresh token stays (App Services never sends a new one).
    package var refreshToken: Secret?
    /// The service's id of the account; nil after a refresh.
    package var userID: String?
    /// What an ID token calls the account. It is shown, and nothing is decided by it: two users may have one account, and a service
    /// may call one account differently for each client. nil: unknown.
    package var subject: String?
    private var proof = LoginProof()
    /// The scopes that the response states (RFC 6749 §5.1); after a login that states none those that it has asked for. nil: unknown.
    package var scopes: Set<String>?
    /// How long the access token lives from the moment before the request was sent (refresh.md 1): at least 2 s.
    package var lifetime: Duration
    /// The refresh token's own expiry, if it states one.
    package var refreshTokenExpiry: WallTime?
    /// The service's `Date`, from which the skew is learned.
    package var serverDate: WallTime?
    /// The clocks before the request's connection was made. Until then the call may have waited for a credential's file, the service's
    /// location or a free slot. nil: unknown, so the token's lifetime counts from the call's start.
    package var requestStartedAt: ClockReading?
    /// The fingerprint of a credential that works for one login, which was this one (`CredentialFingerprint.isSpent`).
    /// nil: it can be used again, or the login had no guard.
    package var spentCredential: CredentialFingerprint?
    /// A login with a refresh token has brought another one.
    package var hasRotated = false
    /// The access token is a JWT for another audience than the one that was asked for, in words: it must not be used. The refresh
    /// token is still the session's. nil: nothing is wrong with it.
    package var audienceMismatch: String?
    /// The access token cannot be used: the refresh token alone counts, and `accessToken` is empty. nil: nothing is wrong with it.
    package var unusable: IdentityError?

    package init(
        accessToken: Secret, refreshToken: Secret?, userID: String?, lifetime: Duration, refreshTokenExpiry: WallTime?,
        serverDate: WallTime?, requestStartedAt: ClockReading? = nil
    ) {
        self.accessToken = accessToken
        self.refreshToken = refreshToken
        self.userID = userID
        self.lifetime = lifetime
        self.refreshTokenExpiry = refreshTokenExpiry
        self.serverDate = serverDate
        self.requestStartedAt = requestStartedAt
    }

    /// What a refresh has brought whose response is a success without an access token that can be used. nil: not even a refresh
    /// token.
    package init?(successorIn error: IdentityError) {
        guard let token = error.unusedRefreshToken, let status = error.status, 200..<300 ~= status else { return nil }
        self.init(
            accessToken: SecretBuffer().seal(), refreshToken: token, userID: nil, lifetime: .zero,
            refreshTokenExpiry: nil, serverDate: nil)
        // The server has done what was asked for, even if the rest of its response did not come.
        var outcome = error
        switch outcome.verdict {
        case .transient, .clientRefused, .gone: break
        // What it says of the session was said of the token that has a successor now.
        case .unknownOutcome, .sessionDead, .credentialRefused, .credentialDoubted, .unknownApp, .credentialUnavailable,
            .credentialDelayed, .accountInUse, .callRefused:
            outcome.verdict = .transient(retryAfter: nil)
        }
        unusable = outcome
    }
}

extension Grant {
    /// What a login has proved of its account.
    private struct LoginProof: Sendable {
        var account: AccountFingerprint?
        var credential: CredentialFingerprint?
    }

    /// The account that a login has proved by a configured name, an ID token or an assertion (refresh-outcomes.md 11). It decides what the
    /// login ends, and never whose the account is. nil: unknown, or `userID` names it.
    package var account: AccountFingerprint? {
        get { proof.account }
        set { proof.account = newValue }
    }
    /// Of the credential alone that a login has sent, so that an unknown account is known to be that of the same credential. nil: the
    /// login had no guard, or the service names its accounts.
    package var credential: CredentialFingerprint? {
        get { proof.credential }
        set { proof.credential = newValue }
    }
}

/// Keeps a credential that was definitely refused from being sent again, which might lock the account (refresh-outcomes.md 12).
/// The same holds for a credential that has served its only login.
package struct LoginGuard: Sendable {
    /// The store's key for `CredentialFingerprint`.
    package var key: Secret
    /// A login with this credential fails without a call, as `credentialRefused`; nil: none was refused, or an operator
    /// requested the login.
    package var refused: CredentialFingerprint?

    package init(key: Secret, refused: CredentialFingerprint?) {
        self.key = key
        self.refused = refused
    }
}
