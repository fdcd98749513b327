import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// What is known of a server serves while its metadata cannot be had, whatever made a call ask for it again.
@Suite("OAuth: former metadata") struct OAuthFormerMetadataTests {
    private static let discovery = "/.well-known/openid-configuration"

    /// A server whose metadata comes once. Afterwards it fails, or is silent. The token endpoint works.
    private final class Server: Sendable {
        enum Later { case fails, isPage, isSilent, works }
        let later = Guarded(Later.fails)
        /// The next responses of the token endpoint, by a piece of the form that they are for.
        let refusals = Guarded<[(form: String, response: RawResponse)]>([])
        private let state = Guarded((issuer: "", asked: 0))

        func bench() throws -> OAuthBench {
            let bench = try OAuthBench(script: { [self] in response($0) })
            state.withLock { $0.issuer = bench.issuer }
            return bench
        }

        private func response(_ request: RawMessage) -> RawResponse? {
            guard request.target == discovery else {
                return refusals.withLock { refusals in
                    refusals.firstIndex { request.bodyText.contains($0.form) }.map { refusals.remove(at: $0).response }
                }
            }
            let (issuer, asked) = state.withLock { state in
                defer { state.asked += 1 }
                return (state.issuer, state.asked)
            }
            return switch later.withLock({ $0 }) {
            case .fails where asked > 0: OAuthBench.json(503, "{}")
            case .isPage where asked > 0:
                .response(200, "OK", fields: [("Content-Type", "text/html")], body: "<p>").closing
            case .isSilent where asked > 0: .text("")
            default: OAuthBench.metadata(issuer)
            }
        }
    }

    private static func targets(_ bench: OAuthBench) -> [String] { bench.server.requests.map(\.target) }
    private static func asked(_ bench: OAuthBench) -> Int { targets(bench).count { $0 == discovery } }

    @Test("one user's refused refresh token, unconfirmed, leaves the calls of others as they are")
    func otherUsers() async throws {
        let server = Server()
        let bench = try server.bench()
        _ = try await bench.refresh("alice").get()
        server.refusals.withLock { $0 = [("=bob", OAuthBench.json(400, #"{"error":"invalid_grant"}"#))] }
        let result = await bench.refresh("bob")
        let error = try #require(throws: IdentityError.self) { try result.get() }
        guard case .transient = error.verdict else { throw TestFailure("\(error.verdict)") }
        #expect(error.message.contains("not taken for final"), "\(error.message)")
        for _ in 0..<2 { _ = try await bench.refresh("alice").get() }
        // Neither of these calls has asked for the metadata.
        #expect(Self.asked(bench) == 2)
    }

    @Test("a page in place of the metadata leaves a refusal open: its status is not that of the refresh")
    func page() async throws {
        let server = Server()
        let bench = try server.bench()
        _ = try await bench.refresh("alice").get()
        server.later.withLock { $0 = .isPage }
        server.refusals.withLock { $0 = [("=bob", OAuthBench.json(400, #"{"error":"invalid_grant"}"#))] }
        for _ in 0..<2 {
            let error = try #require(await bench.refresh("bob").failure)
            #expect(error.verdict == .transient(retryAfter: nil) && error.isOfPlace, "\(error)")
        }
        #expect(bench.forms.count == 2)
    }

    @Test("an unconfirmed refusal is not sent again before the metadata has come; then it is final")
    func refusedOnce() async throws {
        let server = Server()
        let bench = try server.bench()
        let refusal = OAuthBench.json(400, #"{"error":"invalid_grant"}"#)
        _ = try await bench.refresh("alice").get()
        server.refusals.withLock { $0 = [("=bob", refusal), ("=bob", refusal)] }
        for _ in 0..<3 {
            let result = await bench.refresh("bob")
            let error = try #require(throws: IdentityError.self) { try result.get() }
            guard case .transient = error.verdict else { throw TestFailure("\(error.verdict)") }
            #expect(error.message.contains("not taken for final"), "\(error.message)")
        }
        #expect(bench.forms.count == 2)
        server.later.withLock { $0 = .works }
        let result = await bench.refresh("bob")
        #expect(throws: IdentityError.self) { try result.get() }
        if case .failure(let error) = result { #expect(error.verdict == .sessionDead) }
        #expect(bench.forms.count == 3)
    }

    @Test("a variant that the server refuses, and a 404 that passes, leave the endpoints known")
    func blips() async throws {
        let server = Server()
        let bench = try server.bench()
        _ = try await bench.refresh("alice").get()
        server.refusals.withLock {
            $0 = [
                ("audience=x", OAuthBench.json(400, #"{"error":"invalid_target"}"#)),
                ("=carol", .response(404, "Not Found", body: "<html>").closing),
            ]
        }
        let fetched = await withCheckedContinuation { done in
            bench.identity.fetch(
                TokenVariant(audience: "x"), by: .refreshToken(Tokens.secret("bob")), progress: CallProgress(.refresh)
            ) { done.resume(returning: $0) }
        }
        if case .failure(let error) = fetched { #expect(error.verdict == .clientRefused) }
        _ = try await bench.refresh("alice").get()
        let moved = await bench.refresh("carol")
        #expect(throws: IdentityError.self) { try moved.get() }
        _ = try await bench.refresh("carol").get()
        #expect(Self.targets(bench).last == "/token")
    }

    @Test("silent metadata that is a day old delays a refresh by five seconds, once in five minutes")
    func silent() async throws {
        let server = Server()
        let bench = try server.bench()
        bench.loop.freezeTime()
        _ = try await bench.refresh("alice").get()
        server.later.withLock { $0 = .isSilent }
        bench.loop.pass(.seconds(86_400))
        let first = Guarded<Result<Grant, IdentityError>?>(nil)
        bench.identity.refresh(Tokens.secret("alice")) { result in first.withLock { $0 = result } }
        try await eventually("the metadata is asked for") { Self.asked(bench) == 2 }
        bench.loop.pass(.seconds(5) - .nanoseconds(1))
        #expect(bench.forms.count == 1 && first.withLock { $0 == nil })
        bench.loop.pass(.nanoseconds(1))
        try await eventually("the refresh has ended") { first.withLock { $0 != nil } }
        _ = try #require(first.withLock { $0 }).get()
        // The request for the metadata is still in flight, and delays no further call.
        _ = try await bench.refresh("alice").get()
        bench.server.closeAll()
        try await eventually("the request for the metadata has failed") {
            bench.loop.perform { !bench.identity.discovery.isAsking }
        }
        bench.loop.pass(.seconds(299))
        _ = try await bench.refresh("alice").get()
        #expect(Self.asked(bench) == 2 && bench.forms.count == 4)
        server.later.withLock { $0 = .works }
        bench.loop.pass(.seconds(1))
        _ = try await bench.refresh("alice").get()
        #expect(Self.asked(bench) == 3)
    }
}
