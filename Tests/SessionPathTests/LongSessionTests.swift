import Testing

/// Tests that take half a minute.
@Suite("Sessions over half a minute")
struct LongSessionTests {
    @Test("a revoked session without a credential: at most 2 further calls in 30 s")
    func revokedSession() async throws {
        try await SessionServiceTests.revokedSession(watching: .seconds(30))
    }
}
