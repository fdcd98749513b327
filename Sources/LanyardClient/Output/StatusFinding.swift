import LanyardConfiguration
import LanyardFoundations

/// Something that an operator must know: its cause in words, and what to do (docs/use/troubleshooting.md).
package struct StatusFinding: Equatable, Sendable {
    /// How bad it is. The worst one is the first line of the status.
    package enum Severity: Int, Comparable, Sendable, CaseIterable {
        /// `/readyz` is 503.
        case notReady
        /// Requests fail although `/readyz` is 200.
        case failing
        /// Nothing fails yet.
        case warning

        package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

        var word: String {
            switch self {
            case .notReady: "NOT READY"
            case .failing: "FAILING"
            case .warning: "WARNING"
            }
        }

        var style: TextStyle {
            switch self {
            case .notReady, .failing: .bad
            case .warning: .doubtful
            }
        }
    }

    package let severity: Severity
    package let cause: String
    package let remedy: String

    init(_ severity: Severity, _ cause: String, remedy: String) {
        self.severity = severity
        self.cause = cause
        self.remedy = remedy
    }

    /// One line: `NOT READY: cause; what to do: remedy`.
    package var line: String { "\(severity.word): \(cause); what to do: \(remedy)" }

    /// All findings of a status, the worst first.
    package static func all(of report: StatusReport, now: WallTime) -> [StatusFinding] {
        let reader = StatusFindingReader(report: report, now: now)
        let found = reader.stop + reader.sessions + reader.process + reader.routes + reader.identities
        return Severity.allCases.flatMap { severity in found.filter { $0.severity == severity } }
    }
}

/// Finds them in one status.
private struct StatusFindingReader {
    private static let slowCallEnd = "the call ends by refresh.attempt_timeout and is made again"
    /// A failure that is older says nothing about now.
    private static let recentSeconds: Int64 = 300
    /// The same for a limit that was reached, or a descriptor that was missing.
    private static let shortageSeconds: Int64 = 60

    let report: StatusReport
    let now: WallTime

    private var activity: StatusActivity { report.activity }

    private func age(_ time: WallTime) -> String { RelativeTime.text(seconds: Int(now.seconds - time.seconds)) }

    private func isRecent(_ time: WallTime, _ seconds: Int64 = recentSeconds) -> Bool {
        now.seconds - time.seconds <= seconds
    }

    // MARK: The stop

    var stop: [StatusFinding] {
        guard let stop = report.stop else { return [] }
        let count = stop.clientConnectionCount
        let left = RelativeTime.text(seconds: stop.secondsLeft)
        let cause =
            stop.areListenersClosed
            ? "stopping: \(count) client \(count == 1 ? "connection" : "connections") with a request in flight, \(left) left"
            : "stopping: takes requests until shutdown.drain_min has passed, \(left) left"
        return [StatusFinding(.notReady, cause, remedy: "wait for its end, and start it again")]
    }

    // MARK: Sessions

    var sessions: [StatusFinding] {
        var findings: [StatusFinding] = []
        for check in activity.checks where check.name == "session" || check.name.hasPrefix("session:") {
            guard !check.isPassing || check.reason == "refresh_failing" else { continue }
            findings.append(session(check))
        }
        // Users that no route needs.
        for user in report.users where user.action != "nobody" && !isChecked(user) {
            if let login = login(of: user.name) {
                findings.append(waiting(.warning, login))
                continue
            }
            let cause = "user \(user.name): \(user.action == "user" ? "a login is needed" : "the operator must act")"
            findings.append(
                StatusFinding(
                    .warning, cause + (user.errorText(now).map { ": \($0)" } ?? ""),
                    remedy: user.remedy
                        ?? (user.action == "user"
                            ? "lanyard login \(user.name)" : ReadinessRemedy.credential(user.name))))
        }
        return findings
    }

    /// A login that waits for its user.
    private func login(of user: String) -> StatusReport.Login? { report.logins.first { $0.user == user } }

    private func waiting(_ severity: StatusFinding.Severity, _ login: StatusReport.Login) -> StatusFinding {
        StatusFinding(
            severity, "user \(login.user) has no session yet: a login waits for its user",
            remedy: login.instruction(now: now))
    }

