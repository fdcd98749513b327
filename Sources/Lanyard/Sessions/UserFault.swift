/// Why an operator's request was not carried out. Nothing has changed then.
package enum UserError: Error, Equatable, Sendable {
    case noSuchUser
    /// No identity of that name is configured.
    case noSuchIdentity
    case nameInUse
    /// The login ended in the account of this user, whose session stays as it was; the new one is revoked.
    case accountInUse(by: String)
    /// There is no session to use or renew.
    case notLoggedIn
    /// The identity is static: its tokens are renewed elsewhere.
    case notSupported
    /// Another login of that user is under way.
    case loginInProgress
    /// No credential was given, and none is configured.
    case noCredential
    /// The identity service refused, or could not be reached.
    case identity(IdentityError)
    /// Lanyard is ending; the call has not begun.
    case stopping
    /// Lanyard ended before the call did, and the outcome is unknown. Only after this error something may have changed.
    case outcomeUnknown
    /// The session has just ended, because the response to its renewal was lost: an operator must log in.
    case loginRequired
    /// The store cannot be read or written, and only the store knows the user.
    case storeFailing
}
