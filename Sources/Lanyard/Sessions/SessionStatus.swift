/// A snapshot of one user for health, status and metrics, readable on any thread.
package struct SessionStatus: Sendable {
    package var user: String
    package var index: UserIndex
    package var identity: String
    /// The service's id of the account, after a first login.
    package var accountID: String?
    package var state: SessionState
    package var reason: SessionReason
    package var generation: UInt64
    /// nil: no token, or one without an expiry.
    package var accessTokenExpiry: WallTime?
    package var refreshTokenExpiry: WallTime?
    /// The next scheduled call; nil while one is under way or none will be made.
    package var nextRefreshAt: WallTime?
    /// The message of the latest error; nil after a success.
    package var lastError: String?
    /// True from the first token on, for `/startupz`.
    package var hasEverBeenReady: Bool
    /// Until then, a request of this user carries a valid token; `.past` without one.
    package var usableUntil: Instant
    /// The kind of the latest login; nil before the first.
    package var provider: String?
    /// Some changes of the user are unsaved.
    package var isStoreFailing = false

    /// Whether a forwarded request would carry a valid token now, even if nothing was published since the token
    /// expired.
    package func isReady(at now: Instant = .now) -> Bool { now < usableUntil }

    /// `reason` at `now`: a token that has expired is not valid.
    package func reason(at now: Instant = .now) -> SessionReason {
        guard usableUntil != .past, !isReady(at: now) else { return reason }
        return reason == .identityGone ? reason : .identityUnreachable
    }
}
