/// The date of logs and JSON: RFC 3339 in UTC with milliseconds, such as `2026-11-21T11:09:12.031Z`.
package enum Timestamp {
    /// Bytes of every timestamp.
    package static let count = 24

    private static let pattern: StaticString = "0000-00-00T00:00:00.000Z"

    /// Writes exactly `count` bytes. Milliseconds are rounded down, so a timestamp is never in the future.
    package static func write(_ time: WallTime, into bytes: UnsafeMutablePointer<UInt8>) {
        let date = CalendarTime(time)
        bytes.update(from: pattern.utf8Start, count: count)
        DecimalDigits.write(date.year, width: 4, into: bytes)
        DecimalDigits.write(date.month, width: 2, into: bytes + 5)
        DecimalDigits.write(date.day, width: 2, into: bytes + 8)
        DecimalDigits.write(date.hour, width: 2, into: bytes + 11)
        DecimalDigits.write(date.minute, width: 2, into: bytes + 14)
        DecimalDigits.write(date.second, width: 2, into: bytes + 17)
        DecimalDigits.write(date.nanosecond / 1_000_000, width: 3, into: bytes + 20)
    }

    /// Writes the milliseconds alone, into a timestamp of the same second.
    package static func writeMilliseconds(of time: WallTime, into bytes: UnsafeMutablePointer<UInt8>) {
        let fraction = Int(time.nanoseconds - time.seconds * 1_000_000_000)
        DecimalDigits.write(fraction / 1_000_000, width: 3, into: bytes + 20)
    }

    /// The timestamp as text.
    package static func text(_ time: WallTime) -> String {
        String(unsafeUninitializedCapacity: count) { bytes in
            write(time, into: bytes.baseAddress!)
            return count
        }
    }
}
