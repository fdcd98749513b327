import LanyardFoundations
import LanyardSessionInterface

/// The report that any thread reads, with the counters in it. The sessions' queue writes it, and so do replies of the
/// store.
final class SessionReportBoard: Sendable {
    private let latest = Guarded(SessionReport())
    private let refreshDurations = Histogram()

    /// All sessions as of the latest change. It never waits for the queue.
    var report: SessionReport {
        var report = latest.withLock { $0 }
        report.refreshDurations = refreshDurations.samples("lanyard_refresh_duration_seconds")
        return report
    }

    func change(_ body: (inout SessionReport) -> Void) { latest.withLock { body(&$0) } }

    /// The user was shown before and still is: its status is another one.
    ///
    /// - Parameter refreshes: the refresh calls in progress.
    func update(_ status: SessionStatus, skew: Duration?, refreshes: Int) {
        change { report in
            report.update(status)
            report.skew = skew ?? report.skew
            report.refreshesInFlight = refreshes
        }
    }

    /// A user as the report shows it; nil: not shown.
    func reportedUser(_ user: UserIndex) -> ReportedUser? {
        let report = latest.withLock { $0 }
        return report.user(withNameOf: user)
            .map { ReportedUser(status: $0, userState: report.userState(of: $0)) }
    }

    func count(_ name: String, _ labels: [MetricSample.Label]) { change { $0.count(name, labels) } }

    func observe(refresh duration: Duration) { refreshDurations.observe(duration) }
}
