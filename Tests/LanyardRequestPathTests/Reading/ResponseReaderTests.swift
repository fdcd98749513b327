import LanyardRequestPath
import Testing

@Suite struct ResponseReaderTests {
    @Test("a head is status, reason and fields as they came")
    func plain() throws {
        let text =
            "HTTP/1.1 200 All  Right\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 3\r\nDate: d\r\n\r\n"
        let head = try #require(ResponseReading.of(text + "abc").head)
        #expect(head.status == 200)
        #expect(head.reason == "All  Right")
        #expect(head.framing == .length(3))
        #expect(head.fields.map(\.value) == ["a=1", "b=2", "3", "d"])
        #expect(head.keepsAlive)
        #expect(head.length == text.utf8.count)
    }

    @Test(
        "the reason phrase may be anything printable, empty or missing",
        arguments: [
            ("200 OK", "OK"), ("200 ", ""), ("200", ""), ("599 \u{e9}\t(x)", "\u{fffd}\t(x)"), ("100 a b", "a b"),
            ("600 Odd", "Odd"), ("600", ""), ("999 \u{e9}", "\u{fffd}"),
        ])
    func reasons(_ line: String, _ reason: String) {
        #expect(ResponseReading.of("HTTP/1.1 \(line)\r\n\r\n").head?.reason == reason)
    }

    @Test(
        "what is no HTTP/1.x status line is malformed",
        arguments: [
            "SSH-2.0-OpenSSH", "HTTP/2.0 200 OK\r\n\r\n", "HTTP/0.9 200 OK\r\n\r\n", "http/1.1 200 OK\r\n\r\n",
            "HTTP/1.x 200 OK\r\n\r\n", "HTTP/1.10 200 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n",
            "HTTP/1.1\t200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1 :00 OK\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 +20 OK\r\n\r\n", "HTTP/1.1 200\tOK\r\n\r\n",
            "HTTP/1.1 200 O\u{0}K\r\n\r\n",
            "HTTP/1.1 200 OK\n\r\n", "HTTP/1.1 200 OK\rX: 1\r\n\r\n", "\r\nHTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 O\u{7f}", "rubbish", "\u{16}\u{3}\u{1}\u{2}\u{0}", "220 mail ESMTP\r\n", "<html>", "\r\n",
            "\nHTTP/1.1 200 OK\r\n", " HTTP/1.1 200 OK\r\n", "ICY 200 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n",
            "HTTP/3.1 200 OK\r\n\r\n", "HTTP/1 200 OK\r\n\r\n", "HTTP/1. 200 OK\r\n\r\n", "HTTP/11 200 OK\r\n\r\n",
            "HTTP/1.1200 OK\r\n\r\n", "HTTP/1.1 OK\r\n\r\n", "HTTP/1.1 \r\n\r\n", "HTTP/1.1\r\n\r\n",
            "HTTP/1.1 000 OK\r\n\r\n", "HTTP/1.1 1000 OK\r\n\r\n", "HTTP/1.1 -20 OK\r\n\r\n", "HTTP/1.1 200OK\r\n\r\n",
            "HTTP/1.1 200,OK\r\n\r\n", "HTTP/1.1 2\u{b2}0 OK\r\n\r\n", "HTTP/1.1 200 OK\n\n",
            "HTTP/1.1 200 O\rK\r\n\r\n",
            "HTTP/1.1 200 \u{0}\r\n\r\n", "HTTP/1.1 200 \u{1b}\r\n\r\n", "HTTP/1.1 200 OK\r\n\n",
        ])
    func malformed(_ text: String) { #expect(ResponseReading.of(text) == .error(.malformed)) }

    @Test("fields obey the one strict parser")
    func fields() {
        for lines in FieldLines.refused + ["Connection: a b\r\n"] {
            #expect(
                ResponseReading.of("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\(lines)\r\nok") == .error(.malformed),
                "\(lines.debugDescription)")
        }
        for line in [" A: 1", "\tA: 1"] {
            #expect(ResponseReading.of("HTTP/1.1 200 OK\r\n\(line)\r\n\r\n") == .error(.malformed))
        }
    }

