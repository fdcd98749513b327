import LanyardFoundations
import LanyardSettings

/// What the store knows of one user, logged in or not.
package struct StoredUser: Equatable, Sendable {
    /// What the store says of the user's session.
    package enum Status: Equatable, Sendable {
        /// No session, and no operator has ended one.
        case none
        /// There is a session to continue, unless its refresh token is dead and its credential was refused.
        case active(StoredSession)
        /// The account of this session is being deleted at the service. The user counts as logged out.
        case deleting(StoredSession)
        /// An operator logged this user out: no automatic login until an operator requests one.
        case loggedOut
    }

    package var name: String
    /// The name of the identity that the user belongs to.
    package var identity: String
    /// The identity's fingerprint at the latest login; nil in a file of an older release, which matches any.
    package var identityFingerprint: IdentityFingerprint?
    /// Grows with each access token of this user, across logins, and with each logout; 0 before the first.
    package var generation = Generation.zero
    /// What the store says of the session.
    package var status = Status.none
    /// The fingerprint of the configured credential if it was refused, or has served its only login. It is not tried
    /// again until it changes. Each status can have it, and no change of the status changes it.
    package var refused: CredentialFingerprint?
    /// The service's id of the account, from the latest login.
    package var accountID: String?
    /// What the ID token of the latest login calls the account, to be shown (`Grant.subject`).
    package var subject: String?
    /// The kind of the latest login, as `LoginKind.provider` spells it. A logout removes an anonymous user.
    package var provider: String?
    /// The user has had this account since then: an anonymous account ends 90 days after it was made (refresh.md 16).
    package var accountSince: WallTime?
    /// The admin API added this user: it is not configured.
    package var isAdded = false
    /// A call whose result is not stored yet.
    package var intent: StoredIntent?
    package init(name: String, identity: String) {
        self.name = name
        self.identity = identity
    }

    package init(name: String, of identity: StoredIdentity) {
        self.init(name: name, identity: identity.name)
        identityFingerprint = identity.fingerprint
    }

    /// The session, also one whose account is being deleted; nil: none.
    package var session: StoredSession? {
        switch status {
        case .active(let session), .deleting(let session): session
        case .none, .loggedOut: nil
        }
    }

    /// An operator logged this user out, or is deleting its account: no automatic login until an operator requests one.
    package var isLoggedOut: Bool {
        switch status {
        case .loggedOut, .deleting: true
        case .none, .active: false
        }
    }

    /// Nothing of the session can be served: no refresh token renews it, and the credential for a new one was refused
    /// or is spent.
    package var isRefused: Bool { refused != nil && session?.refresh == nil }

    /// There is a session to continue.
    package var isAuthenticated: Bool {
        switch status {
        case .active: !isRefused
        case .none, .deleting, .loggedOut: false
        }
    }

    /// A login has succeeded at this identity. The generation does not tell: it also counts logouts, and it survives a
    /// change of the identity.
    package var hasEverBeenLoggedIn: Bool { session != nil || accountID != nil || provider != nil }

    /// The session's id and generation.
    package var version: SessionVersion { SessionVersion(session: session?.id ?? 0, generation: generation) }
}

