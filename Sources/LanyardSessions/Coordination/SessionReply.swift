import LanyardFoundations
import LanyardSessionInterface

/// The result of an operator's call to a session.
package enum SessionReply: Sendable {
    /// The login succeeded: stored, unless the store is failing, and published.
    case loggedIn
    /// The access token of a link is the session's: stored, unless the store is failing, and published.
    case linked
    /// The store holds the mark of a deletion: the service may be called.
    case deletionBegun
    /// The store cannot hold the mark. Nothing has changed.
    case storeFailing
    /// There is a new access token, or another call has just brought one.
    case refreshed
    /// The identity service refused, or could not be reached.
    case failed(IdentityError)
    /// The session has ended with this call, and no response says why: another call would change nothing.
    case loginRequired
    /// Another user is logged in to the account; the new session is being revoked.
    case accountInUse(by: String)
    /// The account belongs to another user without a session. The session is to be handed over to that user.
    case belongs(to: String, ObtainedSession)
    /// Another process has given the name to a user; whether that user is known here from now on.
    case nameInUse(isKnown: Bool)
    /// Another login of this user is in progress.
    case loginInProgress
    /// The user has no session, so nothing can be refreshed.
    case notLoggedIn
    /// The user's token is renewed elsewhere.
    case notSupported
    /// A logout came first, here or in another process.
    case overtaken
    /// Logged out or forgotten on this device; whether the service knows, and whether the store does. Either is tried
    /// again in the background.
    case terminated(isRevoked: Bool, isStored: Bool)
    /// The process is about to end, and the call has not begun.
    case stopping
}

extension SessionReply {
    /// Why a refresh did not bring a new access token; nil: it did.
    package var refreshError: UserError? {
        switch self {
        case .refreshed: nil
        case .failed(let error): .identity(error)
        case .loginRequired: .loginRequired
        case .notSupported: .notSupported
        case .stopping: .stopping
        case .loggedIn, .linked, .deletionBegun, .storeFailing, .accountInUse, .belongs, .nameInUse, .loginInProgress,
            .notLoggedIn, .overtaken, .terminated:
            .notLoggedIn
        }
    }
}

/// A session that was obtained for another user, or elsewhere. It is stored and served like the result of a login.
package struct ObtainedSession: Sendable {
    /// The tokens.
    package var grant: Grant
    /// The clocks before the request was sent.
    package var startedAt: Instant
    package var startedAtWall: WallTime
    /// The kind of login, as `LoginKind.provider` spells it; nil: unknown.
    package var provider: String?
    /// The grant is the new access token of a link, which continues the session of this `SessionCoordinator.sessionID`;
    /// nil: the grant is a session of its own. `provider` is then the user's new kind of login, nil to keep the old one.
    package var continuedSession: UInt64?

    package init(
        _ grant: Grant, startedAt: Instant, startedAtWall: WallTime, provider: String? = nil,
        continuedSession: UInt64? = nil
    ) {
        self.continuedSession = continuedSession
        self.grant = grant
        self.startedAt = startedAt
        self.startedAtWall = startedAtWall
        self.provider = provider
    }
}
