/// Why a person's request was not carried out. Nothing has changed then.
package enum UserError: Error, Equatable, Sendable {
    case noSuchUser
    /// No identity of that name is configured.
    case noSuchIdentity
    case nameInUse
    /// The login ended in the account of this user, whose session stays as it was; the new one is revoked.
    case accountInUse(by: String)
    /// There is no session that could be used or renewed.
    case notLoggedIn
    /// A static identity: somebody else brings its tokens.
    case notSupported
    /// Another login of that user is under way.
    case loginInProgress
    /// None was given, and none is configured.
    case noCredential
    /// The identity service said no, or could not be asked.
    case identity(IdentityError)
    /// Lanyard is ending; the call has not begun.
    case stopping
    /// Lanyard has ended before the call did: what became of it is not known. The only one after which something may have changed.
    case outcomeUnknown
    /// The session has just ended, since the answer to its renewal was lost: a person must log in.
    case loginRequired
    /// The store cannot be read or written, and only there the user is known.
    case storeFailing
}
