import TestSupport
import Testing

@testable import SystemTestSupport

/// http-rules.md 5: length of a request body.
@Suite(.serialized) struct BodyLengthRuleTests {
    private static let shared = Task {
        try await HTTPBench.start { $0.route = "timeouts: {request_idle: 300ms}" }
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    /// A POST with these framing fields and bytes behind the head.
    private func post(_ fields: String..., line: String = "POST / HTTP/1.1", then body: String = "") -> String {
        "\(line)\r\nHost: localhost\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n" + body
    }

    @Test(
        "5.1 A Content-Length that is not plain ASCII digits is refused",
        arguments: [
            "+1", "-1", "-0", "1.0", "1.", ".1", "0x1", "0X1", "1_000", "1'000", "\"1\"", "'1'", "", " ", "\t", "1 1",
            "1e1",
            "1;", "1;a=b", "a", "1a", "1\u{a0}", "\u{d9}\u{a1}", "\u{ef}\u{bc}\u{91}", "\u{b2}", "1/2", "#1", "0b1",
            "1h",
            "9223372036854775808", "18446744073709551616", "18446744073709551617", "99999999999999999999",
            "000000000000000000009223372036854775808", "340282366920938463463374607431768211457",
        ])
    func noLength(_ value: String) async throws {
        try await bench.refuses(post("Content-Length: \(value)", then: "a"))
        try await bench.refuses(post("Content-Length: \(value)", line: "GET / HTTP/1.0", then: "a"))
    }

    @Test("5.1 Leading zeros are decimal, outer whitespace is cut, and the number is printed anew")
    func printed() async throws {
        for (value, number) in [
            ("3", 3), ("007", 7), ("010", 10), (" 3 ", 3), ("\t3\t", 3), ("000", 0),
            ("0000000000000000000000000000000000000004", 4),
        ] {
            try await bench.startOver()
            let body = String(repeating: "b", count: number)
            #expect(try await bench.ask(post("content-length:\(value)", "A: 1", then: body)).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("POST /", ["A: 1", "Content-Length: \(number)"]) + body])
        }
    }

    @Test("5.1 A length of up to 2^63-1 is taken for what it says")
    func longest() async throws {
        let client = try await bench.connect()
        try await client.send(post("Content-Length: 9223372036854775807", line: "POST /hand HTTP/1.1", then: "abc"))
        let peer = try await bench.accept()
        #expect(try await peer.head().contains("\r\nContent-Length: 9223372036854775807\r\n"))
        #expect(try await peer.read(3) == "abc")
        client.reset()
        #expect(try await peer.rest().text == "")
    }

    @Test(
        "5.2 More than one Content-Length, or a list, is refused even if all are equal",
        arguments: [
            "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5\r\nA: 1\r\ncontent-length: 5",
            "Content-Length: 5\r\nContent-Length: 6", "Content-Length: 0\r\nContent-Length: 0", "Content-Length: 5, 5",
            "Content-Length: 5,5", "Content-Length: 5,", "Content-Length: ,5", "Content-Length: 5, 6",
            "Content-Length: 5\r\nContent-Length:", "Content-Length: 5\r\nContent-Length: x", "Content-Length: 5 5",
        ])
    func lengths(_ fields: String) async throws {
        try await bench.refuses(post(fields, then: "abcde"))
        try await bench.refuses(post(fields, line: "POST / HTTP/1.0", then: "abcde"))
    }

    private static let empty = "0\r\n\r\n"

    @Test(
        "5.3 The one word chunked is taken in any case", arguments: ["chunked", "CHUNKED", "cHuNkEd", " \tchunked\t "])
    func chunked(_ word: String) async throws {
        #expect(try await bench.ask(post("transfer-ENCODING:\(word)", then: "1\r\na\r\n0\r\n\r\n")).status == 200)
        #expect(
            bench.received == [HTTPBench.forwarded("POST /", ["Transfer-Encoding: chunked"]) + "1\r\na\r\n0\r\n\r\n"])
    }

