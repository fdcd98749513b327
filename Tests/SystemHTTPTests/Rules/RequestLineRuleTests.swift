import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 1.1 to 1.5: request line and targets.
@Suite(.serialized) struct RequestLineRuleTests {
    private static let shared = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private func line(_ line: String) -> String { "\(line)\r\nHost: localhost\r\n\r\n" }

    @Test("1.1 A request line is exactly METHOD SP TARGET SP HTTP/1.x CRLF, and is never corrected")
    func exact() async throws {
        try await bench.refuses(line("GET  / HTTP/1.1"))
        try await bench.refuses("GET /\r\n\r\n", behind: false)
        #expect(try await bench.ask(line("GET /exact HTTP/1.1")).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /exact")])
    }

    @Test("1.2 The first byte that cannot belong to a request is answered at once, without waiting for a line's end")
    func atOnce() async throws {
        for start in ["\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}", "\u{80}\u{9e}\u{1}", "GET / HTTP/1.1\r\nHost\u{1}"] {
            // Nothing follows: who waited for a line's end would answer 408 in ten seconds.
            try await bench.refuses(start, start.hasPrefix("\u{16}\u{3}") ? .tlsHello : .malformed, behind: false)
        }
    }

    @Test("1.2 Up to four empty lines before a request, also between two, are skipped; more are refused")
    func emptyLines() async throws {
        let four = "\r\n\r\n\r\n\r\n"
        let client = try await bench.connect()
        try await client.send(four + HTTPBench.plain("/first") + four + HTTPBench.plain("/second"))
        #expect(try await client.response().status == 200)
        #expect(try await client.response().status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /first") + HTTPBench.forwarded("GET /second")])
        try await bench.startOver()
        try await bench.refuses(four + "\r\n" + HTTPBench.plain("/"))
        try await bench.refuses(four + "\r\n", behind: false)
        try await bench.refuses("\r\n\n" + HTTPBench.plain("/"))
        try await client.send(HTTPBench.plain("/third") + four + "\r\n" + HTTPBench.plain("/fourth"))
        #expect(try await client.response().status == 200)
        let response = try await client.response()
        #expect(try Refusal.malformed.faults(of: response) == [])
        #expect(try await client.rest() == ("", false))
        #expect(bench.received == [HTTPBench.forwarded("GET /third")])
    }

    @Test("1.3 The method is a case-sensitive token, forwarded as sent")
    func methods() async throws {
        for method in ["POST", "connect", "!#$%&'*+-.^_`|~09azAZ", String(repeating: "M", count: 64)] {
            try await bench.startOver()
            #expect(try await bench.ask(line("\(method) / HTTP/1.1")).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("\(method) /")])
        }
        try await bench.startOver()
        #expect(try await bench.ask(line("HEAD / HTTP/1.1"), to: "HEAD").status == 200)
        #expect(bench.received == [HTTPBench.forwarded("HEAD /")])
    }

    @Test("1.3 A method that is no token is refused, a longer one than 64 bytes gets 501")
    func noMethods() async throws {
        try await bench.refuses(line("G(T / HTTP/1.1"))
        try await bench.refuses(line("\(String(repeating: "M", count: 65)) / HTTP/1.1"), .notImplemented)
        try await bench.refuses(String(repeating: "M", count: 65), .notImplemented, behind: false)
    }

    @Test("1.3 Where HTTP/2 is not spoken its preface is refused by a response of HTTP/1.1; no byte is forwarded")
    func preface() async throws {
        let bench = try await HTTPBench.start {
            $0.listener = "allowed_hosts: [\"localhost:80\"], protocols: [http1]"
        }
        let settings = "\u{0}\u{0}\u{0}\u{4}\u{0}\u{0}\u{0}\u{0}\u{0}"
        for behind in ["", "SM\r\n\r\n", "SM\r\n\r\n\(settings)"] {
            let refused = try await bench.refuses("PRI * HTTP/2.0\r\n\r\n\(behind)", .versionNotSupported)
            #expect(
                try refused.json["message"].string
                    == "this address does not speak HTTP/2; see protocols of the listener")
        }
        #expect(bench.received.isEmpty)
        try await bench.startOver()
        #expect(try await bench.ask(line("PRIX / HTTP/1.1")).status == 200)
    }

    @Test("1.4 HTTP/1.1 to 1.9 are treated as 1.1, another major version gets 505, another spelling 400")
    func versions() async throws {
        for minor in [1, 9] {
            try await bench.startOver()
            let client = try await bench.connect()
            let response = try await client.ask(line("GET / HTTP/1.\(minor)"))
            #expect(response.startLine == "HTTP/1.1 200 OK")
            #expect(response["Connection"] == nil)
            #expect(bench.received == [HTTPBench.forwarded("GET /")])
            #expect(try await client.ask(HTTPBench.plain("/again")).status == 200)
            try await bench.startOver()
            try await bench.refuses("GET / HTTP/1.\(minor)\r\n\r\n")
        }
        try await bench.refuses(line("GET / HTTP/2.0"), .versionNotSupported)
        try await bench.refuses(line("GET / http/1.1"))
    }

    @Test("1.4 HTTP/1.0 has its own rules, and HTTP/1.1 is written to both sides")
    func version10() async throws {
        let client = try await bench.connect()
        try await client.send("GET / HTTP/1.0\r\n\r\n" + HTTPBench.plain("/behind"))
        let response = try await client.response()
        #expect(response.startLine == "HTTP/1.1 200 OK")
        #expect(response["Connection"] == "close")
        #expect(try await client.rest() == ("", false))
        #expect(bench.received == [HTTPBench.forwarded("GET /", via: "1.0")])
    }

    @Test("1.5 Visible ASCII but # passes in a target unchanged, every other byte is refused")
    func targetBytes() async throws {
        let visible = String(decoding: (UInt8(0x21)...0x7e).filter { $0 != UInt8(ascii: "#") }, as: UTF8.self)
        let target = "/" + visible.replacing("%", with: "%25").replacing("?", with: "") + "?" + visible
        #expect(try await bench.ask(line("GET \(target) HTTP/1.1")).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET \(target)")])
        try await bench.refuses(line("GET /a#b HTTP/1.1"))
    }

    @Test("1.5 A target that is neither a path nor a URL nor * is refused")
    func targetForms() async throws {
        try await bench.refuses(line("GET localhost:80 HTTP/1.1"))
    }
}
