/// What boot clock and wall clock said at one moment, to find out later whether one of them has jumped or the machine slept.
struct ClockComparison {
    enum Disagreement: String, Sendable {
        /// The wall clock went otherwise than the boot clock.
        case wallClock = "wall_clock"
        /// The look came late: the machine was suspended, or starved.
        case resumed
    }

    let instant: Instant
    let wall: WallTime

    /// When to compare.
    var nextAt: Instant { instant + .seconds(30) }

    /// What has happened since, if it is more than 5 s.
    func disagreement(at now: Instant, _ wallNow: WallTime) -> Disagreement? {
        let drift = (wallNow - wall) - (now - instant)
        if max(drift, .zero - drift) > .seconds(5) { return .wallClock }
        return now - nextAt > .seconds(5) ? .resumed : nil
    }
}
