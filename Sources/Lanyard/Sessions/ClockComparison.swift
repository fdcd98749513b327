/// What boot clock and wall clock said at one moment, to find out later whether one of them has jumped or the machine slept.
package struct ClockComparison {
    package enum Disagreement: String, Sendable {
        /// The wall clock went otherwise than the boot clock.
        case wallClock = "wall_clock"
        /// The look came late: the machine was suspended, or starved.
        case resumed
    }

    package let instant: Instant
    package let wall: WallTime

    package init(instant: Instant, wall: WallTime) {
        self.instant = instant
        self.wall = wall
    }

    /// When to compare.
    package var nextAt: Instant { instant + .seconds(30) }

    /// What has happened since, if it is more than 5 s.
    package func disagreement(at now: Instant, _ wallNow: WallTime) -> Disagreement? {
        let drift = (wallNow - wall) - (now - instant)
        if max(drift, .zero - drift) > .seconds(5) { return .wallClock }
        return now - nextAt > .seconds(5) ? .resumed : nil
    }
}
