import LanyardFoundations
import LanyardTelemetry

/// Makes the response for a path from a current snapshot, and has the samples of `/metrics`.
///
/// Belongs to the health loop's queue, but for the samples. It reads snapshots and relaxed counters only. It posts the heartbeat to
/// another queue and does not wait for it.
package final class HealthPages: Watcher, @unchecked Sendable {
    /// The functions that the data comes from. None waits for a queue.
    package struct Sources: Sendable {
        /// The facts of the health pages, without the age of the heartbeat. Called on the health loop.
        package var snapshot: @Sendable () -> HealthSnapshot
        /// All samples of `/metrics` but those of the process and the health listener. Called on the queue of `MetricsPages`.
        package var samples: @Sendable () -> [MetricSample]
        /// Posts a piece of work to the control plane's queue.
        package var controlPlane: @Sendable (@escaping @Sendable () -> Void) -> Void

        package init(
            snapshot: @escaping @Sendable () -> HealthSnapshot, samples: @escaping @Sendable () -> [MetricSample],
            controlPlane: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
        ) {
            self.snapshot = snapshot
            self.samples = samples
            self.controlPlane = controlPlane
        }
    }

    /// A report with its pages. With many users it costs milliseconds, in which other probes wait. So it is used again for three times
    /// as long as it took: reports take a quarter of the loop's time at most, however many clients ask.
    private struct Made {
        let report: HealthReport
        /// By path.
        var pages: [String: OperatorResponse] = [:]
        var cost: Duration
        var usableUntil: Instant

        mutating func note(_ duration: Duration, at now: Instant) {
            cost += duration
            usableUntil = now + cost * 3
        }
    }

    private static let heartbeatInterval = Duration.seconds(2)

    private let sources: Sources
    private let version: String
    private let commit: String
    private let heartbeat = Heartbeat()
    private let time: @Sendable () -> Instant
    private var hasStarted = false
    private var made: Made?
    private var loop: EventLoop?
    private lazy var deadline = Deadline(of: self)

    /// - Parameter time: measures how long a report takes.
    package init(
        _ sources: Sources, version: String, commit: String, time: @escaping @Sendable () -> Instant = { .now }
    ) {
        self.time = time
        self.sources = sources
        self.version = version
        self.commit = commit
        super.init()
    }

    // MARK: The watchdog

    /// Starts to watch the control plane, on `loop`.
    func watch(on loop: EventLoop) {
        loop.assertIsCurrent()
        self.loop = loop
        heartbeat.beat()
        beat(at: loop.now)
    }

    func unwatch() {
        loop?.assertIsCurrent()
        loop?.drop(deadline)
        loop = nil
    }

    package override func due(_ deadline: Deadline) {
        loop?.assertIsCurrent()
        guard let loop else { return }
        beat(at: loop.now)
        // A user that was ready only between two requests counts as started, too.
        if !hasStarted { hasStarted = HealthReport(sources.snapshot()).hasStarted }
    }

    private func beat(at now: Instant) {
        let heartbeat = heartbeat
        sources.controlPlane { heartbeat.beat() }
        loop?.set(deadline, at: now + Self.heartbeatInterval)
    }

    // MARK: Pages

    /// The page for a path; nil: it is `/metrics`, which `MetricsPages` makes.
    func response(to path: String) -> OperatorResponse? {
        loop?.assertIsCurrent()
        switch path {
        case "/metrics": return nil
        case "/livez", "/healthz":
            // Without the users: a probe of the process costs the same however many there are.
            var snapshot = HealthSnapshot(users: [], activeUser: nil, followsActiveUser: false, pinnedUsers: [])
            snapshot.heartbeatAge = heartbeat.age(at: .now)
            return HealthReport(snapshot).live
        default: break
        }
        let user = path.hasPrefix("/readyz/") ? String(path.dropFirst(8)) : nil
        guard user != nil || ["/readyz", "/startupz"].contains(path) else {
            return .problem(
                404, "no-route", "Not found",
                "Here are /livez, /readyz, /readyz/USER, /startupz, /healthz and /metrics.")
        }
        let begin = time()
        var made = made.flatMap { begin < $0.usableUntil ? $0 : nil } ?? makeReport(at: begin)
        defer { self.made = made }
        if let user {
            return made.report.ready(user: user)
                ?? .problem(404, "no-such-user", "No such user", "This Lanyard has no user of that name.")
        }
        if let page = made.pages[path] { return page }
        let pageBegin = time()
        let page = path == "/readyz" ? made.report.ready : made.report.started(before: hasStarted)
        made.pages[path] = page
        let now = time()
        made.note(now - pageBegin, at: now)
        return page
    }

    private func makeReport(at begin: Instant) -> Made {
        var snapshot = sources.snapshot()
        snapshot.heartbeatAge = heartbeat.age(at: .now)
        let report = HealthReport(snapshot)
        hasStarted = hasStarted || report.hasStarted
        let now = time()
        return Made(report: report, cost: now - begin, usableUntil: now + (now - begin) * 3)
    }

    /// The samples of the process and of `Sources`. From any thread.
    func samples() -> [MetricSample] {
        ProcessMetrics.samples(version: version, commit: commit) + sources.samples()
    }
}
