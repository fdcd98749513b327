/// One call to the identity service, as the session that asked for it remembers it.
package struct SessionCall: Equatable, Sendable {
    package enum Kind: String, Sendable { case login, refresh }

    /// Why it was made: the `reason` label of `lanyard_refresh_attempts_total`.
    package enum Cause: String, Sendable, CaseIterable {
        /// The schedule's point in the lifetime.
        case scheduled
        /// Again, after a failure.
        case retry
        /// An upstream refused the token.
        case forced
        /// The session began, or somebody asked for a login.
        case start
        /// The refresh token is dead: a new login with the credential.
        case sessionDead = "session_dead"
        /// The same refresh token must not be sent once more: a new login with the credential (refresh.md 9).
        case outcomeUnknown = "outcome_unknown"
        /// A person asked for it.
        case asked
        /// The credential's file changed.
        case credentialChanged = "credential_changed"
    }

    /// Grows with each call of a session: an answer to any but the present call comes too late.
    package let number: UInt64
    package let kind: Kind
    package let cause: Cause
    /// The clocks before the request was sent: a token's life counts from here (refresh.md 1).
    package var startedAt: Instant
    package var startedAtWall: WallTime
}
