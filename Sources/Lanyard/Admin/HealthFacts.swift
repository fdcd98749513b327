/// Everything that health depends on, at one moment: gathered from snapshots, so that nobody is waited for.
package struct HealthSnapshot: Equatable, Sendable {
    /// One user, as its session stands.
    package struct User: Equatable, Sendable {
        package var name: String
        /// A forwarded request would carry a valid token.
        package var isReady: Bool
        /// The word of architecture.md 7.1, such as `token_valid`.
        package var reason: String
        /// It has had a token since the start.
        package var hasBeenReady: Bool

        package init(name: String, isReady: Bool, reason: String, hasBeenReady: Bool) {
            self.name = name
            self.isReady = isReady
            self.reason = reason
            self.hasBeenReady = hasBeenReady
        }
    }

    /// Where sessions are kept.
    package enum Store: String, Sendable {
        case memoryOnly = "memory_only"
        case stored
        case failing = "store_failing"
    }

    /// All users of this Lanyard.
    package var users: [User]
    /// Whom routes without a user of their own follow.
    package var activeUser: String?
    /// Some route follows the active user.
    package var followsActiveUser: Bool
    /// Users that routes name, in their order.
    package var pinnedUsers: [String]
    package var isDraining = false
    package var store = Store.memoryOnly
    /// How far the identity service's clock is ahead of ours, if it is known.
    package var clockSkew: Duration?
    /// Since the control plane last got round to its work.
    package var heartbeatAge = Duration.zero

    package init(users: [User], activeUser: String?, followsActiveUser: Bool, pinnedUsers: [String]) {
        self.users = users
        self.activeUser = activeUser
        self.followsActiveUser = followsActiveUser
        self.pinnedUsers = pinnedUsers
    }
}
