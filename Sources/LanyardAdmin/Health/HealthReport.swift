import LanyardFoundations

/// Decides the content of each health page (architecture-control.md 7.1). Pure: the response depends on the snapshot and the path only.
package struct HealthReport: Sendable {
    /// One element of `checks` in a response.
    struct Check: Equatable, Sendable {
        var name: String
        var isPassing: Bool
        var reason: String
        /// The check is shown, and does not change the status.
        var isAdvisory = false
    }

    /// A control plane without a heartbeat for this long counts as hung.
    static let heartbeatMax = Duration.seconds(10)

    private let snapshot: HealthSnapshot

    package init(_ snapshot: HealthSnapshot) { self.snapshot = snapshot }

    // MARK: Pages

    /// `/livez`: the process only. It never depends on an identity service or an upstream, because a restart would repair neither.
    package var live: OperatorResponse {
        Self.response(isLive ? [] : [Check(name: "watchdog", isPassing: false, reason: "heartbeat_late")])
    }

    /// The control plane makes progress.
    package var isLive: Bool { snapshot.heartbeatAge < Self.heartbeatMax }

    /// `/readyz`: whether every request that a route accepts would carry a valid token.
    package var ready: OperatorResponse { Self.response(readyChecks) }

    private var readyChecks: [Check] { sessions + [listener, store, clock] }

    /// The members of `/readyz`, for another document.
    func writeReady(into body: inout JSONWriter) { Self.write(readyChecks, into: &body) }

    /// The facts that it reports on.
    var facts: HealthSnapshot { snapshot }

    /// `/readyz/USER`: one user's session, whether or not a route uses it; nil if no user has that name.
    package func ready(user: String) -> OperatorResponse? {
        snapshot.users.first { $0.name == user }.map { Self.response([Self.check($0)]) }
    }

    /// `/startupz`: whether a user that a route uses has had a token.
    ///
    /// - Parameter before: an earlier report has said so. The caller keeps that.
    package func started(before: Bool) -> OperatorResponse {
        let isStarted = before || hasStarted
        return Self.response(
            sessions.map { check in
                var check = check
                check.isAdvisory = isStarted
                return check
            })
    }

    /// Whether the first login has succeeded or none is needed.
    package var hasStarted: Bool {
        let wanted = wantedUsers
        if wanted.isEmpty { return !snapshot.followsActiveUser }
        let names = Set(wanted)
        return snapshot.users.contains { $0.hasBeenReady && names.contains($0.name) }
    }

    // MARK: Checks

    /// The active user if a route follows it, then the users that routes pin; each once.
    private var wantedUsers: [String] {
        let active = snapshot.followsActiveUser ? [snapshot.activeUser].compactMap(\.self) : []
        var known: Set<String> = []
        return (active + snapshot.pinnedUsers).filter { known.insert($0).inserted }
    }

    private var sessions: [Check] {
        var checks: [Check] = []
        if snapshot.followsActiveUser, snapshot.activeUser == nil {
            checks.append(Check(name: "session", isPassing: false, reason: "no_active_user"))
        }
        let users = Dictionary(snapshot.users.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        for name in wantedUsers {
            let user = users[name]
            // A route names a user that is not configured. The admin API may add it.
            checks.append(
                user.map(Self.check) ?? Check(name: "session:\(name)", isPassing: false, reason: "logged_out"))
        }
        return checks
    }

    private static func check(_ user: HealthSnapshot.User) -> Check {
        Check(name: "session:\(user.name)", isPassing: user.isReady, reason: user.reason)
    }

    private var listener: Check {
        Check(name: "listener", isPassing: !snapshot.isDraining, reason: snapshot.isDraining ? "draining" : "listening")
    }

    private var store: Check {
        Check(name: "store", isPassing: snapshot.store != .failing, reason: snapshot.store.rawValue, isAdvisory: true)
    }

    private var clock: Check {
        let isOff = snapshot.isClockOff
        return Check(name: "clock", isPassing: !isOff, reason: isOff ? "clock_off" : "clock_in_step", isAdvisory: true)
    }

    // MARK: The body

    private static func isReady(_ checks: [Check]) -> Bool { checks.allSatisfy { $0.isPassing || $0.isAdvisory } }

    private static func response(_ checks: [Check]) -> OperatorResponse {
        var body = JSONWriter()
        body.beginObject()
        write(checks, into: &body)
        body.endObject()
        return OperatorResponse(status: isReady(checks) ? 200 : 503, body: body.bytes)
    }

    private static func write(_ checks: [Check], into body: inout JSONWriter) {
        let isReady = isReady(checks)
        body.key("status")
        body.string(isReady ? "ready" : "not_ready")
        body.key("checks")
        body.beginArray()
        for check in checks {
            body.beginObject()
            body.key("name")
            body.string(check.name)
            body.key("ok")
            body.bool(check.isPassing)
            body.key("reason")
            body.string(check.reason)
            body.endObject()
        }
        body.endArray()
    }
}
