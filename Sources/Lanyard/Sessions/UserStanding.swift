/// A user as the App Services SDKs see it (architecture.md 5.1): for status and the admin API.
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
    package func userState(of user: SessionStatus) -> UserState {
        guard user.state.isAuthenticated else { return .loggedOut }
        return user.index == activeUser ? .active : .inactive
    }

    /// The user of that name; nil: unknown.
    package func view(of name: String) -> UserView? {
        users.first { $0.user == name }.map { UserView(status: $0, userState: userState(of: $0)) }
    }

    /// All users.
    package var views: [UserView] { users.map { UserView(status: $0, userState: userState(of: $0)) } }
}
