import LanyardSettings
import TestSupport
import Testing

@testable import LanyardRequestPath

@Suite struct HandshakeLogTests {
    @Test("a flood of failed handshakes of one reason leaves the first line of another reason")
    func reasons() async throws {
        let recorder = LogRecorder()
        let bench = try ProxyBench { _ in
            .response()
        } plan: {
            $0.hasTLS = true
            $0.log = recorder.logger
        }
        let listener = bench.sides.listener
        try await bench.talk { _ throws in
            // An alert in place of a hello; then a hello with a length of more than 16 KiB.
            let alert: [UInt8] = [0x15, 3, 3, 0, 2, 2, 80]
            let long: [UInt8] = [0x16, 3, 1, 0x40, 0, 1, 0x7f, 0xff, 0xff]
            for bytes in Array(repeating: alert, count: 20) + [long] {
                let client = try RawClient(listener)
                defer { client.close() }
                try client.send(bytes)
                _ = try? client.read(1)
            }
        }
        bench.settle()
        let reasons = recorder.lines.filter { $0.contains("listener.tls.handshake_failed") }.map { line in
            HandshakeResult.allCases.first { line.contains("\"reason\": \($0.rawValue)") }
        }
        #expect(Set(reasons).count == 2 && reasons.count < 20, "\(recorder.lines)")
    }

    @Test("a handshake in progress that is closed for a new client is counted, with its reason")
    func closedForNewClient() async throws {
        let recorder = LogRecorder()
        let bench = try ProxyBench(plan: {
            $0.hasTLS = true
            $0.limits.connectionsMax = 1
            $0.log = recorder.logger
        })
        let shard = bench.path.shards[0]
        let client = try RawClient(bench.sides.listener)
        // A part of a hello.
        try client.send([0x16, 3, 1, 0, 0x50, 1, 0, 0, 0x4c] as [UInt8])
        try await eventually("the handshake has begun") {
            shard.loop.perform { shard.core.memory.tls.bufferCount } == 1
        }
        let other = try RawClient(bench.sides.listener)
        try await eventually("the first client is closed") {
            shard.loop.perform { shard.core.memory.tls.bufferCount } == 0
        }
        #expect(bench.count("lanyard_tls_handshakes", ["result": "too_many_handshakes"]) == 1)
        #expect(bench.count("lanyard_tls_handshakes") == 1)
        #expect(recorder.lines.count { $0.contains("\"reason\": too_many_handshakes") } == 1, "\(recorder.lines)")
        // A client that has sent nothing has no handshake.
        let third = try RawClient(bench.sides.listener)
        try await eventually("the second client is closed") { (try? other.read(1))?.isEmpty ?? true }
        #expect(bench.count("lanyard_tls_handshakes") == 1)
        third.close()
    }
}
