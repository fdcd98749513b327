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
}
