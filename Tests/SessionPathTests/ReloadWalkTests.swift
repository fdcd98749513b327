import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessions

/// Random walks of reloads and operators' calls (architecture-control.md 7.9).
@Suite struct ReloadWalkTests {
    /// Steps of one walk.
    private static let steps = 30

    @Test("after each reload and each call the users are those of a restart; a refused call has changed nothing")
    func restart() throws {
        for seed in UInt64(0)..<20 { try walk(seed) }
    }

    private func walk(_ seed: UInt64) throws {
        let walk = try ReloadWalk(seed: seed)
        var dice = SeededGenerator(seed &* 7 &+ 1)
        for step in 0..<Self.steps {
            let before = walk.snapshot
            let isRefused = dice.chance() < 0.4 ? !walk.reload().isEmpty : !walk.call()
            walk.settle()
            let after = walk.snapshot
            let differences =
                try walk.differencesFromRestart()
                + (isRefused && after != before ? ["\(after) in place of \(before)"] : [])
            guard differences.isEmpty else {
                Issue.record("seed \(seed), step \(step): \(differences)\n\(walk.story.joined(separator: "\n"))")
                return
            }
        }
    }

    @Test("no request gets a token of another configuration's account, however the turns of two shards fall")
    func shards() throws {
        var (served, replaced) = (0, 0)
        for seed in UInt64(0)..<20 {
            let walk = try ReloadWalk(seed: seed)
            for _ in 0..<150 { walk.stepOfShards() }
            #expect(walk.shards.wrongPairs == [], "seed \(seed)\n\(walk.story.joined(separator: "\n"))")
            served += walk.shards.served
            replaced += walk.shards.replaced
        }
        #expect(served > 200 && replaced > 5, "\(served) served, \(replaced) replaced")
    }

    @Test(
        "the simulated shards find a reload whose tokens and routes come one after the other",
        arguments: SimulatedShards.Fault.allCases)
    func planted(_ fault: SimulatedShards.Fault) throws {
        let found = try (UInt64(0)..<40).first { seed in
            let walk = try ReloadWalk(seed: seed, fault: fault)
            for _ in 0..<150 where walk.shards.wrongPairs.isEmpty { walk.stepOfShards() }
            return !walk.shards.wrongPairs.isEmpty
        }
        #expect(found != nil)
    }
}
