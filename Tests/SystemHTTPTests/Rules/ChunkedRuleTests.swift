import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 6: chunked bodies and trailers, in both directions.
@Suite(.serialized) struct ChunkedRuleTests {
    private static let shared = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private static func request(_ target: String, _ chunks: String, _ fields: String...) -> String {
        "POST \(target) HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            + fields.map { $0 + "\r\n" }.joined() + "\r\n" + chunks
    }

    private static let responseHead = "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n"

    /// Chunks that must be refused, behind a good one, in a request and in a response.
    private func refused(_ chunks: String) async throws {
        let seen = try await bench.cuts(Self.request("/cut", "2\r\nok\r\n" + chunks) + HTTPBench.plain("/behind"))
        let head = HTTPBench.forwarded("POST /cut", ["Transfer-Encoding: chunked"])
        #expect(seen.isEmpty || seen.hasPrefix(head))
        #expect(!seen.hasSuffix("0\r\n\r\n"))
        try await bench.drops(Self.responseHead + "2\r\nok\r\n" + chunks)
        try await bench.aborts(Self.responseHead + "2\r\nok\r\n", chunks)
    }

    /// Chunks of the body `abc` that pass both ways and are encoded anew.
    private func passes(_ chunks: String) async throws {
        try await bench.startOver()
        bench.script { _ in .bytes(Wire.bytes(Self.responseHead + chunks)) }
        let client = try await bench.connect()
        try await client.send(Self.request("/", chunks) + HTTPBench.plain("/next"))
        #expect(try await client.head() == Self.responseHead)
        #expect(try await client.read(13) == "3\r\nabc\r\n0\r\n\r\n")
        #expect(try await client.response().bodyText == "abc")
        let head = HTTPBench.forwarded("POST /", ["Transfer-Encoding: chunked"])
        #expect(bench.received == [head + "3\r\nabc\r\n0\r\n\r\n" + HTTPBench.forwarded("GET /next")])
    }

    @Test("6.1 A chunk size is 1 to 16 hex digits in any case, leading zeros allowed")
    func sizes() async throws { try await passes("0000000000000003\r\nabc\r\n00\r\n\r\n") }

    @Test("6.1 Hex digits count in any case")
    func hexadecimal() async throws {
        for (size, count) in [("A", 10), ("0fF", 255)] {
            try await bench.startOver()
            let body = String(repeating: "b", count: count)
            let response = try await bench.ask(Self.request("/", "\(size)\r\n\(body)\r\n0\r\n\r\n"))
            #expect(response.status == 200)
            #expect(bench.requests.last?.bodyText == body)
        }
    }

    @Test("6.1 Every other chunk size is refused", arguments: ["+1", "00000000000000001", "8000000000000000"])
    func noSizes(_ size: String) async throws { try await refused("\(size)\r\na\r\n0\r\n\r\n") }

    @Test(
        "6.1 Blanks before the end of a chunk-size line are taken in responses and refused in requests",
        arguments: ["3 ", "3\t", "3 \t    ", "0003  ", "3;a=b ", "3 ; a\t", "3;a=\"b\" ", "3;a ;b  "])
    func blanks(_ size: String) async throws {
        for line in [size, "3"] {
            let chunks = "\(line)\r\nabc\r\n\(size.replacing("3", with: "0"))\r\n"
            for trailer in ["", "T: 1\r\n"] {
                try await bench.startOver()
                bench.script { _ in .bytes(Wire.bytes(Self.responseHead + chunks + trailer + "\r\n")) }
                let client = try await bench.connect()
                try await client.send(HTTPBench.plain("/"))
                #expect(try await client.head() == Self.responseHead)
                #expect(try await client.read(13) == "3\r\nabc\r\n0\r\n\r\n")
                // Both connections are in step.
                try await client.send(HTTPBench.plain("/next"))
                #expect(try await client.head() == Self.responseHead)
                #expect(bench.received.count == 1)
            }
            try await bench.cuts(Self.request("/cut", "2\r\nok\r\n" + chunks + "\r\n") + HTTPBench.plain("/behind"))
        }
    }

