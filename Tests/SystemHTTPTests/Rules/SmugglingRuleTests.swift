import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 7: against smuggling.
@Suite(.serialized) struct SmugglingRuleTests {
    private static let shared = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    @Test("7.1 Everything sent is printed from the parsed form")
    func printed() async throws {
        bench.script { _ in
            .text(
                "HTTP/1.1 200\r\nX:\t1 \r\nDATE:d\r\nconnection: keep-alive, x-hop\r\nX-Hop: 1\r\nTransfer-Encoding: CHUNKED\r\n"
                    + "\r\n002 ; a=\"b\"\r\nok\r\n000;x\r\nT:1\r\n\r\n")
        }
        let client = try await bench.connect()
        try await client.send(
            """
            \r\n\r\nPOST http://LOCALHOST:080?q HTTP/1.7\r\nA:1\t\r\nkeep-alive: 9\r\nTransfer-Encoding:\tChunked\r\n\
            host:localhost:80 \r\n
            """
                + "B: \t\r\nConnection:x-hop,\tkeep-ALIVE\r\nX-HOP: 1\r\nTrailer: T\r\n\r\n0003\t;\tx = y\r\nabc\r\n00\r\nT: 1\r\n\r\n"
        )
        #expect(try await client.head() == "HTTP/1.1 200 \r\nX: 1\r\nDATE: d\r\nTransfer-Encoding: chunked\r\n\r\n")
        #expect(try await client.read(12) == "2\r\nok\r\n0\r\n\r\n")
        #expect(
            bench.received == [
                HTTPBench.forwarded("POST /?q", ["A: 1", "B: ", "Transfer-Encoding: chunked"])
                    + "3\r\nabc\r\n0\r\n\r\n"
            ])
    }

    @Test(
        "7.1 A request that two readers could frame differently is refused, and never reaches the upstream as complete",
        arguments: [
            "Content-Length: 4\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 4",
            "Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding:\u{b}chunked",
            "Transfer-Encoding:\u{0}chunked", "Transfer-Encoding: \u{c}chunked", "Transfer-Encoding: chunked\u{0}",
            "Transfer-Encoding\r\n : chunked", "Transfer-Encoding:\r\n chunked", " Transfer-Encoding: chunked",
            "X: x\nTransfer-Encoding: chunked", "X: x\rTransfer-Encoding: chunked", "Transfer-Encoding: \"chunked\"",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: x", "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
            "Transfer_Encoding: chunked", "Transfer.Encoding: chunked", "Content_Length: 4", "Content~Length: 4",
            "Content-Length: 4\r\nContent-Length: 0", "Content-Length: 4, 0", "Content-Length: +4",
            "Content-Length: 4 0",
            "Content-Length: 0x4", "Content-Length : 4", "Content-Length:\u{b}4", "Content-Length\r\n: 4",
            "Content-Length: 4\r\n\u{0}: 1", "Content-Length: \u{0}4", "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: ,chunked", "Transfer-Encoding: chunked;a", "\u{0}Transfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nConnection: transfer-encoding\r\nContent-Length: 4", "\"Content-Length: 4",
            "Connection: content-length\r\nContent-Length: 4\r\nContent-Length: 4", "Host: evil", "Host : evil",
        ])
    func ambiguous(_ fields: String) async throws {
        for method in ["GET", "POST"] {
            try await bench.refuses(
                "\(method) / HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n\r\n0\r\n\r\n" + HTTPBench.plain("/smuggled"))
        }
        #expect(!bench.upstream.requests.contains { $0.target == "/smuggled" })
    }

    @Test("7.2 After a fault the bytes behind it are discarded, however many, not parsed")
    func discarded() async throws {
        let client = try await bench.connect()
        let requests = String(repeating: HTTPBench.plain("/smuggled"), count: 20_000)
        try await client.send("GET / HTTP/1.1\r\nHost : localhost\r\n\r\n")
        let response = try await client.response()
        #expect(try Refusal.malformed.faults(of: response) == [])
        // Nearly a megabyte is taken without a reset.
        try await client.send(requests)
        client.halfClose()
        #expect(try await client.rest() == ("", false))
        try await bench.fence()
        #expect(bench.receivedWithoutFences == [])
        // The same behind a faulty body, in one segment with the requests.
        try await bench.cuts(
            "POST /cut HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"
                + String(repeating: HTTPBench.plain("/smuggled"), count: 100))
        #expect(!bench.upstream.requests.contains { $0.target == "/smuggled" })
    }

    @Test("7.3 An upstream connection carries one request at a time; the next starts when the response has ended")
    func oneAtATime() async throws {
        let client = try await bench.connect()
        let targets = ["/hand/1", "/hand/2", "/hand/3"]
        try await client.send(targets.map(HTTPBench.plain).joined())
        let peer = try await bench.accept()
        for (index, target) in targets.enumerated() {
            #expect(try await peer.head().hasPrefix("GET \(target) HTTP/1.1\r\n"))
            try await peer.send("HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\n\r\n\(index)")
            #expect(try await client.head() == "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\n\r\n")
            #expect(try await client.read(1) == "\(index)")
            // The response has not ended: nothing of the next request comes.
            try await bench.fence()
            try await bench.lanyard.process.settle()
            #expect(!peer.hasInput)
            try await peer.send("!")
            #expect(try await client.read(1) == "!")
        }
        client.close()
        peer.close()
    }

    @Test("7.3 A connection whose request was not written to its end is not used again")
    func unwritten() async throws {
        let client = try await bench.connect()
        try await client.send("POST /hand HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab")
        let peer = try await bench.accept()
        _ = try await peer.head()
        #expect(try await peer.read(2) == "ab")
        try await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        let response = try await client.response()
        #expect(response["Connection"] == "close")
        #expect(try await client.rest() == ("", false))
        #expect(try await peer.rest().text == "")
        // Another connection serves the next request.
        let next = try await bench.connect()
        try await next.send(HTTPBench.plain("/hand"))
        let fresh = try await bench.accept()
        _ = try await fresh.request()
        try await fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        #expect(try await next.response().status == 200)
        next.close()
        fresh.close()
    }

    @Test("7.3 A connection with bytes left over is not used again, and they reach no client")
    func leftOver() async throws {
        let client = try await bench.connect()
        let extra = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        for left in ["x", extra, "\r\n"] {
            try await bench.startOver()
            bench.script { request in
                request.message.target == "/drop"
                    ? .text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + left) : .response()
            }
            #expect(try await client.ask(HTTPBench.plain("/drop")).bodyText == "ok")
            #expect(try await client.ask(HTTPBench.plain("/next")).bodyText == "ok")
            #expect(bench.received == [HTTPBench.forwarded("GET /drop"), HTTPBench.forwarded("GET /next")])
        }
    }
}
