/// When an event meets a session, and the chance that comes with it: the machine reads no clock and rolls no dice.
package struct SessionMoment: Sendable {
    /// On the clock of all deadlines.
    package var instant: Instant
    /// What the wall clock said at that instant.
    package var wall: WallTime
    /// Uniform in 0 ..< 1 and new for each event; places whatever this event schedules.
    package var chance: Double

    package init(instant: Instant, wall: WallTime, chance: Double) {
        self.instant = instant
        self.wall = wall
        self.chance = chance
    }
}
