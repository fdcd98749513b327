import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// An operator's call for an access token: a session service before the emulator.
@Suite struct TokenCallServiceTests {
    private static func ask(
        _ bench: SessionServiceBench, _ variant: TokenVariant? = nil
    ) async -> Result<ShownTokens, UserError> {
        await withCheckedContinuation { continuation in
            bench.service.perform(.accessToken("alice", variant)) { result in
                continuation.resume(
                    returning: result.flatMap { outcome in
                        if case .accessTokens(let tokens) = outcome { .success(tokens) } else { .failure(.noAccounts) }
                    })
            }
        }
    }

    private static func waits(_ bench: SessionServiceBench) async throws {
        try await eventually("the call waits") {
            bench.service.loop.perform { bench.service.userService.tokenWaits.count == 1 }
        }
    }

    @Test("a call during the login gets its token, as a request does; later calls get the same token at once")
    func login() async throws {
        let bench = try await SessionServiceBench(startsService: false)
        let isReleased = Milestone()
        defer { isReleased.set() }
        try bench.gate.set(.holdResponse(until: isReleased))
        bench.service.start()
        async let first = Self.ask(bench)
        try await Self.waits(bench)
        isReleased.set()
        let tokens = try await first.get()
        #expect(tokens.plain.token == bench.published.token()?.token && tokens.plain.generation == 1)
        let rest = try #require(tokens.plain.rest)
        #expect(rest > .seconds(1700) && rest <= .seconds(1800))
        #expect(try await Self.ask(bench).get().plain.token == tokens.plain.token)
        #expect(bench.service.loop.perform { bench.service.userService.tokenWaits.isEmpty })
        await bench.end()
    }

    @Test("a call waits refresh.wait_max at most, and brings nothing of it into the next one")
    func waitMax() async throws {
        let bench = try await SessionServiceBench(startsService: false)
        let isReleased = Milestone()
        defer { isReleased.set() }
        try bench.gate.set(.holdResponse(until: isReleased))
        bench.service.start()
        async let first = Self.ask(bench)
        try await Self.waits(bench)
        bench.service.loop.pass(RefreshSettings().waitMax + .seconds(1), waitsForReplies: false)
        let result = await first
        guard case .failure(.noToken(.identityUnreachable)) = result else {
            return #expect(Bool(false), "\(result)")
        }
        isReleased.set()
        try await bench.becomes(.valid)
        #expect(try await Self.ask(bench).get().plain.token == bench.published.token()?.token)
        await bench.end()
    }

    @Test("a stop ends a call that waits")
    func stop() async throws {
        let bench = try await SessionServiceBench(startsService: false)
        let isReleased = Milestone()
        defer { isReleased.set() }
        try bench.gate.set(.holdResponse(until: isReleased))
        bench.service.start()
        async let first = Self.ask(bench)
        try await Self.waits(bench)
        bench.service.stop()
        let result = await first
        guard case .failure(.outcomeUnknown) = result else { return #expect(Bool(false), "\(result)") }
        isReleased.set()
        await bench.end()
    }

    @Test("without a session the refusal is that of requests: logged out, a missing password")
    func refused() async throws {
        let bench = try await SessionServiceBench()
        try await bench.becomes(.valid)
        await withCheckedContinuation { done in
            bench.service.perform(.logOut("alice")) { _ in done.resume() }
        }
        guard case .failure(.noToken(.loggedOut)) = await Self.ask(bench) else {
            return #expect(Bool(false), "logged out")
        }
        await bench.end()
        let other = try await SessionServiceBench(password: nil)
        try await other.becomes(.refused)
        guard case .failure(.noToken(.credentialRefused)) = await Self.ask(other) else {
            return #expect(Bool(false), "refused")
        }
        await other.end()
    }

    @Test("a token that no route asks for is told apart")
    func unknown() async throws {
        let bench = try await SessionServiceBench()
        try await bench.becomes(.valid)
        #expect(await Self.ask(bench, TokenVariant(audience: "orders")).failure == .noSuchToken(known: []))
        await bench.end()
    }
}

extension Result {
    /// nil: the value is there.
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