    private func isChecked(_ user: UserReport) -> Bool {
        activity.checks.contains {
            $0.name == "session:\(user.name)" && (!$0.isPassing || $0.reason == "refresh_failing")
        }
    }

    private func session(_ check: StatusActivity.Check) -> StatusFinding {
        let severity: StatusFinding.Severity = check.isPassing ? .warning : .notReady
        guard check.name.hasPrefix("session:") else {
            return StatusFinding(
                severity, "a route follows the active user, and there is none",
                remedy: ReadinessRemedy.text(check.reason, user: "NAME") ?? ReadinessRemedy.unknown)
        }
        let name = String(check.name.dropFirst("session:".count))
        let user = report.users.first { $0.name == name }
        if !check.isPassing, let login = login(of: name) { return waiting(severity, login) }
        let what = ReadinessRemedy.meaning(check.reason, cause: user?.cause) ?? check.reason
        let why = user.flatMap(self.why) ?? ""
        return StatusFinding(
            severity, "user \(name) \(what)\(why)", remedy: remedy(check.reason, name, user))
    }

    /// The latest error of a user with its age, and where it came from.
    private func why(_ user: UserReport) -> String? {
        var text = user.errorText(now).map { ": \($0)" } ?? ""
        if let error = unreachable(user.identity), user.slowCall == nil {
            text += "; \(error.text), \(age(error.at)) ago"
        }
        if let expiry = user.accessTokenExpiry, expiry > now {
            text += "; the token \(UserTable.expiry(expiry, now: now))"
        }
        return text.isEmpty ? nil : text
    }

    private func unreachable(_ identity: String) -> StatusActivity.PastError? {
        activity.identities.first { $0.name == identity && $0.isReachable == false }?.lastError
    }

    private func remedy(_ reason: String, _ name: String, _ user: UserReport?) -> String {
        switch reason {
        case "identity_unreachable", "identity_gone", "logging_in", "refresh_failing":
            // With a refusal the service has responded.
            if let user, user.action != "nobody" {
                return user.action == "user"
                    ? "lanyard login \(name)" : user.remedy ?? ReadinessRemedy.credential(name)
            }
            let url = activity.identities.first { $0.name == user?.identity }?.url
            if user?.slowCall != nil {
                return
                    "check the identity service \(url ?? user?.identity ?? "") and the way to it; \(Self.slowCallEnd)"
            }
            let next = user?.nextRefreshAt.map {
                $0 > now ? " in \(RelativeTime.text(seconds: Int($0.seconds - now.seconds)))" : ""
            }
            return Self.remedy(user?.remedy, at: url ?? user?.identity ?? "", next: next ?? "")
        case "credential_refused":
            // Of a machine's login whose client was refused.
            let next = user?.nextRefreshAt.flatMap { $0 > now ? Int($0.seconds - now.seconds) : nil }
            return (user?.remedy ?? ReadinessRemedy.credential(name))
                + (next.map { "; Lanyard tries again in \(RelativeTime.text(seconds: $0))" } ?? "")
        default: return ReadinessRemedy.text(reason, user: name) ?? ReadinessRemedy.unknown
        }
    }

    /// The remedy of an error after which Lanyard tries again, with the service's address and the time of the next call.
    private static func remedy(_ known: String?, at place: String, next: String) -> String {
        let text = known ?? "check the identity service and the way to it; Lanyard tries again by itself"
        return text.replacing("the identity service", with: "the identity service \(place)", maxReplacements: 1)
            .replacing("Lanyard tries again by itself", with: "Lanyard tries again\(next)")
    }

    // MARK: Routes

    var routes: [StatusFinding] {
        activity.routes.flatMap { route in
            [
                upstream(route) ?? breaker(route) ?? tokens(route) ?? errors(route),
                overload(route.lastOverload, "route \(route.name)"),
            ].compactMap(\.self)
        } + [overload(activity.lastOverloadWithoutRoute, "clients")].compactMap(\.self)
    }

    /// The latest request has found no upstream.
    private func upstream(_ route: StatusActivity.Route) -> StatusFinding? {
        guard let error = route.lastUpstreamError, isRecent(error.at), route.lastResponseAt ?? .distantPast < error.at
        else { return nil }
        return StatusFinding(
            .failing,
            "route \(route.name): the upstream \(route.upstream) fails: \(error.text) (\(age(error.at)) ago, \(counts(route)))",
            remedy: "repair the upstream or the way to it; or correct upstream of the route, and lanyard reload")
    }

