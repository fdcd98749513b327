import LanyardSettings

/// Whether the start has failed: `login.exit_on_refusal` and `login.exit_on_unreachable` (exit codes:
/// architecture-control.md 7.5).
struct StartupCheck: Sendable {
    let settings: LoginSettings
    /// Ends the process with this status. Called once at most.
    private let onFailure: @Sendable (Int32) -> Void
    /// A user has had a token, the verdict was given, or a reload has changed the users.
    private(set) var hasEnded = false

    init(_ settings: LoginSettings, onFailure: @escaping @Sendable (Int32) -> Void = { _ in }) {
        self.settings = settings
        self.onFailure = onFailure
    }

    /// No verdict follows: the users are not those of the start any more.
    mutating func end() { hasEnded = true }

    /// Reports a start that has failed.
    mutating func check(_ users: [(state: SessionState, reason: SessionReason, hasBeenReady: Bool)]) {
        if let status = verdict(users) { onFailure(status) }
    }

    /// The exit status, once: 77 if every credential is refused, 75 if no first login is possible for now; nil to continue.
    ///
    /// - Parameter users: those with a configured credential. A user that an operator logged out does not count.
    mutating func verdict(_ users: [(state: SessionState, reason: SessionReason, hasBeenReady: Bool)]) -> Int32? {
        guard !hasEnded, settings.exitOnRefusal || settings.exitOnUnreachable else { return nil }
        if users.contains(where: { $0.hasBeenReady }) {
            hasEnded = true
            return nil
        }
        let waited = users.filter { $0.reason != .loggedOut }
        let refused = waited.count { $0.state == .refused }
        let unreachable = waited.count { $0.state == .loggingIn && $0.reason != .loggingIn }
        guard !waited.isEmpty, refused + unreachable == waited.count else { return nil }
        hasEnded = unreachable == 0 ? settings.exitOnRefusal : settings.exitOnUnreachable
        guard hasEnded else { return nil }
        return unreachable == 0 ? 77 : 75
    }
}
