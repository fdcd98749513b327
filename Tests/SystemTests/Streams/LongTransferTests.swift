import TestSupport
import Testing

/// Large bodies through the built binary, a plain socket behind it.
@Suite(.timeLimit(.minutes(10))) struct LongTransferTests {
    private static let gibibyte = 1 << 30
    private static let growthMax = 8 << 20

    private static func start(before upstream: RawServer, in folder: TemporaryFolder) async throws -> LanyardProcess {
        let token = try folder.write("token", "transfer-token")
        let lanyard = try await LanyardProcess.start(
            """
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://\(upstream.endpoint)"}]
            """)
        try await lanyard.untilReady()
        #expect(try await lanyard.get("/warm-up").status == 200)
        return lanyard
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
        try await offPool(work)
        most.raise(to: process.residentBytes)
        return most.value - before
    }

    @Test(
        "1 GiB by length and 2 GiB in chunks go up whole, and cost less than 8 MiB of memory", arguments: [false, true])
    func upload(_ chunked: Bool) async throws {
        let size = chunked ? 2 * Self.gibibyte : Self.gibibyte
        let folder = try TemporaryFolder()
        let upstream = try RawServer()
        let lanyard = try await Self.start(before: upstream, in: folder)
        var random = SeededGenerator(30)
        let block = (0..<(1 << 20)).map { _ in UInt8.random(in: 0...255, using: &random) }
        let digest = SHA256Digest()
        for _ in 0..<(size >> 20) { block.withUnsafeBytes(digest.update) }
        let framing = chunked ? "Transfer-Encoding: chunked" : "Content-Length: \(size)"
        let data = lanyard.data
        let growth = try await Self.growth(of: lanyard.process) {
            let client = try RawClient(data)
            defer { client.close() }
            try client.send("PUT /up HTTP/1.1\r\nHost: \(data)\r\n\(framing)\r\n\r\n")
            for _ in 0..<(size >> 20) {
                if chunked { try client.send("100000\r\n") }
                try client.socket.send(block, within: .seconds(60))
                if chunked { try client.send("\r\n") }
            }
            if chunked { try client.send("0\r\n\r\n") }
            let response = try client.response(within: .seconds(60))
            #expect(response.status == 200)
        }
        let received = try #require(upstream.requests.last)
        #expect(received.bodyCount == size)
        #expect(received.bodyDigest == digest.hex())
        #expect(growth < Self.growthMax, "grew by \(growth) bytes")
        try await lanyard.process.terminate()
    }

    @Test(
        "1 GiB by length and 2 GiB until the connection's end come down whole, and cost less than 8 MiB of memory",
        arguments: [false, true])
    func download(_ untilClose: Bool) async throws {
        let size = untilClose ? 2 * Self.gibibyte : Self.gibibyte
        let folder = try TemporaryFolder()
        var random = SeededGenerator(31)
        let block = (0..<(1 << 20)).map { _ in UInt8.random(in: 0...255, using: &random) }
        let length = untilClose ? "" : "Content-Length: \(size)\r\n"
        let response = RawResponse([
            .send(Array("HTTP/1.1 200 OK\r\n\(length)\r\n".utf8)), .repeated(block, times: size >> 20),
        ])
        let upstream = try RawServer {
            $0.message.target == "/down" ? (untilClose ? response.closing : response) : .response()
        }
        let lanyard = try await Self.start(before: upstream, in: folder)
        let digest = SHA256Digest()
        for _ in 0..<(size >> 20) { block.withUnsafeBytes(digest.update) }
        let expected = digest.hex()
        let data = lanyard.data
        let growth = try await Self.growth(of: lanyard.process) {
            let client = try RawClient(data)
            defer { client.close() }
            try client.send("GET /down HTTP/1.1\r\nHost: \(data)\r\n\r\n")
            let response = try client.reader.readResponse(within: .seconds(60), bodyBytesMax: 1)
            #expect(response.bodyCount == size)
            #expect(response.bodyDigest == expected)
            #expect((response["Transfer-Encoding"] == "chunked") == untilClose)
        }
        #expect(growth < Self.growthMax, "grew by \(growth) bytes")
        try await lanyard.process.terminate()
    }
}
