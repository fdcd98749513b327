/// A wall-clock time as a calendar date: proleptic Gregorian, UTC, no leap seconds.
///
/// Own arithmetic, because Foundation is not linked and each call of `gmtime_r` takes the time-zone lock.
package struct CalendarTime: Equatable, Sendable {
    package var year: Int
    /// 1 ... 12.
    package var month: Int
    /// 1 ... 31.
    package var day: Int
    /// 0 is Sunday.
    package var weekday: Int
    package var hour: Int
    package var minute: Int
    package var second: Int
    package var nanosecond: Int

    private static let secondsPerDay: Int64 = 86_400

    package init(_ time: WallTime) {
        let seconds = time.seconds
        let days = (seconds - Self.floorRemainder(seconds, Self.secondsPerDay)) / Self.secondsPerDay
        let ofDay = Int(Self.floorRemainder(seconds, Self.secondsPerDay))
        hour = ofDay / 3600
        minute = ofDay / 60 % 60
        second = ofDay % 60
        nanosecond = Self.nanosecond(of: time)
        // 1970-01-01 was a Thursday.
        weekday = Int(Self.floorRemainder(days + 4, 7))
        (year, month, day) = Self.civil(days)
    }

    /// The part of a time that is less than a second.
    static func nanosecond(of time: WallTime) -> Int { Int(floorRemainder(time.nanoseconds, 1_000_000_000)) }

    /// The date of a day number counted from 1970-01-01.
    ///
    /// Counts in eras of 400 years. Each year begins on 1 March, so that the leap day comes last (H. Hinnant,
    /// "chrono-compatible low-level date algorithms").
    private static func civil(_ days: Int64) -> (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let ofEra = floorRemainder(shifted, 146_097)
        let era = (shifted - ofEra) / 146_097
        let yearOfEra = (ofEra - ofEra / 1_460 + ofEra / 36_524 - ofEra / 146_096) / 365
        let ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * ofYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (Int(year), Int(month), Int(ofYear - (153 * marchMonth + 2) / 5 + 1))
    }

    /// The day number, counted from 1970-01-01, of a date: `civil`'s inverse. For years 0 to 9999.
    static func days(year: Int, month: Int, day: Int) -> Int64 {
        let shiftedYear = Int64(month <= 2 ? year - 1 : year)
        let era = (shiftedYear - floorRemainder(shiftedYear, 400)) / 400
        let yearOfEra = shiftedYear - era * 400
        let ofYear = (153 * Int64(month > 2 ? month - 3 : month + 9) + 2) / 5 + Int64(day) - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + ofYear - 719_468
    }

    private static func floorRemainder(_ value: Int64, _ divisor: Int64) -> Int64 {
        let remainder = value % divisor
        return remainder < 0 ? remainder + divisor : remainder
    }
}

/// Numbers as ASCII digits of a fixed width, for dates.
enum DecimalDigits {
    /// Writes the last `width` digits of `number`, with leading zeros.
    static func write(_ number: Int, width: Int, into bytes: UnsafeMutablePointer<UInt8>) {
        var rest = number
        for place in stride(from: width - 1, through: 0, by: -1) {
            bytes[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
    }
}
