/// The delay before the next attempt after a run of failures: doubled with each failure, bounded, with jitter.
package struct Backoff: Sendable {
    /// The delay after the first failure, before jitter.
    private let firstDelay: Duration
    /// The longest delay.
    private let delayMax: Duration
    /// The shortest delay, whatever the random value.
    private let delayMin: Duration
    /// The share of the delay that is not random: 0 is full jitter, 1 is none.
    private let fixedShare: Double

    package init(first: Duration, max: Duration, min: Duration = .zero, fixedShare: Double = 0) {
        precondition((0...1).contains(fixedShare))
        firstDelay = first
        delayMax = max
        delayMin = min
        self.fixedShare = fixedShare
    }

    /// - Parameters:
    ///   - failures: the number of failures since the last success, at least 1.
    ///   - chance: a random value in `0 ..< 1`.
    package func delay(after failures: Int, chance: Double) -> Duration {
        // 16 doublings of a second are 18 hours, more than any limit.
        let doubled = min(firstDelay * (1 << min(max(failures, 1) - 1, 16)), delayMax)
        return max(doubled * (fixedShare + (1 - fixedShare) * chance), delayMin)
    }
}
