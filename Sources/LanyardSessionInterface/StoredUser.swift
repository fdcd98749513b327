import LanyardFoundations

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
    /// The kind of the latest login, as `LoginKind.provider` spells it. A logout removes an anonymous user.
    package var provider: String?
    /// The user has had this account since then: an anonymous account ends 90 days after it was made (refresh.md 16).
    package var accountSince: WallTime?
    /// The admin API added this user: it is not configured.
    package var isAdded = false
    /// An operator logged this user out: no automatic login until an operator requests one.
    package var isLoggedOut = false
    /// A call whose result is not stored yet.
    package var intent: StoredIntent?
    /// The fingerprint of the configured credential if it was refused, or has served its only login. It is not tried
    /// again until it changes.
    package var refused: CredentialFingerprint?

    package init(name: String, identity: String) {
        self.name = name
        self.identity = identity
    }

    package init(name: String, of identity: StoredIdentity) {
        self.init(name: name, identity: identity.name)
        identityFingerprint = identity.fingerprint
    }

    /// Nothing of the session can be served: no refresh token renews it, and the credential for a new one was refused
    /// or is spent.
    package var isRefused: Bool { refused != nil && session?.refresh == nil }

    /// There is a session to continue.
    package var isAuthenticated: Bool { session != nil && !isLoggedOut && !isRefused }

    /// A login has succeeded at this identity. The generation does not tell: it also counts logouts, and it survives a
    /// change of the identity.
    package var hasEverBeenLoggedIn: Bool { session != nil || accountID != nil || provider != nil }

    /// The session's id and generation.
    package var version: SessionVersion { SessionVersion(session: session?.id ?? 0, generation: generation) }
}

/// A session as the store keeps it. Each instant of the boot clock comes with the id of its boot.
package struct StoredSession: Equatable, Sendable {
    /// Random, never 0, new with each login: it distinguishes the sessions before and after a logout.
    package var id: UInt64
    /// The access token.
    package var access: Secret
    /// nil: dead; the next renewal is a login.
    package var refresh: Secret?
    /// The refresh token's own expiry, if it is known.
    package var refreshExpiry: WallTime?
    /// The wall clock before the request for the access token was sent (refresh.md 1).
    package var issuedAt: WallTime
    /// The boot clock at that time, with its boot. After a restart on the same boot the wall clock is not needed.
    package var issuedAtBoot: BootInstant
    /// How long the access token lives from `issuedAt`.
    package var lifetime: Duration

    package init(
        id: UInt64, access: Secret, refresh: Secret?, refreshExpiry: WallTime?, issuedAt: WallTime,
        issuedAtBoot: BootInstant, lifetime: Duration
    ) {
        self.id = id
        self.access = access
        self.refresh = refresh
        self.refreshExpiry = refreshExpiry
        self.issuedAt = issuedAt
        self.issuedAtBoot = issuedAtBoot
        self.lifetime = lifetime
    }
}

/// One version of a session: the base of a change of the store. A change whose base has moved is not made.
package struct SessionVersion: Hashable, Sendable {
    /// `StoredSession.id`; 0: no session.
    package var session: UInt64
    /// Of the session's access token.
    package var generation: UInt64

    /// The version of a user that the store does not know.
    package static let absent = SessionVersion(session: 0, generation: 0)

    package init(session: UInt64, generation: UInt64) {
        self.session = session
        self.generation = generation
    }
}

/// A call that is about to be made: stored before it, removed with its result. An intent that remains after a crash, or
/// after a lost response, has an unknown outcome (refresh.md 9).
package struct StoredIntent: Equatable, Sendable {
    /// The call that was about to be made.
    package var kind: SessionCall.Kind
    /// The wall clock at the latest of the calls.
    package var at: WallTime
    /// How often the session's refresh token was sent since the last response, this call included. 2 is the single
    /// retry (refresh.md 9). A login's intent keeps the number; 0 if no refresh was open.
    package var tries: Int

    package init(kind: SessionCall.Kind, at: WallTime, tries: Int) {
        self.kind = kind
        self.at = at
        self.tries = tries
    }
}

extension StoredUser {
    /// The intent's call has a result that changed nothing: an earlier open refresh is open again.
    mutating func closeIntent() {
        guard let open = intent else { return }
        let tries = open.kind == .refresh ? open.tries - 1 : open.tries
        intent = tries > 0 ? StoredIntent(kind: .refresh, at: open.at, tries: tries) : nil
    }
}

/// A session that has ended here and of which the service is not told yet. The call is repeated for a day.
package struct StoredRevocation: Equatable, Sendable {
    package var identity: String
    /// The refresh token to revoke.
    package var refresh: Secret
    /// The time of the end.
    package var since: WallTime
    /// The fingerprint of the identity; nil: any.
    package var fingerprint: IdentityFingerprint?

    package init(identity: String, refresh: Secret, since: WallTime, fingerprint: IdentityFingerprint? = nil) {
        self.identity = identity
        self.refresh = refresh
        self.since = since
        self.fingerprint = fingerprint
    }
}
