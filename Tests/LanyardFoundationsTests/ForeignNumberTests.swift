import LanyardFoundations
import TestSupport
import Testing

/// Times, durations and numbers from outside: construction clamps, arithmetic saturates, nothing ends the process.
@Suite("Foreign numbers") struct ForeignNumberTests {
    private static func clamped(_ number: Int128) -> Int64 { Int64(clamping: number) }

    @Test("sums, differences and products are those of wider numbers, clamped")
    func arithmetic() {
        for one in ForeignNumbers.integers {
            for other in ForeignNumbers.integers {
                #expect(one.clampedSum(other) == Self.clamped(Int128(one) + Int128(other)))
                #expect(one.clampedDifference(other) == Self.clamped(Int128(one) - Int128(other)))
                #expect(one.clampedProduct(other) == Self.clamped(Int128(one) * Int128(other)))
            }
        }
        #expect(UInt64.max.clampedSum(1) == .max && UInt64(0).clampedDifference(1) == 0)
    }

    @Test("a wall-clock time beyond the range is its end, as are sums and differences")
    func wallTime() {
        for seconds in ForeignNumbers.integers {
            let time = WallTime(seconds: seconds)
            #expect(time.nanoseconds == Self.clamped(Int128(seconds) * 1_000_000_000))
            #expect(CalendarTime(time).month >= 1 && Timestamp.text(time).utf8.count == Timestamp.count)
            for nanoseconds in ForeignNumbers.integers {
                let (other, span) = (WallTime(nanoseconds: nanoseconds), Duration.nanoseconds(nanoseconds))
                #expect((time + span).nanoseconds == time.nanoseconds.clampedSum(nanoseconds))
                #expect((time - other).nanoseconds == time.nanoseconds.clampedDifference(nanoseconds))
                #expect((time < other) == (time.nanoseconds < nanoseconds))
            }
        }
    }

    @Test("an instant beyond the range is its end; the later end is never")
    func instant() {
        for one in ForeignNumbers.integers {
            let instant = Instant(nanoseconds: one)
            for other in ForeignNumbers.integers {
                let span = Duration.nanoseconds(other)
                #expect((instant + span).nanoseconds == one.clampedSum(other))
                #expect((instant - span) == (one == .max ? .never : Instant(nanoseconds: one.clampedDifference(other))))
                #expect((instant - Instant(nanoseconds: other)).nanoseconds == one.clampedDifference(other))
            }
        }
        #expect(Instant(nanoseconds: .min) + .nanoseconds(-1) == Instant(nanoseconds: .min))
    }

    @Test("a duration beyond 64 bits of nanoseconds is the end of their range, a nanosecond below it is itself")
    func duration() {
        for seconds in ForeignNumbers.integers {
            for part in [Int64(0), 1, -1, 999_999_999, -999_999_999] {
                let expected = Self.clamped(Int128(seconds) * 1_000_000_000 + Int128(part))
                #expect((Duration.seconds(seconds) + .nanoseconds(part)).nanoseconds == expected, "\(seconds) \(part)")
            }
        }
    }

    @Test("a number of JSON beyond 64 bits is the end of their range; its exponent counts")
    func jsonNumbers() {
        func integer(_ text: String) -> Int64? {
            Array(text.utf8).withUnsafeBytes { JSONNumber.integer($0[...]) }
        }
        for (text, expected) in [
            ("0", 0), ("-0", 0), ("9223372036854775807", .max), ("9223372036854775808", .max),
            ("-9223372036854775808", .min), ("-9223372036854775809", .min), ("1e400", .max), ("-1E+400", .min),
            ("1e-400", 0), ("12.9e1", 129), ("1.25e1", 12), ("125e-1", 12), ("0e99999999999999999999", 0), ("3e2", 300),
            ("1e18446744073709551616", .max), ("1e-18446744073709551616", 0), ("0.0001e4", 1), ("-1.5", -1),
            ("", nil), ("-", nil), ("+1", nil), ("1.", nil), (".5", nil), ("1e", nil), ("1e+", nil), ("1e5x", nil),
            ("0x10", nil), (" 1", nil),
        ] as [(String, Int64?)] { #expect(integer(text) == expected, "\(text)") }
        for text in ForeignNumbers.texts { _ = integer(text) }
    }

    @Test("dates of HTTP and timestamps are read up to the year 9999 and clamped, or they are none")
    func dates() {
        for text in ForeignNumbers.httpDates {
            guard let time = HTTPDate.read(text) else { continue }
            #expect(time >= WallTime(seconds: 0), "\(text)")
        }
        let end = WallTime(nanoseconds: .max)
        #expect(HTTPDate.read("Fri, 31 Dec 9999 23:59:59 GMT") == end)
        #expect(HTTPDate.read("Fri, 11 Apr 2262 23:47:16 GMT") == WallTime(seconds: 9_223_372_036))
        #expect(HTTPDate.read("Fri, 11 Apr 2262 23:47:17 GMT") == end)
        for text in ForeignNumbers.timestamps { _ = (Timestamp.read(text), Timestamp.readDateTime(text)) }
        #expect(Timestamp.readDateTime("9999-12-31T23:59:59Z") == end)
        #expect(Timestamp.readDateTime("0001-01-01T00:00:00Z") == WallTime(nanoseconds: .min))
        #expect(Timestamp.readDateTime("2262-04-11T23:47:16Z") == WallTime(seconds: 9_223_372_036))
        #expect(
            Timestamp.readDateTime("9999-02-31T00:00:00Z") == nil
                && Timestamp.readDateTime("9999-12-31 23:59:59Z") == nil)
    }

    @Test("a date-time of RFC 3339 is read with its offset and its fraction, in letters of any case")
    func dateTimes() {
        let time = WallTime(seconds: 1_800_000_000)
        for text in [
            "2027-01-15T08:00:00Z", "2027-01-15t08:00:00z", "2027-01-15T08:00:00+00:00", "2027-01-15T08:00:00-00:00",
            "2027-01-15T09:30:00+01:30", "2027-01-14T22:00:00-10:00", "2027-01-15T08:00:00.0Z",
            "2027-01-15T08:00:00.000000000+00:00",
        ] { #expect(Timestamp.readDateTime(text) == time, "\(text)") }
        for text in ["2027-01-15T08:00:00.5Z", "2027-01-15T09:00:00.5004+01:00"] {
            #expect(Timestamp.readDateTime(text) == time + .milliseconds(500), "\(text)")
        }
        for text in [
            "", "Z", "2027-01-15", "2027-01-15T08:00:00", "2027-01-15T08:00:00.Z", "2027-01-15T08:00:00+0000",
            "2027-01-15T08:00:00+24:00", "2027-01-15T08:00:00+01:60", "2027-01-15T08:00:00+01:00x",
            "2027-01-15T08:00:00 01:00", "2027-01-15 08:00:00Z", "2027-02-30T08:00:00Z", "2027-01-15T24:00:00Z",
            "2027-01-15T08:00:00.5", "2027-01-15T08:00:00." + String(repeating: "0", count: 60) + "Z",
        ] { #expect(Timestamp.readDateTime(text) == nil, "\(text)") }
        for offset in ["+23:59", "-23:59"] {
            #expect(Timestamp.readDateTime("9999-12-31T23:59:59\(offset)") == WallTime(nanoseconds: .max))
            #expect(Timestamp.readDateTime("0001-01-01T00:00:00\(offset)") == WallTime(nanoseconds: .min))
        }
    }
}
