import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 8: sizes and counts.
@Suite(.serialized) struct LimitRuleTests {
    private static let shared = Task {
        try await HTTPBench.start {
            $0.routes = "{name: small, match: {path: /cut}, upstream: \"UP\", body_bytes_max: 1000B},"
        }
    }
    private static let configured = Task {
        try await HTTPBench.start {
            $0.limits = "request_line_bytes_max: 300B, header_bytes_max: 1KiB, header_fields_max: 8"
        }
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private static let host = "Host: localhost\r\n"

    private static func run(_ count: Int, of character: Character = "a") -> String {
        String(repeating: character, count: count)
    }

    /// A request line's method and target, so that the whole line has so many bytes.
    private static func target(lineOf count: Int) -> String { "GET /" + run(count - 14) }

    /// A field line of so many bytes, without its end.
    private static func field(_ count: Int) -> String { "X: " + run(count - 3) }

    private static func request(_ fields: [String]) -> String {
        "GET / HTTP/1.1\r\n" + host + fields.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    /// A chunked POST for the small route.
    private static func chunked(_ body: String, path: String = "/cut") -> String {
        "POST \(path) HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + body
    }

    private static let oneByte =
        HTTPBench.forwarded("POST /cut/ok", ["Transfer-Encoding: chunked"]) + "1\r\na\r\n0\r\n\r\n"

    // MARK: Request heads

    @Test("8 A request line of 16 KiB passes, a longer one gets 414 and the end")
    func requestLine() async throws {
        for count in [8000, 16384] {
            try await bench.startOver()
            let line = Self.target(lineOf: count)
            #expect(try await bench.ask("\(line) HTTP/1.1\r\n\(Self.host)\r\n").status == 200)
            #expect(bench.received == [HTTPBench.forwarded(line)])
        }
        try await bench.refuses("\(Self.target(lineOf: 16385)) HTTP/1.1\r\n\(Self.host)\r\n", .lineTooLong)
        try await bench.refuses("\(Self.target(lineOf: 60000)) HTTP/1.1\r\n\(Self.host)\r\n", .lineTooLong)
    }

    @Test("8 A section of 64 KiB, in one field or several, and 128 fields pass, more gets 431 and the end")
    func fields() async throws {
        // With Host's 17 bytes and each line's CRLF, 64 KiB to the byte.
        let full = [Self.field(16384), Self.field(16384), Self.field(16384), Self.field(16359)]
        let many = (2...128).map { "F\($0): \($0)" }
        for fields in [[Self.field(65536 - 19)], full, many] {
            try await bench.startOver()
            #expect(try await bench.ask(Self.request(fields)).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("GET /", fields)])
        }
        try await bench.refuses(Self.request([Self.field(65536 - 18)]), .fieldsTooLarge)
        try await bench.refuses(Self.request(full.dropLast() + [Self.field(16360)]), .fieldsTooLarge)
        try await bench.refuses(Self.request(many + ["F: 129"]), .fieldsTooLarge)
        try await bench.refuses(Self.request((2...5000).map { "F\($0): \($0)" }), .fieldsTooLarge)
    }

    @Test("8 The limits of heads are those of the configuration")
    func configuredLimits() async throws {
        let small = try await Self.configured.value
        try await small.startOver()
        let seven = (2...8).map { "F\($0): \($0)" }
        let full = [Self.field(1024 - 17 - 2)]
        #expect(try await small.ask("\(Self.target(lineOf: 300)) HTTP/1.1\r\n\(Self.host)\r\n").status == 200)
        #expect(try await small.ask(Self.request(seven)).status == 200)
        #expect(try await small.ask(Self.request(full)).status == 200)
        try await small.refuses("\(Self.target(lineOf: 301)) HTTP/1.1\r\n\(Self.host)\r\n", .lineTooLong)
        try await small.refuses(Self.request(seven + ["F: 9"]), .fieldsTooLarge)
        try await small.refuses(Self.request([Self.field(1024 - 17 - 1)]), .fieldsTooLarge)
    }

    @Test("8.1 Limits bite while bytes arrive: what never ends is refused as soon as it is too long")
    func endless() async throws {
        let start = "GET / HTTP/1.1\r\n" + Self.host
        for (text, refusal) in [
            (Self.target(lineOf: 17000), Refusal.lineTooLong), ("GET /?" + Self.run(17000), .lineTooLong),
            (Self.run(65, of: "M"), .notImplemented), (String(repeating: "\r\n", count: 5), .malformed),
            (start + Self.run(65537), .fieldsTooLarge), (start + "X:" + Self.run(65537, of: " "), .fieldsTooLarge),
            (start + Self.field(65537), .fieldsTooLarge),
            (start + String(repeating: "A: " + Self.run(10000) + "\r\n", count: 7), .fieldsTooLarge),
            (start + String(repeating: "A: 1\r\n", count: 128), .fieldsTooLarge),
        ] {
            try await bench.refuses(text, refusal, behind: false)
        }
        for (body, refusal) in [
            ("1;" + Self.run(4096), Refusal.malformed), ("1 " + Self.run(4096, of: " "), .malformed),
            (Self.run(17, of: "0"), .malformed), ("0\r\n" + Self.run(65537), .fieldsTooLarge),
            ("0\r\nX:" + Self.run(65537, of: " "), .fieldsTooLarge),
            ("0\r\n" + String(repeating: "A: 1\r\n", count: 129), .fieldsTooLarge),
        ] {
            try await bench.cuts(Self.chunked(body), refusal)
        }
    }

    // MARK: Request bodies

    @Test(
        "8 A chunk-size line of 4 KiB and 16 KiB of extensions beyond the data's share pass, more gets 400 and the end")
    func extensions() async throws {
        let longest = "1;" + Self.run(4096 - 4) + "\r\na\r\n"
        #expect(try await bench.ask(Self.chunked(longest + "0\r\n\r\n", path: "/cut/ok")).status == 200)
        #expect(bench.received == [Self.oneByte])
        try await bench.cuts(Self.chunked("1;" + Self.run(4096 - 3) + "\r\na\r\n0\r\n\r\n"))
        // Four lines hold nearly 16 KiB; the message's sum counts, not each line's.
        let four = String(repeating: "1;" + Self.run(4080) + "\r\na\r\n", count: 4)
        try await bench.startOver()
        #expect(try await bench.ask(Self.chunked(four + "0\r\n\r\n", path: "/cut/ok")).status == 200)
        #expect(bench.requests.last?.body.count == 4)
        try await bench.cuts(Self.chunked(four + "1;" + Self.run(200) + "\r\na\r\n0\r\n\r\n"))
        // Signatures of 100 bytes for chunks of 64: a body of any length may have them.
        let signed = String(repeating: "40;sign=" + Self.run(100) + "\r\n" + Self.run(64) + "\r\n", count: 1000)
        try await bench.startOver()
        let post = "POST / HTTP/1.1\r\n\(Self.host)Transfer-Encoding: chunked\r\n\r\n"
        #expect(try await bench.ask(post + signed + "0\r\n\r\n").status == 200)
        #expect(bench.requests.last?.body.count == 64_000)
    }

    @Test(
        "8 A trailer section has the limits of a field section: 64 KiB and 128 fields pass, more gets 431 and the end")
    func trailers() async throws {
        let full = Self.field(65536 - 2) + "\r\n"
        let many = (1...128).map { "T\($0): \($0)\r\n" }.joined()
        for trailers in [full, many] {
            try await bench.startOver()
            #expect(
                try await bench.ask(Self.chunked("1\r\na\r\n0\r\n" + trailers + "\r\n", path: "/cut/ok")).status == 200)
            #expect(bench.received == [Self.oneByte])
        }
        for trailers in [Self.field(65536 - 1) + "\r\n", full + "T: 1\r\n", many + "T: 129\r\n"] {
            try await bench.cuts(Self.chunked("1\r\na\r\n0\r\n" + trailers + "\r\n"), .fieldsTooLarge)
        }
    }

    @Test("8 A body beyond body_bytes_max gets 413 and the end; an announced one before anything goes upstream")
    func bodySize() async throws {
        func post(_ length: Int, _ fields: String = "") -> String {
            "POST /cut/ok HTTP/1.1\r\n" + Self.host + fields + "Content-Length: \(length)\r\n\r\n"
        }
        #expect(try await bench.ask(post(1000) + Self.run(1000)).status == 200)
        #expect(
            bench.received == [HTTPBench.forwarded("POST /cut/ok", ["Content-Length: 1000"]) + Self.run(1000)])
        try await bench.refuses(post(1001) + Self.run(1001), .contentTooLarge)
        try await bench.refuses(post(1001), .contentTooLarge, behind: false)
        try await bench.refuses(post(.max), .contentTooLarge, behind: false)
        try await bench.refuses(post(1001, "Expect: 100-continue\r\n"), .contentTooLarge, behind: false)
        try await bench.startOver()
        #expect(
            try await bench.ask(Self.chunked("3e8\r\n" + Self.run(1000) + "\r\n0\r\n\r\n", path: "/cut/ok")).status
                == 200)
        let seen = try await bench.cuts(
            Self.chunked("3e8\r\n" + Self.run(1000) + "\r\n1\r\na\r\n0\r\n\r\n"), .contentTooLarge)
        #expect(!seen.hasSuffix("0\r\n\r\n"))
        // Elsewhere there is no limit.
        try await bench.startOver()
        #expect(
            try await bench.ask("POST / HTTP/1.1\r\n\(Self.host)Content-Length: 200000\r\n\r\n" + Self.run(200_000))
                .status == 200)
    }

    @Test("8.2 Lengths are 64-bit: a body beyond 4 GiB is announced and counted exactly, both ways")
    func lengths() async throws {
        let client = try await bench.connect()
        let length = 1 << 33 | 5
        try await client.send("POST /hand HTTP/1.1\r\n\(Self.host)Content-Length: \(length)\r\n\r\nabcde")
        let peer = try await bench.accept()
        #expect(try await peer.head().contains("\r\nContent-Length: \(length)\r\n"))
        #expect(try await peer.read(5) == "abcde")
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\nfghij")
        #expect(try await client.head().contains("\r\nContent-Length: \(length)\r\n"))
        #expect(try await client.read(5) == "fghij")
        // Were the length cut to 32 bits, five bytes would have been the whole of each.
        try await client.send("k")
        #expect(try await peer.read(1) == "k")
        try await peer.send("l")
        #expect(try await client.read(1) == "l")
        client.reset()
        #expect(try await peer.rest().text == "")
        let other = try await bench.connect()
        try await other.send(
            "POST /hand HTTP/1.1\r\n\(Self.host)Transfer-Encoding: chunked\r\n\r\n200000001\r\na")
        let second = try await bench.accept()
        _ = try await second.head()
        #expect(try await second.read(6) == "1\r\na\r\n")
        try await other.send("b")
        #expect(try await second.read(6) == "1\r\nb\r\n")
        other.reset()
        #expect(try await second.rest().text == "")
    }

    // MARK: Responses

    private static func response(_ fields: [String], line: String = "HTTP/1.1 200 OK") -> String {
        line + "\r\nContent-Length: 2\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\nok"
    }

    @Test("8 A response head within 8 KiB, 512 KiB and 1024 fields is relayed, a larger one gets 502")
    func responseHead() async throws {
        let reason = "HTTP/1.1 200 " + Self.run(8192 - 13)
        // With Content-Length's 19 bytes, 512 KiB to the byte.
        let full = Array(repeating: Self.field(131_072 - 2), count: 3) + [Self.field(131_072 - 19 - 2)]
        let many = (2...1024).map { "F\($0): \($0)" }
        for text in [
            Self.response([], line: reason), Self.response([Self.field(40_000)]), Self.response(full),
            Self.response([Self.field(524_288 - 19 - 2)]), Self.response(Array(many.prefix(299))), Self.response(many),
        ] {
            try await bench.startOver()
            bench.script { _ in .text(text) }
            let response = try await bench.ask(HTTPBench.plain("/"))
            #expect(response.status == 200)
            #expect(response.bodyText == "ok")
            #expect(response.head.count > text.utf8.count - 30)
        }
        for text in [
            Self.response([], line: reason + "a"), Self.response([Self.field(524_288 - 19 - 1)]),
            Self.response(full.dropLast() + [Self.field(131_072 - 19 - 1)]), Self.response(many + ["F: 1025"]),
            // Without an end: the limits bite while bytes arrive.
            "HTTP/1.1 200 " + Self.run(8200), "HTTP/1.1 200 OK\r\n" + Self.field(524_289),
            "HTTP/1.1 200 OK\r\n" + Self.run(524_289),
            "HTTP/1.1 200 OK\r\n" + String(repeating: "A: 1\r\n", count: 1025),
            "HTTP/1.1 200 OK\r\n" + String(repeating: Self.field(30000) + "\r\n", count: 18),
        ] {
            try await bench.drops(text, .upstreamHeadTooLarge)
        }
    }

    @Test(
        "8 Keys raise what a head may have: a request's field of 24 KiB and of 500 KiB, a response's of 900 KiB and 4000 fields"
    )
    func raisedLimits() async throws {
        let wide = try await HTTPBench.start {
            $0.limits = """
                header_bytes_max: 512KiB, header_fields_max: 3000, response_header_bytes_max: 1MiB, \
                response_header_fields_max: 4096
                """
        }
        for fields in [[Self.field(24_000)], [Self.field(500_000)], (2...3000).map { "F\($0): \($0)" }] {
            try await wide.startOver()
            #expect(try await wide.ask(Self.request(fields)).status == 200)
            #expect(wide.received == [HTTPBench.forwarded("GET /", fields)])
        }
        try await wide.refuses(Self.request([Self.field(524_288)]), .fieldsTooLarge)
        let trailers = Self.field(500_000) + "\r\n"
        #expect(try await wide.ask(Self.chunked("1\r\na\r\n0\r\n" + trailers + "\r\n", path: "/")).status == 200)
        for fields in [[Self.field(900_000)], (2...4000).map { "F\($0): \($0)" }] {
            try await wide.startOver()
            wide.script { _ in .text(Self.response(fields)) }
            let response = try await wide.ask(HTTPBench.plain("/"))
            #expect(response.status == 200)
            #expect(response.bodyText == "ok")
        }
        // Also as trailers, to a client that wants them.
        try await wide.startOver()
        let many = (1...3000).map { "T\($0): \($0)\r\n" }.joined()
        wide.script { _ in .text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\(many)\r\n") }
        let client = try await wide.connect()
        try await client.send("GET / HTTP/1.1\r\n\(Self.host)TE: trailers\r\nConnection: TE, close\r\n\r\n")
        #expect(try await client.rest().text.hasSuffix("1\r\na\r\n0\r\n\(many)\r\n"))
        #expect(try await wide.values(of: "lanyard_buffer_bytes")[""] ?? .max <= 1 << 20)
    }

    @Test("8 64 interim responses at once are relayed, a flood gets 502")
    func interims() async throws {
        let short = "HTTP/1.1 102 Processing\r\n\r\n"
        let long = "HTTP/1.1 103 Early Hints\r\n" + Self.field(30000) + "\r\n\r\n"
        for (interim, count) in [(short, 64), (long, 16)] {
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain("/hand"))
            let peer = try await bench.accept()
            _ = try await peer.head()
            try await peer.send(String(repeating: interim, count: count) + Self.response([]))
            for _ in 0..<count { #expect(try await client.head() == interim) }
            #expect(try await client.response().bodyText == "ok")
            try await client.send(HTTPBench.plain("/hand"))
            _ = try await peer.head()
            // Lanyard closes while it is on its way.
            try? await peer.send(String(repeating: interim, count: 2000))
            var status = 102
            while status < 200 {
                status = try await client.head().split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
            }
            #expect(status == 502)
        }
    }

    @Test("8 A resumable upload: one more interim response for each KiB of the body that went upstream")
    func interimsOfUpload() async throws {
        let interim = "HTTP/1.1 104 Upload Resumption Supported\r\nUpload-Offset: 4096\r\n\r\n"
        let part = String(repeating: "x", count: 4096)
        let client = try await bench.connect()
        try await client.send("POST /hand HTTP/1.1\r\n\(Self.host)Content-Length: \(256 * 4096)\r\n\r\n")
        let peer = try await bench.accept()
        _ = try await peer.head()
        for _ in 0..<256 {
            try await client.send(part)
            #expect(try await peer.read(4096) == part)
            try await peer.send(interim)
            #expect(try await client.head() == interim)
        }
        try await peer.send(Self.response([]))
        #expect(try await client.response().bodyText == "ok")
        // Four are paid for, and 64 pass at once.
        try await client.send("POST /hand HTTP/1.1\r\n\(Self.host)Content-Length: 4096\r\n\r\n\(part)")
        _ = try await peer.head()
        #expect(try await peer.read(4096) == part)
        // Lanyard closes while it is on its way.
        try? await peer.send(String(repeating: interim, count: 2000))
        var (status, count) = (104, -1)
        while status < 200 {
            status = try await client.head().split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
            count += 1
        }
        #expect(status == 502 && count >= 68)
    }

    @Test("8 Heads that upstreams leave unfinished fill no memory for long: they give way, and other requests continue")
    func hoardedHeads() async throws {
        let own = try await HTTPBench.start { $0.limits = "buffer_bytes_max: 1MiB" }
        let line = "A: \(String(repeating: "b", count: 30_000))\r\n"
        let part = "HTTP/1.1 200 OK\r\n" + String(repeating: line, count: 4)
        own.script { $0.message.target == "/hoard" ? .text(part) : .response() }
        var partialHeads: [Wire] = []
        for _ in 0..<16 {
            let client = try await own.connect()
            try await client.send(HTTPBench.plain("/hoard"))
            partialHeads.append(client)
        }
        try await eventually("some gave way") {
            try await own.values(of: "lanyard_requests_total", by: "code_class")["5xx"] ?? 0 > 0
        }
        // On a loaded machine some heads still come when others have given way: each of these may crowd the memory for a moment.
        try await eventually("twenty others in a row are served") {
            for _ in 0..<20 where try await own.ask(HTTPBench.plain("/")).status != 200 { return false }
            return true
        }
        #expect(try await own.values(of: "lanyard_buffer_bytes")[""] ?? .max <= 7 << 17)
    }
}
