/// `refresh:` of the configuration (refresh.md 2, refresh.md 3, refresh.md 4, refresh.md 5, refresh.md 7, refresh.md 17).
package struct RefreshSettings: Equatable, Sendable {
    /// The scheduled refresh lies uniformly in this part of the lifetime.
    package var at: ClosedRange<Double> = 0.65...0.75
    /// The mandatory zone is the last min(this, lifetime / 4).
    package var mandatory = Duration.seconds(60)
    /// A request waits at most this long for a token.
    package var waitMax = Duration.seconds(5)
    /// Between two forced refreshes of one session.
    package var cooldown = Duration.seconds(10)
    /// Forced refreshes of one session in an hour.
    package var perHourMax = 30
    /// A call without a response gets a second one beside it after this time, while requests wait (refresh.md 17); nil: never.
    package var secondCallAfter: Duration? = .seconds(2)
    /// The time of an attempt with all its steps (refresh.md 7); nil: that of the identity's calls, which is as long as the default.
    package var attemptTimeout: Duration?
    package init() {}
}

/// `login:` of the configuration: the behaviour at the start.
package struct LoginSettings: Equatable, Sendable {
    /// What stored tokens are good for at the start.
    package enum Offline: String, Sendable, CaseIterable {
        /// A stored access token that is still valid serves at once.
        case cached
        /// Stored tokens wait until one refresh has succeeded.
        case never
    }

    /// What stored tokens are good for at the start.
    package var offline = Offline.cached
    /// Exits 77 once every configured credential is refused at the start.
    package var exitOnRefusal = false
    /// Exits 75 if no first login is possible.
    package var exitOnUnreachable = false

    package init() {}
}

/// What all users have in common.
package struct SessionSettings: Equatable, Sendable {
    /// `refresh`.
    package var refresh: RefreshSettings
    /// `login`.
    package var login: LoginSettings
    /// `active_user`, if it was configured; else the first configured user is active.
    package var activeUser: String?
    /// `on_active_logout: next`.
    package var activatesNextOnLogout: Bool
    /// The variants of access tokens that routes name, by user, in the order of the routes.
    package var variants: [String: [NamedVariant]]
    /// Users whose plain token no request can carry.
    package var withoutPlainToken: Set<String>

    package init(
        refresh: RefreshSettings = RefreshSettings(), login: LoginSettings = LoginSettings(),
        activeUser: String? = nil, activatesNextOnLogout: Bool = false, variants: [String: [NamedVariant]] = [:],
        withoutPlainToken: Set<String> = []
    ) {
        self.withoutPlainToken = withoutPlainToken
        self.variants = variants
        self.refresh = refresh
        self.login = login
        self.activeUser = activeUser
        self.activatesNextOnLogout = activatesNextOnLogout
    }
}