    @Test("a control other than HTAB in a reason phrase is malformed, and any other line end than CRLF")
    func reasonControls() {
        for byte in Array(UInt8(0)...0x1f) + [0x7f] where byte != 0x09 {
            let control = Character(Unicode.Scalar(byte))
            #expect(ResponseReading.of("HTTP/1.1 200 O\(control)K\r\n\r\n") == .error(.malformed), "\(byte)")
        }
        for end in ["\n", "\r", "\r\r\n", "\n\r\n", "\r\r"] {
            for line in ["HTTP/1.1 200 OK", "HTTP/1.1 200 "] {
                #expect(ResponseReading.of("\(line)\(end)Content-Length: 2\r\n\r\nok") == .error(.malformed))
            }
        }
    }

    @Test(
        "how the body ends",
        arguments: [
            ("Content-Length: 5", .length(5)), ("Content-Length: 0", .length(0)),
            ("Transfer-Encoding: Chunked", .chunked),
            ("A: 1", .untilClose),
        ] as [(String, BodyFraming)])
    func framing(_ field: String, _ framing: BodyFraming) {
        #expect(ResponseReading.of("HTTP/1.1 200 OK\r\n\(field)\r\n\r\n").head?.framing == framing)
    }

    @Test(
        "faults of framing are faults for every response, bodiless ones too",
        arguments: [
            "Content-Length: x", "Content-Length: 5, 5", "Content-Length: 5\r\nContent-Length: 5", "Content-Length: -1",
            "Content-Length: 9223372036854775808", "Content-Length:", "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: ",
            "Transfer-Encoding: identity", "Content-Length: +2", "Content-Length: 2.0", "Content-Length: 0x2",
            "Content-Length: \"2\"", "Content-Length: 2 2", "Content-Length: 2;", "Content-Length: 2_0",
            "Content-Length: 18446744073709551618", "Content-Length: \u{b2}",
            "Content-Length: 2\r\nA: 1\r\ncontent-length: 3", "Content-Length: 2,", "Content-Length: ,2",
            "Content-Length: 2, 3", "Content-Length: 2\r\nContent-Length:",
            "Transfer-Encoding: chunked\r\nContent-Length: 2", "Content-Length: 0\r\nTransfer-Encoding: chunked",
            "Content-Length: 2\r\nTransfer-Encoding: gzip", "Transfer-Encoding: chunked, gzip",
            "Transfer-Encoding: chunked;x", "Transfer-Encoding: chunked,", "Transfer-Encoding: ,chunked",
            "Transfer-Encoding: \"chunked\"", "Transfer-Encoding: xchunked",
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        ])
    func badFraming(_ fields: String) {
        for (status, isResponseToHead) in [(200, false), (200, true), (204, false), (304, false)] {
            let reading = ResponseReading.of(
                "HTTP/1.1 \(status) X\r\n\(fields)\r\n\r\n", isResponseToHead: isResponseToHead)
            #expect(reading == .error(.malformed) || reading == .error(.notImplemented))
        }
    }

    @Test("a coding in HTTP/1.0 is a fault")
    func codingIn10() {
        for (coding, kind) in [("chunked", HeadError.Kind.malformed), ("gzip", .notImplemented)] {
            let reading = ResponseReading.of("HTTP/1.0 200 OK\r\nTransfer-Encoding: \(coding)\r\n\r\n")
            #expect(reading == .error(kind))
        }
    }

