import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 1.6 to 1.10: targets that name a server, and methods of their own kind.
@Suite(.serialized) struct TargetRuleTests {
    private static let shared = Task {
        try await HTTPBench.start {
            $0.listener = "allowed_hosts: [\"localhost:80\", \"localhost:8080\", \"[::1]:80\"]"
        }
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private func request(_ line: String, host: String = "localhost", _ fields: String...) -> String {
        "\(line) HTTP/1.1\r\nHost: \(host)\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    @Test(
        "1.6 An absolute target is forwarded in origin-form",
        arguments: [
            ("http://localhost/a?b", "localhost", "/a?b"), ("http://localhost", "localhost", "/"),
            ("http://localhost?q", "localhost", "/?q"), ("http://localhost/?", "localhost", "/?"),
            ("HTTP://LocalHost/a", "localhost", "/a"), ("hTTp://localhost/a", "LOCALHOST", "/a"),
            ("http://localhost:80/", "localhost", "/"), ("http://localhost/", "localhost:80", "/"),
            ("http://localhost:080/", "localhost", "/"), ("http://localhost:8080//x", "localhost:8080", "//x"),
            ("http://[::1]/x", "[::1]:80", "/x"), ("http://localhost/http://evil/", "localhost", "/http://evil/"),
        ])
    func absolute(_ target: String, _ host: String, _ expected: String) async throws {
        #expect(try await bench.ask(request("GET \(target)", host: host)).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET \(expected)")])
    }

    @Test("1.6 Another scheme gets 421; user information and an authority that is not Host's get 400 close")
    func otherAuthority() async throws {
        for target in ["https://localhost/", "ftp://localhost/", "ws://localhost/", "h2c://localhost/", "a+b.c-d://x/"]
        {
            try await bench.refuses(request("GET \(target)"), .host)
        }
        for target in [
            "http://u@localhost/", "http://u:p@localhost/", "http://@localhost/", "http://evil/",
            "http://localhost:81/",
            "http://localhost.evil/", "http://localhost:/", "http://localhost:80:80/", "http://localhost:x/",
            "http://localhost%2f/", "http://localhost,localhost/", "http://[::1]/", "http://localhost:99999/",
            "http://localhost\\@evil/", "http://localhost;x/",
        ] {
            try await bench.refuses(request("GET \(target)"))
        }
        try await bench.refuses(request("GET http://localhost/", host: "localhost:8080"))
        try await bench.refuses(request("GET http://evil/", host: "evil"), .host)
        // The comparison precedes the allow-list: neither of the two is allowed, or only one.
        for (target, host) in [
            ("http://localhost/", "evil"), ("http://localhost/", "localhost:81"), ("http://evil/", "other.test"),
            ("http://localhost:80/", "[::1]:81"),
        ] {
            try await bench.refuses(request("GET \(target)", host: host))
            try await bench.refuses("GET \(target) HTTP/1.0\r\nHost: \(host)\r\n\r\n")
        }
        // HTTP/1.0 may come without Host: the target speaks for it.
        try await bench.startOver()
        #expect(try await bench.ask("GET http://localhost/x HTTP/1.0\r\n\r\n").status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /x", via: "1.0")])
        let response = try await bench.ask("GET http://evil/ HTTP/1.0\r\n\r\n")
        #expect(try Refusal.host.closing.faults(of: response) == [])
    }

    @Test("1.7 A client never chooses where Lanyard connects")
    func decoy() async throws {
        let decoy = try RawServer()
        let evil = "\(decoy.endpoint)"
        for (target, host) in [
            ("//\(evil)/x", "localhost"), ("/@\(evil)/", "localhost"), ("//u:p@\(evil)/", "localhost"),
            ("/http://\(evil)/", "localhost"), ("/?url=http://\(evil)/", "localhost"), ("///\(evil)", "localhost"),
            ("/\\\(evil)/", "localhost"), ("/:\(decoy.endpoint.port)", "localhost"),
        ] {
            try await bench.startOver()
            #expect(try await bench.ask(request("GET \(target)", host: host)).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("GET \(target)")])
        }
        try await bench.refuses(request("GET http://\(evil)/", host: evil), .host)
        try await bench.refuses(request("GET http://\(evil)/"))
        try await bench.refuses(request("GET /", host: evil), .host)
        try await bench.refuses(request("GET /", host: "localhost@\(evil)"))
        try await bench.refuses(request("GET http://localhost@\(evil)/"))
        try await bench.refuses(request("CONNECT \(evil)"), Refusal.method.closing)
        #expect(decoy.connectionCount == 0)
    }

    @Test("1.8 OPTIONS of the server is answered here, after the rules of Host and Origin")
    func asterisk() async throws {
        let client = try await bench.connect()
        for target in ["*", "http://localhost", "HTTP://localhost:80"] {
            let response = try await client.ask(request("OPTIONS \(target)"))
            #expect(response.startLine == "HTTP/1.1 200 OK")
            #expect(response["Content-Length"] == "0")
            #expect(response["Date"] != nil)
            #expect(response["Connection"] == nil)
        }
        #expect(bench.received == [])
        try await bench.refuses(request("OPTIONS *", host: "evil"), .host)
        try await bench.refuses(request("OPTIONS *", "Origin: http://evil"), .origin)
        try await bench.refuses(request("OPTIONS *", "Max-Forwards: x"), .malformedButFramed)
        for fields in [[], ["Max-Forwards: 0"]] {
            for target in ["*", "http://localhost"] {
                let lines = ["Expect: x", "Content-Length: 1"] + fields
                try await bench.refuses(request("OPTIONS \(target)", lines.joined(separator: "\r\n")), .expectation)
            }
        }
        try await bench.refuses(
            request("OPTIONS /x", "Max-Forwards: 0", "Expect: x", "Content-Length: 1"), .expectation)
        try await bench.refuses("OPTIONS * HTTP/1.1\r\n\r\n")
        for target in ["http://localhost/", "http://localhost?q", "/*", "/"] {
            try await bench.startOver()
            #expect(try await bench.ask(request("OPTIONS \(target)")).status == 200)
            let origin = target.hasPrefix("/") ? target : "/" + target.dropFirst(16).drop { $0 == "/" }
            #expect(bench.received == [HTTPBench.forwarded("OPTIONS \(origin)")])
        }
    }

    @Test("1.8 Any other use of * is refused")
    func otherAsterisk() async throws {
        for line in ["GET *", "options *", "OPTIONS *?q"] { try await bench.refuses(request(line)) }
    }

    @Test("1.9 CONNECT gets 405 and the end, no tunnel; Allow is told")
    func connect() async throws {
        for target in ["localhost:80", "evil.example:443", "/", "*", "http://localhost/", "localhost"] {
            let response = try await bench.refuses(request("CONNECT \(target)"), Refusal.method.closing)
            #expect(response["Allow"]?.contains("GET") == true)
            #expect(response["Allow"]?.contains("CONNECT") == false)
        }
    }

    @Test("1.9 TRACE gets 405 and is never forwarded, lest its echo show the bearer; Allow is told")
    func trace() async throws {
        for fields in ["X: 1", "Max-Forwards: 0", "Max-Forwards: 5"] {
            let response = try await bench.refuses(request("TRACE /", fields), .method)
            #expect(response["Allow"]?.contains("GET") == true)
            #expect(response["Allow"]?.contains("TRACE") == false)
            #expect(!response.bodyText.contains(HTTPBench.token))
        }
    }

    @Test("1.10 Max-Forwards of OPTIONS: 0 is answered here, N is forwarded as N-1, anything else is 400")
    func maxForwards() async throws {
        let client = try await bench.connect()
        for zero in ["0", "00"] {
            let response = try await client.ask(request("OPTIONS /x", "Max-Forwards: \(zero)"))
            #expect(response.startLine == "HTTP/1.1 200 OK")
            #expect(response["Content-Length"] == "0")
        }
        #expect(bench.received == [])
        for (number, next) in [("1", "0"), ("7", "6"), ("010", "9"), ("4294967296", "4294967295")] {
            try await bench.startOver()
            #expect(try await client.ask(request("OPTIONS /x", "max-forwards: \(number)")).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("OPTIONS /x", ["Max-Forwards: \(next)"])])
        }
        for odd in ["", "x", "-1", "+1", "1.5", "1, 1", "1;", "0x1", "1 1", "99999999999999999999"] {
            try await bench.refuses(request("OPTIONS /x", "Max-Forwards: \(odd)"), .malformedButFramed)
        }
        try await bench.refuses(request("OPTIONS /x", "Max-Forwards: 1", "Max-Forwards: 1"), .malformedButFramed)
        for value in ["0", "7", "x", ""] {
            try await bench.startOver()
            #expect(try await client.ask(request("GET /", "Max-Forwards: \(value)")).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("GET /", ["Max-Forwards: \(value)"])])
        }
        // Named by Connection it is a field of this hop (http-forwarding.md 10.1).
        try await bench.startOver()
        let named = request("OPTIONS /", "Max-Forwards: 7", "Connection: max-forwards")
        #expect(try await client.ask(named).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("OPTIONS /")])
    }
}