    @Test(
        "5.3 An unknown coding, alone or before a final chunked, gets 501",
        arguments: [
            "gzip", "identity", "gzip, chunked", "GZIP ,chunked", "deflate, gzip, chunked", "xchunked", "chunkedx",
            "x-chunked", "chunked-x", "gzip, gzip", "br", "trailers", "identity, chunked", "gzip,deflate",
        ])
    func unknownCoding(_ value: String) async throws {
        try await bench.refuses(post("Transfer-Encoding: \(value)", then: Self.empty), .notImplemented)
        try await bench.refuses(post("Transfer-Encoding: \(value)", line: "GET / HTTP/1.1"), .notImplemented)
    }

    @Test(
        "5.3 Every other Transfer-Encoding is refused",
        arguments: [
            "chunked, gzip", "chunked, chunked", "chunked, identity", "chunked;q=1", "chunked; x", "chunked;", "", " ",
            "chunked,", ",chunked", "chunked,,", ",", "gzip,, chunked", "\"chunked\"", "'chunked\"", "(chunked)",
            "chunk ed",
            "gzip chunked", "chunked gzip", "x chunked", "chunked x", "chunked\u{a0}", "\u{e9}", "gzip, chunked;x",
            "gzip;level=1, chunked", "chunked/1", "chunked=1", "gzip, \"chunked\"", "chunked, gzip, chunked",
        ])
    func otherCoding(_ value: String) async throws {
        try await bench.refuses(post("Transfer-Encoding: \(value)", then: Self.empty))
    }

    @Test("5.3 Transfer-Encoding is one line")
    func codingLines() async throws {
        for (first, second) in [
            ("chunked", "chunked"), ("gzip", "chunked"), ("chunked", "gzip"), ("chunked", ""), ("", "chunked"),
            ("gzip", "gzip"), ("chunked", "identity"),
        ] {
            try await bench.refuses(
                post("Transfer-Encoding: \(first)", "Transfer-Encoding: \(second)", then: Self.empty))
            try await bench.refuses(
                post("Transfer-Encoding: \(first)", "A: 1", "transfer-encoding: \(second)", then: Self.empty))
        }
    }

    @Test("5.4 A length together with a coding is refused, and a coding in HTTP/1.0")
    func both() async throws {
        for coding in ["chunked", "gzip", "gzip, chunked", "", "\"", "identity", "chunked, chunked"] {
            for length in ["0", "5", "x", ""] {
                let (first, second) = ("Content-Length: \(length)", "Transfer-Encoding: \(coding)")
                try await bench.refuses(post(first, second, then: Self.empty))
                try await bench.refuses(post(second, first, then: Self.empty))
            }
            try await bench.refuses(post("Transfer-Encoding: \(coding)", line: "POST / HTTP/1.0", then: Self.empty))
        }
        try await bench.refuses(
            post("Connection: content-length", "Content-Length: 5", "Transfer-Encoding: chunked", then: Self.empty))
        try await bench.refuses(
            post("Connection: transfer-encoding", "Content-Length: 5", "Transfer-Encoding: chunked", then: Self.empty))
    }

    @Test("5.4 It is judged in order: both, more than one line, syntax, misuse of chunked, unknown coding")
    func order() async throws {
        try await bench.refuses(post("Content-Length: 1", "Transfer-Encoding: gzip"), .malformed)
        try await bench.refuses(post("Transfer-Encoding: gzip", "Transfer-Encoding: gzip"), .malformed)
        try await bench.refuses(post("Transfer-Encoding: gzip, x y"), .malformed)
        try await bench.refuses(post("Transfer-Encoding: gzip;q=1"), .malformed)
        try await bench.refuses(post("Transfer-Encoding: chunked, gzip"), .malformed)
        try await bench.refuses(post("Transfer-Encoding: gzip, chunked, chunked"), .malformed)
        try await bench.refuses(post("Transfer-Encoding: gzip, chunked"), .notImplemented)
    }

