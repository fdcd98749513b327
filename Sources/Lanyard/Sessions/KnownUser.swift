/// One user as the directory knows it.
package struct RegisteredUser: Equatable, Sendable {
    package let name: String
    package let index: UserIndex
    package let identity: String
    /// The configuration names it: it is back after a restart, whatever a person does to it here.
    package let isConfigured: Bool
    /// The kind of the configured login; nil: a person gives the credential.
    package let configuredProvider: String?
    /// A static identity: somebody else brings its tokens.
    package let isStatic: Bool
    /// The service's id of the account, as the latest login said.
    package internal(set) var accountID: String?
    /// The kind of the latest login.
    package internal(set) var provider: String?
    /// There is a session.
    package internal(set) var isAuthenticated: Bool
    /// A person logged this user out: no automatic login until a person asks for one.
    package internal(set) var isLoggedOut: Bool
    /// Its first login is under way: if that fails, there never was such a user.
    package internal(set) var isProvisional: Bool
    /// A login under way has ended in this account, and is being stored.
    var claimedAccountID: String?

    /// - Parameter isAuthenticated: a session was restored.
    package init(
        name: String, index: UserIndex, identity: String, isConfigured: Bool, configuredProvider: String? = nil,
        isStatic: Bool = false, accountID: String? = nil, provider: String? = nil, isAuthenticated: Bool = false,
        isLoggedOut: Bool = false, isProvisional: Bool = false
    ) {
        self.name = name
        self.index = index
        self.identity = identity
        self.isConfigured = isConfigured
        self.configuredProvider = configuredProvider
        self.isStatic = isStatic
        self.accountID = accountID
        self.provider = provider
        self.isAuthenticated = isAuthenticated
        self.isLoggedOut = isLoggedOut
        self.isProvisional = isProvisional
    }

    /// Its account goes with its session: nobody could ever log in to it again (appservices.md 2.5).
    var isAnonymous: Bool { (provider ?? configuredProvider) == Self.anonymous }

    static let anonymous = GivenCredential.anonymous.provider
}
