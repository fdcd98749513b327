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
            "\t", "-0", "1.", ".1", "0X1", "1'000", "'1'", "1;a=b", "1a", "1\u{a0}", "\u{ef}\u{bc}\u{91}", "1/2", "#1",
            "0b1", "1h", "18446744073709551617", "000000000000000000009223372036854775808",
            "340282366920938463463374607431768211457", "5,", ",5", "5, 6",
        ])
    func badLengths(_ value: String) {
        for version in ["1.0", "1.1"] {
            #expect(Self.reading("Content-Length: \(value)", version: version) == .error(.malformed))
        }
    }

    @Test("two Content-Length lines are malformed, even equal ones")
    func twoLengths() {
        for second in ["Content-Length: 5", "A: 1\r\ncontent-length: 6", "Content-Length:", "Content-Length: x"] {
            for version in ["1.0", "1.1"] {
                let fields = "Content-Length: 5\r\n\(second)"
                #expect(Self.reading(fields, version: version) == .error(.malformed))
            }
        }
    }

    @Test("chunked in any case is chunked", arguments: ["chunked", "Chunked", "CHUNKED", "cHuNkEd", " chunked\t"])
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

    @Test(
        "an unknown coding, alone or before a final chunked, is not implemented",
        arguments: [
            "GZIP ,chunked", "deflate, gzip, chunked", "chunkedx", "x-chunked", "chunked-x", "gzip, gzip", "br",
            "trailers", "identity, chunked", "gzip,deflate",
        ])
    func unknownCodings(_ value: String) {
        #expect(Self.reading("Transfer-Encoding: \(value)") == .error(.notImplemented))
    }

    @Test(
        "every other Transfer-Encoding is malformed",
        arguments: [
            "chunked, identity", "chunked; x", "chunked;", " ", "chunked,,", ",", "gzip,, chunked", "'chunked\"",
            "(chunked)", "chunk ed", "gzip chunked", "chunked gzip", "x chunked", "chunked x", "chunked\u{a0}",
            "\u{e9}", "gzip, chunked;x", "gzip;level=1, chunked", "chunked/1", "chunked=1", "gzip, \"chunked\"",
            "chunked, gzip, chunked", "gzip, chunked, chunked", "gzip, x y",
        ])
    func otherCodings(_ value: String) {
        #expect(Self.reading("Transfer-Encoding: \(value)") == .error(.malformed))
    }

    @Test("Transfer-Encoding is one line")
    func codingLines() {
        for (first, second) in [
            ("chunked", "gzip"), ("chunked", ""), ("", "chunked"), ("gzip", "gzip"), ("chunked", "identity"),
        ] {
            for between in ["", "A: 1\r\n"] {
                let fields = "Transfer-Encoding: \(first)\r\n\(between)transfer-encoding: \(second)"
                #expect(Self.reading(fields) == .error(.malformed), "\(fields)")
            }
        }
    }

    @Test("a length together with a coding is malformed, whatever both say, and a coding in HTTP/1.0")
    func both() {
        for coding in ["chunked", "gzip", "gzip, chunked", "", "\"", "identity", "chunked, chunked"] {
            let coding = "Transfer-Encoding: \(coding)"
            for length in ["0", "5", "x", ""] {
                let length = "Content-Length: \(length)"
                for fields in ["\(length)\r\n\(coding)", "\(coding)\r\n\(length)"] {
                    #expect(Self.reading(fields) == .error(.malformed), "\(fields)")
                }
            }
            #expect(Self.reading(coding, version: "1.0") == .error(.malformed), "\(coding)")
        }
        for named in ["content-length", "transfer-encoding"] {
            let fields = "Connection: \(named)\r\nContent-Length: 5\r\nTransfer-Encoding: chunked"
            #expect(Self.reading(fields) == .error(.malformed), "\(fields)")
        }
    }

    @Test("no framing field, no body, whatever the method")
    func none() { #expect(Self.reading("A: 1").head?.framing == BodyFraming.none) }

    @Test("Content-Length: 0 is stated, not none")
    func zero() { #expect(Self.reading("Content-Length: 0").head?.framing == .length(0)) }

    @Test("look-alikes of framing fields frame nothing, and are marked")
    func lookAlikes() {
        let head = Self.reading("Content_Length: 5\r\nTransfer.Encoding: chunked").head
        #expect(head?.framing == BodyFraming.none)
        #expect(head?.traits == .confusable)
    }
}
