import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 5: length of a request body.
@Suite(.serialized) struct BodyLengthRuleTests {
    private static let shared = Task { try await HTTPBench.start { $0.route = "timeouts: {request_idle: 1h}" } }
    /// Its clock stands.
    private static let timed = Task {
        try await HTTPBench.startUnderClock { $0.route = "timeouts: {request_idle: 60s}" }.bench
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

    @Test("5.1 A Content-Length that is not plain ASCII digits is refused")
    func noLength() async throws {
        try await bench.refuses(post("Content-Length: +1", then: "a"))
        try await bench.refuses(post("Content-Length: 9223372036854775808", line: "GET / HTTP/1.0", then: "a"))
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

    @Test("5.2 More than one Content-Length, or a list, is refused even if all are equal")
    func lengths() async throws {
        try await bench.refuses(post("Content-Length: 5", "content-length: 5", then: "abcde"))
        try await bench.refuses(post("Content-Length: 5, 5", line: "POST / HTTP/1.0", then: "abcde"))
    }

    private static let empty = "0\r\n\r\n"

    @Test("5.3 The one word chunked is taken in any case")
    func chunked() async throws {
        #expect(try await bench.ask(post("transfer-ENCODING:cHuNkEd", then: "1\r\na\r\n0\r\n\r\n")).status == 200)
        #expect(
            bench.received == [HTTPBench.forwarded("POST /", ["Transfer-Encoding: chunked"]) + "1\r\na\r\n0\r\n\r\n"])
    }

    @Test("5.3 An unknown coding, alone or before a final chunked, gets 501", arguments: ["gzip", "gzip, chunked"])
    func unknownCoding(_ value: String) async throws {
        try await bench.refuses(post("Transfer-Encoding: \(value)", then: Self.empty), .notImplemented)
    }

    @Test("5.3 Every other Transfer-Encoding is refused")
    func otherCoding() async throws {
        try await bench.refuses(post("Transfer-Encoding: chunked, gzip", then: Self.empty))
    }

    @Test("5.3 Transfer-Encoding is one line")
    func codingLines() async throws {
        try await bench.refuses(post("Transfer-Encoding: gzip", "transfer-encoding: chunked", then: Self.empty))
    }

    @Test("5.4 A length together with a coding is refused, and a coding in HTTP/1.0")
    func both() async throws {
        let (length, coding) = ("Content-Length: 5", "Transfer-Encoding: chunked")
        try await bench.refuses(post(length, coding, then: Self.empty))
        try await bench.refuses(post("Connection: content-length", coding, length, then: Self.empty))
        try await bench.refuses(post(coding, line: "POST / HTTP/1.0", then: Self.empty))
    }

    @Test("5.4 It is judged in order: both, more than one line, syntax, misuse of chunked, unknown coding")
    func order() async throws {
        try await bench.refuses(post("Content-Length: 1", "Transfer-Encoding: gzip"), .malformed)
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
        let bench = try await Self.timed.value
        let text = post(framing, line: "POST /cut HTTP/1.1", then: body)
        let seen = try await bench.cuts(text, .timeout, after: .seconds(60))
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
