/// What the store knows of one user, logged in or not.
package struct StoredUser: Equatable, Sendable {
    package var name: String
    /// The name of the identity that the user belongs to.
    package var identity: String
    /// What that name stood for at the latest login; nil: in a file of an older release, which is any.
    package var identityFingerprint: IdentityFingerprint?
    /// Grows with each access token of this user, over logins as well, and with each logout; 0 before the first.
    package var generation: UInt64 = 0
    /// nil: nobody is logged in.
    package var session: StoredSession?
    /// The service's id of the account, as the latest login said.
    package var accountID: String?
    /// The kind of the latest login, as `UserSettings.Login.provider` spells it: an anonymous user is removed by its logout.
    package var provider: String?
    /// The account is the user's first one since then: an anonymous account ends 90 days after it was made (refresh.md 16).
    package var accountSince: WallTime?
    /// The admin API made this user: no configuration names it.
    package var isAdded = false
    /// A person logged this user out: no automatic login until a person asks for one.
    package var isLoggedOut = false
    /// A call whose answer has not been stored yet.
    package var intent: StoredIntent?
    /// The configured credential that was definitely refused: not tried again until it changes.
    package var refused: CredentialFingerprint?

    package init(name: String, identity: String) {
        self.name = name
        self.identity = identity
    }

    package init(name: String, home: StoredIdentity) {
        self.init(name: name, identity: home.name)
        identityFingerprint = home.fingerprint
    }

    /// Nothing of the session is served any more: no refresh token renews it, and the credential that could begin a new one was refused.
    package var isRefused: Bool { refused != nil && session?.refresh == nil }

    /// There is a session to go on with.
    package var isAuthenticated: Bool { session != nil && !isLoggedOut && !isRefused }

    /// Which session this is, and how far it has come.
    package var fingerprint: SessionVersion { SessionVersion(session: session?.id ?? 0, generation: generation) }
}
