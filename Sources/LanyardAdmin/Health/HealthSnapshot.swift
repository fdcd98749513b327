import LanyardFoundations
import LanyardSessions

/// All facts that the health pages depend on, at one instant. Collected from other snapshots, so collecting never waits.
package struct HealthSnapshot: Equatable, Sendable {
    /// One user and the state of its session.
    package struct User: Equatable, Sendable {
        /// The user's name.
        package var name: String
        /// A forwarded request would carry a valid token.
        package var isReady: Bool
        /// A readiness reason of architecture-control.md 7.1, such as `token_valid`.
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
    /// The user of routes that name none; nil: there is no active user.
    package var activeUser: String?
    /// At least one route follows the active user.
    package var followsActiveUser: Bool
    /// Users that routes name, in their order.
    package var pinnedUsers: [String]
    /// A drain is in progress: readiness is off.
    package var isDraining = false
    /// Whether sessions outlast a restart, and can be stored.
    package var store = Store.memoryOnly
    /// How far the identity service's clock is ahead of the local clock; nil: unknown.
    package var clockSkew: Duration?
    /// Beyond it the two clocks differ too much to trust the expiry of tokens.
    static let clockSkewMax = Duration.seconds(30)
    /// The clocks differ by more than that.
    var isClockOff: Bool {
        let skew = clockSkew ?? .zero
        return max(skew, .zero - skew) > Self.clockSkewMax
    }
    /// Time since the control plane last ran work on its queue.
    package var heartbeatAge = Duration.zero

    package init(users: [User], activeUser: String?, followsActiveUser: Bool, pinnedUsers: [String]) {
        self.users = users
        self.activeUser = activeUser
        self.followsActiveUser = followsActiveUser
        self.pinnedUsers = pinnedUsers
    }
}

extension HealthSnapshot {
    /// A snapshot from the latest session report, evaluated at `now`: a token that has expired since the report is not valid.
    ///
    /// - Parameters:
    ///   - followsActiveUser: at least one route follows the active user.
    ///   - pinnedUsers: users named by routes, configured or not.
    package init(_ report: SessionReport, followsActiveUser: Bool, pinnedUsers: [String], at now: Instant = .now) {
        self.init(
            users: report.users.map { status in
                User(
                    name: status.user, isReady: status.isReady(at: now), reason: status.reason(at: now).rawValue,
                    hasBeenReady: status.hasBeenReady)
            },
            activeUser: report.activeUser.flatMap { active in report.users.first { $0.index == active }?.user },
            followsActiveUser: followsActiveUser, pinnedUsers: pinnedUsers)
        clockSkew = report.skew
        store = report.isStoreFailing ? .failing : report.isStoreInMemory ? .memoryOnly : .stored
    }
}
