import LanyardSessions

/// A report: what was simulated, how fast, and how often each thing came.
package struct FleetSummary {
    private let report: FleetReport
    private let seconds: Double

    /// - Parameter seconds: how long the run took.
    package init(_ report: FleetReport, seconds: Double) {
        self.report = report
        self.seconds = seconds
    }

    package var text: String {
        var lines = [
            "\(report.worlds) worlds, \(Int(report.sessionDays)) session-days, \(report.refreshes) refreshes, \(report.logins) logins, "
                + "\(report.restarts) restarts, \(report.writes) writes, \(report.requests) requests "
                + "(\(report.refusedRequests) refused), \(report.checks) checks in \(Int(seconds)) s",
            "variants: \(report.fetches) fetches among them, \(report.variantRequests) requests "
                + "(\(report.refusedVariantRequests) refused)",
        ]
        lines += section("faults", FleetFault.allCases.map { ($0.name, report.faults[$0.rawValue]) })
        lines += section("accounts, credentials and variants", situations)
        lines += section("state edges", edges)
        lines += section("crash points", CrashPoint.possible.map { ($0.name, report.crashes[$0.index]) })
        lines += report.violations.map { "broken: \($0)" }
        return lines.joined(separator: "\n")
    }

    /// What a run must have seen so often, and has not; and what it must never see.
    package func failures(least: Int) -> [String] {
        let faults = FleetFault.allCases.map { ($0.name, report.faults[$0.rawValue]) }
        let edges = FleetReport.Edge.possible.map { ($0.name, report.edges[$0.index]) }
        let crashes = CrashPoint.possible.map { ($0.name, report.crashes[$0.index]) }
        let possible = Set((FleetReport.Edge.possible + FleetReport.Edge.rare).map(\.index))
        return (faults + situations + edges + crashes).filter { $0.1 < least }.map { "too rare: \($0.0): \($0.1)" }
            + report.edges.indices.filter { report.edges[$0] > 0 && !possible.contains($0) }.map {
                "no session can take this edge, and one did: \(FleetReport.Edge(index: $0).name)"
            }
    }

    private var situations: [(String, Int)] {
        FleetSituation.allCases.map { ($0.name, report.situations[$0.rawValue]) }
    }

    private var edges: [(String, Int)] {
        let possible = Set(FleetReport.Edge.possible.map(\.index))
        return report.edges.indices.filter { report.edges[$0] > 0 || possible.contains($0) }.map {
            (FleetReport.Edge(index: $0).name, report.edges[$0])
        }
    }

    private func section(_ title: String, _ counts: [(String, Int)]) -> [String] {
        ["\(title):"] + counts.map { "  \($0.1)\t\($0.0)" }
    }
}

extension FleetReport.Edge {
    /// All ways that a session can go within one event, but for the rare ones. Those that are missing:
    ///
    /// - to `stale` from elsewhere than `refreshing`: it is what a failed call makes of a token that still serves, and
    ///   only `refreshing` and `stale` have both;
    /// - to `refused` from `login_required`, and to `login_required` from `logging_in`: the one has no credential, the other has;
    /// - to `logging_in` from `login_required`, for the same reason: an operator's login leaves the state as it is until it has succeeded.
    package static let possible: [FleetReport.Edge] = [
        edges(from: .loggedOut, to: [.loggingIn, .valid, .refreshing, .unreachable, .loginRequired, .refused]),
        edges(from: .loggingIn, to: [.loggedOut, .valid, .refreshing, .unreachable, .refused]),
        edges(from: .valid, to: [.loggedOut, .loggingIn, .refreshing, .unreachable, .loginRequired, .refused]),
        edges(from: .refreshing, to: [.loggedOut, .loggingIn, .valid, .stale, .unreachable, .loginRequired, .refused]),
        edges(from: .stale, to: [.loggedOut, .loggingIn, .valid, .refreshing, .unreachable, .loginRequired, .refused]),
        edges(
            from: .unreachable, to: [.loggedOut, .loggingIn, .valid, .refreshing, .loginRequired, .refused]),
        edges(from: .loginRequired, to: [.loggedOut, .valid, .refreshing, .unreachable]),
        edges(from: .refused, to: [.loggedOut, .loggingIn, .valid, .refreshing, .unreachable, .loginRequired]),
    ].flatMap { $0 }

    /// A fetch that its own token's end had made inside a Retry-After has lost the refresh token: ten times in a million days. A run
    /// need not have it.
    package static let rare = edges(from: .valid, to: [.stale])

    private static func edges(from: SessionState, to states: [SessionState]) -> [FleetReport.Edge] {
        states.map { FleetReport.Edge(from: from, to: $0) }
    }
}
