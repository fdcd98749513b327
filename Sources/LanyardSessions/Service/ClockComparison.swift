import LanyardFoundations

/// The boot clock and the wall clock at one instant. A later comparison shows whether one of them has jumped or the
/// machine was suspended.
package struct ClockComparison {
    /// What the comparison has shown.
    package enum Disagreement: String, Sendable {
        /// The wall clock has moved differently from the boot clock.
        case wallClock = "wall_clock"
        /// The comparison came late: the machine was suspended or overloaded.
        case resumed
    }

    /// The boot clock at the comparison.
    package let instant: Instant
    /// The wall clock at the comparison.
    package let wall: WallTime

    package init(instant: Instant, wall: WallTime) {
        self.instant = instant
        self.wall = wall
    }

    /// When to compare next.
    package var nextAt: Instant { instant + .seconds(30) }

    /// The disagreement since then, if it is more than 5 s.
    package func disagreement(at now: Instant, _ wallNow: WallTime) -> Disagreement? {
        let drift = (wallNow - wall) - (now - instant)
        if max(drift, .zero - drift) > .seconds(5) { return .wallClock }
        return now - nextAt > .seconds(5) ? .resumed : nil
    }
}
