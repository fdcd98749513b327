import LanyardRequestPath
import Testing

@Suite struct RequestFramingTests {
    private static func reading(_ fields: String, version: String = "1.1") -> RequestReading {
        .of("POST / HTTP/\(version)\r\nHost: a\r\n\(fields)\r\n\r\n")
    }

    @Test(
        "a Content-Length is plain decimal digits up to 2^63-1",
        arguments: [
            ("0", 0), ("1", 1), ("00012", 12), (" 7 \t", 7), ("9223372036854775807", Int.max),
            ("0000000000000000000000000000000000000001", 1),
        ])
    func lengths(_ value: String, _ length: Int) {
        #expect(Self.reading("Content-Length: \(value)").head?.framing == .length(length))
    }

    @Test(
        "any other Content-Length is malformed",
        arguments: [
            "", " ", "+5", "-1", "5, 5", "5,5", "5 5", "0x5", "5.0", "1e3", "\"5\"", "5;", "1_000",
            "9223372036854775808",
            "18446744073709551616", "99999999999999999999999999", "\u{b2}", "\u{d9}\u{a5}", "five",
        ])
    func badLengths(_ value: String) {
        #expect(Self.reading("Content-Length: \(value)") == .error(.malformed))
    }

    @Test("two Content-Length lines are malformed, even equal ones")
    func twoLengths() {
        #expect(Self.reading("Content-Length: 5\r\nContent-Length: 5") == .error(.malformed))
        #expect(Self.reading("Content-Length: 5\r\nA: 1\r\ncontent-length: 6") == .error(.malformed))
    }

    @Test("chunked in any case is chunked", arguments: ["chunked", "Chunked", "CHUNKED", " chunked\t"])
    func chunked(_ value: String) {
        #expect(Self.reading("Transfer-Encoding: \(value)").head?.framing == .chunked)
    }

    @Test(
        "codings are judged in the order of 5.4",
        arguments: [
            ("Transfer-Encoding: gzip", .notImplemented), ("Transfer-Encoding: gzip, chunked", .notImplemented),
            ("Transfer-Encoding: identity", .notImplemented), ("Transfer-Encoding: xchunked", .notImplemented),
            ("Transfer-Encoding: chunked, gzip", .malformed), ("Transfer-Encoding: chunked, chunked", .malformed),
            ("Transfer-Encoding: chunked;q=1", .malformed), ("Transfer-Encoding: gzip;q=1", .malformed),
            ("Transfer-Encoding:", .malformed), ("Transfer-Encoding: ,chunked", .malformed),
            ("Transfer-Encoding: chunked,", .malformed), ("Transfer-Encoding: gzip,,chunked", .malformed),
            ("Transfer-Encoding: \"chunked\"", .malformed), ("Transfer-Encoding: chunked chunked", .malformed),
            ("Transfer-Encoding: chunked\u{b}", .malformed), ("Transfer-Encoding: gzip, chunked, gzip", .malformed),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", .malformed),
            ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", .malformed),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", .malformed),
            ("Content-Length: 5\r\nTransfer-Encoding: gzip", .malformed),
            ("Content-Length: x\r\nTransfer-Encoding: chunked", .malformed),
        ] as [(String, HeadError.Kind)])
    func codings(_ fields: String, _ kind: HeadError.Kind) {
        #expect(Self.reading(fields) == .error(kind))
    }

    @Test("Transfer-Encoding in HTTP/1.0 is malformed")
    func codingIn10() {
        #expect(Self.reading("Transfer-Encoding: chunked", version: "1.0") == .error(.malformed))
        #expect(Self.reading("Transfer-Encoding: gzip", version: "1.0") == .error(.malformed))
    }

    @Test("no framing field, no body, whatever the method")
    func none() { #expect(Self.reading("A: 1").head?.framing == BodyFraming.none) }

    @Test("Content-Length: 0 is stated, not none")
    func zero() { #expect(Self.reading("Content-Length: 0").head?.framing == .length(0)) }

    @Test("look-alikes of framing fields frame nothing, and are marked")
    func lookAlikes() {
        let head = Self.reading("Content_Length: 5\r\nTransfer.Encoding: chunked").head
        #expect(head?.framing == BodyFraming.none)
        #expect(head?.traits == .odd)
    }
}
