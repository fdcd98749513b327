import TestSupport
import Testing

/// Many rounds of requests that compete for the one connection of a route: each is woken when the connection is free.
@Suite(.serialized, .timeLimit(.minutes(15))) struct LongConnectionLimitTests {
    /// Together they fit into the part's time on two CPUs.
    private static let limit = Duration.seconds(400)

    @Test(
        "a million rounds of two requests for one connection: none waits for long, none gets 503",
        arguments: [(true, 800_000), (false, 200_000)])
    func rounds(_ isUnix: Bool, _ count: Int) async throws {
        let bench = try await SilentRounds.start(
            pairs: 4, shards: 4, isUnix: isUnix, binary: Products.release("lanyard"))
        let outcome = try await bench.run(rounds: count, within: Self.limit)
        #expect(outcome.failures == [])
        #expect(outcome.slowest < SilentRounds.slowestMax)
        #expect(outcome.rounds >= count, "the time was over")
        #expect(try await bench.parked() == 0)
    }
}
