import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 13: a bad upstream.
@Suite(.serialized) struct BadUpstreamRuleTests {
    private static let shared = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private static let ok = "HTTP/1.1 200 OK\r\n"

    // MARK: 13.1

    @Test("13.1 A connection that ends before a byte, or within the head, is 502")
    func endsEarly() async throws {
        for end in [RawResponse.Step.close, .reset] {
            let response = try await bench.drops("", then: [end], .upstreamTerminated)
            #expect(try response.json["retryable"].bool == true && response["X-Should-Retry"] == nil)
            #expect(try response.json["title"].string == "Upstream closed the connection")
            for text in ["H", Self.ok + "A: 1\r\n\r"] {
                try await bench.drops(text, then: [end], .upstreamIncomplete)
            }
        }
    }

    @Test(
        "13.1 What is not HTTP, another major version, a status that is none: 502",
        arguments: ["\u{16}\u{3}\u{1}\u{2}\u{0}", "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n"])
    func notHTTP(_ text: String) async throws { try await bench.drops(text) }

    @Test("13.1 The syntax of §3 holds for responses, so that none is split")
    func syntax() async throws { try await bench.drops(Self.ok + "A: 1\rB: 2\r\n\r\n") }

    // MARK: 13.2, 13.3

    @Test(
        "13.2 A Content-Length that is invalid, repeated or a list is 502",
        arguments: ["Content-Length: +2", "Content-Length: 2\r\ncontent-length: 2", "Content-Length: 2, 2"])
    func lengths(_ fields: String) async throws { try await bench.drops(Self.ok + fields + "\r\n\r\nok") }

    @Test(
        "13.3 Length and coding together, any coding but one chunked, any coding in HTTP/1.0: 502",
        arguments: [
            ok + "Content-Length: 2\r\nTransfer-Encoding: chunked", ok + "Transfer-Encoding: gzip, chunked",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked",
        ])
    func codings(_ head: String) async throws { try await bench.drops(head + "\r\n\r\n0\r\n\r\n") }

    // MARK: 13.4

    @Test("13.4 Bytes beyond a response go to no client, and the connection is never used again")
    func beyond() async throws {
        let forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
        for (method, head, body) in [
            ("GET", Self.ok + "Content-Length: 2\r\n\r\nok", "ok"),
            ("GET", Self.ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "2\r\nok\r\n0\r\n\r\n"),
            ("GET", Self.ok + "Content-Length: 0\r\n\r\n", ""), ("HEAD", Self.ok + "Content-Length: 2\r\n\r\n", ""),
            ("HEAD", Self.ok + "\r\n", ""), ("GET", "HTTP/1.1 204 No Content\r\n\r\n", ""),
            ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", ""),
        ] {
            for behind in [forged, "x", "\r\n"] {
                // At once, or when the client has the response already.
                for isLate in [false, true] {
                    let name = Comment(
                        rawValue: "\(method) \(head.debugDescription) \(behind.debugDescription) \(isLate)")
                    let client = try await bench.connect()
                    try await client.send("\(method) /hand HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    let peer = try await bench.accept()
                    _ = try await peer.head()
                    try await peer.send(isLate ? head : head + behind)
                    _ = try await client.head()
                    #expect(try await client.read(body.utf8.count) == body, name)
                    if isLate { try? await peer.send(behind) }
                    // The connection ends: no bytes await the next request on it.
                    #expect(try await peer.rest().text == "", name)
                    #expect(try await client.ask(HTTPBench.plain("/next")).bodyText == "ok", name)
                    client.close()
                }
            }
        }
    }

    @Test("13.4 A 204 that announces a body costs the upstream its connection")
    func announcedBody() async throws {
        for fields in [
            "Content-Length: 2\r\n\r\nok", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "Content-Length: 5\r\n\r\n",
        ] {
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain("/hand"))
            let peer = try await bench.accept()
            _ = try await peer.head()
            try await peer.send("HTTP/1.1 204 No Content\r\n" + fields)
            #expect(try await client.head().hasPrefix("HTTP/1.1 204 No Content\r\n"))
            #expect(try await peer.rest().text == "")
            #expect(try await client.ask(HTTPBench.plain("/next")).bodyText == "ok")
        }
    }

    @Test("13.4 A 101 that no client asked for is 502")
    func switching() async throws {
        for fields in [
            "", "Upgrade: websocket\r\nConnection: Upgrade\r\n", "Upgrade: h2c\r\nConnection: Upgrade\r\n",
        ] {
            try await bench.drops("HTTP/1.1 101 Switching Protocols\r\n\(fields)\r\n")
        }
    }

    // MARK: 13.5

    @Test("13.5 A response cut by the upstream's end or reset never looks complete")
    func cut() async throws {
        let chunked = Self.ok + "Transfer-Encoding: chunked\r\n\r\n"
        for (head, rest) in [
            (Self.ok + "Content-Length: 10\r\n\r\n", ""), (Self.ok + "Content-Length: 10\r\n\r\n", "123456789"),
            (chunked, ""), (chunked, "5\r\nhel"), (chunked, "5\r\nhello"), (chunked, "5\r\nhello\r"),
            (chunked, "5\r\nhello\r\n"), (chunked, "5\r\nhello\r\n0"), (chunked, "5\r\nhello\r\n0\r\n"),
            (chunked, "5\r\nhello\r\n0\r\nT: 1\r\n"), (chunked, "5\r\nhello\r\n0\r\n\r"),
        ] {
            for end in [{ (wire: Wire) in wire.close() }, { (wire: Wire) in wire.reset() }] {
                try await bench.aborts(head, rest, then: end)
                let old = "GET /hand HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
                // Without a length HTTP/1.0 learns the body's end from the connection's: only a reset shows a cut.
                try await bench.aborts(head, rest, isReset: head == chunked ? true : nil, request: old, then: end)
            }
        }
    }

    @Test("13.5 A fault within a response's body ends it without its last chunk")
    func fault() async throws {
        let chunked = Self.ok + "Transfer-Encoding: chunked\r\n\r\n"
        for rest in ["x\r\n", "5\r\nhelloX", "0\r\nA: 1\n\r\n"] {
            try await bench.aborts(chunked, rest)
            try await bench.aborts(
                chunked, rest, isReset: true, request: "GET /hand HTTP/1.0\r\nHost: localhost\r\n\r\n")
        }
        // Together with the head, no byte of it has gone to the client yet: it can be told.
        try await bench.drops(chunked + "x\r\n")
    }
}
