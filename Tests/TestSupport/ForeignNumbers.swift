/// Numbers and dates as outside software may send them. Each reader of them is tested with all of these.
package enum ForeignNumbers {
    /// The edges of 64 bits, and of nanoseconds in 64 bits; what is far beyond them; what is no number.
    package static let texts: [String] = edges.flatMap { [$0, "-\($0)"] } + others

    private static let edges = [
        "0", "1", "9223372035", "9223372036", "9223372037", "9223372036854775806", "9223372036854775807",
        "9223372036854775808", "18446744073709551615", "18446744073709551616", "253402300800",
        "99999999999999999999999999999999999999", "1e400", "1e-400", "1e18446744073709551616", "0.5",
    ]
    private static let others = ["", " ", "+1", "-", "1e", "NaN", "Infinity", "0x7fffffffffffffff"]

    /// The same as whole numbers of 64 bits.
    package static let integers: [Int64] = [
        0, 1, -1, 1_000_000_000, 9_223_372_035, 9_223_372_036, 9_223_372_037, -9_223_372_036, -9_223_372_037, .max - 1,
        .max, .min, .min + 1,
    ]

    /// Dates of HTTP: the edges of nanoseconds in 64 bits and of four digits.
    package static let httpDates = [
        "Thu, 01 Jan 1970 00:00:00 GMT", "Wed, 31 Dec 1969 23:59:59 GMT", "Fri, 11 Apr 2262 23:47:16 GMT",
        "Fri, 11 Apr 2262 23:47:17 GMT", "Fri, 31 Dec 9999 23:59:60 GMT", "Mon, 01 Jan 0001 00:00:00 GMT",
        "Sat, 01 Jan 0000 00:00:00 GMT", "Sun, 31 Feb 9999 00:00:00 GMT", "Sun, 06 Nov 99999 08:49:37 GMT",
        "Sun, 06 Nov -994 08:49:37 GMT", "",
    ]

    /// Timestamps, likewise.
    package static let timestamps = [
        "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2262-04-11T23:47:16Z", "2262-04-11T23:47:17Z",
        "1677-09-21T00:12:43Z", "1677-09-21T00:12:44Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z", "2262-04-11T23:47:16.999Z", "-001-01-01T00:00:00Z", "+10000-01-01T00:00:00Z",
        "-292277022657-01-27T08:29:52Z", "9999-02-31T00:00:00Z", "",
    ]
}
