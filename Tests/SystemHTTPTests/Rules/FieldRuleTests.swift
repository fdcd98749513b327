import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 3: one strict parser for the fields of requests, responses and trailers.
@Suite(.serialized) struct FieldRuleTests {
    private static let shared = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private static let chunkedRequest =
        "POST /cut HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
    private static let chunkedResponse = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"

    /// Field lines that must be refused wherever they stand: in a request, a response, the trailers of both.
    private func refusedEverywhere(_ lines: String) async throws {
        try await bench.refuses("GET / HTTP/1.1\r\nHost: localhost\r\n\(lines)\r\n")
        try await bench.drops("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\(lines)\r\nok")
        try await bench.cuts("\(Self.chunkedRequest)0\r\n\(lines)\r\n" + HTTPBench.plain("/behind"))
        try await bench.drops("\(Self.chunkedResponse)0\r\n\(lines)\r\n")
        try await bench.aborts(Self.chunkedResponse, "0\r\n\(lines)\r\n")
    }

    /// Field lines that pass both ways, as they are or as `passed` says.
    private func passes(_ lines: [String], as passed: [String]? = nil) async throws {
        try await bench.startOver()
        let head = lines.map { $0 + "\r\n" }.joined()
        bench.script { _ in .bytes(Wire.bytes("HTTP/1.1 200 OK\r\nDate: d\r\n\(head)Content-Length: 2\r\n\r\nok")) }
        let client = try await bench.connect()
        try await client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\(head)\r\n")
        let response = try await client.head()
        let expected = (passed ?? lines).map { $0 + "\r\n" }.joined()
        #expect(response == "HTTP/1.1 200 OK\r\nDate: d\r\n\(expected)Content-Length: 2\r\n\r\n")
        #expect(bench.received == [HTTPBench.forwarded("GET /", passed ?? lines)])
    }

    @Test("3.1 Only CRLF ends a line: a bare CR or LF anywhere in a head or trailer section is refused")
    func lineEnds() async throws { try await refusedEverywhere("A: 1\nB: 2\r\n") }

    @Test("3.1 A bare CR or LF in a start line or a chunk line is refused")
    func otherLineEnds() async throws {
        try await bench.refuses("GET / HTTP/1.1\nHost: localhost\r\n\r\n")
        try await bench.drops("HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok")
        try await bench.cuts(Self.chunkedRequest + "1\nb\r\n0\r\n\r\n" + HTTPBench.plain("/behind"))
        try await bench.drops(Self.chunkedResponse + "1\nb\r\n0\r\n\r\n")
        try await bench.aborts(Self.chunkedResponse, "1\nb\r\n0\r\n\r\n")
    }

    @Test("3.2 NUL and other controls except HTAB are refused in values and reason phrases")
    func controls() async throws {
        try await refusedEverywhere("A: x\u{0}y\r\n")
        try await bench.drops("HTTP/1.1 200 O\u{1b}K\r\nContent-Length: 2\r\n\r\nok")
        try await passes(["A: x\ty", "B: \u{80}\u{ff}"])
    }

    @Test("3.3 A name is token characters directly followed by the colon")
    func names() async throws { try await refusedEverywhere("A : 1\r\n") }

    @Test("3.4 A line that begins with space or tab is refused, a folded one as well as the first after the start line")
    func folded() async throws {
        try await refusedEverywhere("A: 1\r\n 2\r\n")
        try await bench.refuses("GET / HTTP/1.1\r\n A: 1\r\nHost: localhost\r\n\r\n")
        try await bench.drops("HTTP/1.1 200 OK\r\n A: 1\r\nContent-Length: 2\r\n\r\nok")
    }

    @Test("3.5 Spelling, order and repetition of lines, empty values and every lawful byte are kept as received")
    func kept() async throws {
        try await passes(["x-b: 2", "X-A: 1", "x-a: 1", "X-B: 2", "X-a: 3", "X_C: 1", "xc: 1"])
        try await passes(["!#$%&'*+-.^_`|~09azAZ: v", "A: ", "B: ", "A: ", "a: ,, ,"])
        try await passes([
            "A: x  y\t z", "B: \u{80}\u{fe}\u{ff}\u{a0}", "C: \"q\\\"\", (c), {}[]<>@:;?=", "D: %00%0d%0a",
        ])
        try await passes(["A:1", "B:  2 ", "C:\t3\t ", "D: \t ", "E:"], as: ["A: 1", "B: 2", "C: 3", "D: ", "E: "])
        try await passes(["A: \u{a0}x\u{a0}", "B: \u{85}"])
        try await passes(["A:: 1", "B: :2:"], as: ["A: : 1", "B: :2:"])
    }

    @Test("3.5 Cookie and Set-Cookie are never joined")
    func cookies() async throws {
        try await passes([
            "Cookie: a=1", "X: 1", "cookie: b=2; c=3", "Cookie: ", "Set-Cookie: a=1; Path=/", "set-cookie: b, c",
        ])
    }

    @Test("3.6 Names compare without case")
    func caseless() async throws {
        bench.script { _ in .text("HTTP/1.1 200 OK\r\nDATE: d\r\ncOnTeNt-LeNgTh: 2\r\nKEEP-alive: x\r\n\r\nok") }
        let client = try await bench.connect()
        try await client.send("POST / HTTP/1.1\r\nhOsT: localhost\r\nCONTENT-length: 3\r\nkeep-ALIVE: 1\r\n\r\nabc")
        #expect(try await client.head() == "HTTP/1.1 200 OK\r\nDATE: d\r\nContent-Length: 2\r\n\r\n")
        #expect(try await client.read(2) == "ok")
        #expect(bench.received == [HTTPBench.forwarded("POST /", ["Content-Length: 3"]) + "abc"])
        try await bench.refuses("GET / HTTP/1.1\r\nHOST: localhost\r\nhost: localhost\r\n\r\n")
    }

    @Test("3.6 A list is the sum of all lines of its name, its words have no case, and empty members are skipped")
    func lists() async throws {
        for connection in [
            ["CLOSE"], ["x", "cLose"], [",, close ,,"], ["keep-alive, close"], [" , \t,close", "x"], ["", "close", ""],
        ] {
            try await bench.startOver()
            let client = try await bench.connect()
            let lines = connection.map { "connection: \($0)\r\n" }.joined()
            try await client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\(lines)\r\n" + HTTPBench.plain("/behind"))
            let response = try await client.response()
            #expect(response["Connection"] == "close")
            #expect(try await client.rest() == ("", false))
            #expect(bench.received == [HTTPBench.forwarded("GET /")])
        }
        try await bench.startOver()
        let client = try await bench.connect()
        let lines =
            "Connection: ,x-ONE\r\nX-One: 1\r\nx-two: 2\r\nCONNECTION: , ,X-TWO, ,\r\nX-Three: 3\r\nConnection:\r\n"
        #expect(try await client.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\(lines)\r\n").status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /", ["X-Three: 3"])])
        // Not so where a list frames the message.
        try await bench.refuses("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked,\r\n\r\n0\r\n\r\n")
        try await bench.drops("HTTP/1.1 200 OK\r\nTransfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n")
    }
}
