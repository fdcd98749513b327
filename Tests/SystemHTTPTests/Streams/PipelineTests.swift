import TestSupport
import Testing

@testable import SystemTestSupport

/// A hundred requests sent without waiting for a response.
@Suite struct PipelineTests {
    private static let count = 100

    /// The burst, and what each response must say.
    private static func burst(bodyBytes: Int, host: RawEndpoint) -> (bytes: [UInt8], responses: [String]) {
        var random = SeededGenerator(9)
        var bytes: [UInt8] = []
        var responses: [String] = []
        for number in 0..<count {
            let target = "/burst/\(number)"
            let body = (0..<(number % 3 == 0 ? 0 : bodyBytes)).map { _ in UInt8.random(in: 0...255, using: &random) }
            var framing = ""
            var framed = body
            if number % 3 == 1 { framing = "Content-Length: \(body.count)\r\n" }
            if number % 3 == 2 {
                framing = "Transfer-Encoding: chunked\r\n"
                let half = body.count / 2
                framed = [body[..<half], body[half...]].filter { !$0.isEmpty }.flatMap { part in
                    Array("\(String(part.count, radix: 16));n=\(number)\r\n".utf8) + part + Array("\r\n".utf8)
                }
                framed += Array("0\r\nX-Sum: 1\r\n\r\n".utf8)
            }
            let method = number % 3 == 0 ? "GET" : "POST"
            bytes += Array("\(method) \(target) HTTP/1.1\r\nHost: \(host)\r\n\(framing)\r\n".utf8) + framed
            responses.append("\(target) \(SHA256Digest.hex(of: body))")
        }
        return (bytes, responses)
    }

    /// How large the pieces are in which a burst is sent.
    enum Cut: Sendable { case whole, every(Int), random(UInt64) }

    @Test(
        "9.3 A pipelined burst of 100 requests is answered in order, wherever it is cut",
        arguments: [
            (Cut.whole, 40), (.every(1), 10), (.every(3), 40), (.every(61), 40), (.every(4096), 4000), (.random(1), 40),
            (.random(2), 4000), (.whole, 4000),
        ])
    func burst(_ cut: Cut, _ bodyBytes: Int) async throws {
        let upstream = try RawServer { .response(body: "\($0.message.target) \($0.message.bodyDigest)") }
        let lanyard = try await LanyardProcess.start(before: "http://\(upstream.endpoint)")
        let data = lanyard.data
        let (bytes, responses) = Self.burst(bodyBytes: bodyBytes, host: data)
        let client = try RawClient(data)
        for piece in Self.pieces(of: bytes, cut) { try client.send(piece) }
        let got = try responses.map { _ in try client.response().bodyText }
        #expect(got == responses)
        // One at a time on one connection: the next is sent when the response before it has ended.
        #expect(upstream.connectionCount == 1)
        #expect(upstream.requests.count == Self.count)
        // A drain would wait for it.
        client.close()
        try await lanyard.process.terminate()
    }

    private static func pieces(of bytes: [UInt8], _ cut: Cut) -> [[UInt8]] {
        var random = SeededGenerator(0)
        if case .random(let seed) = cut { random = SeededGenerator(seed) }
        var pieces: [[UInt8]] = []
        var place = 0
        while place < bytes.count {
            let size =
                switch cut {
                case .whole: bytes.count
                case .every(let size): size
                case .random: Int.random(in: 1...200, using: &random)
                }
            pieces.append(Array(bytes[place..<min(place + size, bytes.count)]))
            place += size
        }
        return pieces
    }
}
