import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Streams of HTTP/2 towards an upstream of HTTP/1.1 (http2-rules.md): what reaches the other side. `deploy/check-http2` sends what honest
/// clients do not.
@Suite struct HTTP2StreamTests {
    private static func start(
        _ script: @escaping RawServer.Script = { _ in .response() }
    ) async throws -> (upstream: RawServer, lanyard: LanyardProcess, client: HTTP2Client) {
        let upstream = try RawServer(script: script)
        let lanyard = try await LanyardProcess.start(
            before: "http://\(upstream.endpoint)",
            listener: "address: \"127.0.0.1:0\", allowed_hosts: [\"localhost:80\", \"localhost\"]")
        return (upstream, lanyard, try HTTP2Client(RawSocket.connect(to: lanyard.data), keeping: [upstream, lanyard]))
    }

    @Test("H9 H10 H18 a request reaches the upstream with one Host, joined cookies and Lanyard's token alone")
    func request() async throws {
        let (upstream, _, client) = try await Self.start()
        let fields = [("cookie", "a=1"), ("x-a", "b"), ("authorization", "Bearer own"), ("cookie", "c=2")]
        let response = try client.response(client.request("GET", "/x?y", fields))
        #expect(response.status == 200 && response.body == Array("ok".utf8) && response.hasEnded)
        let message = try #require(upstream.requests.first)
        #expect(message.startLine == "GET /x?y HTTP/1.1")
        #expect(message.values("Host").count == 1 && message.values("Cookie") == ["a=1; c=2"])
        #expect(message.values("Authorization") == ["Bearer stream-token"] && message.values("X-A") == ["b"])
        #expect(message.values("Via").first?.hasPrefix("2.0 lanyard-") == true)
        #expect(!String(decoding: client.received, as: UTF8.self).contains("stream-token"))
    }

    @Test("H12 H15 a body of known and of unknown length, with trailers behind the latter", arguments: [0, 1, 200_000])
    func body(size: Int) async throws {
        let (upstream, _, client) = try await Self.start()
        let bytes = [UInt8](repeating: 0x61, count: size)
        let known = try client.request("POST", "/known", [("content-length", "\(size)")], body: bytes)
        #expect(try client.response(known).status == 200)
        let unknown = try client.request("POST", "/unknown", [("te", "trailers")], body: bytes, ends: false)
        try client.send(trailers: [("x-sum", "1"), ("authorization", "Bearer x")], on: unknown)
        #expect(try client.response(unknown).status == 200)
        #expect(upstream.requests.map(\.bodyCount) == [size, size])
        let framed = String(decoding: try #require(upstream.requests.last).framedBody, as: UTF8.self)
        #expect(framed.hasSuffix("0\r\nx-sum: 1\r\n\r\n"))
    }

    @Test("H12 H15 H16 a response: interim ones, chunks, trailers; a short body is reset")
    func responses() async throws {
        let (_, _, client) = try await Self.start { request in
            switch request.message.startLine.split(separator: " ")[1] {
            case "/chunks":
                .text(
                    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                        + "3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n")
            case "/close": RawResponse([.send(Array("HTTP/1.1 200 OK\r\n\r\nabc".utf8)), .close])
            default: RawResponse([.send(Array("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".utf8)), .close])
            }
        }
        let chunks = try client.response(client.request("GET", "/chunks"))
        #expect(chunks.heads.count == 2 && chunks.heads[0].hasPrefix("HTTP/1.1 103") && chunks.status == 200)
        #expect(chunks.body == Array("abcde".utf8) && chunks.trailers == "x-t: 1\r\n\r\n" && chunks.hasEnded)
        #expect(chunks.field("transfer-encoding") == nil && chunks.field("connection") == nil)
        let closed = try client.response(client.request("GET", "/close"))
        #expect(closed.body == Array("abc".utf8) && closed.hasEnded && closed.resetCode == nil)
        let short = try client.response(client.request("GET", "/short"))
        #expect(!short.hasEnded && short.resetCode != nil)
        // The connection continues.
        #expect(try client.response(client.request("GET", "/close")).hasEnded)
    }

    @Test("H19 H21 100 streams at once, with large bodies both ways; a cancelled one frees its upstream")
    func streams() async throws {
        let (upstream, _, client) = try await Self.start { request in
            request.message.startLine.contains("/never") ? RawResponse([]) : .large(50_000)
        }
        let numbers = try (0..<100).map { _ in
            try client.request(
                "POST", "/many", [("content-length", "20000")], body: [UInt8](repeating: 0x62, count: 20_000))
        }
        for number in numbers {
            let response = try client.response(number)
            #expect(response.status == 200 && response.body.count == 50_000 && response.hasEnded)
        }
        #expect(upstream.requests.count == 100 && upstream.requests.allSatisfy { $0.bodyCount == 20_000 })
        let waiting = try client.request("GET", "/never")
        try await eventually("the request arrives") { upstream.requests.count == 101 }
        try client.cancel(waiting)
        try await eventually("its upstream's connection ends") {
            upstream.records.contains { $0.ended && $0.requests.contains { $0.startLine.contains("/never") } }
        }
        #expect(try client.response(client.request("GET", "/many")).body.count == 50_000)
    }

    @Test("H30 a drain announces its end, serves what crosses it, and ends in order")
    func drain() async throws {
        let (_, lanyard, client) = try await Self.start()
        #expect(try client.response(client.request()).status == 200)
        lanyard.process.signal(SIGTERM)
        try client.readToEnd()
        try await lanyard.process.waitForExit()
        #expect(
            client.goAways.map(\.code) == [0, 0] && client.goAways.map(\.last) == [0x7fff_ffff, 1], "\(client.goAways)")
    }
}
