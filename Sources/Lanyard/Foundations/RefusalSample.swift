/// Which refusals are logged: a flood of faults leaves a sample and a count (http-rules.md 20.5). One queue's.
struct RefusalLogThrottle {
    /// Lines in a second, of one shard.
    static let linesPerSecondMax = 1000

    private let linesMax: Int
    private let interval: Duration
    private var logged = 0
    private var leftOut = 0
    /// From then on further lines are logged.
    private(set) var end = Instant.past

    init(linesMax: Int = linesPerSecondMax, interval: Duration = .seconds(1)) {
        self.linesMax = linesMax
        self.interval = interval
    }

    /// - Returns: how many were left out since the last one that was logged; nil leaves this one out, too.
    mutating func admitLine(at now: Instant) -> Int? {
        if now >= end { (end, logged) = (now + interval, 0) }
        guard logged < linesMax else {
            leftOut += 1
            return nil
        }
        logged += 1
        return takeSuppressedCount()
    }

    /// How many were left out since a line said so; from here on they are told of.
    mutating func takeSuppressedCount() -> Int {
        defer { leftOut = 0 }
        return leftOut
    }
}
