import TestSupport
import Testing

@testable import SystemTestSupport

/// http-connections.md 8: `buffer_bytes_max`, all buffers together. Over unix sockets, whose own buffers are small.
@Suite(.serialized) struct BufferLimitRuleTests {
    private static let most = 1 << 20
    private static let size = 1 << 20

    private static let overloaded = Refusal(
        status: 503, type: "overloaded", error: "connection_limit_reached", closes: false, hasRetryAfter: true)

    private func bytesHeld(_ bench: HTTPBench) async throws -> Int {
        try await bench.values(of: "lanyard_buffer_bytes")[""] ?? 0
    }

    /// Clients that ask for a large body and do not read it, until memory is scarce: the last one is not served any more.
    private func crowd(_ bench: HTTPBench) async throws -> (readers: [Wire], refused: RawMessage, peak: Int) {
        bench.script { $0.message.target == "/large" ? .large(Self.size) : .response() }
        var readers: [Wire] = []
        var peak = 0
        for _ in 0..<300 {
            let client = try await bench.connect()
            try await client.send(HTTPBench.plain("/large"))
            let head = try await client.head()
            peak = max(peak, try await bytesHeld(bench))
            if head.hasPrefix("HTTP/1.1 503 ") {
                return (readers, try await bench.ask(HTTPBench.plain("/further")), peak)
            }
            readers.append(client)
        }
        throw TestFailure("300 readers that stand still are served")
    }

    @Test(
        "8 All buffers together hold at most buffer_bytes_max: replay copies go first, new requests get 503, others are served"
    )
    func bufferBytesMax() async throws {
        let bench = try await HTTPBench.start {
            // The first reader is idle while the others of the crowd read.
            $0.limits = "buffer_bytes_max: 1MiB, idle_timeout: 1h"
            // The readers and the POST stand still for as long as the crowd needs to come, and are not to be cut for it.
            $0.route = "timeouts: {write: 1h, response_header: 1h, response_idle: 1h}"
            $0.isUnix = true
        }
        // With memory its copy is held, and the response says that no other token came.
        let body = String(repeating: "r", count: 40_000)
        let post = "POST /hand HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        for isCrowded in [false, true] {
            let client = try await bench.connect()
            try await client.send(post)
            let peer = try await bench.accept()
            #expect(try await peer.request()?.bodyText == body)
            let (readers, refused, peak) = isCrowded ? try await crowd(bench) : ([], nil, 0)
            try await peer.send("HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            let words = isCrowded ? "body too large" : "the same token is in the file"
            #expect(
                try await client.response(to: "POST")["Proxy-Status"]
                    == "lanyard; received-status=401; details=\"replay-not-possible: \(words)\"")
            guard let refused else { continue }
            #expect(try Self.overloaded.faults(of: refused) == [])
            // One read may be on its way in when the limit is met, and a queue's memory doubles.
            #expect(peak > Self.most / 2 && peak <= Self.most + (128 << 10), "\(peak)")
            #expect(readers.count > 6)
            for reader in readers { #expect(try await reader.read(Self.size).utf8.count == Self.size) }
            #expect(try await client.ask(HTTPBench.plain("/")).status == 200)
            for reader in readers { #expect(try await reader.ask(HTTPBench.plain("/next")).bodyText == "ok") }
            #expect(try await bytesHeld(bench) < Self.most / 4 * 3)
        }
    }
}