    @Test("5.5 Without length and coding there is no body, whatever the method; nothing is invented upstream")
    func noBody() async throws {
        let client = try await bench.connect()
        for method in ["POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS", "PROPFIND"] {
            try await bench.startOver()
            try await client.send(post(line: "\(method) /a HTTP/1.1") + post(line: "\(method) /b HTTP/1.1"))
            #expect(try await client.response().status == 200)
            #expect(try await client.response().status == 200)
            #expect(bench.received == [HTTPBench.forwarded("\(method) /a") + HTTPBench.forwarded("\(method) /b")])
            try await bench.startOver()
            try await client.send(post("Content-Length: 0", line: "\(method) /c HTTP/1.1"))
            #expect(try await client.response().status == 200)
            #expect(bench.received == [HTTPBench.forwarded("\(method) /c", ["Content-Length: 0"])])
        }
        try await bench.startOver()
        try await client.send(post(line: "HEAD /a HTTP/1.1") + HTTPBench.plain("/b"))
        #expect(try await client.response(to: "HEAD").status == 200)
        #expect(try await client.response().status == 200)
        #expect(bench.received == [HTTPBench.forwarded("HEAD /a") + HTTPBench.forwarded("GET /b")])
    }

    @Test("5.6 The body of any method goes upstream whole, and the bytes behind it are the next request")
    func anyMethod() async throws {
        let smuggled = HTTPBench.plain("/smuggled")
        let size = String(smuggled.utf8.count, radix: 16)
        for method in ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "PUT", "get", "PROPFIND"] {
            let client = try await bench.connect()
            for (framing, body) in [
                ("Content-Length: \(smuggled.utf8.count)", smuggled),
                ("Transfer-Encoding: chunked", "\(size)\r\n\(smuggled)\r\n0\r\n\r\n"),
            ] {
                try await bench.startOver()
                try await client.send(post(framing, line: "\(method) /a HTTP/1.1", then: body) + HTTPBench.plain("/b"))
                #expect(try await client.response(to: method).status == 200)
                #expect(try await client.response().status == 200)
                #expect(
                    bench.received == [
                        HTTPBench.forwarded("\(method) /a", [framing]) + body + HTTPBench.forwarded("GET /b")
                    ])
            }
        }
    }

    @Test("5.6 Bytes behind a body are the next request, wherever the stream is cut")
    func everyCut() async throws {
        let both = post("Content-Length: 5", line: "POST /a HTTP/1.1", then: "GET /") + HTTPBench.plain("/b")
        let client = try await bench.connect()
        for cut in stride(from: 1, to: both.utf8.count, by: 3) {
            try await bench.startOver()
            try await client.send(String(both.prefixBytes(cut)))
            // What has come so far is sent on before the rest comes.
            try await bench.fence()
            try await client.send(String(both.suffixBytes(from: cut)))
            #expect(try await client.response().status == 200)
            #expect(try await client.response().status == 200)
            #expect(!bench.requests.contains { $0.target == "/smuggled" })
            let all = bench.received.joined()
            #expect(all.contains(HTTPBench.forwarded("POST /a", ["Content-Length: 5"]) + "GET /"))
            #expect(all.contains(HTTPBench.forwarded("GET /b")))
        }
    }

    @Test("5.7 Length stays length, chunked stays chunked, encoded anew; the upstream sees exactly one of the two")
    func framing() async throws {
        let client = try await bench.connect()
        let chunks = "0000001;x=\"y\"\r\na\r\nA\r\n0123456789\r\n00\r\nT: 1\r\n\r\n"
        try await client.send(post("A: 1", "Transfer-Encoding: Chunked", "B: 2", "Trailer: T", then: chunks))
        #expect(try await client.response().status == 200)
        let head = HTTPBench.forwarded("POST /", ["A: 1", "B: 2", "Transfer-Encoding: chunked"])
        #expect(bench.received == [head + "b\r\na0123456789\r\n0\r\n\r\n"])
        try await bench.startOver()
        try await client.send(post("Content-Length: 3", "B: 2", then: "abc"))
        #expect(try await client.response().status == 200)
        #expect(bench.received == [HTTPBench.forwarded("POST /", ["B: 2", "Content-Length: 3"]) + "abc"])
        try await bench.startOver()
        try await client.send(post("Transfer-Encoding: chunked", then: Self.empty))
        #expect(try await client.response().status == 200)
        #expect(bench.received == [HTTPBench.forwarded("POST /", ["Transfer-Encoding: chunked"]) + "0\r\n\r\n"])
    }

    private static let cuts = [
        ("Content-Length: 5", "abc", "abc"), ("Transfer-Encoding: chunked", "3\r\nabc\r\n", "3\r\nabc\r\n"),
        ("Transfer-Encoding: chunked", "5\r\nabc", "3\r\nabc\r\n"),
        ("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n", "3\r\nabc\r\n"),
        ("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\nT: 1\r\n", "3\r\nabc\r\n"),
        ("Transfer-Encoding: chunked", "", ""), ("Content-Length: 1", "", ""),
    ]

    @Test("5.8 A body that ends early gets 400 and never looks complete upstream", arguments: cuts)
    func halfClosed(_ framing: String, _ body: String, _ forwarded: String) async throws {
        let request = post(framing, line: "POST /cut HTTP/1.1", then: body)
        let whole = HTTPBench.forwarded("POST /cut", [framing]) + forwarded
        // Only then is the end: it may abort, unread, what the upstream has not got yet.
        let seen = try await bench.cuts(request) { client in
            try await eventually("the upstream has what came") { bench.received == [whole] }
            client.halfClose()
        }
        #expect(seen == whole)
    }

    @Test("5.8 A body that stands still gets 408 and never looks complete upstream", arguments: cuts)
    func timedOut(_ framing: String, _ body: String, _ forwarded: String) async throws {
        let seen = try await bench.cuts(post(framing, line: "POST /cut HTTP/1.1", then: body), .timeout)
        #expect(seen == HTTPBench.forwarded("POST /cut", [framing]) + forwarded)
    }

    @Test(
        "5.8 A client that closes or resets within a body ends the upstream connection, nothing is completed",
        arguments: cuts)
    func gone(_ framing: String, _ body: String, _ forwarded: String) async throws {
        for resets in [false, true] {
            try await bench.startOver()
            let client = try await bench.connect()
            try await client.send(post(framing, line: "POST /hand/x HTTP/1.1", then: body))
            let peer = try await bench.accept()
            #expect(bench.normalised(try await peer.head()).hasPrefix("POST /hand/x HTTP/1.1\r\n"))
            #expect(try await peer.read(forwarded.utf8.count) == forwarded)
            if resets { client.reset() } else { client.close() }
            #expect(try await peer.rest().text == "")
            // Lines are written by another thread: this one would be counted as the next test's.
            guard !resets else { continue }
            try await eventually("the refusal is logged") {
                bench.lines.contains { $0.event == "request.refused" }
            }
        }
        #expect(try await bench.ask(HTTPBench.plain("/after")).status == 200)
    }

    @Test("5.8 A faulty body gets 400 and never looks complete upstream")
    func faulty() async throws {
        for body in [
            "3\r\nabc0\r\n\r\n", "x", "3\r\nabc\r\n-1\r\n", "3\r\nabc\r\n0\r\n x\r\n\r\n", "3\r\nabc\r\n0\r\n\r\r",
        ] {
            let seen = try await bench.cuts(
                post("Transfer-Encoding: chunked", line: "POST /cut HTTP/1.1", then: body) + HTTPBench.plain("/b"))
            #expect(!seen.hasSuffix("0\r\n\r\n"))
        }
    }
}

extension String {
    fileprivate func prefixBytes(_ count: Int) -> String { String(decoding: utf8.prefix(count), as: UTF8.self) }
    fileprivate func suffixBytes(from start: Int) -> String { String(decoding: utf8.dropFirst(start), as: UTF8.self) }
}
