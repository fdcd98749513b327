import LanyardRequestPath
import Testing

@Suite struct RequestFieldTests {
    private static func reading(_ fields: String, line: String = "GET / HTTP/1.1") -> RequestReading {
        .of("\(line)\r\nHost: a\r\n\(fields)\r\n\r\n")
    }

    @Test("fields are kept as received: names, order, repetition, empty values, high bytes; outer white space is cut")
    func kept() throws {
        let head = try #require(
            Self.reading("X-a:1\r\nx-A: \t 2 \t\r\nE:\r\nE: \r\nH: caf\u{e9} \u{80}\u{ff}\r\nI: a \t b\r\nA_b!#: c")
                .head)
        #expect(
            head.fields.map(\.name) == ["Host", "X-a", "x-A", "E", "E", "H", "I", "A_b!#"])
        #expect(head.fields.map(\.value).prefix(5) == ["a", "1", "2", "", ""])
        #expect(head.fields[6].value == "a \t b")
        #expect(head.traits == .confusable)
    }

    @Test("a field line that breaks a rule is malformed")
    func malformed() {
        for lines in FieldLines.refused + ["A(: 1\r\n", "A[1]: 1\r\n", "\u{0}\r\n"] {
            #expect(
                RequestReading.of("GET / HTTP/1.1\r\nHost: a\r\n\(lines)\r\n") == .error(.malformed),
                "\(lines.debugDescription)")
        }
    }

    @Test("a start line ends in CRLF too", arguments: ["\n", "\r", "\r\r\n", "\n\r\n", "\r\r"])
    func startLineEnd(_ end: String) {
        #expect(RequestReading.of("GET / HTTP/1.1\(end)Host: a\r\n\r\n") == .error(.malformed))
    }

    @Test("white space behind the request line is a fold, not a field")
    func firstLineFolded() {
        for line in [" Host: a", "\tHost: a", " \r\nHost: a", "\t\r\nHost: a"] {
            #expect(RequestReading.of("GET / HTTP/1.1\r\n\(line)\r\n\r\n") == .error(.malformed))
        }
    }

    @Test(
        "Host: one in HTTP/1.1, at most one in any version",
        arguments: [
            ("GET / HTTP/1.1\r\n\r\n", .error(.malformed)),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", .error(.malformed)),
            ("GET / HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n", .error(.malformed)),
            ("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", .error(.malformed)),
            ("GET / HTTP/1.1\r\nX-Host: a\r\n\r\n", .error(.malformed)),
            ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", .error(.malformed)),
            ("GET / HTTP/1.1\r\nHost:\r\nHost: a\r\n\r\n", .error(.malformed)),
            ("GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nHost: [\r\n\r\n", .error(.malformed)),
        ] as [(String, RequestReading)])
    func hosts(_ text: String, _ expected: RequestReading) {
        #expect(RequestReading.of(text) == expected)
    }

    @Test("HTTP/1.0 needs no Host")
    func noHost() {
        let head = RequestReading.of("GET / HTTP/1.0\r\n\r\n").head
        #expect(head != nil)
        #expect(head?.host == nil)
    }

    @Test(
        "what Connection says: any line, any case, anywhere in the list",
        arguments: [
            ("Connection: close", "1.1", false), ("Connection: x, CLOSE", "1.1", false),
            ("Connection: x\r\nA: 1\r\nconnection: ,, Close ,", "1.1", false), ("Connection: keep-alive", "1.1", true),
            ("A: 1", "1.1", true), ("A: close", "1.1", true), ("A: 1", "1.0", false),
            ("Connection: Keep-Alive", "1.0", true), ("Connection: keep-alive, close", "1.0", false),
            ("Connection: closed", "1.1", true),
        ])
    func persistence(_ field: String, _ version: String, _ keeps: Bool) {
        #expect(Self.reading(field, line: "GET / HTTP/\(version)").head?.wantsKeepAlive == keeps)
    }

    @Test("a Connection option that is no token is malformed", arguments: ["a b", "\"close\"", "close;x", "a/b"])
    func badOption(_ value: String) {
        #expect(Self.reading("Connection: \(value)") == .error(.malformed))
    }

    @Test(
        "Expect: one line that says 100-continue, with a body; else unknown; void without a body and in HTTP/1.0",
        arguments: [
            ("Expect: 100-continue\r\nContent-Length: 1", "1.1", .continue100),
            ("eXPECT: 100-Continue\r\nTransfer-Encoding: chunked", "1.1", .continue100),
            ("Expect: 100-continue", "1.1", .none), ("Expect: 100-continue\r\nContent-Length: 0", "1.1", .none),
            ("Expect: 100-continue\r\nContent-Length: 1", "1.0", .none),
            ("Expect: other\r\nContent-Length: 1", "1.1", .unknown), ("Expect:\r\nContent-Length: 1", "1.1", .unknown),
            ("Expect: 100-continue, x\r\nContent-Length: 1", "1.1", .unknown),
            ("Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 1", "1.1", .unknown),
        ] as [(String, String, RequestHead.Expectation)])
    func expectations(_ fields: String, _ version: String, _ expected: RequestHead.Expectation) {
        #expect(Self.reading(fields, line: "POST / HTTP/\(version)").head?.expectation == expected)
    }

    @Test("names of fields that the proxy knows are found in any case")
    func traits() {
        let head = Self.reading(
            "ORIGIN: o\r\nsec-fetch-Site: x\r\nMax-forwards: 1\r\nvia: 1.1 a\r\nX-Forwarded-Anything: 1\r\nUpgrade: h"
        ).head
        #expect(head?.traits == [.origin, .secFetchSite, .maxForwards, .via, .forwarding, .upgrade])
    }
}
