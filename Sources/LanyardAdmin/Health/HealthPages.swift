import LanyardFoundations
import LanyardTelemetry

/// Makes the response for a path: health pages from a current snapshot, metrics from current samples.
///
/// Belongs to the health loop's queue. It reads snapshots and relaxed counters only. It posts the heartbeat to another queue and does not
/// wait for it.
package final class HealthPages: Watcher, @unchecked Sendable {
    /// The functions that the data comes from. Each is called on the health loop and must not wait for any queue.
    package struct Sources: Sendable {
        /// The facts of the health pages, without the age of the heartbeat.
        package var snapshot: @Sendable () -> HealthSnapshot
        /// All samples of `/metrics` but those of the process and the health listener.
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

    private static let heartbeatInterval = Duration.seconds(2)
    /// Process metrics cost a millisecond of kernel time, so frequent scrapes share one reading.
    private static let processInterval = Duration.milliseconds(250)

    private let sources: Sources
    private let version: String
    private let commit: String
    private let heartbeat = Heartbeat()
    private var hasStarted = false
    private var loop: EventLoop?
    private lazy var deadline = Deadline(of: self)
    private var processSamples: [MetricSample] = []
    private var processSampledAt = Instant.past

    package init(_ sources: Sources, version: String, commit: String) {
        self.sources = sources
        self.version = version
        self.commit = commit
        super.init()
    }

    // MARK: The watchdog

    /// Starts to watch the control plane, on `loop`.
    func watch(on loop: EventLoop) {
        self.loop = loop
        heartbeat.beat()
        beat(at: loop.now)
    }

    func unwatch() {
        loop?.drop(deadline)
        loop = nil
    }

    package override func due(_ deadline: Deadline) {
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

    /// - Parameter connections: open connections of the health listener.
    package func response(to request: HealthRequest, connections: Int = 0) -> OperatorResponse {
        if request.path == "/metrics" { return metrics(accept: request.accept, connections) }
        let user = request.path.hasPrefix("/readyz/") ? String(request.path.dropFirst(8)) : nil
        guard user != nil || ["/livez", "/healthz", "/readyz", "/startupz"].contains(request.path) else {
            return .problem(
                404, "no-route", "Not found",
                "Here are /livez, /readyz, /readyz/USER, /startupz, /healthz and /metrics.")
        }
        let report = report()
        if let user {
            return report.ready(user: user)
                ?? .problem(404, "no-such-user", "No such user", "This Lanyard has no user of that name.")
        }
        switch request.path {
        case "/readyz": return report.ready
        case "/startupz": return report.started(before: hasStarted)
        default: return report.live
        }
    }

    private func report() -> HealthReport {
        var snapshot = sources.snapshot()
        snapshot.heartbeatAge = heartbeat.age(at: .now)
        let report = HealthReport(snapshot)
        hasStarted = hasStarted || report.hasStarted
        return report
    }

    private func metrics(accept: [String], _ connections: Int) -> OperatorResponse {
        let now = Instant.now
        if now - processSampledAt > Self.processInterval {
            processSamples = ProcessMetrics.samples(version: version, commit: commit)
            processSampledAt = now
        }
        let format = MetricsFormat(accept: accept)
        let own = [MetricSample("lanyard_health_connections", value: Double(connections))]
        return OperatorResponse(
            status: 200, contentType: format.contentType,
            body: MetricsPage.write(processSamples + own + sources.samples(), as: format))
    }
}
