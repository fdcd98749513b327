import CLinux
import Glibc

/// A point on the boot-time clock (`CLOCK_BOOTTIME`), in nanoseconds since boot.
///
/// Every deadline of the program is an `Instant`. This clock continues during suspend, where `DispatchTime` stops, and never jumps as the
/// wall clock does. Instants of two boots cannot be compared, so they are never stored.
///
/// `public` and inlined, as Swift 6.3 does not inline `package` declarations in another module, and the request path uses these for every
/// request.
public struct Instant: Comparable, Hashable, Sendable {
    /// Since boot.
    public var nanoseconds: Int64

    /// - Parameter nanoseconds: since boot.
    @inlinable @inline(__always) public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// A deadline that never comes.
    @inlinable @inline(__always) public static var never: Instant { Instant(nanoseconds: .max) }

    /// An instant before all others.
    @inlinable @inline(__always) public static var past: Instant { Instant(nanoseconds: 0) }

    /// The present instant; the call takes about 25 ns.
    package static var now: Instant {
        #if DEBUG
        if let time = LoopTime.ofQueue { return time.now }
        #endif
        return Instant(nanoseconds: lanyard_clock(CLOCK_BOOTTIME))
    }

    /// They are the same.
    @inlinable @inline(__always)
    public static func == (left: Instant, right: Instant) -> Bool {
        left.nanoseconds == right.nanoseconds
    }

    /// The present instant of the machine's clock. It differs from `now` only where a test moves a loop's time.
    static var ofMachine: Instant { Instant(nanoseconds: lanyard_clock(CLOCK_BOOTTIME)) }

    /// The left one is earlier.
    @inlinable @inline(__always)
    public static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }

    /// The instant `duration` later. A sum beyond the range is the end of the range, and that is `.never` for a later one.
    @inlinable @inline(__always)
    public static func + (instant: Instant, duration: Duration) -> Instant {
        Instant(nanoseconds: instant.nanoseconds.clampedSum(duration.nanoseconds))
    }

    /// The instant `duration` earlier; `.never` stays `.never`.
    @inlinable public static func - (instant: Instant, duration: Duration) -> Instant {
        instant == .never
            ? .never : Instant(nanoseconds: instant.nanoseconds.clampedDifference(duration.nanoseconds))
    }

    /// The time from `earlier` to `later`; negative if `later` is the earlier one.
    @inlinable public static func - (later: Instant, earlier: Instant) -> Duration {
        .nanoseconds(later.nanoseconds.clampedDifference(earlier.nanoseconds))
    }
}

extension Duration {
    /// Whole nanoseconds, clamped to what 64 bits hold (292 years).
    ///
    /// The request path asks for them several times in a request. Usual durations need a division of 64 bits or of 128
    /// by 64, and not the two of 128 bits that `components` costs.
    @inlinable public var nanoseconds: Int64 {
        let high = Int64(truncatingIfNeeded: attoseconds >> 64)
        let low = UInt64(truncatingIfNeeded: attoseconds)
        if high == 0 { return Int64(low / 1_000_000_000) }
        // The quotient has at most 63 bits.
        if high > 0, high < 500_000_000 {
            let divisor: UInt64 = 1_000_000_000
            return Int64(divisor.dividingFullWidth((UInt64(high), low)).quotient)
        }
        // `components` ends the process where the seconds do not fit into 64 bits.
        return Int64(clamping: attoseconds / 1_000_000_000)
    }

    /// The duration in seconds, with its fraction.
    @inlinable package var inSeconds: Double { Double(nanoseconds) / 1e9 }
}

/// A point on the boot clock together with its boot: the form of an `Instant` that may be stored.
package struct BootInstant: Equatable, Sendable {
    /// `/proc/sys/kernel/random/boot_id`; empty if it cannot be read. An empty one equals no boot.
    package var boot: String
    package var instant: Instant

    package init(boot: String, instant: Instant) {
        self.boot = boot
        self.instant = instant
    }
}

/// Both clocks at one moment.
package struct ClockReading: Equatable, Sendable {
    package var instant: Instant
    package var wall: WallTime

    package init(instant: Instant, wall: WallTime) {
        self.instant = instant
        self.wall = wall
    }

    package static var now: ClockReading { ClockReading(instant: .now, wall: .now) }
}
