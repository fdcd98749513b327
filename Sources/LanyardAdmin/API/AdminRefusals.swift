import LanyardFoundations
import LanyardRequestPath
import LanyardTelemetry
import Logging

/// Counts refused admin calls by reason. Counted on the operators' loop, read from any thread.
package final class AdminRefusalCounters: Sendable {
    /// Names of problems. Any other name counts as the last one.
    static let reasons = [
        "admin-token-required", "caller-not-allowed", "host-not-allowed", "origin-not-allowed", "malformed-request",
    ]

    private let counters = reasons.map { _ in Counter() }

    package init() {}

    /// The place of a reason, for arrays with one element for each reason.
    static func index(of reason: String) -> Int { reasons.firstIndex(of: reason) ?? reasons.count - 1 }

    /// On the loop, which `AdminRefusalLog` checks.
    func count(_ reason: String) { counters[Self.index(of: reason)].add() }

    /// For `/metrics`.
    package var samples: [MetricSample] {
        zip(Self.reasons, counters).map { reason, counter in
            MetricSample(
                "lanyard_admin_refused", suffix: "_total", labels: [.init("reason", reason)],
                value: Double(counter.value))
        }
    }
}

/// Logs refused admin calls: of each reason a few lines in an interval, then one line with the number of further calls.
///
/// Every Unix user of the machine can connect over TCP. A line for each call would let any of them fill the disk.
/// Belongs to the operators' loop.
final class AdminRefusalLog: Watcher, @unchecked Sendable {
    private static let linesMax = 5
    private static let interval = Duration.seconds(10)

    private let loop: EventLoop
    private let counters: AdminRefusalCounters
    private let auditLog: Logger
    /// One for each of `AdminRefusalCounters.reasons`: a flood of one reason does not hide another.
    private var throttles = AdminRefusalCounters.reasons.map { _ in LogThrottle(linesMax: linesMax, per: interval) }
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
        loop.assertIsCurrent()
        let reason = refusal.problemName ?? "malformed-request"
        counters.count(reason)
        guard let leftOut = throttles[AdminRefusalCounters.index(of: reason)].admitLine(at: loop.now) else {
            return scheduleSummary()
        }
        var metadata: Logger.Metadata = ["event": "admin.refused", "reason": .string(reason)]
        if let uid = peer.uid { metadata["uid"] = .stringConvertible(uid) }
        if let pid = peer.pid { metadata["pid"] = .stringConvertible(pid) }
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        auditLog.warning("an admin call was refused", metadata: metadata)
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        summarize(at: loop.now)
        scheduleSummary()
    }

    /// Logs what is left. No call is recorded after this.
    func stop() {
        loop.assertIsCurrent()
        loop.drop(summary)
        summarize(at: .never)
    }

    private func scheduleSummary() {
        let ends = throttles.lazy.filter(\.hasSuppressedLines).map(\.end)
        loop.set(summary, at: ends.min() ?? .never)
    }

    /// Logs the counts of the intervals that have ended.
    private func summarize(at now: Instant) {
        for (index, reason) in AdminRefusalCounters.reasons.enumerated() where throttles[index].end <= now {
            let leftOut = throttles[index].takeSuppressedCount()
            guard leftOut > 0 else { continue }
            auditLog.warning(
                "further admin calls were refused",
                metadata: [
                    "event": "admin.refused", "reason": .string(reason), "left_out": .stringConvertible(leftOut),
                ])
        }
    }
}
