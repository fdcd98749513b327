import Glibc
import LanyardFoundations
import TestSupport

/// A hundred probes spread over a while, each on a connection of its own, as a kubelet's are.
enum HealthProbes {
    struct Outcome: Sendable {
        var answered = 0
        var slowest = Duration.zero
    }

    /// Blocks; connecting counts.
    static func run(_ endpoint: RawEndpoint, over window: Duration) throws -> Outcome {
        let paths = ["/livez", "/readyz", "/startupz", "/metrics"]
        let start = Instant.now
        var outcome = Outcome()
        for number in 0..<100 {
            let due = start + window * number / 100
            let wait = due - .now
            if wait > .zero { usleep(UInt32(wait.nanoseconds / 1_000)) }
            let asked = Instant.now
            let client = try RawClient(endpoint)
            let answer = try client.exchange("GET", paths[number % paths.count], host: "127.0.0.1")
            client.close()
            outcome.slowest = max(outcome.slowest, .now - asked)
            if answer.status == 200 { outcome.answered += 1 }
        }
        return outcome
    }

    /// The proof of issue and design: whatever the shards do, health answers within 100 ms.
    static func underSaturation(for window: Duration) async throws -> (outcome: Outcome, share: SaturatedLoops.Share) {
        let server = try HealthServer()
        let loops = try SaturatedLoops()
        let outcome = try await offPool { try run(server.endpoint, over: window) }
        return (outcome, try loops.stop())
    }
}
