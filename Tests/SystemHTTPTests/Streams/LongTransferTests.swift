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

    /// The most memory that the process had while `work` went on, less what it had before.
    private static func growth(
        of process: ServerProcess, during work: @escaping @Sendable () throws -> Void
    ) async throws -> Int {
        let before = process.residentBytes
        let most = Tally(before)
        let sampler = Task {
            while !Task.isCancelled {
                most.raise(to: process.residentBytes)
                try? await Task.sleep(for: .milliseconds(20))
            }
        }
        defer { sampler.cancel() }
        try work()
        most.raise(to: process.residentBytes)
        return most.value - before
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
        let growth = try await Self.growth(of: bench.lanyard.process) {
            let client = try RawClient(endpoint)
            defer { client.close() }
            try client.send("PUT /up HTTP/1.1\r\nHost: \(data)\r\n\(framing)\r\n\r\n")
            for _ in 0..<(size >> 20) {
                if chunked { try client.send("100000\r\n") }
                try client.socket.send(block)
                if chunked { try client.send("\r\n") }
            }
            if chunked { try client.send("0\r\n\r\n") }
            let response = try client.response()
            #expect(response.status == 200)
        }
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
        let response = RawResponse([
            .send(Array("HTTP/1.1 200 OK\r\n\(length)\r\n".utf8)), .repeated(block, times: size >> 20),
        ])
        let upstream = try RawServer {
            $0.message.target == "/down" ? (untilClose ? response.closing : response) : .response()
        }
        let bench = try await Self.start(way, before: upstream)
        let digest = SHA256Digest()
        for _ in 0..<(size >> 20) { block.withUnsafeBytes(digest.update) }
        let expected = digest.hex()
        let (endpoint, data) = (bench.endpoint, bench.lanyard.data)
        let growth = try await Self.growth(of: bench.lanyard.process) {
            let client = try RawClient(endpoint)
            defer { client.close() }
            try client.send("GET /down HTTP/1.1\r\nHost: \(data)\r\n\r\n")
            let response = try client.reader.readResponse(bodyBytesMax: 1)
            #expect(response.bodyCount == size)
            #expect(response.bodyDigest == expected)
            #expect((response["Transfer-Encoding"] == "chunked") == untilClose)
        }
        #expect(growth < Self.growthMax, "grew by \(growth) bytes")
        try await bench.lanyard.process.terminate()
    }
}
