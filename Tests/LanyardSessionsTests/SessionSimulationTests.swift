import TestSupport
import Testing

@testable import LanyardSessionInterface
@testable import LanyardSessions

@Suite("Session: simulated days")
struct SessionSimulationTests {
    /// A service with random transient failures for random periods, never a definite one.
    private static func moody(_ harshness: Double) -> (SessionCall, inout SeededGenerator) -> SessionSimulation.Outcome
    {
        { _, numbers in
            let latency = numbers.chance() < 0.1 ? 30 * numbers.chance() : 0.2 * numbers.chance()
            guard numbers.chance() < harshness else { return .init(latency: latency) }
            switch Int(numbers.chance() * 8) {
            case 0: return .init(latency: 30, verdict: .unknownOutcome)
            case 1: return .init(latency: latency, verdict: .transient(retryAfter: .seconds(600 * numbers.chance())))
            case 2: return .init(latency: latency, verdict: .gone)
            case 3: return .init(latency: latency, verdict: .sessionDead)
            default: return .init(latency: latency, verdict: .transient(retryAfter: nil))
            }
        }
    }

    @Test(
        "no expired token is handed out, one call is in flight, and no session ends that can continue",
        arguments: [2.0, 20, 1800, 86_400], [0.2, 0.6, 0.95])
    func randomFailures(_ lifetime: Double, _ harshness: Double) async {
        let simulation = SessionSimulation(lifetime: lifetime, seed: 1)
        simulation.requestInterval = max(lifetime / 50, 0.3)
        // A login is never refused here; a refused one would rightly end the session.
        let moods = Self.moody(harshness)
        simulation.service = { call, numbers in
            var outcome = moods(call, &numbers)
            if call.kind == .login, outcome.verdict == .sessionDead { outcome.verdict = .transient(retryAfter: nil) }
            return outcome
        }
        simulation.driver.handle(.logIn)
        await simulation.run(max(lifetime * 60, 4000))
        #expect(![.refused, .loginRequired, .loggedOut].contains(simulation.driver.state))
        simulation.service = { _, _ in .init(latency: 0.01) }
        await simulation.run(700)
        #expect([.valid, .refreshing].contains(simulation.driver.state))
        #expect(simulation.counts.served > 0)
    }

    @Test(
        "slow responses cost no request: closed loop at 10-second tokens",
        arguments: [(0.0, 440...570), (0.05, 440...570), (3, 800...1050)])
    func slowService(_ latency: Double, _ calls: ClosedRange<Int>) async {
        let simulation = SessionSimulation(lifetime: 10, seed: 3)
        simulation.service = { _, _ in .init(latency: latency) }
        simulation.requestInterval = 0.1
        simulation.driver.handle(.logIn)
        await simulation.run(3600)
        #expect(simulation.counts.failed == 0 && simulation.counts.served > 30_000)
        // One call per window of 6.5 to 7.5 s, and the login; with slow responses one per 3.1 to 4.1 s, so that none is waited for.
        #expect(calls.contains(simulation.counts.calls), "\(simulation.counts.calls)")
    }

    @Test(
        "Rule 5: a service that always fails is asked a bounded number of times an hour",
        arguments: [2.0, 20, 1800, 86_400])
    func noStorm(_ lifetime: Double) async {
        let simulation = SessionSimulation(lifetime: lifetime, seed: 9)
        simulation.requestInterval = 0.5
        simulation.driver.handle(.logIn)
        await simulation.run(lifetime * 0.5)
        simulation.service = { _, _ in .init(latency: 0.001, verdict: .transient(retryAfter: nil)) }
        await simulation.run(3 * 3600)
        // Requests come all the time: uniform in 0 to 10 s, so 720 on average.
        #expect(simulation.counts.mostCallsInAnHour < 900)
        let calls = simulation.counts.calls
        simulation.requestInterval = 1e9
        await simulation.run(3600)
        await simulation.run(3600)
        #expect(simulation.counts.calls - calls < 2 * 330)
    }

    @Test("after any outage it is valid again within a minute")
    func recovery() async {
        for seed in 1...10 as ClosedRange<UInt64> {
            let simulation = SessionSimulation(lifetime: 10, seed: seed)
            simulation.requestInterval = seed.isMultiple(of: 2) ? 1 : 1e9
            simulation.driver.handle(.logIn)
            await simulation.run(5)
            simulation.service = { _, _ in .init(latency: 0.001, verdict: .transient(retryAfter: nil)) }
            await simulation.run(Double(seed) * 17)
            simulation.service = { _, _ in .init(latency: 0.01) }
            let generation = simulation.driver.context.generation
            await simulation.run(40)
            #expect(simulation.driver.context.generation > generation, "seed \(seed)")
        }
    }

    @Test("Rule 3: an outage shorter than the rest of the token's lifetime costs no request")
    func shortOutage() async {
        for seed in 1...10 as ClosedRange<UInt64> {
            let simulation = SessionSimulation(lifetime: 1800, seed: seed)
            simulation.driver.handle(.logIn)
            await simulation.run(1160)
            simulation.service = { _, _ in .init(latency: 0.001, verdict: .transient(retryAfter: nil)) }
            // Until 60 s before the end: failures of the advisory zone affect no request.
            await simulation.run(1800 - 60 - 1160)
            simulation.service = { _, _ in .init(latency: 0.01) }
            await simulation.run(600)
            #expect(simulation.counts.failed == 0, "seed \(seed)")
        }
    }
}