/// A session as the store keeps it. Each instant of the boot clock comes with the id of its boot.
package struct StoredSession: Equatable, Sendable {
    /// Random, never 0, new with each login: it distinguishes the sessions before and after a logout. See `newID`.
    package var id: UInt64
    /// The access tokens.
    package var tokens: StoredAccessTokens
    /// nil: dead; the next renewal is a login.
    package var refresh: Secret?
    /// The refresh token's own expiry, if it is known.
    package var refreshExpiry: WallTime?
    /// A response has brought another refresh token than the one that was sent (`rotation: auto`).
    package var hasRotated: Bool
    /// The account of the login that began the session; nil: unknown.
    package var account: AccountFingerprint?
    /// The scopes that the login has granted; nil: unknown, or scopes are not used.
    package var grantedScopes: Set<String>?
    /// Variants that are not fetched in any session of the user, and why.
    package var blockedVariants: [VariantMark: VariantBlock] = [:]
    /// The refresh token was sent once more after an unknown outcome, or is about to be (refresh-outcomes.md 9). It never is again.
    package var hasMadeLastTry = false

    /// - Parameters:
    ///   - access: the plain access token; the next three parameters are its own.
    ///   - others: the session's access tokens of other variants.
    package init(
        id: UInt64, access: Secret, refresh: Secret?, refreshExpiry: WallTime?, issuedAt: WallTime,
        issuedAtBoot: BootInstant, lifetime: Duration, others: [TokenVariant: StoredAccessToken] = [:],
        hasRotated: Bool = false
    ) {
        self.id = id
        tokens = StoredAccessTokens(
            plain: StoredAccessToken(access, issuedAt: issuedAt, issuedAtBoot: issuedAtBoot, lifetime: lifetime),
            others: others)
        self.refresh = refresh
        self.refreshExpiry = refreshExpiry
        self.hasRotated = hasRotated
    }

    /// The id of a new session. Its lowest bit is 1 if an operator has asked for the login, and 0 if the login was
    /// Lanyard's own.
    ///
    /// - Parameter random: random bits.
    package static func newID(_ random: UInt64, isByOperator: Bool) -> UInt64 {
        isByOperator ? random | 1 : max(random & ~1, 2)
    }

    /// An operator has asked for the login that began the session. Earlier releases have set the bit at random.
    package var isByOperator: Bool { id & 1 == 1 }

    /// The store holds this session, whatever its version.
    package func isStored(in user: StoredUser?) -> Bool { user?.session?.id == id }

    /// The plain access token.
    package var access: Secret { tokens.plain.token }
    /// The wall clock before the request for the plain access token was sent (refresh.md 1).
    package var issuedAt: WallTime { tokens.plain.issuedAt }
}

/// One version of a session: the base of a change of the store. A change whose base has moved is not made.
package struct SessionVersion: Hashable, Sendable {
    /// `StoredSession.id`; 0: no session.
    package var session: UInt64
    /// Of the session's access token.
    package var generation: Generation

    /// The version of a user that the store does not know.
    package static let absent = SessionVersion(session: 0, generation: .zero)

    package init(session: UInt64, generation: Generation) {
        self.session = session
        self.generation = generation
    }

    /// What this version is to another one.
    package enum Order: Sendable { case older, same, newer, otherSession }

    /// What this version is to `other`. Without a session there is no older one: a user without a session may have
    /// been logged out since.
    package func order(to other: SessionVersion) -> Order {
        if self == other { return .same }
        guard session == other.session, session != 0 else { return .otherSession }
        return generation < other.generation ? .older : .newer
    }
}

/// Counts what has changed a user in the store: each access token, across logins, each logout, each refusal that ended a
/// session, and each cancelled deletion. The session path counts its access tokens in step with it, so that a shard gets
/// a higher one with each new token. A shard knows only the number.
package struct Generation: Hashable, Comparable, Sendable, ExpressibleByIntegerLiteral, CustomStringConvertible {
    package let number: UInt64

    /// Before the first change.
    package static let zero: Generation = 0

    package init(_ number: UInt64) { self.number = number }

    package init(integerLiteral number: UInt64) { self.number = number }

    /// The generation of the next change.
    package var next: Generation { Generation(number.clampedSum(1)) }

    /// The generation of the next change, if it is to be no lower than `other`.
    package func next(atLeast other: Generation) -> Generation { max(next, other) }

    /// The generation that `next` leads from to this one. `zero` has none and stays.
    package var previous: Generation { number == 0 ? .zero : Generation(number - 1) }

    package var description: String { "\(number)" }

    package static func < (one: Generation, other: Generation) -> Bool { one.number < other.number }
}

/// A call that is about to be made: stored before it, removed with its result. An intent that remains after a crash, or
/// after a lost response, has an unknown outcome (refresh-outcomes.md 9).
package struct StoredIntent: Equatable, Sendable {
    /// The call that was about to be made.
    package var kind: SessionCall.Kind
    /// The wall clock at the call, or at the first of the calls with the refresh token that had no response.
    package var at: WallTime
    /// How often the session's refresh token was sent since the last response, this call included. 2 is the single
    /// retry (refresh-outcomes.md 9). A login's intent keeps the number; 0 if no refresh was open.
    package var tries: Int

    package init(kind: SessionCall.Kind, at: WallTime, tries: Int) {
        self.kind = kind
        self.at = at
        self.tries = tries
    }
}

