import Dispatch
import LanyardFoundations
import LanyardTelemetry

/// Makes `/metrics` for all connections that wait for it: at most once in a second, and on a queue of its own. With many routes a page
/// takes longer than a probe may wait.
///
/// A page is never older than the requests for it. A request that comes while a page is made, or less than a second after the making of
/// the latest one began, waits for the next page. State belongs to the loop's queue.
final class MetricsPages: Watcher, @unchecked Sendable {
    /// From the beginning of one page to that of the next.
    private static let interval = Duration.seconds(1)

    private struct Waiter {
        let format: MetricsFormat
        let reply: (OperatorResponse) -> Void
    }

    private let loop: EventLoop
    private let samples: @Sendable () -> [MetricSample]
    private let connections: () -> Int
    private let queue = DispatchQueue(label: "lanyard.metrics")
    private lazy var deadline = Deadline(of: self)
    /// By the number of the connection.
    private var waiting: [Int: Waiter] = [:]
    /// Those of the page that is being made.
    private var served: [Int: Waiter] = [:]
    private var isMaking = false
    /// Before it no page is begun.
    private var nextAt = Instant.past

    /// - Parameters:
    ///   - samples: all samples but that of the connections. Called on another queue than the loop's.
    ///   - connections: open connections of the health listener. Called on the loop's queue.
    init(
        on loop: EventLoop, samples: @escaping @Sendable () -> [MetricSample], connections: @escaping () -> Int
    ) {
        self.loop = loop
        self.samples = samples
        self.connections = connections
        super.init()
    }

    /// A connection waits for a page.
    ///
    /// - Parameter reply: called once, on the loop's queue and never during this call, unless `remove` is called before.
    func add(_ connection: Int, _ format: MetricsFormat, reply: @escaping (OperatorResponse) -> Void) {
        waiting[connection] = Waiter(format: format, reply: reply)
        beginNext()
    }

    /// The connection has closed. A page for which no connection waits is not begun.
    func remove(_ connection: Int) {
        waiting[connection] = nil
        served[connection] = nil
    }

    /// No page is begun any more.
    func stop() {
        loop.drop(deadline)
        (waiting, served) = ([:], [:])
    }

    override func due(_ deadline: Deadline) { beginNext() }

    private func beginNext() {
        guard !isMaking, !waiting.isEmpty else { return }
        guard nextAt <= loop.now else { return loop.set(deadline, at: nextAt) }
        nextAt = loop.now + Self.interval
        isMaking = true
        (served, waiting) = (waiting, [:])
        var formats: [MetricsFormat] = []
        for waiter in served.values where !formats.contains(waiter.format) { formats.append(waiter.format) }
        let own = MetricSample("lanyard_health_connections", value: Double(connections()))
        var reply: @Sendable ([OperatorResponse]) -> Void = { [self] in end($0) }
        #if DEBUG
        reply = loop.awaitedReply(reply)
        #endif
        queue.async { [loop, samples, formats, reply] in
            let samples = samples() + [own]
            let pages = formats.map { format in
                OperatorResponse(
                    status: 200, contentType: format.contentType, body: MetricsPage.write(samples, as: format))
            }
            loop.post { reply(pages) }
        }
    }

    private func end(_ pages: [OperatorResponse]) {
        isMaking = false
        let waiters = served.values
        served = [:]
        for waiter in waiters {
            if let page = pages.first(where: { $0.contentType == waiter.format.contentType }) { waiter.reply(page) }
        }
        beginNext()
    }
}
