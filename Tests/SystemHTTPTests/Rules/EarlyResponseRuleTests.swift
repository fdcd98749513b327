import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 9.6 to 9.9: early responses, failing writes, lingering, and what keeps a connection.
@Suite(.serialized) struct EarlyResponseRuleTests {
    private static let shared = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private func post(_ path: String, _ framing: String) -> String {
        "POST \(path) HTTP/1.1\r\nHost: localhost\r\n\(framing)\r\n\r\n"
    }

    private static let behind = HTTPBench.plain("/behind")

    @Test("9.6 An early response is relayed at once with Connection: close; the late body is never read as a request")
    func early() async throws {
        for framing in ["Content-Length: 500", "Transfer-Encoding: chunked"] {
            for (status, body) in [("200 OK", "fine"), ("413 Too Large", "big!"), ("302 Found", "over")] {
                let client = try await bench.connect()
                try await client.send(post("/hand", framing) + "5\r\nabcde\r\n")
                let peer = try await bench.accept()
                _ = try await peer.head()
                _ = try await peer.read(5)
                try await peer.send("HTTP/1.1 \(status)\r\nContent-Length: 4\r\n\r\n\(body)")
                let response = try await client.response()
                #expect(response.startLine == "HTTP/1.1 \(status)")
                #expect(response.values("Connection") == ["close"])
                #expect(response.bodyText == body)
                // Had the response ended by length, the upstream would now take these for the rest of the body.
                let rest = try await peer.rest().text
                #expect("5\r\nabcde\r\n".hasSuffix(rest))
                try await client.send(Self.behind + Self.behind)
                #expect(try await client.rest() == ("", false))
                client.close()
            }
        }
        try await bench.fence()
        #expect(bench.receivedWithoutFences == [])
        #expect(try await bench.values(of: "lanyard_upstream_connections", by: "route")["hand"] == 0)
    }

