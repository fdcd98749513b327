import LanyardRequestPath
import Testing

@Suite struct RequestLineTests {
    @Test("a request line is method, target, version, each as it came")
    func plain() throws {
        let reading = RequestReading.of("GET /a//b/../c?x=%20 HTTP/1.1\r\nHost: a\r\n\r\nrest")
        let head = try #require(reading.head)
        #expect(head.method == "GET")
        #expect(head.kind == .get)
        #expect(head.target == "/a//b/../c?x=%20")
        #expect(head.minorVersion == 1)
        #expect(head.host == "a")
        #expect(head.length == "GET /a//b/../c?x=%20 HTTP/1.1\r\nHost: a\r\n\r\n".utf8.count)
    }

    @Test(
        "methods are case-sensitive tokens, unknown ones pass",
        arguments: [
            ("GET", .get), ("HEAD", .head), ("POST", .post), ("PUT", .put), ("DELETE", .delete),
            ("OPTIONS", .options), ("PATCH", .patch), ("CONNECT", .connect), ("TRACE", .trace),
            ("get", .other), ("Get", .other), ("hEAD", .other), ("connect", .other), ("Trace", .other),
            ("PROPFIND", .query), ("REPORT", .query), ("SEARCH", .query), ("Propfind", .other), ("PROPPATCH", .other),
            ("MKCOL", .other), ("M-SEARCH", .other), ("X", .other), ("PRIX", .other),
            ("!#$%&'*+-.^_`|~09azAZ", .other),
        ] as [(String, RequestHead.Method)])
    func methods(_ method: String, _ kind: RequestHead.Method) {
        let head = RequestReading.of("\(method) / HTTP/1.1\r\nHost: a\r\n\r\n").head
        #expect(head?.method == method)
        #expect(head?.kind == kind)
    }

    @Test(
        "a request line that is not METHOD SP TARGET SP HTTP/1.x is malformed",
        arguments: [
            " GET / HTTP/1.1", "GET  / HTTP/1.1", "GET\t/ HTTP/1.1", "GET / HTTP/1.1 ", "GET /  HTTP/1.1",
            "GET /\tHTTP/1.1", "GET / x HTTP/1.1", "GET /", "GET / ", "GET", " / HTTP/1.1", "GET HTTP/1.1",
            "/ HTTP/1.1",
            "GET / http/1.1", "GET / HTTP/1", "GET / HTTP/1.", "GET / HTTP/.1", "GET / HTTP/1.10", "GET / HTTP/11.1",
            "GET / HTTP/+1.1", "GET / HTTP/1,1", "GET / HTTPS/1.1", "GET / HTTP/1.1\u{0}", "G ET / HTTP/1.1",
            "G(T / HTTP/1.1", "GET: / HTTP/1.1", "\u{0}GET / HTTP/1.1", "G\u{80}T / HTTP/1.1",
            "GET /\u{1} HTTP/1.1", "GET /\u{7f} HTTP/1.1", "GET /a#b HTTP/1.1", "GET /\u{e9} HTTP/1.1",
            "GET /a\u{0}b HTTP/1.1", "\tGET / HTTP/1.1", "GET / HTTP/1.1\t", "GET / HTTP/1.1 x", "GET ", "/",
            "GET\u{b}/ HTTP/1.1", "GET / HTTP/1.1\r", "GET /a b HTTP/1.1", "GET\u{a0}/ HTTP/1.1",
            "GET / Http/1.1", "GET / HTTP/11", "GET / HTTP/01.1", "GET / HTTP/1.1x", "GET / HTP/1.1", "GET / HTTP1.1",
            "GET / HTTP//1.1", "GET / XTTP/1.1", "GET / HTTP/a.b",
        ])
    func malformedLine(_ line: String) {
        #expect(RequestReading.of("\(line)\r\nHost: a\r\n\r\n") == .error(.malformed))
    }

    @Test(
        "the method is known from the space behind it on, whatever follows",
        arguments: [
            ("", .other), ("HEAD", .other), ("HEAD\t", .other), ("HEAD ", .head), ("HEAD HEAD", .head),
            ("HEAD / HTTP/1.1\r\nA B: 1\r\n", .head), ("\r\nHEAD / HTTP/1.1\r\n\r\n", .head), ("HEADS / ", .other),
            ("GET / HTTP/1.1\r\nHEAD ", .get),
        ] as [(String, RequestHead.Method)])
    func methodFirst(_ text: String, _ kind: RequestHead.Method) {
        var reader = RequestReader()
        let table = FieldTable(capacity: RequestReading.limits.fieldsMax)
        Array(text.utf8).withUnsafeBufferPointer {
            _ = try? reader.read($0, into: table, limits: RequestReading.limits)
        }
        #expect(reader.method == kind)
    }

    @Test(
        "a line ends in CRLF and nothing else",
        arguments: [
            "GET / HTTP/1.1\nHost: a\r\n\r\n", "GET / HTTP/1.1\rHost: a\r\n\r\n", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
            "GET /\r\n HTTP/1.1\r\nHost: a\r\n\r\n", "GET /\n\r\n", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ])
    func lineEnds(_ text: String) {
        #expect(RequestReading.of(text) == .error(.malformed))
    }

