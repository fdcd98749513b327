import LanyardFoundations

/// The clocks of one simulated machine, and the time that really passes.
///
/// The wall clock can be set; the boot clock goes through a suspend and ends with the boot; a machine whose host pauses it (a virtual
/// machine, frozen) loses the pause on both, until an operator sets its wall clock right.
package struct HostClocks {
    /// What really passes: the service's clock, and that of the event heap.
    package var now: Instant
    /// Which boot this is, from 1.
    package private(set) var boot: UInt64 = 1
    /// The wall clock less what it should say.
    package private(set) var wallError = Duration.zero
    /// Instants of the boot clock less real ones.
    private var bootOffset: Duration
    /// What the present boot has lost in pauses.
    private var lost = Duration.zero
    /// 2027: before all simulated time.
    private static let epoch: Int64 = 1_800_000_000

    package init() {
        now = Instant(nanoseconds: 0)
        bootOffset = .seconds(1000)
    }

    /// The boot clock.
    package var instant: Instant { now + bootOffset - lost }

    package var wall: WallTime { trueWall + wallError }

    /// What the wall clock should say: the service's `Date`.
    package var trueWall: WallTime { WallTime(nanoseconds: Self.epoch * 1_000_000_000 + now.nanoseconds) }

    package var bootName: String { "boot-\(boot)" }

    package var bootInstant: BootInstant { BootInstant(boot: bootName, instant: instant) }

    /// The real time at which the boot clock will show `instant`, if nothing pauses it before.
    package func real(_ instant: Instant) -> Instant { instant == .never ? .never : instant - bootOffset + lost }

    /// An operator sets the wall clock.
    package mutating func setWall(error: Duration) { wallError = error }

    /// The machine's host has paused it until now, for `pause`: neither of its clocks has noticed.
    package mutating func lose(_ pause: Duration) {
        lost = lost + pause
        wallError = wallError - pause
    }

    /// A new boot. The wall clock comes from the machine's own battery clock.
    package mutating func reboot() {
        boot += 1
        lost = .zero
        bootOffset = .seconds(30) - .nanoseconds(now.nanoseconds)
    }
}
