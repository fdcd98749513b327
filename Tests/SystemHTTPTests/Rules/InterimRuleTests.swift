import TestSupport
import Testing

@testable import SystemTestSupport

/// http-forwarding.md 11: Expect and interim responses.
@Suite(.serialized) struct InterimRuleTests {
    private static let shared = Task { try await HTTPBench.startUnderClock() }
    private let bench: HTTPBench
    private let clock: TestClock

    init() async throws {
        (bench, clock) = try await Self.shared.value
        try await bench.startOver()
    }

    private static let proceed = "HTTP/1.1 100 Continue\r\n\r\n"
    private static let done = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    private func post(
        _ path: String = "/hand", _ fields: [String] = ["Expect: 100-continue", "Content-Length: 5"],
        version: String = "1.1"
    ) -> String {
        "POST \(path) HTTP/\(version)\r\nHost: localhost\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    @Test(
        "11.1 The expectation is forwarded with the head, and the upstream's 100 is relayed",
        arguments: ["100-continue", "100-Continue", " 100-CONTINUE "],
        ["Content-Length: 5", "Transfer-Encoding: chunked"])
    func relayed(_ value: String, _ framing: String) async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", ["expect:\(value)", framing]))
        let peer = try await bench.accept()
        let head = try await peer.head()
        #expect(head.contains("\r\nexpect: \(value.filter { $0 != " " })\r\n"))
        #expect(head.contains("\r\n\(framing)\r\n"))
        try await peer.send(Self.proceed)
        #expect(try await client.head() == Self.proceed)
        let isChunked = framing.hasPrefix("T")
        try await client.send(isChunked ? "5\r\nhello\r\n0\r\n\r\n" : "hello")
        let body = isChunked ? "5\r\nhello\r\n0\r\n\r\n" : "hello"
        #expect(try await peer.read(body.utf8.count) == body)
        try await peer.send(Self.done)
        let response = try await client.response()
        #expect(response.status == 200)
        #expect(response["Connection"] == nil)
        // Both connections are in step, and continue.
        try await client.send(HTTPBench.plain("/hand/next"))
        #expect(try await peer.head().hasPrefix("GET /hand/next "))
        try await peer.send(Self.done)
        #expect(try await client.response().bodyText == "ok")
    }

    @Test("11.2 If the upstream says nothing for a second, Lanyard sends the 100 itself")
    func ownContinue() async throws {
        let client = try await bench.connect()
        try await client.send(post())
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await clock.pass(.milliseconds(900))
        #expect(!client.hasInput)
        try await clock.pass(.milliseconds(200))
        #expect(try await client.head() == Self.proceed)
        try await client.send("hello")
        #expect(try await peer.read(5) == "hello")
        try await peer.send(Self.done)
        #expect(try await client.response().bodyText == "ok")
        // Only once, and the connection continues.
        #expect(try await client.ask(HTTPBench.plain("/next")).bodyText == "ok")
    }

    @Test("11.2 A client that does not wait is served at once, and gets no 100 of ours")
    func impatient() async throws {
        bench.script { _ in .response(body: "done") }
        let client = try await bench.connect()
        // The first response is the final one.
        #expect(try await client.ask(post("/") + "hello").bodyText == "done")
        #expect(
            bench.received == [
                HTTPBench.forwarded("POST /", ["Expect: 100-continue", "Content-Length: 5"]) + "hello"
            ])
        // Part of the body is enough to know that it does not wait.
        try await client.send(post() + "he")
        let peer = try await bench.accept()
        _ = try await peer.head()
        #expect(try await peer.read(2) == "he")
        try await clock.pass(.seconds(2))
        #expect(!client.hasInput)
        try await client.send("llo")
        #expect(try await peer.read(3) == "llo")
        try await peer.send(Self.done)
        #expect(try await client.response().bodyText == "ok")
    }

    @Test(
        "11.1 The upstream's final response reaches the client before any body byte", arguments: [417, 401, 200, 302])
    func finalInstead(_ status: Int) async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", ["Expect: 100-continue", "Content-Length: 30"]))
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await peer.send("HTTP/1.1 \(status) No\r\nContent-Length: 2\r\n\r\nno")
        let response = try await client.response()
        #expect(response.status == status)
        #expect(response.bodyText == "no")
        #expect(response.values("Connection") == ["close"])
        // 11.3 The upstream waits for a body that never comes: its connection ends without a byte of it.
        #expect(try await peer.rest().text == "")
        // The body may still come: it is thrown away, never read as a request.
        try await client.send(HTTPBench.plain("/body"))
        #expect(try await client.rest() == ("", false))
        client.close()
        try await bench.fence()
        #expect(bench.receivedWithoutFences == [])
    }

    @Test("11.3 A final response instead of 100 ends both connections, the client's after lingering")
    func lingers() async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", ["Expect: 100-continue", "Content-Length: 4000000"]))
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await peer.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        // The client was sending already: its four megabytes do not cost it the response.
        try await client.send([UInt8](repeating: 0x61, count: 4_000_000))
        let response = try await client.response()
        #expect(response.status == 413)
        #expect(response.bodyText == "big")
        #expect(response["Connection"] == "close")
        #expect(try await client.rest() == ("", false))
        _ = try await peer.rest()
        #expect(try await bench.values(of: "lanyard_upstream_connections", by: "route")["hand"] == 0)
    }

    @Test(
        "11.3 A final response instead of 100 ends the upstream's connection even if the body has gone: it may read that as a request",
        arguments: [417, 200])
    func distrusted(_ status: Int) async throws {
        let client = try await bench.connect()
        let body = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
        try await client.send(post("/hand", ["Expect: 100-continue", "Content-Length: \(body.utf8.count)"]) + body)
        let peer = try await bench.accept()
        _ = try await peer.head()
        #expect(try await peer.read(body.utf8.count) == body)
        try await peer.send("HTTP/1.1 \(status) No\r\nContent-Length: 2\r\n\r\nno")
        let response = try await client.response()
        #expect(response.status == status)
        // All of the client's body has come: its connection is in step.
        #expect(response["Connection"] == nil)
        #expect(try await peer.rest().text == "")
        try await client.send(HTTPBench.plain("/hand/next"))
        let fresh = try await bench.accept()
        #expect(try await fresh.head().hasPrefix("GET /hand/next "))
        try await fresh.send(Self.done)
        #expect(try await client.response().bodyText == "ok")
    }

    @Test(
        "11.4 Any other expectation gets 417 and the end",
        arguments: [
            ["Expect: x"], ["Expect: 100-continue, 100-continue"], ["Expect: 100-continue, x"], ["Expect:"],
            ["Expect: 100-continue", "Expect: 100-continue"], ["Expect: 100-continue;x"], ["Expect: 100-continue=1"],
            ["Expect: 100-continu"], ["Expect: 100 continue"], ["Expect: x", "Expect: 100-continue"],
            ["Expect: \"100-continue\""], ["Expect: 100-continue,"], ["Expect: 200-ok"],
        ])
    func otherExpectation(_ lines: [String]) async throws {
        try await bench.refuses(post("/", lines + ["Content-Length: 5"]) + "hello", .expectation)
        try await bench.refuses(
            post("/", lines + ["Transfer-Encoding: chunked"]) + "0\r\n\r\n", .expectation)
    }

    @Test("11.4 Without a body, or in HTTP/1.0, Expect is dropped")
    func dropped() async throws {
        for lines in [["Expect: 100-continue"], ["Expect: x"], ["Expect: 100-continue", "Expect: y"], ["Expect:"]] {
            try await bench.startOver()
            let client = try await bench.connect()
            #expect(try await client.ask(post("/", lines)).status == 200)
            #expect(try await client.ask(post("/", lines + ["Content-Length: 0"])).status == 200)
            #expect(
                bench.received.joined() == HTTPBench.forwarded("POST /")
                    + HTTPBench.forwarded("POST /", ["Content-Length: 0"]))
            try await bench.startOver()
            let old = try await bench.ask(post("/", lines + ["Content-Length: 5"], version: "1.0") + "hello")
            #expect(old.status == 200)
            #expect(
                bench.received.joined() == HTTPBench.forwarded("POST /", ["Content-Length: 5"], via: "1.0") + "hello")
        }
    }

    @Test("11.5 Every 1xx but 101 is relayed as it comes, with its fields and without framing or body")
    func interims() async throws {
        let client = try await bench.connect()
        try await client.send(HTTPBench.plain("/hand"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        for (sent, expected) in [
            ("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"),
            ("HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n"),
            (
                "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nlink: </b>\r\nX_y:  1 \r\n\r\n",
                "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nlink: </b>\r\nX_y: 1\r\n\r\n"
            ),
            (
                "HTTP/1.1 103 E\r\nContent-Length: 5\r\nConnection: X, keep-alive\r\nX: 1\r\nKeep-Alive: 1\r\n\r\n",
                "HTTP/1.1 103 E\r\n\r\n"
            ),
            ("HTTP/1.1 104 \r\nTransfer-Encoding: chunked\r\nA: 1\r\n\r\n", "HTTP/1.1 104 \r\nA: 1\r\n\r\n"),
            // Framing that no 1xx can have says nothing, and is no fault.
            (
                "HTTP/1.1 103 E\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nA: 1\r\n\r\n",
                "HTTP/1.1 103 E\r\nA: 1\r\n\r\n"
            ),
            ("HTTP/1.1 103 E\r\nContent-Length: x\r\ncontent-length: +1\r\n\r\n", "HTTP/1.1 103 E\r\n\r\n"),
            ("HTTP/1.1 102 E\r\nTransfer-Encoding: gzip,,\r\n\r\n", "HTTP/1.1 102 E\r\n\r\n"),
            ("HTTP/1.0 103 E\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 103 E\r\n\r\n"),
            ("HTTP/1.1 199\r\nUpgrade: websocket\r\nTrailer: T\r\n\r\n", "HTTP/1.1 199 \r\n\r\n"),
        ] {
            try await peer.send(sent)
            #expect(try await client.head() == expected)
        }
        try await peer.send(Self.done)
        #expect(try await client.response().bodyText == "ok")
        #expect(try await client.ask(HTTPBench.plain("/next")).bodyText == "ok")
    }

    @Test("11.5 Interim and final heads that come together, or byte by byte, are relayed in order")
    func together() async throws {
        let heads = Self.proceed + "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + Self.proceed
        for isDripping in [false, true] {
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain("/hand"))
            let peer = try await bench.accept()
            _ = try await peer.head()
            if isDripping { try await peer.drip(heads + Self.done) } else { try await peer.send(heads + Self.done) }
            #expect(try await client.read(heads.utf8.count) == heads)
            #expect(try await client.response().bodyText == "ok")
            peer.close()
        }
        // HTTP/1.0 knows none of them.
        let old = try await bench.connect()
        try await old.send("GET /hand HTTP/1.0\r\n\r\n")
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await peer.send(heads + Self.done)
        let head = try await old.head()
        #expect(head.hasPrefix("HTTP/1.1 200 OK\r\n"))
        #expect(try await old.rest() == ("ok", false))
    }

    @Test(
        "11.5 An interim response whose head is malformed is 502, as any other",
        arguments: ["Content-Length : 1", " A: 1", "A\u{1}: 1", "A: \u{1}", "Connection: a b"])
    func malformed(_ line: String) async throws {
        bench.script { _ in .bytes(Wire.bytes("HTTP/1.1 103 E\r\n\(line)\r\n\r\n" + Self.done)) }
        let response = try await bench.ask(HTTPBench.plain("/"))
        #expect(response.status == 502)
        #expect(try response.json["type"].string == "urn:lanyard:problem:upstream-invalid")
    }

    @Test("11.5 Interim responses and then the end is 502")
    func interimThenEnd() async throws {
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        for (end, refusal) in [("", Refusal.upstreamIncomplete), ("HTTP/1.1 2", .upstreamIncomplete)] {
            for isReset in [false, true] {
                let client = try await bench.connect()
                try await client.send(HTTPBench.plain("/hand"))
                let peer = try await bench.accept()
                _ = try await peer.head()
                try await peer.send(hints + end)
                #expect(try await client.head() == hints)
                if isReset { peer.reset() } else { peer.close() }
                let response = try await client.response()
                #expect(try refusal.faults(of: response) == [])
                #expect(try await client.ask(HTTPBench.plain("/next")).bodyText == "ok")
            }
        }
        // Not even a reused connection makes it another try: the upstream has begun to answer.
        try await bench.startOver()
        bench.script { request in
            request.message.target == "/again" ? RawResponse.text(hints).closing : .response()
        }
        let client = try await bench.connect()
        #expect(try await client.ask(HTTPBench.plain("/first")).status == 200)
        try await client.send(HTTPBench.plain("/again"))
        #expect(try await client.head() == hints)
        let response = try await client.response()
        #expect(try Refusal.upstreamIncomplete.faults(of: response) == [])
        #expect(bench.upstream.requests.count { $0.target == "/again" } == 1)
    }
}
