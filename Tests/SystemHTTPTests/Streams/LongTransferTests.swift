import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// Large bodies through the built binary, a plain socket behind it, or relays of the tests that speak TLS for both sides.
@Suite struct LongTransferTests {
    /// How a body is framed, and whether it is encrypted.
    enum Way: String, CaseIterable, CustomTestStringConvertible {
        case length = "1 GiB by length"
        case endless = "2 GiB without a length"
        case encrypted = "1 GiB by length, TLS on both sides"

        var testDescription: String { rawValue }
        var size: Int { self == .endless ? 2 << 30 : 1 << 30 }
    }

    /// The program, and where clients connect without TLS.
    private struct Bench {
        let lanyard: LanyardProcess
        let endpoint: RawEndpoint
        let sides: TLSBothSides?
    }

    private static let growthMax = 8 << 20

    private static func start(_ way: Way, before upstream: RawServer) async throws -> Bench {
        let bench: Bench
        if way == .encrypted {
            let sides = try await TLSBothSides.start(before: upstream.endpoint)
            bench = Bench(lanyard: sides.lanyard, endpoint: sides.endpoint, sides: sides)
        } else {
            let lanyard = try await LanyardProcess.start(before: "http://\(upstream.endpoint)")
            bench = Bench(lanyard: lanyard, endpoint: lanyard.data, sides: nil)
        }
        let (endpoint, host) = (bench.endpoint, "\(bench.lanyard.data)")
        let response = try RawClient(endpoint).exchange("GET", "/warm-up", host: host)
        #expect(response.status == 200)
        return bench
    }

    /// The most memory that a process has had at one of the looks at it, which are made at each MiB of a body.
    private final class MemoryLooks: Sendable {
        private let process: ServerProcess
        private let before: Int
        private let most: Tally

        init(at process: ServerProcess) {
            self.process = process
            before = process.residentBytes
            most = Tally(before)
        }

        func look() { most.raise(to: process.residentBytes) }

        /// Less what it had before.
        var growth: Int {
            look()
            return most.value - before
        }
    }

    @Test("bodies of gibibytes go up whole, and cost less than 8 MiB of memory", arguments: Way.allCases)
    func upload(_ way: Way) async throws {
        let (size, chunked) = (way.size, way == .endless)
        let upstream = try RawServer()
        let bench = try await Self.start(way, before: upstream)
        var random = SeededGenerator(30)
        let block = random.bytes(1 << 20)
        let digest = SHA256Digest()
        for _ in 0..<(size >> 20) { block.withUnsafeBytes(digest.update) }
        let framing = chunked ? "Transfer-Encoding: chunked" : "Content-Length: \(size)"
        let (endpoint, data) = (bench.endpoint, bench.lanyard.data)
        let memory = MemoryLooks(at: bench.lanyard.process)
        let client = try RawClient(endpoint)
        try client.send("PUT /up HTTP/1.1\r\nHost: \(data)\r\n\(framing)\r\n\r\n")
        for _ in 0..<(size >> 20) {
            if chunked { try client.send("100000\r\n") }
            try client.socket.send(block)
            if chunked { try client.send("\r\n") }
            memory.look()
        }
        if chunked { try client.send("0\r\n\r\n") }
        #expect(try client.response().status == 200)
        client.close()
        let growth = memory.growth
        let received = try #require(upstream.requests.last)
        #expect(received.bodyCount == size)
        #expect(received.bodyDigest == digest.hex())
        #expect(growth < Self.growthMax, "grew by \(growth) bytes")
        try await bench.lanyard.process.terminate()
    }

    @Test("bodies of gibibytes come down whole, and cost less than 8 MiB of memory", arguments: Way.allCases)
    func download(_ way: Way) async throws {
        let (size, untilClose) = (way.size, way == .endless)
        var random = SeededGenerator(31)
        let block = random.bytes(1 << 20)
        let length = untilClose ? "" : "Content-Length: \(size)\r\n"
        let upstreamMemory = Guarded<MemoryLooks?>(nil)
        let piece = [RawResponse.Step.send(block), .perform { upstreamMemory.withLock { $0 }?.look() }]
        let response = RawResponse(
            [.send(Array("HTTP/1.1 200 OK\r\n\(length)\r\n".utf8))] + (0..<(size >> 20)).flatMap { _ in piece })
        let upstream = try RawServer {
            $0.message.target == "/down" ? (untilClose ? response.closing : response) : .response()
        }
        let bench = try await Self.start(way, before: upstream)
        let memory = MemoryLooks(at: bench.lanyard.process)
        upstreamMemory.withLock { $0 = memory }
        let digest = SHA256Digest()
        for _ in 0..<(size >> 20) { block.withUnsafeBytes(digest.update) }
        let expected = digest.hex()
        let (endpoint, data) = (bench.endpoint, bench.lanyard.data)
        let client = try RawClient(endpoint)
        try client.send("GET /down HTTP/1.1\r\nHost: \(data)\r\n\r\n")
        let received = try client.reader.readResponse(bodyBytesMax: 1)
        client.close()
        #expect(received.bodyCount == size)
        #expect(received.bodyDigest == expected)
        #expect((received["Transfer-Encoding"] == "chunked") == untilClose)
        let growth = memory.growth
        #expect(growth < Self.growthMax, "grew by \(growth) bytes")
        try await bench.lanyard.process.terminate()
    }
}
