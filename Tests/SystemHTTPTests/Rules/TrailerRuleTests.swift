import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 6.5 and 6.6.
@Suite(.serialized) struct TrailerRuleTests {
    private static let shared = Task {
        try await HTTPBench.start { $0.route = "inject: {header: X-Key}, redirects: {fields: [X-Next]}" }
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    /// The body of a response to these request fields, as it came, and the head.
    private func response(_ fields: String, _ trailers: String, version: String = "1.1") async throws -> (
        String, String
    ) {
        bench.script { _ in
            .text(
                "HTTP/1.1 200 OK\r\nDate: d\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\(trailers)\r\n"
            )
        }
        let client = try await bench.connect()
        try await client.send("GET / HTTP/\(version)\r\nHost: localhost\r\n\(fields)\r\n")
        let head = try await client.head()
        if version == "1.0" { return (head, try await client.rest().text) }
        client.halfClose()
        return (head, try await client.rest().text)
    }

    @Test(
        "6.5 Response trailers go to an HTTP/1.1 client that sent TE: trailers and Connection: TE, which go upstream, too"
    )
    func wanted() async throws {
        for fields in [
            "TE: trailers\r\nConnection: TE\r\n", "Connection: te, x\r\nte: deflate;q=0.5, TRAILERS\r\nX: 1\r\n",
        ] {
            try await bench.startOver()
            let (head, body) = try await response(fields, "X-Sum: 1\r\nX-sum:  2 \r\nServer-Timing: a;dur=1\r\n")
            #expect(head == "HTTP/1.1 200 OK\r\nDate: d\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n")
            #expect(body == "2\r\nhi\r\n0\r\nX-Sum: 1\r\nX-sum: 2\r\nServer-Timing: a;dur=1\r\n\r\n")
            #expect(
                bench.received == [
                    """
                    GET / HTTP/1.1\r\nHost: up\r\nTE: trailers\r\nConnection: TE\r\nVia: 1.1 lanyard-x\r\n\
                    X-Key: Bearer \(HTTPBench.token)\r\n\r\n
                    """
                ])
        }
    }

    @Test("6.5 All others get neither trailers nor Trailer, and the upstream is not asked for them")
    func unwanted() async throws {
        for (fields, version) in [
            ("", "1.1"), ("TE: trailers\r\n", "1.1"), ("Connection: TE\r\n", "1.1"),
            ("TE: gzip\r\nConnection: TE\r\n", "1.1"), ("TE: trailers\r\nConnection: TE\r\n", "1.0"),
        ] {
            try await bench.startOver()
            let (head, body) = try await response(fields, "X-Sum: 1\r\n", version: version)
            let framing = version == "1.1" ? "Transfer-Encoding: chunked" : "Connection: close"
            #expect(head == "HTTP/1.1 200 OK\r\nDate: d\r\n\(framing)\r\n\r\n")
            #expect(body == (version == "1.1" ? "2\r\nhi\r\n0\r\n\r\n" : "hi"))
            #expect(
                bench.received == [
                    "GET / HTTP/1.1\r\nHost: up\r\nVia: \(version) lanyard-x\r\nX-Key: Bearer \(HTTPBench.token)\r\n\r\n"
                ])
        }
    }

    @Test(
        "6.6 Fields of framing, routing, authentication, caching and others never come from a trailer, nor the injected one",
        arguments: [
            "Content-Length", "Transfer-Encoding", "Trailer", "Host", "Location", "Via", "Connection", "Keep-Alive",
            "Upgrade", "TE", "Proxy-Connection", "Authorization", "WWW-Authenticate", "Proxy-Authenticate",
            "Authentication-Info", "Cookie", "Set-Cookie", "set_cookie", "Cache-Control", "Age", "Expires", "Vary",
            "Date",
            "Pragma", "Content-Type", "Content-Encoding", "Content-Range", "content_type", "X-Key", "x_key",
            "Lanyard-User",
            // They name places of the upstream, and are mapped in a head only.
            "Link", "Refresh", "Operation-Location", "azure-asyncoperation", "SourceMap", "X-SourceMap", "x_sourcemap",
            "Service-Worker-Allowed", "X-Next",
        ])
    func filtered(_ name: String) async throws {
        let (_, body) = try await response("TE: trailers\r\nConnection: TE\r\n", "A: 1\r\n\(name): 7\r\nB: 2\r\n")
        #expect(body == "2\r\nhi\r\n0\r\nA: 1\r\nB: 2\r\n\r\n")
    }

    @Test("10.1 What a head's Connection names does not come from a trailer section either, in either direction")
    func nominated() async throws {
        let client = try await bench.connect()
        for (options, sent, expected) in [
            ("Connection: X-Hop\r\n", "A: 1\r\nX-Hop: 7\r\nB: 2\r\n", "A: 1\r\nB: 2\r\n"),
            ("connection: a1, x-hop\r\nA: 1\r\nConnection: , X-Sum\r\n", "X-Sum: 1\r\nX-HOP: 7\r\nx-hop: 8\r\n", ""),
            ("Connection: X-Hop\r\n", "X-Hopp: 1\r\nX-Ho: 2\r\n", "X-Hopp: 1\r\nX-Ho: 2\r\n"),
            ("Connection: X-Hop\r\n", "", ""), ("Connection: keep-alive\r\n", "X-Hop: 7\r\n", "X-Hop: 7\r\n"),
            ("Connection: close, X-Hop\r\n", "Close: 1\r\nX-Hop: 7\r\n", ""),
        ] {
            bench.script { _ in
                .text(
                    "HTTP/1.1 200 OK\r\nDate: d\r\n\(options)Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\(sent)\r\n"
                )
            }
            try await client.send("GET / HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: TE\r\n\r\n")
            _ = try await client.head()
            let body = "2\r\nhi\r\n0\r\n\(expected)\r\n"
            #expect(try await client.read(body.utf8.count) == body, "\(options)")
        }
        try await bench.startOver()
        let response = try await client.ask(
            "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: X-Hop\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Hop: 1\r\n\r\n"
        )
        #expect(response.status == 200)
        #expect(!bench.received.joined().lowercased().contains("x-hop"))
    }

    @Test("6.4 Faulty trailers of a response end it without its end, whether they are wanted or not")
    func faulty() async throws {
        for fields in ["", "TE: trailers\r\nConnection: TE\r\n"] {
            for trailers in ["X : 1\r\n", "X: \u{1}\r\n", " X: 1\r\n", "X: 1\n", "X\r\n"] {
                try await bench.aborts(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "2\r\nhi\r\n0\r\n\(trailers)\r\n",
                    request: "GET /hand HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
            }
        }
    }
}
