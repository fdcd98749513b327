import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// The operations that the admin API uses. From any thread; every call returns at once.
package protocol UserOperations: AnyObject, Sendable {
    /// All users as of the latest change: in the order of the configuration, then in the order in which they were
    /// added. It never waits.
    var report: SessionReport { get }

    /// Carries out an operator's call (architecture-control.md 5.6). The reply comes exactly once, on any queue, after
    /// `report` and requests show what it says. Calls to an identity service in between have their own time limits (30
    /// s).
    func perform(_ call: UserCall, reply: @escaping @Sendable (Result<UserOutcome, UserError>) -> Void)
}

/// A call of an operator, by user name.
package enum UserCall: Sendable {
    /// Adds a user and logs it in.
    ///
    /// - activates: makes the user active, here as in `login`.
    case add(name: String, identity: String, LoginMethod<Secret>, activates: Bool = true)
    /// Logs in a known user: with the given credential, otherwise with the configured one.
    case login(String, LoginMethod<Secret>?, activates: Bool = true)
    /// Routes without a user of their own follow this one from now on.
    case activate(String)
    /// A new access token, now.
    case refresh(String)
    /// Ends the session here, then at the service.
    case logOut(String)
    /// Forgets the user. A live session is revoked at the service.
    case remove(String)
    /// Makes a call about the user's account, with a token of the user's session.
    case call(String, AccountCall)
    /// Adds another login to the user's account. The result is that of `AccountCall.identities`.
    case link(String, LoginMethod<Secret>)
    /// Deletes the account at the service, then logs the user out here. A user that is not configured is forgotten.
    case deleteAccount(String)
    /// The custom data that a new access token carries.
    case customData(String)
    /// The present access token, or the next one if it is about to end.
    ///
    /// - variant: nil: the session's own token, with those of all variants.
    case accessToken(String, TokenVariant? = nil)
    /// Makes a call about an account with email and password at an identity.
    case manageAccount(identity: String, EmailPasswordCall)
}

/// The result of an operator's call that was carried out.
package enum UserOutcome: Sendable {
    /// There is a new user, logged in and active.
    ///
    /// - isStored: a restart will find the user so; otherwise storing is tried again. The same holds for the other
    ///   cases.
    case added(ReportedUser, isStored: Bool)
    /// The user as it is now. After a login it may be another user than the named one: the owner of the account.
    case user(ReportedUser, isStored: Bool)
    /// The access token is new; its end, if it has one.
    case refreshed(WallTime?)
    /// Logged out here for good. Carries the user as it is now, nil if it is forgotten with its session. If the service
    /// does not know yet, it is told in the background.
    case loggedOut(ReportedUser?, RevocationState, isStored: Bool)
    /// Forgotten here; whether the store has forgotten it, too. If not, that is tried again.
    case removed(isStored: Bool)
    /// The JSON text that a call about an account has given.
    case result(Secret)
    case accessTokens(ShownTokens)
}

/// Why an operator's call was not carried out. Nothing has changed then, unless the case says otherwise.
///
/// A type of its own, because the admin API has a status and a problem for each case.
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
    /// The identity service has no profiles, links, functions and keys: only App Services has them.
    case noAccounts
    /// Another login of that user, a link or the deletion of its account is in progress.
    case loginInProgress
    /// No credential was given, and none is configured.
    case noCredential
    /// The identity service refused, or could not be reached.
    case identity(IdentityError)
    /// Lanyard is ending; the call has not begun.
    case stopping
    /// Lanyard ended before the call did, and the outcome is unknown.
    case outcomeUnknown
    /// The session has just ended, because the response to its renewal was lost: an operator must log in.
    case loginRequired
    /// The store cannot be read or written, and only the store knows the user.
    case storeFailing
    /// There is no access token now.
    case noToken(AccessToken.Refusal)
    /// No route asks for an access token with that audience, these resources and scopes; what routes ask for, in words.
    case noSuchToken(known: [String])
    /// The call about the account was sent and got no usable response: it may have been carried out.
    case serviceOutcomeUnknown(IdentityError)
    /// The account was not deleted, or that is unknown (`unknownOutcome`). The user stays logged in.
    case notDeleted(IdentityError)
}

/// Access tokens of a user, for an operator.
package struct ShownTokens: Sendable {
    package struct Token: Sendable {
        package var token: Secret
        /// Of the access token; it grows with each.
        package var generation: Generation
        /// nil: the token has no end that is known here.
        package var expiry: WallTime?
        /// For how long it may still be used; nil: it has no end.
        package var rest: Duration?

        package init(_ token: Secret, generation: Generation, expiry: WallTime?, rest: Duration?) {
            self.token = token
            self.generation = generation
            self.expiry = expiry
            self.rest = rest
        }
    }

    /// The one that was asked for.
    package var plain: Token
    /// Those of variants that can be given out.
    package var variants: [(named: NamedVariant, token: Token)]

    package init(_ plain: Token, variants: [(named: NamedVariant, token: Token)] = []) {
        self.plain = plain
        self.variants = variants
    }
}
