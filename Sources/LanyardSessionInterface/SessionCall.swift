import LanyardFoundations
import LanyardSettings

/// One call to the identity service, as its session records it.
package struct SessionCall: Equatable, Sendable {
    /// What the call asks for.
    package enum Kind: String, Sendable { case login, refresh }

    /// The cause of the call: the `reason` label of `lanyard_refresh_attempts_total`.
    package enum Cause: String, Sendable, CaseIterable {
        /// The scheduled instant in the lifetime.
        case scheduled
        /// Another attempt after a failure.
        case retry
        /// An upstream refused the token.
        case forced
        /// The session began, or a login was requested.
        case start
        /// The refresh token is dead: a new login with the credential.
        case sessionDead = "session_dead"
        /// The same refresh token must not be sent again: a new login with the credential (refresh-outcomes.md 9).
        case outcomeUnknown = "outcome_unknown"
        /// An operator requested it.
        case asked
        /// The fetch of a variant was refused together with its refresh token: this call says whether the session has
        /// ended.
        case fetchRefused = "fetch_refused"
        /// The credential's file changed.
        case credentialChanged = "credential_changed"
        /// The outcome of the latest refresh is unknown, each access token has ended, and no credential can log in: the refresh
        /// token is sent once more (refresh-outcomes.md 9).
        case lastTry = "last_try"
        /// A reload has changed what is asked for, such as scopes.
        case requestChanged = "request_changed"
    }

    /// Grows with each call of a session. A response to any call but the current one comes too late.
    package let number: UInt64
    /// What the call asks for.
    package var kind: Kind
    /// Which access token it asks for.
    package var variant = TokenVariant.plain
    /// Of the session's own login: the variant whose token it asks for in place of the plain one, which no request carries. nil: the plain
    /// one.
    package var standIn: TokenVariant?
    /// Of a refresh token's call: the scopes that the login has granted, which it asks for again. Empty: it asks for none.
    package var scopes: [String] = []
    /// Why it is made.
    package let cause: Cause
    /// When the call began. A token's lifetime counts from here (refresh.md 1). When a grant comes, its operation's copy gets the start of
    /// the request itself (`Grant.requestStartedAt`).
    package var startedAt: Instant
    /// The wall clock at `startedAt`.
    package var startedAtWall: WallTime

    package init(number: UInt64, kind: Kind, cause: Cause, startedAt: Instant, startedAtWall: WallTime) {
        self.number = number
        self.kind = kind
        self.cause = cause
        self.startedAt = startedAt
        self.startedAtWall = startedAtWall
    }
}
