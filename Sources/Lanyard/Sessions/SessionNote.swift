/// A decision of a session for the log: one line each, with reason and next time.
package struct SessionNote: Equatable, Sendable {
    package enum Level: Sendable { case info, warning, error }

    /// The stable dotted names, without `session.`.
    package enum Event: String, Sendable {
        case loginStarted = "login.started"
        case loginSucceeded = "login.succeeded"
        case loginFailed = "login.failed"
        case loginRequired = "login.required"
        case refused = "credential.refused"
        case refreshSucceeded = "refresh.succeeded"
        case refreshFailed = "refresh.failed"
        case refreshForced = "refresh.forced"
        case refreshDenied = "refresh.denied"
        case adopted
        case dead
        case expired
        case accountChanged = "account.changed"
        case skewed = "clock.skewed"
        case loggedOut = "logout"
        case late = "answer.late"
        case tokenChanged = "token.changed"
    }

    /// Why a forced refresh is not made.
    package enum Denial: String, Sendable { case cooldown, budget = "per_hour_max" }

    package var event: Event
    package var level: Level
    /// Machine-readable.
    package var reason: String
    package var nextAt: Instant?
    package var fault: IdentityFault?

    package init(
        _ event: Event, _ level: Level = .info, reason: String, nextAt: Instant? = nil, fault: IdentityFault? = nil
    ) {
        self.event = event
        self.level = level
        self.reason = reason
        self.nextAt = nextAt
        self.fault = fault
    }

    /// The decision as a person reads it.
    package var words: String {
        switch event {
        case .loginStarted: "logging in"
        case .loginSucceeded: "logged in"
        case .loginFailed: "login failed, trying again"
        case .loginRequired: "a person must log in"
        case .refused: "the credential is refused or unreadable; no further attempt until it changes"
        case .refreshSucceeded: "access token refreshed"
        case .refreshFailed: "refresh failed, trying again"
        case .refreshForced: "an upstream refused the token, refreshing it"
        case .refreshDenied: "an upstream refused the token, but no refresh is allowed yet"
        case .adopted: "session handed over"
        case .dead: "the refresh token is dead"
        case .expired: "the access token has ended and there is no new one"
        case .accountChanged: "the login ended in another account than before"
        case .skewed: "the service's clock differs from ours by more than 30 s"
        case .loggedOut: "logged out"
        case .late: "an answer came too late and was dropped"
        case .tokenChanged: "token read"
        }
    }

    /// The event's full name.
    package var name: String { "session." + event.rawValue }
}
