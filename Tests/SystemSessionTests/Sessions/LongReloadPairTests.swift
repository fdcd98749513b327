import TestSupport
import Testing

@testable import SystemTestSupport

/// The pairs of token and upstream over many reloads (architecture-control.md 7.9).
@Suite struct LongReloadPairTests {
    @Test(
        "a thousand reloads under eight clients: no token reaches the upstream of the other configuration",
        arguments: [1, 300], ReloadedPairs.Change.allCases)
    func pairs(_ routes: Int, _ change: ReloadedPairs.Change) async throws {
        let pairs = try await ReloadedPairs(change, routes: routes)
        try pairs.configure(0)
        let lanyard = try await pairs.users.start()
        try await lanyard.untilReady()
        let clients = PairClients(8, lanyard.data, (0..<routes).map { "/r\($0)" })
        let rounds = LongSize.of(1_000, least: 20)
        for round in 1...rounds {
            try pairs.configure(round % 2)
            #expect(!(try await ReloadedUsers.applied(lanyard).isEmpty))
            guard round % 10 == 0 else { continue }
            let served = clients.served
            try await eventually("requests are served") { clients.served > served + 8 }
        }
        let (served, refusals) = try await clients.stop()
        print(
            "\(change.rawValue), \(routes) routes, \(rounds) reloads: \(served) served, \(refusals.retryable) retryable 503"
        )
        #expect(refusals.others == [])
        let wrong = try await pairs.wrongPairs()
        #expect(wrong == [])
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
