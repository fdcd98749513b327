import Logging

/// Admin calls that were not let in, by reason. Counted on the operators' loop, read from anywhere.
package final class AdminRefusalCounters: Sendable {
    /// Names of problems; what is none of these counts as the last.
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

/// How refused admin calls stand in the log: a few lines, and one that says how many more there were.
///
/// Any user of the machine can connect over TCP, and a line for each call would let them fill the disk. Belongs to the operators' loop.
final class AdminRefusalLog: Watcher, @unchecked Sendable {
    private static let linesMax = 5
    private static let interval = Duration.seconds(10)

    private let loop: EventLoop
    private let counters: AdminRefusalCounters
    private let log: Logger
    private var sample = RefusalLogThrottle(linesMax: linesMax, interval: interval)
    private let summary = Deadline()

    init(_ counters: AdminRefusalCounters, on loop: EventLoop, log: Logger) {
        self.counters = counters
        self.loop = loop
        self.log = log
        super.init()
        summary.owner = self
    }

    /// Somebody tried who may not.
    func record(_ refusal: OperatorResponse, _ peer: PeerCredentials) {
        let reason = refusal.problemName ?? "malformed-request"
        counters.count(reason)
        guard let leftOut = sample.admitLine(at: loop.now) else { return loop.set(summary, at: sample.end) }
        var metadata: Logger.Metadata = ["event": "admin.refused", "reason": .string(reason)]
        if let uid = peer.uid { metadata["uid"] = .stringConvertible(uid) }
        if let pid = peer.pid { metadata["pid"] = .stringConvertible(pid) }
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.warning("an admin call was refused", metadata: metadata)
    }

    override func due(_ deadline: Deadline) { summarize() }

    /// Nothing is noted after this.
    func stop() {
        loop.drop(summary)
        summarize()
    }

    private func summarize() {
        let leftOut = sample.takeSuppressedCount()
        guard leftOut > 0 else { return }
        log.warning(
            "further admin calls were refused",
            metadata: ["event": "admin.refused", "reason": "several", "left_out": .stringConvertible(leftOut)])
    }
}
