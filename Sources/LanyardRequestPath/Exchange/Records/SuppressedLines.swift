import LanyardFoundations

/// Reports how many lines log throttles have left out when a flood has stopped. While it continues, its next line reports them.
///
/// Its deadline is set only while there may be something to report. Belongs to the shard's queue.
final class SuppressedLines: Watcher, @unchecked Sendable {
    /// The delay of a report, at least.
    private static let interval = Duration.seconds(1)

    private let loop: EventLoop
    private var pending: [(throttle: SharedLogThrottle, report: (_ count: Int) -> Void)] = []
    private lazy var deadline = Deadline(of: self)

    init(loop: EventLoop) {
        self.loop = loop
        super.init()
    }

    /// Whether a report for this throttle is to come. The caller asks first: `report` would cost an allocation for each line.
    func isPending(_ throttle: SharedLogThrottle) -> Bool {
        loop.assertIsCurrent()
        return pending.contains { $0.throttle === throttle }
    }

    /// Calls `report` after the throttle's interval, unless a line has reported the count.
    func add(_ throttle: SharedLogThrottle, report: @escaping (_ count: Int) -> Void) {
        loop.assertIsCurrent()
        if pending.isEmpty { loop.set(deadline, at: loop.now + Self.interval) }
        pending.append((throttle, report))
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        let now = loop.now
        report { $0.end <= now }
        if !pending.isEmpty { loop.set(deadline, at: now + Self.interval) }
    }

    /// Reports what is left.
    func stop() {
        loop.assertIsCurrent()
        loop.drop(deadline)
        report { _ in true }
    }

    private func report(if hasEnded: (SharedLogThrottle) -> Bool) {
        for (throttle, report) in pending where hasEnded(throttle) {
            let count = throttle.takeSuppressedCount()
            if count > 0 { report(count) }
        }
        pending.removeAll { hasEnded($0.throttle) }
    }
}
