/// When an event meets a session, and the chance that comes with it: the machine reads no clock and rolls no dice.
package struct EventContext: Sendable {
    /// On the clock of all deadlines.
    package var instant: Instant
    /// What the wall clock said at that instant.
    package var wall: WallTime
    /// Uniform in 0 ..< 1 and new for each event; places whatever this event schedules.
    package var chance: Double
    /// Random, never 0 and new for each event: names a session that begins with this event.
    package var name: UInt64

    package init(instant: Instant, wall: WallTime, chance: Double, name: UInt64 = 1) {
        self.instant = instant
        self.wall = wall
        self.chance = chance
        self.name = name
    }

    /// What the clocks say now, with real dice.
    package static var now: EventContext {
        EventContext(instant: .now, wall: .now, chance: .random(in: 0..<1), name: .random(in: 1 ... .max))
    }
}