    @Test("9.6 While an early response lasts the upload continues; both ends are told the truth")
    func bothWays() async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", "Transfer-Encoding: chunked"))
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        #expect(try await client.head().contains("\r\nConnection: close\r\n"))
        for number in 0..<5 {
            try await client.send("1\r\n\(number)\r\n")
            #expect(try await peer.read(6) == "1\r\n\(number)\r\n")
            try await peer.send("2\r\n\(number)!\r\n")
            #expect(try await client.read(7) == "2\r\n\(number)!\r\n")
        }
        try await client.send("0\r\n\r\n" + Self.behind)
        #expect(try await peer.read(5) == "0\r\n\r\n")
        try await peer.send("0\r\n\r\n")
        #expect(try await client.rest() == ("0\r\n\r\n", false))
        try await bench.fence()
        #expect(bench.receivedWithoutFences == [])
    }

    @Test("9.7 A failing write is not the end: what the upstream has said before it hung up reaches the client")
    func refusedUpload() async throws {
        for end in [{ (wire: Wire) in wire.close() }, { (wire: Wire) in wire.reset() }] {
            for round in 0..<4 {
                let client = try await bench.connect()
                try await client.send(post("/hand", "Content-Length: 30000000"))
                let peer = try await bench.accept()
                _ = try await peer.head()
                let upload = Task { try? await client.send([UInt8](repeating: 0x61, count: 8_000_000)) }
                _ = try await peer.read(100_000)
                let close = round % 2 == 0 ? "Connection: close\r\n" : ""
                try await peer.send("HTTP/1.1 413 Too Large\r\n\(close)Content-Length: 7\r\n\r\ntoo big")
                // With megabytes unread this close is a reset.
                if round < 2 { end(peer) } else { peer.close() }
                let response = try await client.response()
                #expect(response.status == 413)
                #expect(response.bodyText == "too big")
                #expect(response["Connection"] == "close")
                _ = await upload.value
            }
        }
    }

    @Test(
        "9.8 After the last response writing is shut down and what still comes is discarded, so that the response survives"
    )
    func linger() async throws {
        let requests = [
            post("/", "Content-Length: x"), post("/", "Content-Length: 1\r\nTransfer-Encoding: chunked"),
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            post("/", "Expect: x\r\nContent-Length: 5000000"), "CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ]
        for request in requests {
            let client = try await bench.connect()
            try await client.send(Wire.bytes(request) + [UInt8](repeating: 0x61, count: 3_000_000))
            let response = try await client.response()
            #expect(response["Connection"] == "close")
            // An end in order, while the client's own direction still works.
            #expect(try await client.rest() == ("", false))
            try await client.send([UInt8](repeating: 0x61, count: 100_000))
            let isOpen = try KernelSocket.find(local: bench.lanyard.data.port, remote: client.localPort)?.isOwned
            #expect(isOpen == true)
            client.close()
        }
    }

    @Test(
        "9.8 A client that has asked for the close and sent all is closed at once; a late byte destroys nothing that it has not read",
        arguments: ["HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.0\r\nHost: localhost\r\n\r\n"])
    func closeAtOnce(_ rest: String) async throws {
        for (size, isClosed) in [(2, true), (5_000, true), (3_000_000, false)] {
            bench.script { _ in .response(body: String(repeating: "x", count: size)) }
            // Its kernel takes little of a long response.
            let client = try await bench.connect(receiveBuffer: 16 << 10)
            try await client.send("GET / " + rest)
            try await eventually("the response arrives, and a short one ends the connection") {
                let own = try KernelSocket.find(local: bench.lanyard.data.port, remote: client.localPort)
                return client.hasInput && (own?.isOwned == true) != isClosed
            }
            // The kernel of a closed connection replies with a reset.
            try await client.send("\r\n")
            #expect(try await client.response().body.count == size)
            client.close()
        }
    }

    // MARK: 9.9

    @Test("9.9 The upstream's close, 4xx and 5xx leave the client's connection open")
    func upstreamCloses() async throws {
        let client = try await bench.connect()
        for (text, closes, body) in [
            ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", true, "ok"),
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", false, "no"),
            ("HTTP/1.1 400 Bad\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", true, "no"),
            ("HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n", false, ""),
            (
                "HTTP/1.1 503 Bad\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", true,
                "x"
            ),
            ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", true, "ok"),
            ("HTTP/1.1 200 OK\r\n\r\nuntil the end", true, "until the end"),
        ] {
            bench.script { _ in closes ? RawResponse.text(text).closing : .text(text) }
            let response = try await client.ask(HTTPBench.plain("/"))
            #expect(response["Connection"] == nil)
            #expect(response.bodyText == body)
        }
    }

    @Test("9.9 Own answers keep the connection unless a body is left unread or their rule says close")
    func ownResponses() async throws {
        let evil = "Origin: http://evil\r\n"
        let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\(evil)\r\n"
        try await bench.refuses(get, .origin)
        try await bench.refuses(post("/", evil + "Content-Length: 0"), .origin)
        try await bench.refuses(post("/", evil + "Content-Length: 3") + "abc", Refusal.origin.closing)
        try await bench.refuses(post("/", evil + "Transfer-Encoding: chunked") + "0\r\n\r\n", Refusal.origin.closing)
        try await bench.refuses("TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", .method)
        try await bench.refuses("GET / HTTP/1.1\r\nHost: evil\r\n\r\n", .host)
        try await bench.refuses("GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", .malformedButFramed)
        // A close that the client has asked for is carried out with our answers, too.
        let asked = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(evil)\r\n"
        try await bench.refuses(asked, Refusal.origin.closing)
        let options = try await bench.connect()
        try await options.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + Self.behind)
        #expect(try await options.response()["Connection"] == "close")
        #expect(try await options.rest() == ("", false))
    }

    @Test("9.9 A close once announced is carried out, though the body's rest arrives after all")
    func announced() async throws {
        let client = try await bench.connect()
        try await client.send(post("/hand", "Content-Length: 5") + "ab")
        let peer = try await bench.accept()
        _ = try await peer.head()
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhi")
        #expect(try await client.head().contains("\r\nConnection: close\r\n"))
        try await client.send("cde" + Self.behind)
        #expect(try await peer.read(5) == "abcde")
        try await peer.send("!!")
        #expect(try await client.rest() == ("hi!!", false))
        try await bench.fence()
        #expect(bench.receivedWithoutFences == [])
    }
}
