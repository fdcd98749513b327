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
        DecimalDigits.write(CalendarTime.nanosecond(of: time) / 1_000_000, width: 3, into: bytes + 20)
    }

    /// The timestamp as text.
    package static func text(_ time: WallTime) -> String {
        String(unsafeUninitializedCapacity: count) { bytes in
            write(time, into: bytes.baseAddress!)
            return count
        }
    }

    /// The time of a date-time (RFC 3339 §5.6), such as `2026-11-21T11:09:12Z` or `2026-11-21T12:09:12.5+01:00`; nil: another text. What
    /// a fraction has below milliseconds is left out.
    package static func readDateTime(_ text: String) -> WallTime? {
        let bytes = Array(text.utf8)
        guard 20...textBytesMax ~= bytes.count, bytes[10] | 0x20 == UInt8(ascii: "t") else { return nil }
        var rest = bytes[19...]
        var milliseconds: [UInt8] = []
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix { 0x30...0x39 ~= $0 }
            guard !digits.isEmpty else { return nil }
            milliseconds += digits.prefix(3)
            rest = rest[digits.endIndex...]
        }
        guard let offset = utcOffset(Array(rest)) else { return nil }
        milliseconds += repeatElement(UInt8(ascii: "0"), count: 3 - milliseconds.count)
        let date = String(decoding: bytes[..<10], as: UTF8.self), time = String(decoding: bytes[11..<19], as: UTF8.self)
        guard let local = read("\(date)T\(time).\(String(decoding: milliseconds, as: UTF8.self))Z") else { return nil }
        // An end of the range stands for all times beyond it.
        return local.nanoseconds == .min || local.nanoseconds == .max ? local : local + (.zero - offset)
    }

    /// Bytes of the longest date-time that is read: longer fractions are of no use.
    private static let textBytesMax = 64

    /// `Z`, or the difference from UTC such as `+01:00`.
    private static func utcOffset(_ text: [UInt8]) -> Duration? {
        if text.count == 1, text[0] | 0x20 == UInt8(ascii: "z") { return .zero }
        guard text.count == 6, [UInt8(ascii: "+"), UInt8(ascii: "-")].contains(text[0]), text[3] == UInt8(ascii: ":"),
            [1, 2, 4, 5].allSatisfy({ 0x30...0x39 ~= text[$0] })
        else { return nil }
        let (hours, minutes) = (
            Int(text[1] - 0x30) * 10 + Int(text[2] - 0x30), Int(text[4] - 0x30) * 10 + Int(text[5] - 0x30)
        )
        guard hours < 24, minutes < 60 else { return nil }
        let seconds = Int64(hours * 3600 + minutes * 60)
        return .seconds(text[0] == UInt8(ascii: "-") ? -seconds : seconds)
    }

    /// The time that a timestamp of `write` stands for, of the years 0 to 9999; nil: the text is not one.
    package static func read(_ text: String) -> WallTime? {
        let bytes = Array(text.utf8)
        guard bytes.count == count else { return nil }
        func number(_ range: Range<Int>) -> Int? {
            bytes[range].allSatisfy { (0x30...0x39).contains($0) }
                ? bytes[range].reduce(0) { $0 * 10 + Int($1 - 0x30) } : nil
        }
        guard let year = number(0..<4), let month = number(5..<7), let day = number(8..<10), let hour = number(11..<13),
            let minute = number(14..<16), let second = number(17..<19), let millisecond = number(20..<23),
            (1...12).contains(month), (1...31).contains(day)
        else { return nil }
        func time(inYear year: Int) -> WallTime {
            let days = CalendarTime.days(year: year, month: month, day: day)
            let seconds = days * 86_400 + Int64(hour * 3600 + minute * 60 + second)
            let whole = WallTime(seconds: seconds)
            // An end of the range stands for all times beyond it, which a fraction does not change.
            return whole.nanoseconds == .min || whole.nanoseconds == .max ? whole : whole + .milliseconds(millisecond)
        }
        // Another spelling of a time, such as 31 April or 24:00, is not what `write` writes. The calendar repeats after 400 years, so
        // a year that `WallTime` holds stands for one that it does not hold.
        let alike = 2000 + year % 400 > 2261 ? 1600 + year % 400 : 2000 + year % 400
        guard self.text(time(inYear: alike)).dropFirst(4) == text.dropFirst(4) else { return nil }
        return time(inYear: year)
    }
}
