import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// What the store has kept of a server's metadata serves the first call after a restart.
@Suite("OAuth: metadata in the store") struct OAuthStoredMetadataTests {
    private static let discovery = "/.well-known/openid-configuration"

    /// A server that has moved its token endpoint since the metadata was stored. Both work.
    private static func bench(discoveryStatus: Int = 200) throws -> OAuthBench {
        let issuer = Guarded("")
        let bench = try OAuthBench(script: { request in
            switch request.target {
            case discovery where discoveryStatus != 200: return OAuthBench.json(discoveryStatus, "{}")
            case discovery: return OAuthBench.metadata(issuer.withLock { $0 }, more: #","a":"b""#)
            case "/stored": return OAuthBench.json(200, #"{"access_token":"a","token_type":"bearer","expires_in":20}"#)
            default: return nil
            }
        })
        issuer.withLock { $0 = bench.issuer }
        return bench
    }

    private static func stored(
        _ bench: OAuthBench, age: Duration, issuer: String? = nil, url: String? = nil
    ) -> StoredMetadata {
        StoredMetadata(
            issuer: issuer ?? bench.issuer, url: url ?? bench.issuer, readAt: WallTime.now + (.zero - age),
            endpoints: OAuthEndpoints(token: bench.issuer + "/stored"), aliases: OAuthEndpoints())
    }

    private static func targets(_ bench: OAuthBench) -> [String] { bench.server.requests.map(\.target) }

    @Test("of the last day: the call asks for no metadata")
    func fresh() async throws {
        let bench = try Self.bench()
        bench.identity.keepMetadata([Self.stored(bench, age: .seconds(86_000))]) { _ in }
        for _ in 0..<2 { _ = try await bench.login(.clientCredentials).get() }
        #expect(Self.targets(bench) == ["/stored", "/stored"])
    }

    @Test(
        "older, or from the future by a clock that went back: it is asked for first, and serves if the server says nothing",
        arguments: [Duration.seconds(90_000), .seconds(-60)])
    func old(_ age: Duration) async throws {
        let silent = try Self.bench(discoveryStatus: 503)
        silent.identity.keepMetadata([Self.stored(silent, age: age)]) { _ in }
        _ = try await silent.login(.clientCredentials).get()
        #expect(Self.targets(silent) == [Self.discovery, "/.well-known/oauth-authorization-server", "/stored"])
        let moved = try Self.bench()
        moved.identity.keepMetadata([Self.stored(moved, age: age)]) { _ in }
        _ = try await moved.login(.clientCredentials).get()
        #expect(Self.targets(moved) == [Self.discovery, "/token"])
    }

    @Test("of another issuer, or asked for elsewhere: it is not used")
    func others() async throws {
        let bench = try Self.bench()
        bench.identity.keepMetadata([
            Self.stored(bench, age: .zero, issuer: bench.issuer + "/"),
            Self.stored(bench, age: .zero, url: "http://127.0.0.1:1"),
        ]) { _ in }
        _ = try await bench.login(.clientCredentials).get()
        #expect(Self.targets(bench) == [Self.discovery, "/token"])
    }

    @Test("what the server says is given to the store; what it forgets later does not come back from there")
    func saved() async throws {
        let bench = try OAuthBench(script: { request in
            request.target == "/stored" ? OAuthBench.json(404, "{}") : nil
        })
        let saved = Guarded<[StoredMetadata]>([])
        bench.identity.keepMetadata([Self.stored(bench, age: .zero)]) { metadata in
            saved.withLock { $0.append(metadata) }
        }
        // The remembered endpoint is gone.
        _ = await bench.login(.clientCredentials)
        _ = try await bench.login(.clientCredentials).get()
        #expect(Self.targets(bench) == ["/stored", Self.discovery, "/token"])
        let metadata = try #require(saved.withLock { $0 }.first)
        #expect(saved.withLock { $0 }.count == 1)
        #expect(metadata.isOfSameServer(as: Self.stored(bench, age: .zero)))
        let named = OAuthEndpoints(token: bench.issuer + "/token", revocation: bench.issuer + "/revoke")
        #expect(metadata.endpoints == named)
        #expect(metadata.isStorable)
        var long = metadata
        long.aliases.token = "https://" + String(repeating: "a", count: 1_017)
        #expect(!long.isStorable)
    }
}