extension StoredUser {
    /// The session has ended. A logout stays one.
    package mutating func endSession() {
        switch status {
        case .active: status = .none
        case .deleting: status = .loggedOut
        case .none, .loggedOut: break
        }
    }

    /// Puts a session in the place of the former one.
    ///
    /// - Parameter keepsLogout: no operator has asked for it, so that a logout, or a deletion of the account, stays.
    package mutating func save(_ session: StoredSession, keepsLogout: Bool) {
        switch status {
        case .loggedOut where keepsLogout, .deleting where keepsLogout: status = .deleting(session)
        case .none, .active, .loggedOut, .deleting: status = .active(session)
        }
    }

    /// The session's refresh token is dead.
    package mutating func dropRefreshToken() {
        switch status {
        case .active(var session):
            session.refresh = nil
            status = .active(session)
        case .deleting(var session):
            session.refresh = nil
            status = .deleting(session)
        case .none, .loggedOut: break
        }
    }

    /// The account of the session is being deleted, or is not any more.
    package mutating func markDeletion(_ isDeleting: Bool) {
        switch (status, isDeleting) {
        case (.active(let session), true): status = .deleting(session)
        case (.deleting(let session), false): status = .active(session)
        case (.active, false), (.deleting, true), (.none, _), (.loggedOut, _): break
        }
    }

    /// The session's refresh token was sent so often since the last response, and the store's intent may not say so.
    package mutating func openIntent(tries: Int, at: WallTime) {
        guard tries > intent?.tries ?? 0 else { return }
        intent = StoredIntent(kind: intent?.kind ?? .refresh, at: at, tries: tries)
    }

    /// The session's refresh token is about to be sent once more after an unknown outcome (refresh-outcomes.md 9).
    package mutating func markLastTry() {
        switch status {
        case .active(var session):
            session.hasMadeLastTry = true
            status = .active(session)
        case .deleting, .none, .loggedOut: break
        }
    }

    /// The intent's call has a result that changed nothing: an earlier open refresh is open again.
    ///
    /// - Parameters:
    ///   - known: how many calls with the refresh token are open; nil: one less than the intent says. A repetition of the change then
    ///     closes no other call.
    ///   - isOfLogin: the call was a login, whose intent may not be here.
    mutating func closeIntent(leaving known: Int? = nil, isOfLogin: Bool = false) {
        guard let open = intent, !(isOfLogin && open.kind == .refresh) else { return }
        let tries = min(open.tries, known ?? (open.kind == .refresh ? open.tries - 1 : open.tries))
        intent = tries > 0 ? StoredIntent(kind: .refresh, at: open.at, tries: tries) : nil
    }
}

/// A token of a session that has ended here and of which the service is not told yet. The call is repeated for a day.
package struct StoredRevocation: Equatable, Sendable {
    /// What a revoked token was for (RFC 7009 §2.1: `token_type_hint`).
    package enum Kind: Sendable {
        /// With it the service ends the session and its access tokens.
        case refreshToken
        /// Of a session that has no refresh token.
        case accessToken
    }

    package var identity: String
    /// The token to revoke.
    package var token: Secret
    /// What the token was for.
    package var kind: Kind
    /// The time of the end.
    package var since: WallTime
    /// The fingerprint of the identity; nil: any.
    package var fingerprint: IdentityFingerprint?
    /// An operator has ended the session. Others are given up before it (`StoreShare`).
    package var isByOperator = false

    package init(
        identity: String, token: Secret, kind: Kind = .refreshToken, since: WallTime,
        fingerprint: IdentityFingerprint? = nil
    ) {
        self.identity = identity
        self.token = token
        self.kind = kind
        self.since = since
        self.fingerprint = fingerprint
    }

    /// The same as an operator's.
    package var byOperator: StoredRevocation {
        var revocation = self
        revocation.isByOperator = true
        return revocation
    }
}
