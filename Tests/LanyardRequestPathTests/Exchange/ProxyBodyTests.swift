import TestSupport
import Testing

/// Bodies, both ways.
@Suite struct ProxyBodyTests {
    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    /// An upstream that always sends these bytes.
    private static func saying(_ text: String) throws -> ProxyBench {
        try ProxyBench { _ in RawResponse([.send(Array(text.utf8))]) }
    }

    @Test("a megabyte goes up and comes down with its digest, in chunks and by length")
    func megabyte() async throws {
        let bench = try ProxyBench { request in
            let body = request.message.body
            guard request.message.target == "/chunked" else {
                return RawResponse([
                    .send(Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n".utf8) + body)
                ])
            }
            var steps: [RawResponse.Step] = [.send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8))]
            var rest = body[...]
            var size = 1
            while !rest.isEmpty {
                let piece = rest.prefix(size)
                steps.append(.send(Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + Array("\r\n".utf8)))
                rest = rest.dropFirst(size)
                size = size * 3 % 65_521
            }
            return RawResponse(steps + [.send(Array("0\r\n\r\n".utf8))])
        }
        var random = SeededGenerator(5)
        let body = random.bytes(1 << 20)
        let digest = body.withUnsafeBytes { SHA256Digest.hex(of: Array($0)) }
        let responses = try await bench.talk { client in
            try ["/", "/chunked"].map { try client.exchange("PUT", $0, body: body) }
        }
        #expect(responses.map(\.bodyDigest) == [digest, digest])
        #expect(bench.upstream.requests.map(\.bodyDigest) == [digest, digest])
    }

    /// A body is as long as one read, two reads, or the rest of one behind a head, and one byte more or less.
    private static let sizes = [261_120, 522_240, 195_584, 261_120 - 43].flatMap { [$0 - 1, $0, $0 + 1] }

    /// Responds with the request's body: with its length, in one chunk, or until the close.
    private static func echo(_ request: RawServer.Request) -> RawResponse {
        let body = request.message.body
        let head = "HTTP/1.1 200 OK\r\n"
        switch request.message.target {
        case "/chunk":
            let chunk = Array("\(head)Transfer-Encoding: chunked\r\n\r\n\(String(body.count, radix: 16))\r\n".utf8)
            return .bytes(chunk + body + Array("\r\n0\r\n\r\n".utf8))
        case "/close": return RawResponse.bytes(Array("\(head)\r\n".utf8) + body).closing
        default: return .bytes(Array("\(head)Content-Length: \(body.count)\r\n\r\n".utf8) + body)
        }
    }

    @Test(
        "bodies near the size of a read pass both ways byte for byte, and what follows them is the next message",
        arguments: ["/length", "/chunk", "/close"], [nil, CInt(4096)])
    func aroundReads(_ target: String, _ receiveBuffer: CInt?) async throws {
        let bench = try ProxyBench(script: Self.echo)
        try await bench.talk(receiveBuffer: receiveBuffer) { client in
            var random = SeededGenerator(11)
            for size in Self.sizes {
                let body = random.bytes(size)
                // The next request comes with the body's last bytes.
                let text = "PUT \(target) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(size)\r\n\r\n"
                try client.send(Array(text.utf8) + body + Array(Self.get.utf8))
                let digest = SHA256Digest.hex(of: body)
                let responses = [try client.response(), try client.response()]
                #expect(responses.map(\.bodyCount) == [size, 0])
                #expect(responses[0].bodyDigest == digest)
                #expect(bench.upstream.requests[bench.upstream.requests.count - 2].bodyDigest == digest)
            }
        }
    }

    @Test("a response that is cut within or at the end of a read passes up to the cut, and never looks whole")
    func cutReads() async throws {
        var random = SeededGenerator(12)
        let body = random.bytes(600_000)
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n"
        for count in [261_120 - head.utf8.count, 261_120, 522_239, 599_999] {
            let bench = try ProxyBench { _ in RawResponse.bytes(Array(head.utf8) + body.prefix(count)).closing }
            let came = try await bench.talk { client in
                try client.send(Self.get)
                _ = try client.reader.readHead()
                return try client.reader.readToAnyEnd().bytes
            }
            #expect(came == Array(body.prefix(count)))
        }
    }

    @Test("an upload may be longer than any memory: its length is no size of a read")
    func longest() async throws {
        let bench = try ProxyBench { _ in .response() }
        let client = try RawClient(bench.endpoint)
        try client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(Int.max)\r\n\r\n")
        try client.send([UInt8](repeating: 0x61, count: 300_000))
        client.halfClose()
        #expect(try client.response().status == 400)
    }

    @Test(
        "a response whose first chunk is broken is 502, never half a response",
        arguments: ["zz\r\n", "3\r\nabcd\r\n", "+1\r\na"])
    func brokenAtOnce(_ chunk: String) async throws {
        let bench = try Self.saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(chunk)")
        let response = try await bench.ask(Self.get)
        #expect(response.status == 502)
        #expect(response["Connection"] == nil)
    }

    @Test("what stands behind too many interim responses reaches no client, and does not respond to the next request")
    func interimFlood() async throws {
        let (isAsked, isPooled) = (Milestone(), Milestone())
        defer {
            isAsked.set()
            isPooled.set()
        }
        let bench = try ProxyBench { request in
            switch request.message.target {
            case "/flood":
                let flood = String(repeating: "HTTP/1.1 103 Early\r\n\r\n", count: 400)
                return RawResponse.text(flood + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
                    .after(isPooled, "another connection is in the pool")
            case "/hold": return .response(body: "good").after(isAsked, "the flood has been asked for")
            default: return .response(body: "good")
            }
        }
        // While the flood is awaited, another connection comes to rest in the pool: the pipelined request will take it.
        async let held = bench.ask("GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try await eventually("it is on its way") { bench.upstream.requests.count == 1 }
        let client = try RawClient(bench.endpoint)
        defer { client.close() }
        try client.send("GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n" + Self.get)
        try bench.awaitRequests(2)
        isAsked.set()
        let body = try await held.bodyText
        #expect(body == "good")
        bench.settle()
        isPooled.set()
        let responses = [try client.response(), try client.response()]
        #expect(responses.map(\.status) == [502, 200])
        #expect(responses[1].bodyText == "good")
        #expect(bench.upstream.records.map(\.requests.count).sorted() == [1, 2])
    }
}
