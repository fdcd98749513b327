import FleetSimulation
import TestSupport
import Testing

/// The simulation itself. Its worlds run optimized: `lanyard-simulation` (docs/design/simulation.md), in each run of the tests.
@Suite("The simulated fleet")
struct FleetTests {
    @Test("a seed is a world: the same one twice")
    func repeatable() {
        let plan = FleetPlan(seed: 5, lifetime: .seconds(1800), span: .seconds(86_400), changesAccounts: true)
        let (one, two) = (FleetWorld(plan).run(), FleetWorld(plan).run())
        #expect(one.faults == two.faults && one.edges == two.edges && one.crashes == two.crashes)
        #expect(one.situations == two.situations && one.checks == two.checks)
        #expect(one.writes == two.writes && one.refreshes == two.refreshes && one.writes > 100)
    }
}
