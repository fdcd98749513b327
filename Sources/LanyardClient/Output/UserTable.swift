import LanyardFoundations

/// What operators see of users: a row for each.
package enum UserTable {
    /// - Parameter now: the time that expiries are counted from.
    package static func text(_ users: [UserReport], now: WallTime, usesColour: Bool) -> OperatorText {
        guard !users.isEmpty else { return "There are no users: lanyard login NAME adds one." }
        var table = TextTable(["USER", "STATE", "SESSION", "IDENTITY", "TOKEN", "NEXT REFRESH", "LAST ERROR"])
        for user in users {
            table.add([
                .init(user.name), .init(user.state, style(ofState: user.state)),
                .init(user.session, style(ofSession: user.session)), .init(user.identity),
                token(user.accessTokenExpiry, user.session, now), .init(next(user.nextRefreshAt, now)),
                .init(user.slowCall ?? user.lastError ?? "-"),
            ])
            for variant in user.tokens {
                table.add([
                    .init("  \(variant.text)"), .init(""), .init(variant.state, style(ofSession: variant.state)),
                    .init("route \(variant.route)"), token(variant.expiry, variant.state, now),
                    .init(next(variant.nextRefreshAt, now)), .init(variant.lastError ?? "-"),
                ])
            }
        }
        return table.text(usesColour: usesColour)
    }

    /// The lines above the table of `status`.
    ///
    /// - Parameter now: the time that expiries are counted from.
    package static func heading(_ report: StatusReport, now: WallTime) -> OperatorText {
        let count = report.users.count
        let users = "\(count) \(count == 1 ? "user" : "users"), \(active(report))"
        let time = RelativeTime.text(seconds: report.uptimeSeconds)
        var lines: [OperatorText] = ["lanyard \(report.version), up \(time), \(users)"]
        if !report.listeners.isEmpty {
            let areClosed = report.stop?.areListenersClosed == true
            let listeners = report.listeners.map {
                "\($0.name) \($0.address)\(areClosed && $0.name == "data" ? " (closed)" : "")"
            }
            lines.append("listening: \(listeners.joined(separator: ", "))")
        }
        if !report.unverifiedRoutes.isEmpty {
            lines.append("not verified (unsafe_skip_verify): \(report.unverifiedRoutes.joined(separator: ", "))")
        }
        return OperatorText(lines + conditions(report, now))
    }

    /// What needs an operator's attention: a line for each.
    private static func conditions(_ report: StatusReport, _ now: WallTime) -> [OperatorText] {
        func ago(_ time: WallTime) -> String { RelativeTime.text(seconds: Int(now.seconds - time.seconds)) }
        var lines: [OperatorText] = []
        if let stop = report.stop {
            let count = stop.clientConnectionCount
            let connections = "\(count) client \(count == 1 ? "connection" : "connections")"
            let left = RelativeTime.text(seconds: stop.secondsLeft)
            lines.append(
                stop.areListenersClosed
                    ? "stopping: \(connections) with a request in flight, ends within \(left)"
                    : "stopping: takes requests until shutdown.drain_min is over, \(connections), ends within \(left)")
        }
        if let failure = report.storeFailure {
            lines.append(
                "the store cannot be written, for \(ago(failure.since)) (since \(Timestamp.text(failure.since))): \(failure.error)"
            )
        }
        if let reload = report.failedReload {
            let errors = reload.errors.joined(separator: "; ")
            lines.append(
                "the reload of \(ago(reload.at)) ago (\(Timestamp.text(reload.at))) failed, and nothing was changed: \(errors)"
            )
        }
        for user in report.users where user.action != "nobody" {
            let cause = user.lastError.map { ": \($0)" } ?? ""
            lines.append(
                .init(
                    line:
                        "user \(user.name): \(user.action == "user" ? "a login is needed" : "the operator must act")\(cause)"
                ))
        }
        lines += report.slowCalls.map { .init(line: $0) }
        for certificate in report.expiringCertificates {
            let seconds = Int(certificate.expiresAt.seconds - now.seconds)
            let end =
                seconds > 0
                ? "ends in \(RelativeTime.text(seconds: seconds))"
                : "has ended \(RelativeTime.text(seconds: -seconds)) ago"
            lines.append(
                "the certificate of \(certificate.owner) \(end) (\(Timestamp.text(certificate.expiresAt))): renew \(certificate.file)"
            )
        }
        return lines
    }

    private static func active(_ report: StatusReport) -> String {
        guard let name = report.activeUser else { return "none is active" }
        // A configured user is active from the start, before its first login.
        let isLoggedOut = report.users.contains { $0.name == name && $0.state == "logged_out" }
        return isLoggedOut ? "\(name) is active, but not logged in" : "\(name) is active"
    }

    /// When an access token expires, such as `expires in 23 min`.
    package static func expiry(_ time: WallTime, now: WallTime) -> String {
        let seconds = Int(time.seconds - now.seconds)
        return seconds > 0
            ? "expires in \(RelativeTime.text(seconds: seconds))"
            : "expired \(RelativeTime.text(seconds: -seconds)) ago"
    }

    private static func token(_ time: WallTime?, _ session: String, _ now: WallTime) -> TextTable.Entry {
        guard let time else { return session == "valid" ? "no expiry" : "-" }
        return .init(expiry(time, now: now), time > now ? .plain : .bad)
    }

    private static func next(_ time: WallTime?, _ now: WallTime) -> String {
        guard let time else { return "-" }
        let seconds = Int(time.seconds - now.seconds)
        return seconds > 0 ? "in \(RelativeTime.text(seconds: seconds))" : "now"
    }

    private static func style(ofState state: String) -> TextStyle {
        switch state {
        case "active": .good
        case "logged_out": .bad
        default: .plain
        }
    }

    private static func style(ofSession session: String) -> TextStyle {
        switch session {
        case "valid": .good
        case "logged_out", "on_demand": .faint
        case "login_required", "refused": .bad
        default: .doubtful
        }
    }
}

/// A span of time in one unit, as operators say it.
package enum RelativeTime {
    /// `45 s`, `23 min`, `5 h`, `59 d`; rounded down, with the unit that gives two digits or more where one does.
    package static func text(seconds: Int) -> String {
        switch seconds {
        case ..<100: "\(max(seconds, 0)) s"
        case ..<(100 * 60): "\(seconds / 60) min"
        case ..<(48 * 3600): "\(seconds / 3600) h"
        default: "\(seconds / 86_400) d"
        }
    }
}
