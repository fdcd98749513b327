import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions
import LanyardSettings
import LanyardTelemetry

/// The JSON responses of the admin API: status, users, and results of calls (architecture-control.md 7.4). Pure.
enum AdminResponses {
    /// `GET /v1/status`.
    static func status(
        _ info: ProgramInfo, _ report: SessionReport, _ page: AdminPage = AdminPage(),
        logins: [BrowserLoginRegistry.Progress] = [], now: Instant,
        wallNow: WallTime = .now
    ) -> OperatorResponse {
        var body = JSONWriter(capacity: 1024)
        body.beginObject()
        body.key("version")
        body.string(info.version)
        body.key("uptime_seconds")
        body.number((now - info.startedAt).nanoseconds / 1_000_000_000)
        body.key("active_user")
        let active = report.activeUser.flatMap { active in report.users.first { $0.index == active }?.user }
        write(active, into: &body)
        body.key("listeners")
        body.beginArray()
        for listener in info.listeners {
            body.beginObject()
            body.key("listener")
            body.string(listener.name)
            body.key("address")
            body.string(listener.address)
            body.endObject()
        }
        body.endArray()
        let unverified = info.unverifiedRoutes()
        if !unverified.isEmpty {
            body.key("unverified_routes")
            body.beginArray()
            for name in unverified { body.string(name) }
            body.endArray()
        }
        write(info.activity(), page, info.readiness(), now: now, wallNow: wallNow, into: &body)
        write(info.conditions(), now: now, wallNow: wallNow, into: &body)
        body.key("logins")
        body.beginArray()
        for login in logins { login.write(into: &body) }
        body.endArray()
        writeUsers(report, page, into: &body)
        body.endObject()
        return OperatorResponse(status: 200, body: body.bytes)
    }

    /// `GET /v1/users`.
    static func users(_ report: SessionReport, _ page: AdminPage = AdminPage()) -> OperatorResponse {
        var body = JSONWriter(capacity: 1024)
        body.beginObject()
        writeUsers(report, page, into: &body)
        body.endObject()
        return OperatorResponse(status: 200, body: body.bytes)
    }

    /// `GET /v1/users/{user}`, and the response of most calls about one user.
    ///
    /// - Parameter isStored: the change survives a restart; nil: nothing was changed.
    static func user(_ reported: ReportedUser, status: Int = 200, isStored: Bool? = nil) -> OperatorResponse {
        var body = JSONWriter()
        body.beginObject()
        writeMembers(of: reported, into: &body)
        if let isStored {
            body.key("stored")
            body.bool(isStored)
        }
        body.endObject()
        return OperatorResponse(status: status, body: body.bytes)
    }

    /// A new user; `Location` names its path (RFC 9110 §10.2.2).
    static func added(_ reported: ReportedUser, isStored: Bool) -> OperatorResponse {
        var response = user(reported, status: 201, isStored: isStored)
        response.fields.append("Location: /v1/users/\(reported.status.user)")
        return response
    }

    static func refreshed(_ expiry: WallTime?) -> OperatorResponse {
        var body = JSONWriter()
        body.beginObject()
        body.key("access_token_expires_at")
        write(expiry, into: &body)
        body.endObject()
        return OperatorResponse(status: 200, body: body.bytes)
    }

    /// - Parameters:
    ///   - reported: nil if the user was removed with its session.
    ///   - name: the name in the call.
    ///   - isStored: the change survives a restart.
    static func loggedOut(_ reported: ReportedUser?, name: String, _ revocation: RevocationState, isStored: Bool)
        -> OperatorResponse
    {
        var body = JSONWriter()
        body.beginObject()
        if let reported {
            writeMembers(of: reported, into: &body)
        } else {
            body.key("name")
            body.string(name)
        }
        body.key("removed")
        body.bool(reported == nil)
        body.key("revoked")
        body.bool(revocation == .confirmed)
        body.key("revocation")
        body.string(revocation.rawValue)
        body.key("stored")
        body.bool(isStored)
        body.endObject()
        return OperatorResponse(status: 200, body: body.bytes)
    }

