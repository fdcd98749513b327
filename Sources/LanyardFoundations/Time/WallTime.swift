import CLinux
import Glibc

/// A point on the wall clock (`CLOCK_REALTIME`), in nanoseconds since 1970: for display, storage and comparison with other machines.
///
/// It jumps when the clock is set; deadlines are `Instant`s. Its range is the years 1677 to 2262. A time beyond it, which only another
/// machine can name, is the end of the range.
package struct WallTime: Comparable, Hashable, Sendable {
    package var nanoseconds: Int64

    package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// Whole seconds since 1970, as tokens, certificates and `Date` fields carry them.
    package init(seconds: Int64) { self.nanoseconds = seconds.clampedProduct(1_000_000_000) }

    /// The present time of the machine's clock.
    package static var now: WallTime {
        #if DEBUG
        if let time = LoopTime.ofQueue { return time.wall }
        #endif
        return ofMachine
    }

    /// The same; a loop whose time tests move does not change it. For the stamps of files.
    package static var ofMachine: WallTime { WallTime(nanoseconds: lanyard_clock(CLOCK_REALTIME)) }

    /// Seconds since 1970, rounded down.
    package var seconds: Int64 { nanoseconds / 1_000_000_000 - (nanoseconds % 1_000_000_000 < 0 ? 1 : 0) }

    package static func < (left: WallTime, right: WallTime) -> Bool { left.nanoseconds < right.nanoseconds }

    package static func + (time: WallTime, duration: Duration) -> WallTime {
        WallTime(nanoseconds: time.nanoseconds.clampedSum(duration.nanoseconds))
    }

    package static func - (later: WallTime, earlier: WallTime) -> Duration {
        .nanoseconds(later.nanoseconds.clampedDifference(earlier.nanoseconds))
    }
}
