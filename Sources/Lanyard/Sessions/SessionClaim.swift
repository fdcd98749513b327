/// Whether a login's account may be its user's: two users of one device never share an account (architecture.md 5.7).
package enum AccountOwnership: Equatable, Sendable {
    /// No other user has the account.
    case free
    /// Another user is logged in to it: the new session is revoked.
    case inUse(by: String)
    /// Another user without a session is known by the account: the login is taken as that user's.
    case belongs(to: String)
}