    @Test(
        "6.1 Other blanks in a chunk-size line are refused in responses as well",
        arguments: [" 3", "\t3", "3 3", "3; ", "3;a= "])
    func otherBlanks(_ size: String) async throws { try await refused("\(size)\r\nabc\r\n0\r\n\r\n") }

    @Test("6.1 Padded sizes of a long response are no extensions, whose sum is limited; a line is")
    func padded() async throws {
        let chunks = String(repeating: "1         \r\na\r\n", count: 4000)
        bench.script { _ in .bytes(Wire.bytes(Self.responseHead + chunks + "0         \r\n\r\n")) }
        #expect(try await bench.ask(HTTPBench.plain("/")).body.count == 4000)
        try await bench.drops(Self.responseHead + "1" + String(repeating: " ", count: 4096) + "\r\na\r\n0\r\n\r\n")
    }

    @Test("6.1 A size of up to 2^63-1 is taken for what it says, both ways")
    func longest() async throws {
        let client = try await bench.connect()
        try await client.send(Self.request("/hand", "7fffffffffffffff\r\nabc"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        #expect(try await peer.read(8) == "3\r\nabc\r\n")
        try await peer.send(Self.responseHead + "7FFFFFFFFFFFFFFF\r\nxyz")
        _ = try await client.head()
        #expect(try await client.read(8) == "3\r\nxyz\r\n")
        client.reset()
        #expect(try await peer.rest().text == "")
    }

    @Test(
        "6.2 After the data come exactly CR and LF, both compared",
        arguments: ["1\r\na\rX0\r\n\r\n", "1\r\naX\n0\r\n\r\n"])
    func dataEnds(_ chunks: String) async throws { try await refused(chunks) }

    @Test(
        "6.2 The body is complete only after zero chunk, trailer section and empty line", arguments: ["", "T: 1\r\n"])
    func completion(_ trailer: String) async throws {
        let client = try await bench.connect()
        try await client.send(Self.request("/hand", "1\r\na\r\n"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        #expect(try await peer.read(6) == "1\r\na\r\n")
        try await client.drip("0\r\n\(trailer)\r")
        // A whole exchange of another client: the end would have come before.
        try await bench.fence()
        try await client.send("\n")
        #expect(try await peer.read(5) == "0\r\n\r\n")
        try await peer.send(Self.responseHead + "1\r\nb\r\n")
        _ = try await client.head()
        #expect(try await client.read(6) == "1\r\nb\r\n")
        try await peer.send("0\r\n\(trailer)\r")
        try await bench.fence()
        try await peer.send("\n")
        #expect(try await client.read(5) == "0\r\n\r\n")
        client.close()
        peer.close()
    }

    @Test(
        "6.2 A response that ends behind its zero chunk is not complete",
        arguments: ["0", "0\r", "0\r\n", "0\r\nT: 1", "0\r\nT: 1\r\n", "0\r\n\r", "1\r\na\r\n", "5\r\na"])
    func endsEarly(_ chunks: String) async throws {
        try await bench.aborts(Self.responseHead + "2\r\nok\r\n", chunks, then: { $0.close() })
    }

    @Test("6.3 Extensions are parsed by their grammar and never forwarded")
    func extensions() async throws {
        let text = "\t ; \ta \t= \t\"x;y=\\\"z\";b"
        try await passes("3\(text)\r\nabc\r\n0\(text)\r\n\r\n")
    }

    @Test("6.3 An extension that breaks its grammar is refused; a CRLF inside quotes ends the line")
    func noExtensions() async throws {
        try await refused("1;a=\"x\r\n1\r\nb\r\n0\r\n\r\n\"\r\na\r\n0\r\n\r\n")
        try await refused("0;a=b c\r\n\r\n")
    }

    @Test("6.4 Trailers of a request are checked, then dropped with Trailer, and never become header fields")
    func requestTrailers() async throws {
        let trailers = "Host: evil\r\nContent-Length: 9\r\nAuthorization: evil\r\nX-Checksum: 1\r\nA: 2\r\n"
        let client = try await bench.connect()
        try await client.send(
            Self.request("/", "1\r\na\r\n0\r\n\(trailers)\r\n", "A: 1", "Trailer: X-Checksum, A", "trailer: B")
                + HTTPBench.plain("/next"))
        #expect(try await client.response().status == 200)
        #expect(try await client.response().status == 200)
        let head = HTTPBench.forwarded("POST /", ["A: 1", "Transfer-Encoding: chunked"])
        #expect(bench.received == [head + "1\r\na\r\n0\r\n\r\n" + HTTPBench.forwarded("GET /next")])
        // http-requests.md 3 and http-connections.md 8 hold for them.
        try await bench.cuts(Self.request("/cut", "1\r\na\r\n0\r\nA : 1\r\n\r\n") + HTTPBench.plain("/behind"))
    }

    @Test(
        "6.6 Fields of framing, routing, connection, authentication, cookies, caching and content never come from a trailer section"
    )
    func forbiddenTrailers() async throws {
        let names = [
            "Transfer-Encoding", "Content-Length", "Host", "Trailer", "Connection", "Keep-Alive", "Upgrade", "TE",
            "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "HTTP2-Settings", "Authorization",
            "WWW-Authenticate", "Authentication-Info", "Proxy-Authentication-Info", "Set-Cookie", "Cookie",
            "Cache-Control", "Expires", "Age", "Date", "Vary", "Warning", "Pragma", "Content-Type", "Content-Encoding",
            "Content-Range", "Location", "Retry-After", "Max-Forwards", "Expect", "Range",
            "Lanyard-X", "Via",
        ]
        let client = try await bench.connect()
        // A trailer section may have 32 fields.
        for start in stride(from: 0, to: names.count, by: 30) {
            let lines = names[start...].prefix(30).map { "\($0): trailed\r\n" }.joined()
            for fields in ["A: 1", "TE: trailers\r\nConnection: TE"] {
                try await bench.startOver()
                bench.script { _ in .text(Self.responseHead + "2\r\nok\r\n0\r\n\(lines)X-Checksum: 1\r\n\r\n") }
                try await client.send(Self.request("/", "1\r\na\r\n0\r\n\(lines)\r\n", fields))
                let response = try await client.response()
                let passed = fields.hasPrefix("TE") ? "X-Checksum: 1\r\n" : ""
                #expect(Wire.text(response.framedBody) == "2\r\nok\r\n0\r\n\(passed)\r\n")
                #expect(!response.headText.contains("trailed"))
                #expect(!bench.received.joined().contains("trailed"))
                #expect(bench.received.joined().hasSuffix("1\r\na\r\n0\r\n\r\n"))
            }
        }
    }

    @Test("6.7 One read goes out as one chunk, so that thousands of one-byte chunks stay cheap")
    func joined() async throws {
        let chunks = String(repeating: "1\r\na\r\n", count: 2_000) + "0\r\n\r\n"
        bench.script { _ in .text(Self.responseHead + chunks) }
        let response = try await bench.ask(Self.request("/", chunks))
        #expect(response.bodyText == String(repeating: "a", count: 2_000))
        let sent = response.framedBody.count { $0 == 0x0a }
        let request = try #require(bench.requests.last)
        #expect(request.bodyText == response.bodyText)
        let got = request.framedBody.count { $0 == 0x0a }
        // Two line ends a chunk; 12 kB come in a few reads, however the kernel cuts them.
        #expect(sent < 100 && got < 100, "\(sent) and \(got) line ends")
    }

    @Test("6.7 A chunk is forwarded at once, before the next is there, both ways")
    func atOnce() async throws {
        let client = try await bench.connect()
        try await client.send(Self.request("/hand", ""))
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await peer.send(Self.responseHead)
        _ = try await client.head()
        for size in [1, 2, 15, 16, 4_096] {
            let data = String(repeating: "d", count: size)
            let chunk = "\(String(size, radix: 16))\r\n\(data)\r\n"
            try await client.send(chunk)
            #expect(try await peer.read(chunk.utf8.count) == chunk)
            try await peer.send(chunk)
            #expect(try await client.read(chunk.utf8.count) == chunk)
        }
        client.close()
        peer.close()
    }
}
