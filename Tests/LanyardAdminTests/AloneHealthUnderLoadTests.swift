import Testing

@Suite struct AloneHealthUnderLoadTests {
    @Test("health answers within 100 ms while every shard spins in queued work for 2 s")
    func saturated() async throws {
        let (outcome, share) = try await HealthProbes.underSaturation(for: .seconds(2))
        #expect(outcome.answered == 100)
        #expect(outcome.slowest <= .milliseconds(100))
        #expect(share.ofAvailable >= 0.9)
    }
}
