import TestSupport
import Testing

/// "Kill it whenever you like: it comes back as it was."
@Suite struct CrashTests {
    @Test(
        "killed at random moments of login, refresh, switch and logout it starts again, logged in where it was",
        .timeLimit(minutes: 5), arguments: ["none", "grace", "one_use"])
    func short(rotation: String) async throws { try await Self.run(rotation, kills: Sanitizer.isOn ? 8 : 40) }

    /// One seed each day would be forgotten; a new one each time finds more, and the failure names it.
    static func run(_ rotation: String, kills: Int, seed: UInt64 = .random(in: 1...999_999)) async throws {
        let driver = try await CrashDriver(rotation: rotation, seed: seed)
        try await driver.run(kills: kills)
        let sums = driver.sums
        print("crash test, rotation \(rotation), seed \(seed): \(sums.sorted { $0.key < $1.key })")
        // Otherwise the kills have missed the moments that matter.
        guard kills >= 40 else { return }
        #expect((sums["open refresh"] ?? 0) + (sums["open login"] ?? 0) > 0, "\(sums)")
        #expect(sums.filter { $0.key.hasSuffix("cut off") }.count >= 2, "\(sums)")
    }
}

@Suite(.serialized) struct LongCrashTests {
    @Test("killed 200 times it starts again each time, logged in where it was", .timeLimit(minutes: 15))
    func none() async throws { try await CrashTests.run("none", kills: 200) }
}

@Suite(.serialized) struct LongCrashGraceTests {
    @Test(
        "killed 200 times with rotating refresh tokens it repeats none but once, within the grace time",
        .timeLimit(minutes: 15))
    func grace() async throws { try await CrashTests.run("grace", kills: 200) }
}

@Suite(.serialized) struct LongCrashOneUseTests {
    @Test("killed 200 times with one-use refresh tokens it never repeats one", .timeLimit(minutes: 15))
    func oneUse() async throws { try await CrashTests.run("one_use", kills: 200) }
}
