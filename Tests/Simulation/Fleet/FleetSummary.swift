import Lanyard

/// A report for people: what was simulated, how fast, and how often each thing came.
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
                + "(\(report.refusedRequests) refused), \(report.checks) checks in \(Int(seconds)) s"
        ]
        lines += section("faults", FleetFault.allCases.map { ($0.name, report.faults[$0.rawValue]) })
        lines += section("state edges", edges)
        lines += section("crash points", CrashPoint.possible.map { ($0.name, report.crashes[$0.index]) })
        lines += report.violations.map { "broken: \($0)" }
        return lines.joined(separator: "\n")
    }

    /// What a run must have seen so often, and has not.
    package func rarer(than least: Int) -> [String] {
        let faults = FleetFault.allCases.map { ($0.name, report.faults[$0.rawValue]) }
        guard least > 0 else { return [] }
        let expected = Set((FleetReport.Edge.expected + FleetReport.Edge.rare).map(\.index))
        let edges = FleetReport.Edge.expected.map { ($0.name, report.edges[$0.index]) }
        let unexpected = report.edges.indices.filter { report.edges[$0] > 0 && !expected.contains($0) }
        let crashes = CrashPoint.possible.map { ($0.name, report.crashes[$0.index]) }
        return (faults + edges + crashes).filter { $0.1 < least }.map { "\($0.0): \($0.1)" }
            + unexpected.map { "an edge that nobody expects: \(FleetReport.Edge(index: $0).name)" }
    }

    private var edges: [(String, Int)] {
        let expected = Set(FleetReport.Edge.expected.map(\.index))
        return report.edges.indices.filter { report.edges[$0] > 0 || expected.contains($0) }.map {
            (FleetReport.Edge(index: $0).name, report.edges[$0])
        }
    }

    private func section(_ title: String, _ counts: [(String, Int)]) -> [String] {
        ["\(title):"] + counts.map { "  \($0.1)\t\($0.0)" }
    }
}

extension FleetReport.Edge {
    /// The ways that a session goes, each of which a long run must have seen often.
    package static let expected: [FleetReport.Edge] = [
        edges(from: .loggedOut, to: [.loggingIn, .valid, .refreshing, .loginRequired]),
        edges(from: .loggingIn, to: [.loggedOut, .valid, .refused]),
        edges(from: .valid, to: [.loggedOut, .loggingIn, .refreshing, .loginRequired]),
        edges(from: .refreshing, to: [.loggedOut, .valid, .stale, .unreachable, .loginRequired, .refused]),
        edges(from: .stale, to: [.loggedOut, .valid, .unreachable, .loginRequired, .refused]),
        edges(from: .unreachable, to: [.loggedOut, .valid, .refreshing, .loginRequired, .refused]),
        edges(from: .loginRequired, to: [.loggedOut, .valid]),
        edges(from: .refused, to: [.loggedOut, .loggingIn, .valid]),
    ].flatMap { $0 }

    /// Ways that need two processes and an accident: they may come.
    package static let rare: [FleetReport.Edge] = [
        edges(from: .loggedOut, to: [.stale, .unreachable, .refused]),
        edges(from: .loggingIn, to: [.refreshing, .unreachable, .loginRequired]),
        edges(from: .valid, to: [.stale, .unreachable, .refused]),
        edges(from: .refreshing, to: [.loggingIn]),
        edges(from: .stale, to: [.refreshing, .loggingIn]),
        edges(from: .unreachable, to: [.stale, .loggingIn]),
        edges(from: .loginRequired, to: [.loggingIn, .refreshing, .stale, .unreachable, .refused]),
        edges(from: .refused, to: [.refreshing, .stale, .unreachable, .loginRequired]),
    ].flatMap { $0 }

    private static func edges(from: SessionState, to states: [SessionState]) -> [FleetReport.Edge] {
        states.map { FleetReport.Edge(from: from, to: $0) }
    }
}
