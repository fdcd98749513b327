import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// One user in the registry.
package struct RegisteredUser: Equatable, Sendable {
    /// Where the user stands. The registry holds each user once, so a user is in exactly one of these states.
    package enum Standing: Equatable, Sendable {
        /// The user's first login is in progress. Goes to `known`, or to `leaving` if the login fails.
        case provisional
        /// Requests and operators can name the user. Goes to `hidden` or `leaving`.
        case known
        /// A configured anonymous user that an operator has logged out. It is forgotten with its account until the next
        /// start, or until an operator logs in one of that name. Goes to `known`.
        case hidden
        /// The user is forgotten, but its runner still has work, or the store still knows it. Its name is free after
        /// that.
        case leaving
    }

    /// What the registry knows of the user's session.
    package enum LoginState: Equatable, Sendable {
        /// There is no session, and no operator has ended one.
        case none
        /// The user has a session.
        case authenticated
        /// An operator logged this user out: no automatic login until an operator requests one.
        case loggedOut
    }

    package let name: String
    package let index: UserIndex
    package let identity: String
    /// The user is configured: a restart brings it back, whatever an operator has done to it here.
    package internal(set) var isConfigured: Bool
    /// The kind of the configured login; nil: an operator gives the credential.
    package internal(set) var configuredProvider: String?
    /// The identity is static: its tokens are renewed elsewhere.
    package let isStatic: Bool
    /// The service's id of the account, from the latest login.
    package internal(set) var accountID: String?
    /// The kind of the latest login.
    package internal(set) var provider: String?
    /// What is known of the session.
    package internal(set) var loginState: LoginState
    /// Where the user stands.
    package internal(set) var standing: Standing
    /// The account in which a login in progress has ended; it is being stored.
    var claimedAccountID: String?

    package init(
        name: String, index: UserIndex, identity: String, isConfigured: Bool, configuredProvider: String? = nil,
        isStatic: Bool = false, accountID: String? = nil, provider: String? = nil, loginState: LoginState = .none,
        standing: Standing = .known
    ) {
        self.name = name
        self.index = index
        self.identity = identity
        self.isConfigured = isConfigured
        self.configuredProvider = configuredProvider
        self.isStatic = isStatic
        self.accountID = accountID
        self.provider = provider
        self.loginState = loginState
        self.standing = standing
    }

    /// The user with the next index of its name: it leaves, and nothing that is published for it counts any more.
    func renewed(by names: UserNames) -> RegisteredUser {
        RegisteredUser(name: name, index: names.renew(name), identity: identity, isConfigured: isConfigured)
    }

    /// The user has a session.
    package var isAuthenticated: Bool { loginState == .authenticated }

    /// See `LoginState.loggedOut`.
    package var isLoggedOut: Bool { loginState == .loggedOut }

    /// The user's first login is in progress. If it fails, the user is removed.
    package var isProvisional: Bool { standing == .provisional }

    /// The user is known or about to be.
    var isNamed: Bool { standing == .known || standing == .provisional }

    /// The account ends with its session: nothing could log in to it again (app-services.md 2.5).
    var isAnonymous: Bool { (provider ?? configuredProvider) == Self.anonymous }

    static let anonymous = LoginKind.anonymous.provider
}

/// Whether a login's account may be its user's: two users of one device never share an account (architecture-control.md 5.7).
package enum AccountOwnership: Equatable, Sendable {
    /// No other user has the account.
    case free
    /// Another user is logged in to it: the new session is revoked.
    case inUse(by: String)
    /// Another user without a session is known by the account: the login is taken as that user's.
    case belongs(to: String)
}
