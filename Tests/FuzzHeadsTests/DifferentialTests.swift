import TestSupport
import Testing

/// A second, independent reader (h11) must read all that ours accept in the same way: method, target, version, fields, framing, body,
/// trailers, and where the message ends.
@Suite("Our readers and h11", .enabled(if: DifferentialRun.hasPeer, "h11 is missing: run deploy/test"), .offPool)
struct DifferentialTests {
    private static let batch = 20_000
    private static let batches = Sanitizer.isOn ? 1 : 6

    @Test("what we accept, h11 reads the same: 120,000 messages, at least 30 % accepted, each permitted difference met")
    func same() async throws {
        var (messages, accepted, agreed) = (0, 0, 0)
        var permitted: [PermittedDifference: Int] = [:]
        for seed in 0..<Self.batches {
            let run = try await DifferentialRun.of(Self.batch, seed: 0x5eed + UInt64(seed))
            for difference in run.differences.prefix(5) { Issue.record("\(difference)") }
            #expect(run.differences.count == 0)
            messages += run.messages
            accepted += run.accepted
            agreed += run.agreed
            permitted.merge(run.permitted) { $0 + $1 }
        }
        #expect(messages == Self.batch * Self.batches)
        #expect(accepted * 100 >= messages * 30, "\(accepted) of \(messages) accepted")
        #expect(agreed * 100 >= accepted * 90, "\(agreed) of \(accepted) read by both; \(permitted)")
        for difference in PermittedDifference.allCases {
            #expect(
                permitted[difference, default: 0] > 0,
                "\(difference) (rule \(difference.rule)) was never met: remove it")
        }
        print(
            "differential: \(messages) messages, \(accepted) accepted, \(agreed) read by both, \(permitted) permitted")
    }
}
