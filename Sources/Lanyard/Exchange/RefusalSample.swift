/// Which refusals are logged: a flood of faults leaves a sample and a count (http-requirements 20.5). One shard's.
struct RefusalSample {
    /// Lines in a second.
    static let most = 1000

    private var end = Instant.past
    private var logged = 0
    private var leftOut = 0

    /// - Returns: how many were left out since the last one that was logged; nil leaves this one out, too.
    mutating func take(at now: Instant) -> Int? {
        if now >= end { (end, logged) = (now + .seconds(1), 0) }
        guard logged < Self.most else {
            leftOut += 1
            return nil
        }
        logged += 1
        defer { leftOut = 0 }
        return leftOut
    }
}
