import FleetSimulation
import TestSupport
import Testing

/// The simulation itself: tests are built for debugging, so the runs are short; the long one is `deploy/test --part simulation`.
@Suite("The simulated fleet", .offPool)
struct FleetTests {
    @Test("worlds in which everything goes wrong but the program break no promise")
    func sound() async throws {
        let report = try await offPool {
            var run = FleetRun(shares: FleetRun.shares(scale: 0.001), firstSeed: 1, threads: 1)
            run.beginsWithKnown = false
            run.secondsMost = 10
            return run.run()
        }
        #expect(report.violations.isEmpty, "\(report.violations)")
        #expect(report.refreshes > 100 && report.restarts > 0)
    }

    @Test("links, deletions and credentials for one login come in all their situations")
    func accounts() async throws {
        let report = try await offPool {
            var whole = FleetReport()
            for seed in 1...400 as ClosedRange<UInt64> where !whole.situations.allSatisfy({ $0 > 0 }) {
                let plan = FleetPlan(
                    seed: seed, lifetime: .seconds(1800), span: .seconds(3 * 86_400), changesAccounts: true)
                whole.add(FleetWorld(plan).run())
            }
            return whole
        }
        #expect(report.violations.isEmpty, "\(report.violations)")
        for situation in FleetSituation.allCases {
            #expect(report.situations[situation.rawValue] > 0, "no world had: \(situation.name)")
        }
    }

    @Test("a seed is a world: the same one twice")
    func repeatable() {
        let plan = FleetPlan(seed: 5, lifetime: .seconds(1800), span: .seconds(4 * 86_400), changesAccounts: true)
        let (one, two) = (FleetWorld(plan).run(), FleetWorld(plan).run())
        #expect(one.faults == two.faults && one.edges == two.edges && one.crashes == two.crashes)
        #expect(one.situations == two.situations && one.checks == two.checks)
        #expect(one.writes == two.writes && one.refreshes == two.refreshes && one.writes > 100)
    }
}
