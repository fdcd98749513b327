/// What came of something that a person asked of a session.
package enum SessionReply: Sendable {
    /// The login succeeded: stored, unless the store is failing, and published.
    case loggedIn
    /// There is a new access token, or another call has just brought one.
    case refreshed
    /// The identity service would not, or could not.
    case failed(IdentityError)
    /// The session has ended with this call, and no answer says why: asking again would change nothing.
    case loginRequired
    /// Another user is logged in to the account; the new session is being revoked.
    case accountInUse(by: String)
    /// The account is that of another user, who is not logged in: the session is to be handed over to that user.
    case belongs(to: String, ObtainedSession)
    /// Another process has given the name to somebody; whether its user is known here from now on.
    case nameInUse(isKnown: Bool)
    /// Another login of this user is under way.
    case loginInProgress
    /// Nobody is logged in, so nothing can be refreshed.
    case notLoggedIn
    /// Somebody else renews this user's token.
    case notSupported
    /// A logout came in between, here or in another process.
    case overtaken
    /// Logged out or forgotten on this device; whether the service knows, and whether the store does. What does not is told again in the
    /// background.
    case terminated(isRevoked: Bool, isStored: Bool)
    /// The process is about to end, and nothing of it has begun.
    case stopping
}
