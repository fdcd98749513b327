/// Decides what each health page says (architecture.md 7.1). Pure: the facts and the path make the answer.
package struct HealthReport: Sendable {
    /// One line of an answer's `checks`.
    struct Check: Equatable, Sendable {
        var name: String
        var ok: Bool
        var reason: String
        /// Informs, and decides nothing.
        var isAdvisory = false
    }

    /// A control plane that has not worked for this long hangs.
    static let heartbeatMax = Duration.seconds(10)
    /// Beyond it tokens are judged by two clocks too different to trust.
    static let clockSkewMax = Duration.seconds(30)

    private let snapshot: HealthSnapshot

    package init(_ snapshot: HealthSnapshot) { self.snapshot = snapshot }

    // MARK: Pages

    /// `/livez`: the process only. It never depends on an identity service or an upstream: a restart would mend neither.
    package var live: OperatorResponse {
        let beats = snapshot.heartbeatAge < Self.heartbeatMax
        return Self.response(beats ? [] : [Check(name: "watchdog", ok: false, reason: "heartbeat_late")])
    }

    /// `/readyz`: every request that a route takes would carry a valid token.
    package var ready: OperatorResponse { Self.response(sessions + [listener, store, clock]) }

    /// `/readyz/USER`: one user's session, whether a route wants it or not; nil if nobody has that name.
    package func ready(user: String) -> OperatorResponse? {
        snapshot.users.first { $0.name == user }.map { Self.response([Self.check($0)]) }
    }

    /// `/startupz`: some user whom a route wants has had a token. Whoever asks remembers a yes.
    package func started(before: Bool) -> OperatorResponse {
        let isStarted = before || hasStarted
        return Self.response(
            sessions.map { check in
                var check = check
                check.isAdvisory = isStarted
                return check
            })
    }

    /// Whether the first login has succeeded, or none is needed.
    package var hasStarted: Bool {
        let wanted = wantedUsers
        if wanted.isEmpty { return !snapshot.followsActiveUser }
        return snapshot.users.contains { $0.hasBeenReady && wanted.contains($0.name) }
    }

    // MARK: Checks

    /// The active user if a route follows it, then the users that routes pin; each once.
    private var wantedUsers: [String] {
        let active = snapshot.followsActiveUser ? [snapshot.activeUser].compactMap(\.self) : []
        return snapshot.pinnedUsers.reduce(into: active) { if !$0.contains($1) { $0.append($1) } }
    }

    private var sessions: [Check] {
        var checks: [Check] = []
        if snapshot.followsActiveUser, snapshot.activeUser == nil {
            checks.append(Check(name: "session", ok: false, reason: "no_active_user"))
        }
        for name in wantedUsers {
            let user = snapshot.users.first { $0.name == name }
            // A route's user whom nothing configures: the admin API may bring it.
            checks.append(user.map(Self.check) ?? Check(name: "session:\(name)", ok: false, reason: "logged_out"))
        }
        return checks
    }

    private static func check(_ user: HealthSnapshot.User) -> Check {
        Check(name: "session:\(user.name)", ok: user.isReady, reason: user.reason)
    }

    private var listener: Check {
        Check(name: "listener", ok: !snapshot.isDraining, reason: snapshot.isDraining ? "draining" : "listening")
    }

    private var store: Check {
        Check(name: "store", ok: snapshot.store != .failing, reason: snapshot.store.rawValue, isAdvisory: true)
    }

    private var clock: Check {
        let skew = snapshot.clockSkew ?? .zero
        let isOff = max(skew, .zero - skew) > Self.clockSkewMax
        return Check(name: "clock", ok: !isOff, reason: isOff ? "clock_off" : "clock_in_step", isAdvisory: true)
    }

    // MARK: The body

    private static func response(_ checks: [Check]) -> OperatorResponse {
        let isReady = checks.allSatisfy { $0.ok || $0.isAdvisory }
        var body = JSONWriter()
        body.beginObject()
        body.key("status")
        body.string(isReady ? "ready" : "not_ready")
        body.key("checks")
        body.beginArray()
        for check in checks {
            body.beginObject()
            body.key("name")
            body.string(check.name)
            body.key("ok")
            body.bool(check.ok)
            body.key("reason")
            body.string(check.reason)
            body.endObject()
        }
        body.endArray()
        body.endObject()
        return OperatorResponse(status: isReady ? 200 : 503, body: body.bytes)
    }
}