    @Test(
        "the first byte that no request has is refused at once, without a line end",
        arguments: [
            "\u{16}\u{3}\u{1}", "\u{0}", "\u{80}", "{", "\"", "GET \u{1}", "GET / X", "GET / HTTP/1.1x", "\u{ff}",
            "\u{1b}[2J", "\n", "\r\r", "\r\n\n", "\r\n\r\n\r\n\r\n\r\n", "<xml", "GET\u{0}", "GET /\u{7f}", "GET \"",
            "GET ?", "GET 1", "GET @x", "GET / h", "GET / HTTP/x", "GET / HTTP/1x", "GET / HTTP/1.1\rx",
            "GET / HTTP/1.1\r\n:", "GET / HTTP/1.1\r\nHost\u{1}", "GET / HTTP/1.1\r\nHost: \u{0}",
        ])
    func atOnce(_ text: String) {
        #expect(RequestReading.of(text) == .error(.malformed))
    }

    @Test("up to 4 empty lines may stand before a request, the fifth is refused")
    func emptyLines() {
        let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        for count in 0...4 {
            let head = RequestReading.of(String(repeating: "\r\n", count: count) + request).head
            #expect(head?.target == "/")
            #expect(head?.length == 2 * count + request.utf8.count)
        }
        #expect(RequestReading.of(String(repeating: "\r\n", count: 5)) == .error(.malformed))
    }

    @Test("a method of 64 bytes passes, one of 65 is not implemented")
    func longMethod() {
        let most = String(repeating: "M", count: 64)
        #expect(RequestReading.of("\(most) / HTTP/1.1\r\nHost: a\r\n\r\n").head?.method == most)
        #expect(RequestReading.of("\(most)M") == .error(.notImplemented))
    }

    @Test(
        "every byte that is no token character is refused in a method, and but for visible ASCII without # in a target")
    func bytes() {
        for byte in UInt8.min...UInt8.max {
            let character = Character(Unicode.Scalar(byte))
            // A space ends the method, and what follows is no target.
            if !FieldLines.isToken(byte) {
                #expect(
                    RequestReading.of("G\(character)T / HTTP/1.1\r\nHost: a\r\n\r\n") == .error(.malformed), "\(byte)")
            }
            for target in ["/a\(character)b", "/?a\(character)b"] {
                let reading = RequestReading.of("GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
                if (0x21...0x7e).contains(byte) && byte != 0x23 {
                    #expect(reading.head?.target == target, "\(byte)")
                } else {
                    #expect(reading == .error(.malformed), "\(byte)")
                }
            }
        }
    }

    @Test(
        "HTTP/1.0 is 1.0, 1.1 to 1.9 are 1.1",
        arguments: [("1.0", 0)] + (1...9).map { ("1.\($0)", 1) })
    func versions(_ version: String, _ minor: Int) {
        #expect(RequestReading.of("GET / HTTP/\(version)\r\nHost: a\r\n\r\n").head?.minorVersion == minor)
    }

    @Test("another major version is not supported", arguments: ["0.9", "0.0", "2.0", "2.1", "3.0", "9.9"])
    func otherMajor(_ version: String) {
        #expect(RequestReading.of("GET / HTTP/\(version)\r\nHost: a\r\n\r\n") == .error(.versionNotSupported))
    }

    @Test("the HTTP/2 preface is refused")
    func preface() {
        #expect(RequestReading.of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == .error(.versionNotSupported))
        #expect(RequestReading.of("PRI / HTTP/1.1\r\nHost: a\r\n\r\n") == .error(.versionNotSupported))
    }

    @Test("HTTP/0.9 is malformed")
    func version09() { #expect(RequestReading.of("GET /\r\n") == .error(.malformed)) }

    @Test("a request line of exactly the limit passes, one byte more is too long, and is refused as it arrives")
    func lineLimit() {
        let limits = HeadLimits(startLineBytesMax: 100, fieldLineBytesMax: 100, sectionBytesMax: 1000, fieldsMax: 10)
        let path = "/" + String(repeating: "p", count: 100 - "GET / HTTP/1.1".utf8.count)
        #expect(RequestReading.of("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n", limits: limits).head?.target == path)
        #expect(RequestReading.of("GET \(path)p HTTP/1.1\r\nHost: a\r\n\r\n", limits: limits) == .error(.lineTooLong))
        #expect(RequestReading.of("GET \(path)p", limits: limits) == .error(.lineTooLong))
    }

    @Test("8,000 bytes of request line work with the defaults")
    func longLine() {
        let path = "/" + String(repeating: "p", count: 8_000)
        #expect(RequestReading.of("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n").head?.target == path)
    }

    @Test(
        "part of a head is no head",
        arguments: ["", "\r\n", "G", "GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\n"])
    func parts(_ text: String) { #expect(RequestReading.of(text) == .incomplete) }
}