    private func breaker(_ route: StatusActivity.Route) -> StatusFinding? {
        guard let openedAt = route.breakerOpenedAt, route.isBreakerOpen || isRecent(openedAt) else { return nil }
        let when = route.isBreakerOpen ? "" : " (last \(age(openedAt)) ago)"
        return StatusFinding(
            route.isBreakerOpen ? .failing : .warning,
            "route \(route.name): the upstream \(route.upstream) has refused even a fresh token\(when); "
                + "its refusals pass to the clients, \(route.recent.tokenRefusedCount) in \(span(route))",
            remedy:
                "check the upstream's clock, the audience and issuer that it expects, and its keys: the session is not at fault"
        )
    }

    /// The latest request got no token, which the line of no user explains: the user has a session, and not each token that routes ask for.
    private func tokens(_ route: StatusActivity.Route) -> StatusFinding? {
        guard let error = route.lastTokenMissing, isRecent(error.at), route.lastResponseAt ?? .distantPast < error.at,
            let user = report.users.first(where: { $0.name == route.user ?? report.activeUser }),
            user.action == "nobody", !isChecked(user), user.tokens.contains(where: { $0.state != "valid" })
        else { return nil }
        return StatusFinding(
            .failing, "route \(route.name): \(error.text) (\(age(error.at)) ago)",
            remedy:
                "correct token of the route, or what the identity service allows the client; lanyard users has its state"
        )
    }

    /// As the alert `LanyardErrors`: more than 5 %. Requests without a token are left out: the line of their user has them.
    private func errors(_ route: StatusActivity.Route) -> StatusFinding? {
        guard Double(errorCount(route)) > 0.05 * Double(requestCount(route)) else { return nil }
        let remedy = "the log has each with its cause (event request.refused, or access with status 5xx)"
        guard let last = route.lastUpstreamError, now.seconds - last.at.seconds <= Int64(route.recent.seconds) + 1
        else {
            return StatusFinding(
                .warning, "route \(route.name): the upstream or Lanyard responds with 5xx (\(counts(route)))",
                remedy: remedy)
        }
        return StatusFinding(
            .warning, "route \(route.name): \(last.text) (last \(age(last.at)) ago, \(counts(route)))", remedy: remedy)
    }

    private func errorCount(_ route: StatusActivity.Route) -> Int {
        max(route.recent.serverErrorCount - route.recent.tokenMissingCount, 0)
    }

    private func requestCount(_ route: StatusActivity.Route) -> Int {
        max(route.recent.requestCount - route.recent.tokenMissingCount, 0)
    }

    private func counts(_ route: StatusActivity.Route) -> String {
        "\(errorCount(route)) of \(requestCount(route)) requests got 5xx in \(span(route))"
    }

    private func span(_ route: StatusActivity.Route) -> String { RelativeTime.text(seconds: route.recent.seconds) }

    private func overload(_ error: StatusActivity.PastError?, _ whose: String) -> StatusFinding? {
        guard let error, isRecent(error.at, Self.shortageSeconds) else { return nil }
        return StatusFinding(
            .failing, "\(whose): requests are refused with 503 overloaded: \(error.text) (\(age(error.at)) ago)",
            remedy: error.text.contains("escriptor")
                ? "raise ulimit -n, or lower limits.connections_max"
                : "find out why requests last so long (below), or raise the limit that is named")
    }

    // MARK: The process

    var process: [StatusFinding] { descriptors + loweredLimit + store + clock + reload + certificates }

    private var loweredLimit: [StatusFinding] {
        report.loweredLimit.map { limit in
            StatusFinding(
                .warning,
                "limits.connections_max is \(limit.effective) in place of \(limit.configured): each connection may need two of the "
                    + "\(limit.descriptorsMax) descriptors",
                remedy: "raise ulimit -n (LimitNOFILE= of systemd), or set limits.connections_max to \(limit.effective)"
            )
        }.map { [$0] } ?? []
    }

