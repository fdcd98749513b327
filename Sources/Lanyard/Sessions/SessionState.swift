/// The eight states of a session (architecture.md 5.1), for status, metrics and log.
package enum SessionState: String, Sendable, CaseIterable {
    case loggedOut = "logged_out"
    case loggingIn = "logging_in"
    case valid
    case refreshing
    case stale
    case unreachable
    case loginRequired = "login_required"
    case refused
}
