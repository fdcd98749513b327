/// Spreads reads: so many at once, and a fixed number in a second. Pure: the theoretical arrival time of GCRA.
struct ReadPace {
    /// Reads in a second.
    static let perSecond = 500
    /// Between two reads when there is no pause.
    private static let step = Duration.seconds(1) / perSecond
    /// This many reads may come at once after a pause.
    private static let atOnceMax = 50

    /// When the next read would be due if all had kept the step.
    private var next = Instant.past

    /// When the next read is due: `now`, or later.
    mutating func slot(at now: Instant) -> Instant {
        let slot = max(now, next - Self.step * Self.atOnceMax)
        next = max(now, next) + Self.step
        return slot
    }
}
