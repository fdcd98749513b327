import Glibc
import LanyardFoundations
import Testing

@Suite struct CalendarTimeTests {
    @Test(
        "a time is written as HTTP and RFC 3339 write it",
        arguments: [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37.000Z"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00.000Z"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT", "1969-12-31T23:59:59.000Z"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00.000Z"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT", "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT", "2100-03-01T00:00:00.000Z"),
        ] as [(Int64, String, String)])
    func known(seconds: Int64, http: String, rfc3339: String) {
        #expect(Self.httpDate(WallTime(seconds: seconds)) == http)
        #expect(Timestamp.text(WallTime(seconds: seconds)) == rfc3339)
    }

    @Test("milliseconds are rounded down, before 1970 too")
    func milliseconds() {
        #expect(Timestamp.text(WallTime(nanoseconds: 1_999_999_999)) == "1970-01-01T00:00:01.999Z")
        #expect(Timestamp.text(WallTime(nanoseconds: -1)) == "1969-12-31T23:59:59.999Z")
    }

    @Test("a timestamp is read back, and another spelling is none")
    func readBack() {
        for milliseconds in stride(from: Int64(-5_000_000_000_000), to: 9_000_000_000_000, by: 7_777_777_777) {
            let time = WallTime(nanoseconds: milliseconds * 1_000_000)
            #expect(Timestamp.read(Timestamp.text(time)) == time)
        }
        for text in [
            "", "2026-11-21T11:09:12Z", "2026-11-21T11:09:12.031+", "2026-11-31T11:09:12.031Z",
            "2026-13-01T00:00:00.000Z",
            "2026-11-21T24:00:00.000Z", "2026-11-21T11:60:12.031Z", "2026-11-21 11:09:12.031Z",
            "202x-11-21T11:09:12.031Z",
            "2026-00-21T11:09:12.031Z", "9999-11-31T11:09:12.031Z", "0000-11-21T11:09:12.03 Z",
        ] { #expect(Timestamp.read(text) == nil, "\(text)") }
    }

    @Test("the calendar agrees with the C library on 20,000 days of four centuries")
    func likeTheCLibrary() {
        var time = WallTime(seconds: -6_000_000_000)
        for _ in 0..<20_000 {
            var seconds = time_t(time.seconds)
            var broken = tm()
            gmtime_r(&seconds, &broken)
            let date = CalendarTime(time)
            let parts = [date.year, date.month, date.day, date.weekday, date.hour, date.minute, date.second]
            let expected = [
                broken.tm_year + 1900, broken.tm_mon + 1, broken.tm_mday, broken.tm_wday, broken.tm_hour,
                broken.tm_min, broken.tm_sec,
            ]
            #expect(parts == expected.map(Int.init))
            time = WallTime(seconds: time.seconds + 612_347)
        }
    }

    private static func httpDate(_ time: WallTime) -> String {
        String(unsafeUninitializedCapacity: HTTPDate.count) { bytes in
            HTTPDate.write(time, into: bytes.baseAddress!)
            return HTTPDate.count
        }
    }
}
