import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// Streams with TLS on both sides: nothing waits for company in a record.
@Suite struct TLSStreamTests {
    @Test(
        "server-sent events come one by one, each when the one before has been read", arguments: ["chunked", "close"])
    func events(_ framing: String) async throws {
        let listener = try RawSocket.listen(at: .tcp(0))
        let sides = try await TLSBothSides.start(before: .tcp(listener.localPort))
        let (endpoint, host, isChunked) = (sides.endpoint, "\(sides.lanyard.data)", framing == "chunked")
        let client = try RawClient(endpoint)
        defer { client.close() }
        try client.send("GET /events HTTP/1.1\r\nHost: \(host)\r\nAccept: text/event-stream\r\n\r\n")
        guard let socket = listener.accept() else { throw TestFailure("no connection") }
        defer { socket.close() }
        let request = try RawReader(socket).readRequest()
        #expect(request?["Authorization"] == "Bearer both-sides-token")
        let field = isChunked ? "Transfer-Encoding: chunked" : "Connection: close"
        try socket.send(Array("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\(field)\r\n\r\n".utf8))
        let head = try client.reader.readHead() ?? []
        #expect(String(decoding: head, as: UTF8.self).contains("Content-Type: text/event-stream\r\n"))
        for number in 100..<200 {
            let event = "data: \(number)\n\n"
            let chunk = "\(String(event.utf8.count, radix: 16))\r\n\(event)\r\n"
            try socket.send((isChunked ? chunk : event).utf8)
            // To a client of HTTP/1.1 a stream without a length goes in chunks.
            #expect(String(decoding: try client.read(chunk.utf8.count), as: UTF8.self) == chunk)
        }
        if isChunked { try socket.send("0\r\n\r\n".utf8) } else { socket.halfClose() }
        #expect(try client.read(5) == Array("0\r\n\r\n".utf8))
    }

    @Test("an event stream that is cut off looks cut off")
    func cut() async throws {
        let hasArrived = Milestone()
        defer { hasArrived.set() }
        let upstream = try RawServer { _ in
            RawResponse([
                .send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".utf8)),
                // A reset overtakes bytes that the relay has not read.
                .perform { hasArrived.wait(for: "the client has the first chunk") }, .reset,
            ])
        }
        let sides = try await TLSBothSides.start(before: upstream.endpoint)
        let client = try RawClient(sides.endpoint)
        defer { client.close() }
        try client.send("GET / HTTP/1.1\r\nHost: \(sides.lanyard.data)\r\n\r\n")
        _ = try client.reader.readHead()
        #expect(String(decoding: try client.read(10), as: UTF8.self) == "5\r\nhello\r\n")
        hasArrived.set()
        // Neither the last chunk nor an orderly end.
        #expect(throws: (any Error).self) { _ = try client.read(1) }
    }
}
