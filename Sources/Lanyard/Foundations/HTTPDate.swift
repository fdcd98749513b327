/// The date of HTTP fields: IMF-fixdate, such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
package enum HTTPDate {
    /// Bytes of every date.
    package static let count = 29

    private static let weekdays: StaticString = "SunMonTueWedThuFriSat"
    private static let months: StaticString = "JanFebMarAprMayJunJulAugSepOctNovDec"
    private static let pattern: StaticString = "Sun, 06 Nov 1994 08:49:37 GMT"

    /// Writes exactly `count` bytes. No allocation; about 15 ns, so a shard keeps the bytes for a second.
    package static func write(_ time: WallTime, into bytes: UnsafeMutablePointer<UInt8>) {
        let date = CalendarTime(time)
        bytes.update(from: pattern.utf8Start, count: count)
        bytes.update(from: weekdays.utf8Start + 3 * date.weekday, count: 3)
        DecimalDigits.write(date.day, width: 2, into: bytes + 5)
        (bytes + 8).update(from: months.utf8Start + 3 * (date.month - 1), count: 3)
        DecimalDigits.write(date.year, width: 4, into: bytes + 12)
        DecimalDigits.write(date.hour, width: 2, into: bytes + 17)
        DecimalDigits.write(date.minute, width: 2, into: bytes + 20)
        DecimalDigits.write(date.second, width: 2, into: bytes + 23)
    }
}
