import LanyardFoundations
import LanyardSettings

/// Whether the start has failed: `login.exit_on_refusal` and `login.exit_on_unreachable` (exit codes:
/// architecture-control.md 7.5).
struct StartupCheck: Sendable {
    /// Where the first login of a user stands.
    private enum Standing {
        case open
        case refused
        /// No call has succeeded yet.
        case unreachable
        /// An operator has logged the user out: it does not count.
        case loggedOut
    }

    let settings: LoginSettings
    /// Ends the process with this status. Called once at most.
    private let onFailure: @Sendable (Int32) -> Void
    /// A user has had a token, the verdict was given, or a reload has changed the users.
    private(set) var hasEnded = false
    /// Of the users with a configured credential.
    private var standings: [UserIndex: Standing] = [:]
    /// How many of them stand there.
    private var counts: [Standing: Int] = [:]

    init(_ settings: LoginSettings, onFailure: @escaping @Sendable (Int32) -> Void = { _ in }) {
        self.settings = settings
        self.onFailure = onFailure
    }

    private var isNeeded: Bool { !hasEnded && (settings.exitOnRefusal || settings.exitOnUnreachable) }

    /// A user with a configured credential is about to log in.
    mutating func expect(_ user: UserIndex) { if isNeeded { set(user, .open) } }

    /// The user is not there any more.
    mutating func forget(_ user: UserIndex) { set(user, nil) }

    /// No verdict follows: the users are not those of the start any more.
    mutating func end() {
        hasEnded = true
        (standings, counts) = ([:], [:])
    }

    /// Takes the state of an expected user, and reports a start that has failed: with 77 if every credential is refused, with 75 if no
    /// first login is possible for now.
    mutating func record(_ user: UserIndex, _ state: SessionState, _ reason: SessionReason, hasBeenReady: Bool) {
        guard isNeeded, standings[user] != nil else { return }
        if hasBeenReady { return end() }
        set(user, Self.standing(state, reason))
        guard counts[.open, default: 0] == 0 else { return }
        let (refused, unreachable) = (counts[.refused, default: 0], counts[.unreachable, default: 0])
        guard refused + unreachable > 0, unreachable == 0 ? settings.exitOnRefusal : settings.exitOnUnreachable else {
            return
        }
        end()
        onFailure(unreachable == 0 ? 77 : 75)
    }

    private static func standing(_ state: SessionState, _ reason: SessionReason) -> Standing {
        switch state {
        case _ where reason == .loggedOut: .loggedOut
        case .refused: .refused
        case .loggingIn where reason != .loggingIn: .unreachable
        case .loggedOut, .loggingIn, .loginRequired, .valid, .refreshing, .stale, .unreachable: .open
        }
    }

    private mutating func set(_ user: UserIndex, _ standing: Standing?) {
        if let former = standings.updateValue(standing ?? .open, forKey: user) { counts[former, default: 0] -= 1 }
        if let standing { counts[standing, default: 0] += 1 } else { standings[user] = nil }
    }
}
