import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 9.1 to 9.5: whether a client's connection persists, and requests that come one behind the other.
@Suite(.serialized) struct PersistenceRuleTests {
    private static let shared = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private func get(_ path: String, _ fields: String..., version: String = "1.1") -> String {
        "GET \(path) HTTP/\(version)\r\nHost: localhost\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    // MARK: 9.1

    @Test(
        "9.1 A Connection field that says close, wherever it says so, ends the connection with the response",
        arguments: [
            ["Connection: close"], ["Connection: Close"], ["connection: CLOSE"], ["Connection: foo, close"],
            ["Connection: close, foo"], ["Connection: ,, close ,"], ["Connection: foo", "Connection: close"],
            ["Connection: close", "Connection: foo"], ["Connection: keep-alive, close"],
            ["Connection: foo,close,bar"], ["CONNECTION:\tclose\t"],
        ])
    func saysClose(_ lines: [String]) async throws {
        let client = try await bench.connect()
        let request = "GET /last HTTP/1.1\r\nHost: localhost\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n"
        try await client.send(request + HTTPBench.plain("/behind") + "rubbish")
        let response = try await client.response()
        #expect(response.status == 200)
        #expect(response.values("Connection") == ["close"])
        #expect(try await client.rest() == ("", false))
        client.close()
        try await bench.fence()
        #expect(bench.receivedWithoutFences == [HTTPBench.forwarded("GET /last")])
    }

    @Test(
        "9.1 HTTP/1.1 persists otherwise",
        arguments: ["Connection: closed", "Connection: keep-alive", "Connection:", "Connection: x-close", "Close: 1"])
    func persists(_ line: String) async throws {
        let client = try await bench.connect()
        for _ in 0..<3 {
            let response = try await client.ask(get("/", line))
            #expect(response.status == 200)
            #expect(response["Connection"] == nil)
        }
        let response = try await client.ask(get("/", "Connection: close"))
        #expect(response["Connection"] == "close")
        #expect(try await client.rest() == ("", false))
    }

    // MARK: 9.2

    private static let responses: [(name: String, text: String, closes: Bool)] = [
        ("a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false),
        ("no body", "HTTP/1.1 204 No Content\r\n\r\n", false),
        ("not modified", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", false),
        (
            "chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x\r\nlo\r\n0\r\nT: 1\r\n\r\n",
            true
        ),
        ("until the end", "HTTP/1.1 200 OK\r\n\r\nhello", true),
    ]

    @Test("9.2 HTTP/1.0 persists only if it asks and the length is known; it gets no chunks and no interim response")
    func http10() async throws {
        for (name, text, closes) in Self.responses {
            for (field, asks) in [
                ("A: 1", false), ("Connection: keep-alive", true), ("Connection: Keep-Alive, foo", true),
                ("Connection: keep-alive, close", false),
            ] {
                let comment = Comment(rawValue: "\(name), \(field)")
                try await bench.startOver()
                bench.script { request in
                    guard request.message.target == "/x" else { return .response() }
                    let response = RawResponse.text("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + text)
                    return name == "until the end" ? response.closing : response
                }
                let client = try await bench.connect()
                try await client.send(get("/x", field, version: "1.0"))
                let head = try await client.head()
                #expect(head.hasPrefix(text.prefix(13)), comment)
                #expect(!head.lowercased().contains("transfer-encoding"), comment)
                let stays = asks && !closes
                #expect(head.contains("\r\nConnection: \(stays ? "keep-alive" : "close")\r\n"), comment)
                let body = text.contains("hel") ? "hello" : ""
                if stays {
                    #expect(try await client.read(body.count) == body, comment)
                    let next = try await client.ask(get("/y", "Connection: keep-alive", version: "1.0"))
                    #expect(next["Connection"] == "keep-alive", comment)
                } else {
                    #expect(try await client.rest() == (body, false), comment)
                }
            }
        }
    }

    @Test("9.2 HEAD from HTTP/1.0 persists if it asks; what HTTP/1.0 may not use is not misread")
    func http10Head() async throws {
        let client = try await bench.connect()
        bench.script { _ in .text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") }
        let head = "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        for _ in 0..<2 {
            let response = try await client.ask(head, to: "HEAD")
            #expect(response["Connection"] == "keep-alive")
            #expect(response["Transfer-Encoding"] == nil)
        }
        client.close()
        try await bench.startOver()
        // HTTP/1.1's default does not hold for it, and a body comes by length.
        let old = try await bench.connect()
        try await old.send(
            "POST / HTTP/1.0\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nab" + get("/next", version: "1.0"))
        #expect(try await old.response()["Connection"] == "keep-alive")
        #expect(try await old.response()["Connection"] == "close")
        #expect(try await old.rest() == ("", false))
        #expect(
            bench.received == [
                HTTPBench.forwarded("POST /", ["Content-Length: 2"], via: "1.0") + "ab"
                    + HTTPBench.forwarded("GET /next", via: "1.0")
            ])
    }

    // MARK: 9.3

    @Test("9.3 Pipelined requests are answered in order, one at a time")
    func pipelined() async throws {
        let isReleased = Milestone()
        bench.script { request in
            .response(body: request.message.target + ":" + request.message.bodyText).after(isReleased)
        }
        let client = try await bench.connect()
        let requests = (0..<40).map { number in
            number % 3 == 0
                ? "POST /\(number) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nGET "
                : HTTPBench.plain("/\(number)")
        }
        try await client.send(requests.joined())
        try await eventually("the first request is in progress") { !bench.requests.isEmpty }
        try await bench.lanyard.process.settle()
        #expect(bench.requests.map(\.target) == ["/0"])
        isReleased.set()
        for number in 0..<40 {
            #expect(try await client.response().bodyText == "/\(number):" + (number % 3 == 0 ? "GET " : ""))
        }
        let expected = (0..<40).map { number in
            number % 3 == 0
                ? HTTPBench.forwarded("POST /\(number)", ["Content-Length: 4"]) + "GET "
                : HTTPBench.forwarded("GET /\(number)")
        }
        #expect(bench.received == [expected.joined()])
    }

    @Test("9.3 The next pipelined request goes upstream only when the response before it has ended")
    func oneAtATime() async throws {
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/hand/1") + HTTPBench.plain("/hand/2"))
        let peer = try await bench.accept()
        #expect(bench.normalised(try await peer.head()).hasPrefix("GET /hand/1 "))
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        #expect(try await client.head().contains("Content-Length: 4"))
        #expect(try await client.read(2) == "ab")
        try await bench.fence()
        try await bench.lanyard.process.settle()
        #expect(!peer.hasInput)
        try await peer.send("cd")
        #expect(try await peer.head().hasPrefix("GET /hand/2 "))
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        #expect(try await client.read(2) == "cd")
        #expect(try await client.response().status == 200)
        client.close()
    }

    @Test("9.3 At most 64 KiB of pipelined requests is read ahead")
    func readAhead() async throws {
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/hand"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        let padded = "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + String(repeating: "x", count: 960) + "\r\n\r\n"
        let ahead = String(repeating: padded, count: 200)
        try await client.send(ahead)
        let port = bench.lanyard.data.port
        try await bench.fence()
        // What the program has not read waits in the kernel's two queues.
        let unread = try KernelSocket.find(local: port, remote: client.localPort)?.receiveQueue ?? 0
        let unsent = try KernelSocket.find(local: client.localPort, remote: port)?.sendQueue ?? 0
        #expect(unread + unsent >= ahead.utf8.count - 65536)
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        for _ in 0...200 { #expect(try await client.response().status == 200) }
    }

    @Test("9.3 A faulty request never takes away the responses before it")
    func faultBehind() async throws {
        let faults: [(String, Refusal)] = [
            ("GET / HTTP/1.1\r\n\r\n", .malformed), ("\u{16}\u{3}\u{1}", .malformed),
            ("GET / HTTP/3.0\r\n\r\n", .versionNotSupported),
            (
                "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                .malformed
            ),
        ]
        for (fault, refusal) in faults {
            let isReleased = Milestone()
            bench.script { .response(body: $0.message.target).after(isReleased) }
            let client = try await bench.connect()
            try await client.send(
                HTTPBench.plain("/a") + HTTPBench.plain("/b") + fault + HTTPBench.plain("/behind"))
            try await bench.lanyard.process.settle()
            isReleased.set()
            #expect(try await client.response().bodyText == "/a")
            #expect(try await client.response().bodyText == "/b")
            let response = try await client.response()
            #expect(try refusal.faults(of: response) == [])
            #expect(try await client.rest() == ("", false))
        }
        #expect(bench.upstream.requests.allSatisfy { $0.target != "/behind" })
    }

    @Test("9.3 Input may be split anywhere")
    func split() async throws {
        let text =
            "POST /split/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc" + "\r\n"
            + HTTPBench.plain("/split/2")
            + "PUT /split/3 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\nT: 1\r\n\r\n"
            + HTTPBench.plain("/split/4")
        for cut in stride(from: 1, to: text.utf8.count, by: 5) {
            let client = try await bench.connect()
            try await client.send(String(text.prefix(cut)))
            // Until it has been read, or else the two parts may arrive as one.
            try await eventually("the first part is read") {
                try KernelSocket.find(local: bench.lanyard.data.port, remote: client.localPort)?.receiveQueue == 0
            }
            try await client.send(String(text.dropFirst(cut)))
            for _ in 1...4 { #expect(try await client.response().status == 200, "cut at \(cut)") }
            client.close()
        }
        let dripping = try await bench.connect()
        try await dripping.drip(text)
        for _ in 1...4 { #expect(try await dripping.response().status == 200) }
        let seen = bench.upstream.requests.filter { $0.target.hasPrefix("/split/") }
        #expect(
            Set(seen.map { "\($0.target) \($0.bodyText)" }) == [
                "/split/1 abc", "/split/2 ", "/split/3 xyz", "/split/4 ",
            ])
    }

    // MARK: 9.4, 9.5

    @Test("9.4 A client that has ended its direction still gets every response, then the end")
    func halfClose() async throws {
        let post = "POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"
        for (text, responses) in [
            (HTTPBench.plain("/a"), ["/a"]), (post, ["/p"]),
            (HTTPBench.plain("/a") + post + HTTPBench.plain("/c"), ["/a", "/p", "/c"]),
        ] {
            let isReleased = Milestone()
            bench.script { .response(body: $0.message.target).after(isReleased) }
            let client = try await bench.connect()
            try await client.send(text)
            client.halfClose()
            try await bench.lanyard.process.settle()
            isReleased.set()
            for response in responses { #expect(try await client.response().bodyText == response) }
            #expect(try await client.rest() == ("", false))
        }
        // An end between two requests has no response.
        let silent = try await bench.connect()
        silent.halfClose()
        #expect(try await silent.rest() == ("", false))
    }

    @Test("9.4 A long response continues after the client has ended its direction")
    func halfCloseLong() async throws {
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/hand"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        client.halfClose()
        try await peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        _ = try await client.head()
        for _ in 0..<3 {
            try await peer.send("3\r\nabc\r\n")
            #expect(try await client.read(8) == "3\r\nabc\r\n")
        }
        try await peer.send("0\r\n\r\n")
        #expect(try await client.rest() == ("0\r\n\r\n", false))
    }

    @Test("9.5 A client's reset ends the upstream connection at once, though nothing is read from the client")
    func reset() async throws {
        // No time-out ends the upstream's connection.
        let bench = try await HTTPBench.start {
            $0.route = "timeouts: {response_header: 1h, response_idle: 1h, request_idle: 1h}"
        }
        let before = bench.upstream.connectionCount
        let heads = [
            "", "HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        ]
        for head in heads {
            let client = try await bench.connect()
            // A second request is in the buffer: reading has paused.
            try await client.send(HTTPBench.plain("/hand") + HTTPBench.plain("/behind"))
            let peer = try await bench.accept()
            _ = try await peer.head()
            if !head.isEmpty {
                try await peer.send(head)
                _ = try await client.head()
            }
            client.reset()
            #expect(try await peer.rest().text == "")
        }
        try await bench.fence()
        #expect(bench.receivedWithoutFences == [])
        #expect(bench.upstream.connectionCount <= before + 1)
        #expect(try await bench.values(of: "lanyard_upstream_connections", by: "route")["hand"] == 0)
    }
}
