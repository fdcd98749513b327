import TestSupport
import Testing

/// A second, independent reader (h11) must read all that ours accept in the same way: method, target, version, fields, framing, body,
/// trailers, and where the message ends.
@Suite("Our readers and h11", .enabled(if: DifferentialRun.hasPeer, "h11 is missing: run deploy/test"))
struct DifferentialTests {
    @Test(
        "what we accept, h11 reads the same: at least 30 % of the messages are accepted, each permitted difference is met"
    )
    func same() async throws { try await Self.check(10_000, seeds: [0x5eed]) }

    /// - Parameter count: messages of each seed.
    static func check(_ count: Int, seeds: [UInt64]) async throws {
        var (messages, accepted, agreed) = (0, 0, 0)
        var permitted: [PermittedDifference: Int] = [:]
        for seed in seeds {
            let run = try await DifferentialRun.of(count, seed: seed)
            for difference in run.differences.prefix(5) { Issue.record("\(difference)") }
            #expect(run.differences.count == 0)
            messages += run.messages
            accepted += run.accepted
            agreed += run.agreed
            permitted.merge(run.permitted) { $0 + $1 }
        }
        #expect(messages == count * seeds.count)
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

@Suite(.enabled(if: DifferentialRun.hasPeer, "h11 is missing: run deploy/test"))
struct LongDifferentialTests {
    @Test("what we accept, h11 reads the same, in batches of 20,000 messages")
    func same() async throws {
        let batches = LongSize.of(6, least: 1)
        try await DifferentialTests.check(20_000, seeds: (0..<batches).map { 0x5eed + UInt64($0) })
    }
}
