import LanyardAdmin
import LanyardFoundations
import LanyardRequestPath

/// What the requests of each route came to in the last five minutes, for the status.
///
/// The request path only counts. This reads its counters each 30 s and keeps what it has read for five minutes, so the time that a number
/// is about has up to 30 s more. The state belongs to no queue.
final class RecentRequests: Watcher, @unchecked Sendable {
    private static let interval = Duration.seconds(30)
    private static let window = Duration.seconds(300)

    private struct Reading {
        let at: Instant
        /// By name; the empty name is that of requests that no route took.
        let counts: [String: RouteCounts]
    }

    private let path: RequestPath
    private let loop: EventLoop
    /// The first one is the latest that is as old as the window, or the start.
    private let readings: Guarded<[Reading]>
    private lazy var deadline = Deadline(of: self)

    init(of path: RequestPath, on loop: EventLoop) {
        self.path = path
        self.loop = loop
        readings = Guarded([Reading(at: .now, counts: [:])])
    }

    func start() { loop.post { [self] in loop.set(deadline, at: loop.now + Self.interval) } }

    func stop() { loop.post { [self] in loop.drop(deadline) } }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        let now = loop.now
        let counts = path.routeReports.map { ($0.name ?? "", $0.counts) }
        let reading = Reading(at: now, counts: Dictionary(counts) { first, _ in first })
        readings.withLock { readings in
            readings.append(reading)
            while readings.count > 1, readings[1].at + Self.window <= now { readings.removeFirst() }
        }
        loop.set(deadline, at: now + Self.interval)
    }

    /// All routes in their order, then the requests that no route took. From any thread.
    func routes(at now: Instant) -> [ProgramActivity.Route] {
        let first = readings.withLock { $0.first }
        return path.routeReports.map { report in
            let earlier = first?.counts[report.name ?? ""] ?? RouteCounts()
            let seconds = first.map { Int((now - $0.at).inSeconds) } ?? 0
            return .init(report: report, recent: report.counts.growth(since: earlier), seconds: seconds)
        }
    }
}
