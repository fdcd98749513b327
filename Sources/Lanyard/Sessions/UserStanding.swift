/// A user as the App Services SDKs see it (architecture.md 5.1): for status and the admin API.
package enum UserState: String, Sendable, CaseIterable {
    /// Authenticated, and the one that routes without a user of their own follow.
    case active
    /// Authenticated: may be made active without a new login.
    case inactive
    case loggedOut = "logged_out"
}

extension SessionState {
    /// There is a session, whether or not its access token can be renewed just now.
    package var isAuthenticated: Bool {
        switch self {
        case .valid, .refreshing, .stale, .unreachable: true
        case .loggedOut, .loggingIn, .loginRequired, .refused: false
        }
    }
}

extension SessionReport {
    package func userState(of user: SessionStatus) -> UserState {
        guard user.state.isAuthenticated else { return .loggedOut }
        return user.index == activeUser ? .active : .inactive
    }

    /// The user of that name as it stands, nil if nobody bears it.
    package func view(of name: String) -> UserView? {
        users.first { $0.user == name }.map { UserView(status: $0, userState: userState(of: $0)) }
    }

    /// All users as they stand.
    package var views: [UserView] { users.map { UserView(status: $0, userState: userState(of: $0)) } }
}
