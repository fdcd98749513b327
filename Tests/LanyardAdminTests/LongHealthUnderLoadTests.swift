import Testing

@Suite struct LongHealthUnderLoadTests {
    @Test("health answers within 100 ms while every shard spins in queued work for 10 s")
    func saturated() async throws {
        let (outcome, share) = try await HealthProbes.underSaturation(for: .seconds(10))
        #expect(outcome.answered == 100)
        #expect(outcome.slowest <= .milliseconds(100))
        #expect(share.ofAvailable >= 0.9)
    }
}
