import TestSupport
import Testing

@testable import SystemTestSupport

/// Random walks of reloads and operators' calls, each step compared with a restart (architecture-control.md 7.9).
@Suite struct LongReloadWalkTests {
    @Test("after each of twenty random steps the users are those of a restart", arguments: 1...10)
    func walk(_ seed: Int) async throws {
        print("seed \(seed)")
        try await ReloadedWalk.run(seed: UInt64(seed), steps: LongSize.of(20, least: 5), restartsEach: 1)
    }
}