    /// A user that is removed from memory but not yet from the store.
    static func removed(_ name: String) -> OperatorResponse {
        var body = JSONWriter()
        body.beginObject()
        body.key("name")
        body.string(name)
        body.key("removed")
        body.bool(true)
        body.key("stored")
        body.bool(false)
        body.endObject()
        return OperatorResponse(status: 200, body: body.bytes)
    }

    /// What the identity service has given. A 204 has no body.
    static func result(_ text: Secret, status: Int) -> OperatorResponse {
        var response = OperatorResponse(status: status, body: [])
        response.secretBody = status == 204 ? nil : text
        return response
    }

    static func stopping() -> OperatorResponse {
        var body = JSONWriter()
        body.beginObject()
        body.key("status")
        body.string("stopping")
        body.endObject()
        return OperatorResponse(status: 202, body: body.bytes)
    }

    static func logLevel(_ verbosity: LogVerbosity) -> OperatorResponse {
        var body = JSONWriter()
        body.beginObject()
        body.key("level")
        body.string("\(verbosity.level)")
        body.key("configured")
        body.string("\(verbosity.configured)")
        body.endObject()
        return OperatorResponse(status: 200, body: body.bytes)
    }

    static func log(_ lines: [String]) -> OperatorResponse {
        var body = JSONWriter(capacity: 1024)
        body.beginObject()
        body.key("lines")
        body.beginArray()
        for line in lines { body.string(line) }
        body.endArray()
        body.endObject()
        return OperatorResponse(status: 200, body: body.bytes)
    }

    static func reloaded(_ outcome: ReloadOutcome) -> OperatorResponse {
        switch outcome {
        case .applied(let keys):
            var body = JSONWriter()
            body.beginObject()
            body.key("applied")
            body.beginArray()
            for key in keys { body.string(key) }
            body.endArray()
            body.endObject()
            return OperatorResponse(status: 200, body: body.bytes)
        case .restartNeeded(let keys):
            let names = keys.joined(separator: ", ")
            return .problem(
                .restartNeeded, "Restart needed",
                "Nothing was changed. These can change only at a start: \(names).")
        case .invalid(let messages):
            let list = messages.joined(separator: "; ")
            return .problem(
                .configurationInvalid, "Configuration invalid", "Nothing was changed. \(list).")
        }
    }

    // MARK: Members

    private static func writeUsers(_ report: SessionReport, _ page: AdminPage, into body: inout JSONWriter) {
        let users = page.users(of: report.reportedUsers)
        body.key("users")
        body.beginArray()
        for reported in users.shown {
            body.beginObject()
            writeMembers(of: reported, into: &body)
            body.endObject()
        }
        body.endArray()
        writeEnd(of: users, "users", into: &body)
    }

    /// How many there are on all pages, and where the next page begins.
    static func writeEnd<Element>(of part: AdminPage.Part<Element>, _ name: String, into body: inout JSONWriter) {
        body.key("\(name)_total")
        body.number(part.total)
        body.key("\(name)_next")
        write(part.next, into: &body)
    }

    private static func writeMembers(of reported: ReportedUser, into body: inout JSONWriter) {
        let user = reported.status
        body.key("name")
        body.string(user.user)
        body.key("identity")
        body.string(user.identity)
        body.key("user_id")
        write(user.accountID, into: &body)
        body.key("state")
        body.string(reported.userState.rawValue)
        body.key("session")
        body.string(user.state.rawValue)
        body.key("generation")
        body.number(user.tokens.generation.number)
        body.key("access_token_expires_at")
        write(user.tokens.accessExpiry, into: &body)
        body.key("refresh_token_expires_at")
        write(user.tokens.refreshExpiry, into: &body)
        body.key("next_refresh_at")
        write(user.nextRefreshAt, into: &body)
        let call = user.slowCall()
        body.key("last_error")
        write(user.lastError ?? call?.text(), into: &body)
        body.key("remedy")
        write(user.failure?.remedy, into: &body)
        body.key("cause")
        write(user.failure?.cause?.rawValue, into: &body)
        body.key("failing_since")
        write(user.failure?.since, into: &body)
        body.key("action")
        body.string(user.action.rawValue)
        body.key("call")
        write(call, into: &body)
        body.key("tokens")
        body.beginArray()
        for variant in user.tokens.variants { write(variant, into: &body) }
        body.endArray()
    }

