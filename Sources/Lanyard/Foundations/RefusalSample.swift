/// Decides which refusals are logged: a flood of errors leaves a sample and a count (http-rules.md 20.5). Belongs to one queue.
struct RefusalLogThrottle {
    /// Lines in a second, of one shard.
    static let linesPerSecondMax = 1000

    private let linesMax: Int
    private let interval: Duration
    private var logged = 0
    private var leftOut = 0
    /// Further lines are logged from then on.
    private(set) var end = Instant.past

    init(linesMax: Int = linesPerSecondMax, interval: Duration = .seconds(1)) {
        self.linesMax = linesMax
        self.interval = interval
    }

    /// - Returns: how many lines were left out since the last logged one; nil if this one is left out, too.
    mutating func admitLine(at now: Instant) -> Int? {
        if now >= end { (end, logged) = (now + interval, 0) }
        guard logged < linesMax else {
            leftOut += 1
            return nil
        }
        logged += 1
        return takeSuppressedCount()
    }

    /// Returns how many lines were left out since the last report and resets the count.
    mutating func takeSuppressedCount() -> Int {
        defer { leftOut = 0 }
        return leftOut
    }
}
