import LanyardFoundations
import TestSupport
import Testing

@Suite struct AloneHealthUnderLoadTests {
    @Test("health answers within 100 ms while every shard spins in queued work")
    func saturated() async throws {
        let (outcome, share) = try await HealthProbes.underSaturation(for: .seconds(LongSize.of(10, least: 2)))
        #expect(outcome.responses == 100)
        #expect(outcome.slowest <= .milliseconds(100))
        #expect(share.ofAvailable >= 0.9)
    }
}

/// A hundred probes spread over the loops' work, each on a connection of its own, as a kubelet's are.
enum HealthProbes {
    struct Outcome: Sendable {
        var responses = 0
        var slowest = Duration.zero
    }

    /// Blocks; connecting counts.
    ///
    /// - Parameter window: how long each of the loops spins, in time of its own thread.
    static func run(_ endpoint: RawEndpoint, beside loops: SaturatedLoops, over window: Duration) throws -> Outcome {
        let paths = ["/livez", "/readyz", "/startupz", "/healthz"]
        var outcome = Outcome()
        for number in 0..<100 {
            try blockUntil("the loops spin before probe \(number)") { loops.spunByEach >= window * number / 100 }
            let asked = Instant.now
            let client = try RawClient(endpoint)
            let response = try client.exchange("GET", paths[number % paths.count], host: "127.0.0.1")
            client.close()
            outcome.slowest = max(outcome.slowest, .now - asked)
            if response.status == 200 { outcome.responses += 1 }
        }
        return outcome
    }

    /// The proof of issue and design: whatever the shards do, health answers within 100 ms.
    static func underSaturation(for window: Duration) async throws -> (outcome: Outcome, share: SaturatedLoops.Share) {
        let server = try HealthServer()
        let loops = try SaturatedLoops()
        let outcome = try run(server.endpoint, beside: loops, over: window)
        return (outcome, try loops.stop())
    }
}
