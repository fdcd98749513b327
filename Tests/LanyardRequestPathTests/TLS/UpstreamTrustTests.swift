import TestSupport
import Testing

@testable import LanyardRequestPath

@Suite struct UpstreamTrustTests {
    @Test("a flood of one failure of an upstream's TLS leaves one line, and the first one of another failure too")
    func reasons() throws {
        let recorder = LogRecorder()
        let trust = UpstreamTrust(try TLSBench.client(), of: "upstream.test", log: recorder.logger)
        for _ in 0..<100 { trust.record(.closedInHandshake) }
        trust.record(.expired)
        trust.record(.expired)
        let lines = recorder.lines
        #expect(lines.count == 2, "\(lines)")
        #expect(lines.contains { $0.contains(TLSError.closedInHandshake.label) })
        #expect(lines.contains { $0.contains(TLSError.expired.label) })
        #expect(trust.failureCounts == [TLSError.closedInHandshake.label: 100, TLSError.expired.label: 2])
    }
}
