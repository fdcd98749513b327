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

    /// Reads the three forms of RFC 9110 §5.6.7: IMF-fixdate, RFC 850's and asctime's, of the years 1970 to 9999. nil for anything else.
    package static func read(_ text: String) -> WallTime? {
        let words = text.split(whereSeparator: { " ,:-".contains($0) })
        switch words.count {
        case 8 where words[7] == "GMT": return time(words[1], words[2], words[3], words[4...6])
        case 7: return time(words[2], words[1], words[6], words[3...5])
        default: return nil
        }
    }

    private static func time(
        _ day: Substring, _ month: Substring, _ year: Substring, _ clock: ArraySlice<Substring>
    ) -> WallTime? {
        let numbers = ([day, year] + clock).compactMap { number($0) }
        guard numbers.count == 5, let month = number(ofMonth: month), 1...31 ~= numbers[0], 0...23 ~= numbers[2],
            0...59 ~= numbers[3], 0...60 ~= numbers[4]
        else { return nil }
        // RFC 850's two-digit years: no such date is older than the protocol.
        let fullYear = year.utf8.count == 2 ? numbers[1] + (numbers[1] < 70 ? 2000 : 1900) : numbers[1]
        guard fullYear >= 1970 else { return nil }
        let days = CalendarTime.days(year: fullYear, month: month, day: numbers[0])
        return WallTime(seconds: days * 86_400 + Int64(numbers[2] * 3600 + numbers[3] * 60 + numbers[4]))
    }

    /// 1 to 12, for the name of a month as the date has it.
    private static func number(ofMonth name: Substring) -> Int? {
        (1...12).first { month in
            UnsafeBufferPointer(start: months.utf8Start + 3 * (month - 1), count: 3).elementsEqual(name.utf8)
        }
    }

    /// Digits only, at most four.
    private static func number(_ text: Substring) -> Int? {
        guard 1...4 ~= text.utf8.count, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else { return nil }
        return Int(text)
    }
}