    private static func write(_ variant: SessionStatus.Variant, into body: inout JSONWriter) {
        body.beginObject()
        writeMembers(of: variant.named, into: &body)
        body.key("state")
        body.string(variant.state.rawValue)
        body.key("reason")
        body.string(variant.reason(at: .now).rawValue)
        body.key("generation")
        body.number(variant.generation.number)
        body.key("access_token_expires_at")
        write(variant.expiry, into: &body)
        body.key("next_refresh_at")
        write(variant.nextFetchAt, into: &body)
        body.key("last_error")
        write(variant.lastError, into: &body)
        body.endObject()
    }

    /// What a variant is.
    static func writeMembers(of named: NamedVariant, into body: inout JSONWriter) {
        body.key("route")
        body.string(named.name)
        body.key("audience")
        write(named.variant.audience, into: &body)
        for (key, values) in [("resource", named.variant.resources), ("scopes", named.variant.scopes)] {
            body.key(key)
            body.beginArray()
            for value in values { body.string(value) }
            body.endArray()
        }
    }

    private static func write(_ call: CallProgress?, into body: inout JSONWriter) {
        guard let call else { return body.null() }
        body.beginObject()
        writeMembers(of: call, into: &body)
        body.endObject()
    }

    static func writeMembers(of call: CallProgress, into body: inout JSONWriter) {
        body.key("kind")
        body.string(call.kind.rawValue)
        body.key("url")
        write(call.url, into: &body)
        body.key("age_seconds")
        body.number(UInt64(max(call.ageSeconds(), 0)))
    }

    static func write(_ text: String?, into body: inout JSONWriter) {
        if let text { body.string(text) } else { body.null() }
    }

    static func write(_ time: WallTime?, into body: inout JSONWriter) {
        if let time { body.time(time) } else { body.null() }
    }
}

/// The part of `/v1/status` that describes the process.
package struct ProgramInfo: Sendable {
    /// A bound address with its listener's name in the log.
    package struct Listener: Equatable, Sendable {
        /// `data`, `health` or `admin`.
        package var name: String
        /// As it is bound: `127.0.0.1:7400`, `unix:/path`.
        package var address: String

        package init(name: String, address: String) {
            self.name = name
            self.address = address
        }
    }

    /// The version of this build.
    package var version: String
    /// When the program was composed.
    package var startedAt: Instant
    /// All bound addresses.
    package var listeners: [Listener]
    /// Names of the routes whose upstream is not verified now (`unsafe_skip_verify`).
    package var unverifiedRoutes: @Sendable () -> [String]
    /// What an operator must know now. From any thread.
    package var conditions: @Sendable () -> ProgramConditions
    /// What the process does now. From any thread.
    package var activity: @Sendable () -> ProgramActivity
    /// As the health pages see it. From any thread.
    package var readiness: @Sendable () -> HealthReport

    package init(
        version: String, startedAt: Instant, listeners: [Listener],
        unverifiedRoutes: @escaping @Sendable () -> [String] = { [] },
        conditions: @escaping @Sendable () -> ProgramConditions = { ProgramConditions() },
        activity: @escaping @Sendable () -> ProgramActivity = { ProgramActivity() },
        readiness: @escaping @Sendable () -> HealthReport = {
            HealthReport(HealthSnapshot(users: [], activeUser: nil, followsActiveUser: false, pinnedUsers: []))
        }
    ) {
        self.version = version
        self.startedAt = startedAt
        self.listeners = listeners
        self.unverifiedRoutes = unverifiedRoutes
        self.conditions = conditions
        self.activity = activity
        self.readiness = readiness
    }
}
