/// The time of an event, and its random values: the machine reads no clock and makes no random number.
package struct EventContext: Sendable {
    /// On the clock of all deadlines.
    package var instant: Instant
    /// The wall clock at that instant.
    package var wall: WallTime
    /// Uniform in 0 ..< 1 and new for each event; it places whatever this event schedules.
    package var chance: Double
    /// Random, never 0 and new for each event: the id of a session that begins with this event.
    package var name: UInt64

    package init(instant: Instant, wall: WallTime, chance: Double, name: UInt64 = 1) {
        self.instant = instant
        self.wall = wall
        self.chance = chance
        self.name = name
    }

    /// The clocks' time now, with real random values.
    package static var now: EventContext {
        EventContext(instant: .now, wall: .now, chance: .random(in: 0..<1), name: .random(in: 1 ... .max))
    }
}