    @Test("HEAD, 1xx, 204 and 304 have no body whatever the fields say")
    func bodiless() {
        for field in ["Content-Length: 5", "Transfer-Encoding: chunked", "A: 1"] {
            for status in [100, 103, 204, 304] {
                #expect(
                    ResponseReading.of("HTTP/1.1 \(status) X\r\n\(field)\r\n\r\n").head?.framing == BodyFraming.none)
            }
            #expect(
                ResponseReading.of("HTTP/1.1 200 X\r\n\(field)\r\n\r\n", isResponseToHead: true).head?.framing
                    == BodyFraming.none
            )
        }
    }

    @Test(
        "a 204 that announces a body is noticed",
        arguments: [
            ("Content-Length: 5", true), ("Transfer-Encoding: chunked", true), ("Content-Length: 0", false),
            ("A: 1", false),
        ])
    func forbiddenBody(_ field: String, _ announces: Bool) {
        #expect(ResponseReading.of("HTTP/1.1 204 X\r\n\(field)\r\n\r\n").head?.announcesForbiddenBody == announces)
    }

    @Test("every 1xx but 101 is interim")
    func interim() {
        for (status, interim) in [(100, true), (101, false), (102, true), (199, true), (200, false)] {
            #expect(ResponseReading.of("HTTP/1.1 \(status) X\r\n\r\n").head?.isInterim == interim)
        }
    }

    @Test(
        "the connection persists by version and Connection",
        arguments: [
            ("1.1", "A: 1", true), ("1.1", "Connection: a, Close", false), ("1.0", "A: 1", false),
            ("1.0", "Connection: Keep-Alive", true), ("1.0", "Connection: keep-alive\r\nConnection: close", false),
            ("1.5", "A: 1", true),
        ])
    func keepsAlive(_ version: String, _ fields: String, _ keeps: Bool) {
        #expect(ResponseReading.of("HTTP/\(version) 200 OK\r\n\(fields)\r\n\r\n").head?.keepsAlive == keeps)
    }

    @Test(
        "Keep-Alive says how long an idle connection lives",
        arguments: [
            ("timeout=5, max=100", 5), ("max=1, Timeout= 7", 7), ("max=5", -1), ("timeout=x", -1),
            ("timeout=9223372036854775807", .max), ("timeout=9223372036854775808", -1), ("timeout=-1", -1),
            ("timeout=", -1),
        ])
    func keepAlive(_ value: String, _ seconds: Int) {
        #expect(
            ResponseReading.of("HTTP/1.1 200 OK\r\nKeep-Alive: \(value)\r\n\r\n").head?.keepAliveSeconds == seconds)
    }

    @Test("limits: status line 8 KiB, 1024 fields, section 512 KiB, also of one field")
    func limits() {
        let reason = String(repeating: "r", count: (8 << 10) - 13)
        #expect(ResponseReading.of("HTTP/1.1 200 \(reason)\r\n\r\n").head != nil)
        #expect(ResponseReading.of("HTTP/1.1 200 \(reason)r\r\n\r\n") == .error(.fieldsTooLarge))
        let many = String(repeating: "A: 1\r\n", count: 1024)
        #expect(ResponseReading.of("HTTP/1.1 200 OK\r\n\(many)\r\n").head?.fields.count == 1024)
        #expect(ResponseReading.of("HTTP/1.1 200 OK\r\n\(many)A: 1\r\n\r\n") == .error(.fieldsTooLarge))
        let long = "A: " + String(repeating: "v", count: (512 << 10) - 5)
        #expect(ResponseReading.of("HTTP/1.1 200 OK\r\n\(long)\r\n\r\n").head != nil)
        #expect(ResponseReading.of("HTTP/1.1 200 OK\r\n\(long)v\r\n\r\n") == .error(.fieldsTooLarge))
    }

    @Test(
        "part of a head is no head",
        arguments: [
            "", "H", "HTTP/1.1", "HTTP/1.1 200", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2", "HTTP/1.1 200 OK\r\nA: 1\r\n", "HTTP/1.1 200 OK\r\nA: 1\r\n\r",
        ])
    func parts(_ text: String) { #expect(ResponseReading.of(text) == .incomplete) }
}