    private var descriptors: [StatusFinding] {
        let usage = activity.descriptors.map { "\($0.count) of \($0.max) descriptors are open" }
        let remedy = "raise ulimit -n, or lower limits.connections_max"
        if let at = activity.descriptorShortageAt, isRecent(at, Self.shortageSeconds) {
            let text = usage.map { "; now \($0)" } ?? ""
            return [StatusFinding(.failing, "no descriptor was left, \(age(at)) ago\(text)", remedy: remedy)]
        }
        guard let open = activity.descriptors, let usage, Double(open.count) > 0.9 * Double(open.max) else { return [] }
        return [StatusFinding(.warning, usage, remedy: remedy)]
    }

    private var store: [StatusFinding] {
        guard let failure = report.storeFailure else { return [] }
        // The message ends with the remedy.
        let parts = failure.error.split(separator: "; ", maxSplits: 1).map(String.init)
        return [
            StatusFinding(
                .warning,
                "the store cannot be written, for \(age(failure.since)) (since \(Timestamp.text(failure.since))): \(parts[0]); "
                    + "sessions are in memory only, and a restart would lose them",
                remedy: parts.count > 1 ? parts[1] : "make room, or repair the folder of store.path")
        ]
    }

    private var clock: [StatusFinding] {
        guard let skew = activity.clockSkew, activity.checks.contains(where: { $0.reason == "clock_off" }) else {
            return []
        }
        let amount = RelativeTime.text(seconds: Int(min(skew.magnitude, 1e15).rounded()))
        return [
            StatusFinding(
                .warning,
                "the identity service's clock is \(amount) \(skew > 0 ? "ahead of" : "behind") this machine's",
                remedy: "set the clock that is wrong: tokens seem to end too \(skew > 0 ? "late" : "early")")
        ]
    }

    private var reload: [StatusFinding] {
        report.failedReload.map { reload in
            let errors = reload.errors.joined(separator: "; ")
            return StatusFinding(
                .warning,
                "the reload of \(age(reload.at)) ago (\(Timestamp.text(reload.at))) failed, and nothing was changed: \(errors)",
                remedy: reload.errors.contains { $0.contains("only at a start") }
                    ? "restart Lanyard, or take the change back and lanyard reload"
                    : "correct the configuration, and lanyard reload")
        }.map { [$0] } ?? []
    }

    private var certificates: [StatusFinding] {
        report.expiringCertificates.map { certificate in
            let seconds = Int(certificate.expiresAt.seconds - now.seconds)
            let end =
                seconds > 0
                ? "ends in \(RelativeTime.text(seconds: seconds))"
                : "has ended \(RelativeTime.text(seconds: -seconds)) ago"
            return StatusFinding(
                seconds > 0 ? .warning : .failing,
                "the certificate of \(certificate.owner) \(end) (\(Timestamp.text(certificate.expiresAt)))",
                remedy: certificate.file.map { "renew \($0), which is read again by itself" }
                    ?? "have its owner renew it")
        }
    }

    // MARK: Identity services

    var identities: [StatusFinding] {
        let named = Set(
            report.users.filter { user in
                activity.checks.contains {
                    $0.name == "session:\(user.name)" && (!$0.isPassing || $0.reason == "refresh_failing")
                }
            }.map(\.identity))
        let slow =
            report.slowCalls
            + report.users.compactMap { user in
                named.contains(user.identity) ? nil : user.slowCall.map { "user \(user.name): \($0)" }
            }
        let calls = slow.map {
            StatusFinding(
                .warning, $0, remedy: "check that service and the way to it; \(Self.slowCallEnd)")
        }
        return calls
            + activity.identities.compactMap { identity in
                guard identity.isReachable == false, !named.contains(identity.name), let error = identity.lastError
                else { return nil }
                return StatusFinding(
                    .warning, "identity \(identity.name) fails: \(error.text), \(age(error.at)) ago",
                    remedy: "check the service and the way to it; Lanyard tries again by itself")
            }
    }
}

extension WallTime {
    fileprivate static var distantPast: WallTime { WallTime(nanoseconds: .min) }
}

extension UserReport {
    /// The call that lasts, else the latest error with its age; nil: neither.
    func errorText(_ now: WallTime) -> String? {
        if let slowCall { return slowCall }
        guard let lastError else { return nil }
        guard let failingSince else { return lastError }
        let seconds = Int(now.seconds - failingSince.seconds)
        return seconds < 1 ? lastError : "for \(RelativeTime.text(seconds: seconds)): \(lastError)"
    }
}
