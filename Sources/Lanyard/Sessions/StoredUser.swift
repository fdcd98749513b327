/// What the store knows of one user, logged in or not.
package struct StoredUser: Equatable, Sendable {
    package var name: String
    /// The name of the identity that the user belongs to.
    package var identity: String
    /// The identity's fingerprint at the latest login; nil in a file of an older release, which matches any.
    package var identityFingerprint: IdentityFingerprint?
    /// Grows with each access token of this user, across logins, and with each logout; 0 before the first.
    package var generation: UInt64 = 0
    /// nil: no session.
    package var session: StoredSession?
    /// The service's id of the account, from the latest login.
    package var accountID: String?
    /// The kind of the latest login, as `UserSettings.Login.provider` spells it. A logout removes an anonymous user.
    package var provider: String?
    /// The user has had this account since then: an anonymous account ends 90 days after it was made (refresh.md 16).
    package var accountSince: WallTime?
    /// The admin API added this user: it is not configured.
    package var isAdded = false
    /// An operator logged this user out: no automatic login until an operator requests one.
    package var isLoggedOut = false
    /// A call whose result is not stored yet.
    package var intent: StoredIntent?
    /// The fingerprint of the refused configured credential. It is not tried again until it changes.
    package var refused: CredentialFingerprint?

    package init(name: String, identity: String) {
        self.name = name
        self.identity = identity
    }

    package init(name: String, of identity: StoredIdentity) {
        self.init(name: name, identity: identity.name)
        identityFingerprint = identity.fingerprint
    }

    /// Nothing of the session can be served: no refresh token renews it, and the credential for a new one was refused.
    package var isRefused: Bool { refused != nil && session?.refresh == nil }

    /// There is a session to continue.
    package var isAuthenticated: Bool { session != nil && !isLoggedOut && !isRefused }

    /// The session's id and generation.
    package var version: SessionVersion { SessionVersion(session: session?.id ?? 0, generation: generation) }
}
