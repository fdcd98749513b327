import Dispatch
import LanyardFoundations
import LanyardTelemetry

/// Makes `/metrics` for all connections that wait for it, on a queue of its own. With many routes a page takes longer than a probe may
/// wait.
///
/// Pages are made in a quarter of the time at most. A large one (250 ms and more) is made once in a second, and two small ones can follow
/// each other at once: who reads before and after an event does not wait. A page is never older than the requests for it. A request that
/// comes while a page is made, or in the rest after it, waits for the next page. State belongs to the loop's queue.
final class MetricsPages: Watcher, @unchecked Sendable {
    /// From the beginning of one page to that of the next, in the time that the page took.
    private static let share = 4
    /// The longest time from one beginning to the next.
    private static let intervalMax = Duration.seconds(1)

    private struct Waiter {
        let format: MetricsFormat
        let reply: (OperatorResponse) -> Void
    }

    private let loop: EventLoop
    private let samples: @Sendable () -> [MetricSample]
    private let connections: () -> Int
    private let time: @Sendable () -> Instant
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
    ///   - time: measures how long a page takes.
    init(
        on loop: EventLoop, samples: @escaping @Sendable () -> [MetricSample], connections: @escaping () -> Int,
        time: @escaping @Sendable () -> Instant
    ) {
        self.loop = loop
        self.samples = samples
        self.connections = connections
        self.time = time
        super.init()
    }

    /// A connection waits for a page.
    ///
    /// - Parameter reply: called once, on the loop's queue and never during this call, unless `remove` is called before.
    func add(_ connection: Int, _ format: MetricsFormat, reply: @escaping (OperatorResponse) -> Void) {
        loop.assertIsCurrent()
        waiting[connection] = Waiter(format: format, reply: reply)
        beginNext()
    }

    /// The connection has closed. A page for which no connection waits is not begun.
    func remove(_ connection: Int) {
        loop.assertIsCurrent()
        waiting[connection] = nil
        served[connection] = nil
    }

    /// No page is begun any more.
    func stop() {
        loop.assertIsCurrent()
        loop.drop(deadline)
        (waiting, served) = ([:], [:])
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        beginNext()
    }

    private func beginNext() {
        guard !isMaking, !waiting.isEmpty else { return }
        guard nextAt <= loop.now else { return loop.set(deadline, at: nextAt) }
        let began = loop.now
        isMaking = true
        (served, waiting) = (waiting, [:])
        var formats: [MetricsFormat] = []
        for waiter in served.values where !formats.contains(waiter.format) { formats.append(waiter.format) }
        let own = MetricSample("lanyard_health_connections", value: Double(connections()))
        var reply: @Sendable (([OperatorResponse], Duration)) -> Void = { [self] in
            nextAt = began + min($0.1 * Self.share, Self.intervalMax)
            end($0.0)
        }
        #if DEBUG
        reply = loop.awaitedReply(reply)
        #endif
        queue.async { [loop, samples, time, formats, reply] in
            let beginning = time()
            let samples = samples() + [own]
            let pages = formats.map { format in
                OperatorResponse(
                    status: 200, contentType: format.contentType, body: MetricsPage.write(samples, as: format))
            }
            let cost = time() - beginning
            loop.post { reply((pages, cost)) }
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
