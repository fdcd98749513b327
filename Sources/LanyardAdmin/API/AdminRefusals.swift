import LanyardFoundations
import LanyardRequestPath
import LanyardTelemetry
import Logging

/// Counts refused admin calls by reason. Counted on the operators' loop, read from any thread.
package final class AdminRefusalCounters: Sendable {
    /// Names of problems. Any other name counts as the last one.
    private static let reasons = [
        "admin-token-required", "caller-not-allowed", "host-not-allowed", "origin-not-allowed", "malformed-request",
    ]

    private let counters = reasons.map { _ in Counter() }

    package init() {}

    /// On the loop.
    func count(_ reason: String) {
        counters[Self.reasons.firstIndex(of: reason) ?? Self.reasons.count - 1].add()
    }

    /// For `/metrics`.
    package var samples: [MetricSample] {
        zip(Self.reasons, counters).map { reason, counter in
            MetricSample(
                "lanyard_admin_refused", suffix: "_total", labels: [.init("reason", reason)],
                value: Double(counter.value))
        }
    }
}

/// Logs refused admin calls: a few lines in each interval, then one line with the number of further calls.
///
/// Every Unix user of the machine can connect over TCP. A line for each call would let any of them fill the disk.
/// Belongs to the operators' loop.
final class AdminRefusalLog: Watcher, @unchecked Sendable {
    private static let linesMax = 5
    private static let interval = Duration.seconds(10)

    private let loop: EventLoop
    private let counters: AdminRefusalCounters
    private let auditLog: Logger
    private var sample = RefusalLogThrottle(linesMax: linesMax, interval: interval)
    private let summary = Deadline()

    init(_ counters: AdminRefusalCounters, on loop: EventLoop, log: Logger) {
        self.counters = counters
        self.loop = loop
        auditLog = log.forAudit
        super.init()
        summary.owner = self
    }

    /// Counts and logs a refused call.
    func record(_ refusal: OperatorResponse, _ peer: PeerCredentials) {
        let reason = refusal.problemName ?? "malformed-request"
        counters.count(reason)
        guard let leftOut = sample.admitLine(at: loop.now) else { return loop.set(summary, at: sample.end) }
        var metadata: Logger.Metadata = ["event": "admin.refused", "reason": .string(reason)]
        if let uid = peer.uid { metadata["uid"] = .stringConvertible(uid) }
        if let pid = peer.pid { metadata["pid"] = .stringConvertible(pid) }
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        auditLog.warning("an admin call was refused", metadata: metadata)
    }

    override func due(_ deadline: Deadline) { summarize() }

    /// Logs what is left. No call is recorded after this.
    func stop() {
        loop.drop(summary)
        summarize()
    }

    private func summarize() {
        let leftOut = sample.takeSuppressedCount()
        guard leftOut > 0 else { return }
        auditLog.warning(
            "further admin calls were refused",
            metadata: ["event": "admin.refused", "reason": "several", "left_out": .stringConvertible(leftOut)])
    }
}
