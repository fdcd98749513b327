import LanyardConfiguration
import LanyardFoundations

/// `lanyard status` as one screen: what is wrong and what to do, then the process, users, routes and identity services. Pure.
package enum StatusScreen {
    /// - Parameters:
    ///   - now: the time that ages and ends are counted from.
    ///   - selectedUser: the name of a user that stands out.
    ///   - columns: of the terminal, whose lines end between words; nil: there is no limit.
    ///   - rowsMax: rows of users, and of routes; nil: there is no limit. The others are counted.
    ///   - choosesUsers: the report may lack users.
    package static func text(
        _ report: StatusReport, now: WallTime, selectedUser: String? = nil, usesColour: Bool, columns: Int? = nil,
        rowsMax: Int? = nil, choosesUsers: Bool = false
    ) -> OperatorText {
        let users = ShownRows.users(report.users, around: selectedUser, max: rowsMax)
        let shownRoutes = ShownRows.routes(report.activity.routes, max: rowsMax)
        let sections = [
            verdict(report, now: now, usesColour: usesColour, columns: columns),
            wrapped(process(report, now: now), columns),
            OperatorText(
                [
                    UserTable.text(
                        users, choosesUsers: choosesUsers, now: now, selected: selectedUser, usesColour: usesColour,
                        columns: columns)
                ] + ShownRows.rest(report.counts.users - users.count, "users", "--user and --state")),
            OperatorText(
                [
                    routes(shownRoutes, now: now, usesColour: usesColour, columns: columns)
                ] + ShownRows.rest(report.counts.routes - shownRoutes.count, "routes", "--route")),
            identities(report, now: now, usesColour: usesColour, columns: columns),
        ]
        let shown = sections.filter { !$0.lines.isEmpty }
        return OperatorText(shown.enumerated().flatMap { $0 == 0 ? [$1] : ["", $1] })
    }

    /// The first line, and one for each further finding.
    ///
    /// - Parameter isFirstAlone: only the worst finding.
    package static func verdict(
        _ report: StatusReport, now: WallTime, usesColour: Bool, columns: Int? = nil, isFirstAlone: Bool = false
    ) -> OperatorText {
        func lines(_ text: String, _ style: TextStyle) -> [String] {
            let text = ConfigurationText.line(text)
            let parts = columns.map { WrappedLine.lines(of: text, columns: $0) } ?? [text]
            return usesColour ? parts.map { style.applied(to: $0) } : parts
        }
        let findings = StatusFinding.all(of: report, now: now)
        guard let first = findings.first else { return OperatorText(styled: lines("ready", .good)) }
        let place = isFirstAlone ? "" : " below"
        let more = findings.count > 1 ? " (\(findings.count - 1) more\(place))" : ""
        let others = isFirstAlone ? [] : findings.dropFirst()
        return OperatorText(
            styled: lines(first.line + more, first.severity.style)
                + others.flatMap { lines($0.line, $0.severity.style) })
    }

    private static func wrapped(_ text: OperatorText, _ columns: Int?) -> OperatorText {
        guard let columns else { return text }
        return OperatorText(styled: text.lines.flatMap { WrappedLine.lines(of: $0, columns: columns) })
    }

    // MARK: The process

    static func process(_ report: StatusReport, now: WallTime) -> OperatorText {
        let count = report.counts.users
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
        return OperatorText(lines + facts(report.activity, now: now) + report.logins.map { login($0, now: now) })
    }

    /// `login in progress: alice: open https://… and enter WDJB-MJHT (ends in 9 min)`.
    private static func login(_ login: StatusReport.Login, now: WallTime) -> OperatorText {
        .init(line: "login in progress: \(login.user): \(login.instruction(now: now))")
    }

    private static func facts(_ activity: StatusActivity, now: WallTime) -> [OperatorText] {
        var facts: [String] = []
        if let store = activity.store {
            let result = store.state == "stored" ? "(works)" : "(FAILS)"
            facts.append(
                store.state == "memory_only" ? "store: none, in memory only" : "store: \(store.path ?? "-") \(result)")
        }
        if let skew = activity.clockSkew { facts.append("clock: the service's is \(signed(skew)) s") }
        if let descriptors = activity.descriptors {
            facts.append("descriptors: \(descriptors.count) of \(descriptors.max)")
        }
        if let time = activity.reloadedAt {
            facts.append("configuration: read \(RelativeTime.text(seconds: Int(now.seconds - time.seconds))) ago")
        }
        var requests: [String] = []
        if let clients = activity.clientConnections { requests.append("clients: \(clients.count) of \(clients.max)") }
        if let parked = activity.parked { requests.append("waiting requests: \(parked.count) of \(parked.max)") }
        let lost = activity.withoutRoute
        if lost.requestCount > 0 {
            requests.append(
                "without a route: \(lost.requestCount) requests in \(RelativeTime.text(seconds: lost.seconds))")
        }
        let lines = [facts, requests].filter { !$0.isEmpty }.map { OperatorText(line: $0.joined(separator: "; ")) }
        let http2 = [side(activity.http2.clients, "clients"), side(activity.http2.upstreams, "upstreams")]
        return lines + http2.compactMap(\.self)
    }

    /// `HTTP/2 clients: 3 connections, 12 open streams, 4810 so far; resets: peer 5, refused 0`; nil: HTTP/2 was not used there.
    private static func side(_ side: StatusActivity.HTTP2Side?, _ whose: String) -> OperatorText? {
        guard let side else { return nil }
        func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
        func list(_ name: String, _ counts: [StatusActivity.HTTP2Side.Count]) -> [String] {
            let numbers = counts.map { "\($0.reason) \($0.number)" }.joined(separator: ", ")
            return counts.isEmpty ? [] : ["\(name): \(numbers)"]
        }
        let connections = counted(side.connectionCount, "connection")
        let streams = counted(side.openStreamCount, "open stream")
        var parts = ["HTTP/2 \(whose): \(connections), \(streams), \(side.streamCount) so far"]
        parts += list("resets", side.resets) + list("limits passed", side.limitsPassed) + list("ends", side.ends)
        if !side.downgradedRoutes.isEmpty {
            parts.append("downgraded to HTTP/1.1: \(side.downgradedRoutes.joined(separator: ", "))")
        }
        return OperatorText(line: parts.joined(separator: "; "))
    }

    private static func signed(_ seconds: Double) -> String { seconds < 0 ? "\(seconds)" : "+\(seconds.magnitude)" }

    private static func active(_ report: StatusReport) -> String {
        guard let name = report.activeUser else { return "none is active" }
        // A configured user is active from the start, before its first login.
        let isLoggedOut = report.users.contains { $0.name == name && $0.state == "logged_out" }
        return isLoggedOut ? "\(name) is active, but not logged in" : "\(name) is active"
    }

    // MARK: Tables

    static func routes(
        _ routes: [StatusActivity.Route], now: WallTime, usesColour: Bool, columns: Int? = nil
    ) -> OperatorText {
        guard let first = routes.first else { return OperatorText([]) }
        let span = RelativeTime.text(seconds: first.recent.seconds)
        var table = TextTable([
            "ROUTE", "USER", "UPSTREAM", "IN \(span)".uppercased(), "5XX", "REFUSED", "401", "IN FLIGHT", "WAITING",
            "BREAKER", "LAST UPSTREAM ERROR",
        ])
        for route in routes {
            let recent = route.recent
            table.add([
                .init(route.name), .init(route.user ?? "(active)"), .init(route.upstream),
                .init("\(recent.requestCount)"),
                .init("\(recent.serverErrorCount)", recent.serverErrorCount > 0 ? .bad : .plain),
                .init("\(recent.refusedCount)"),
                .init("\(recent.tokenRefusedCount)", recent.tokenRefusedCount > 0 ? .doubtful : .plain),
                .init("\(route.inFlightCount)"), .init("\(route.waitingCount)"),
                .init(route.isBreakerOpen ? "open" : "closed", route.isBreakerOpen ? .bad : .plain),
                .init(error(route.lastUpstreamError, now)),
            ])
        }
        return table.text(usesColour: usesColour, columns: columns)
    }

    static func identities(
        _ report: StatusReport, now: WallTime, usesColour: Bool, columns: Int? = nil
    ) -> OperatorText {
        guard !report.activity.identities.isEmpty else { return OperatorText([]) }
        var table = TextTable(["IDENTITY", "URL", "REACHABLE", "LAST SUCCESS", "LAST ERROR"])
        for identity in report.activity.identities {
            let slowCall =
                report.users.first { $0.identity == identity.name && $0.slowCall != nil }?.slowCall
                ?? report.slowCalls.first { $0.hasPrefix("identity \(identity.name): ") }
            let reachable: TextTable.Entry =
                switch identity.isReachable {
                case _ where slowCall != nil: .init("slow", .bad)
                case true?: .init("yes", .good)
                case false?: .init("no", .bad)
                case nil: .init("not asked yet", .faint)
                }
            let success = identity.lastSuccessAt.map {
                "\(RelativeTime.text(seconds: Int(now.seconds - $0.seconds))) ago"
            }
            table.add([
                .init(identity.name), .init(identity.url ?? "-"), reachable, .init(success ?? "-"),
                .init(slowCall ?? error(identity.lastError, now)),
            ])
        }
        return table.text(usesColour: usesColour, columns: columns)
    }

    private static func error(_ error: StatusActivity.PastError?, _ now: WallTime) -> String {
        error.map { "\(RelativeTime.text(seconds: Int(now.seconds - $0.at.seconds))) ago: \($0.text)" } ?? "-"
    }
}
