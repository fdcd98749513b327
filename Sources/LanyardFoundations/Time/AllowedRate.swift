/// How many events a peer may cause: some at once, then one in each interval, and further ones that its other side has paid for.
///
/// Allowed events that do not come are kept up to the number that may come at once. Those that were paid for are kept without a limit,
/// because what pays for them (bytes that were sent) is limited itself.
package struct AllowedRate: Equatable, Sendable {
    /// The numbers of one kind of event. They are no part of the state, which each connection has.
    package struct Limit: Sendable {
        /// Events that may come at once.
        let burst: Int
        /// The time after which one more event may come.
        let interval: Duration

        package init(burst: Int, interval: Duration) {
            self.burst = burst
            self.interval = interval
        }
    }

    /// When the events so far would have come if each had taken its interval; `.past`: there were none.
    private var until = Instant.past
    /// Events that were paid for, and have not come.
    private var credit = 0
    /// Events that were paid for so far.
    private var paid = 0

    package init() {}

    /// No event has come.
    package var isUnused: Bool { until == .past }

    /// Events that were paid for so far: never fewer than before.
    package mutating func pay(upTo total: Int) {
        guard total > paid else { return }
        credit += total - paid
        paid = total
    }

    /// Counts events that come now. What the time allows is used first, then what was paid for.
    ///
    /// - Parameter count: at least 1.
    /// - Returns: false: they are too many.
    package mutating func admit(_ count: Int = 1, by limit: Limit, at now: Instant) -> Bool {
        for _ in 0..<count {
            let next = max(until, now) + limit.interval
            if next <= now + limit.interval * limit.burst {
                until = next
            } else if credit > 0 {
                credit -= 1
            } else {
                return false
            }
        }
        return true
    }
}
