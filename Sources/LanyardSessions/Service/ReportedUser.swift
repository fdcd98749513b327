/// A user as the App Services SDKs see it (architecture-control.md 5.1): for status and the admin API.
package enum UserState: String, Sendable, CaseIterable {
    /// Authenticated, and followed by routes without a user of their own.
    case active
    /// Authenticated: may be made active without a new login.
    case inactive
    case loggedOut = "logged_out"
}

extension SessionState {
    /// There is a session, whether or not its access token can be renewed now.
    package var isAuthenticated: Bool {
        switch self {
        case .valid, .refreshing, .stale, .unreachable: true
        case .loggedOut, .loggingIn, .loginRequired, .refused: false
        }
    }
}

extension SessionReport {
    /// The state that the admin API shows.
    package func userState(of user: SessionStatus) -> UserState {
        guard user.state.isAuthenticated else { return .loggedOut }
        return user.index == activeUser ? .active : .inactive
    }

    /// The user of that name; nil: unknown.
    package func user(named name: String) -> ReportedUser? {
        users.first { $0.user == name }.map { ReportedUser(status: $0, userState: userState(of: $0)) }
    }

    /// All users.
    package var reportedUsers: [ReportedUser] { users.map { ReportedUser(status: $0, userState: userState(of: $0)) } }
}

/// One user as operators see it.
package struct ReportedUser: Sendable {
    package var status: SessionStatus
    package var userState: UserState

    package init(status: SessionStatus, userState: UserState) {
        self.status = status
        self.userState = userState
    }
}
