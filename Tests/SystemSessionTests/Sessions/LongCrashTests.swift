import TestSupport
import Testing

@testable import SystemTestSupport

/// "Kill it whenever you like: it comes back as it was." Rotating refresh tokens are repeated once at most, one-use tokens never.
@Suite(.serialized) struct LongCrashTests {
    @Test(
        "killed at random moments of login, refresh, switch and logout it starts again, logged in where it was",
        arguments: ["none", "grace", "one_use"])
    func killed(rotation: String) async throws {
        // A new seed each time finds more than one that stays. The failure names it.
        let seed = UInt64.random(in: 1...999_999)
        let driver = try await CrashDriver(rotation: rotation, seed: seed)
        try await driver.run(kills: LongSize.of(200, least: 40))
        let sums = driver.sums
        print("crash test, rotation \(rotation), seed \(seed): \(sums.sorted { $0.key < $1.key })")
        // Otherwise the kills have missed the moments that matter.
        #expect((sums["open refresh"] ?? 0) + (sums["open login"] ?? 0) > 0, "\(sums)")
        #expect(sums.filter { $0.key.hasSuffix("cut off") }.count >= 2, "\(sums)")
    }
}
