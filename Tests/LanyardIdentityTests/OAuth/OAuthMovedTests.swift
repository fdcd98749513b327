import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Where the endpoints are is remembered: nothing is concluded for good from that alone.
@Suite("OAuth: a server that has moved") struct OAuthMovedTests {
    /// A server whose metadata names `/old` at first, and another path after the first token call.
    private final class MovingServer: Sendable {
        private let path: String
        private let metadataStatus: Int
        private let state = Guarded((issuer: "", hasServed: false))

        /// - Parameter metadataStatus: after the first token call.
        init(to path: String, metadataStatus: Int = 200) { (self.path, self.metadataStatus) = (path, metadataStatus) }

        func bench() throws -> OAuthBench {
            let bench = try OAuthBench(script: { [self] in response($0.target) })
            state.withLock { $0.issuer = bench.issuer }
            return bench
        }

        private func response(_ target: String) -> RawResponse {
            let (issuer, hasServed) = state.withLock { $0 }
            switch target {
            case "/.well-known/openid-configuration" where hasServed && metadataStatus != 200:
                return OAuthBench.json(metadataStatus, "{}")
            case "/.well-known/openid-configuration":
                let token = issuer + (hasServed ? path : "/old")
                return OAuthBench.json(200, #"{"issuer":"\#(issuer)","token_endpoint":"\#(token)"}"#)
            case "/old" where hasServed: return OAuthBench.json(400, #"{"error":"invalid_grant"}"#)
            case "/old", "/new":
                state.withLock { $0.hasServed = true }
                return OAuthBench.json(
                    200, #"{"access_token":"at\#(target)","token_type":"Bearer","expires_in":20,"refresh_token":"r"}"#)
            default: return OAuthBench.json(503, "{}")
            }
        }
    }

    private func targets(_ bench: OAuthBench) -> [String] { bench.server.requests.map(\.target) }

    @Test("a refusal at a remembered endpoint: the metadata is asked again, and the call goes where it leads")
    func moved() async throws {
        let bench = try MovingServer(to: "/new").bench()
        _ = try await bench.login(.clientCredentials).get()
        let grant = try await bench.refresh().get()
        #expect(grant.accessToken.withBytes { Array($0) } == Array("at/new".utf8))
        let metadata = "/.well-known/openid-configuration"
        #expect(targets(bench) == [metadata, "/old", "/old", metadata, "/new"])
    }

    @Test("the same endpoint again: the refusal is final, and the token is not sent twice")
    func same() async throws {
        let bench = try MovingServer(to: "/old").bench()
        _ = try await bench.login(.clientCredentials).get()
        let error = try #require(await bench.refresh().error)
        #expect(error.verdict == .sessionDead)
        #expect(targets(bench).count(where: { $0 == "/old" }) == 2)
    }

    @Test("metadata that does not come: nothing is final, and the next call begins with it")
    func unconfirmed() async throws {
        let bench = try MovingServer(to: "/new", metadataStatus: 503).bench()
        _ = try await bench.login(.clientCredentials).get()
        for _ in 0..<2 {
            let error = try #require(await bench.refresh().error)
            guard case .transient = error.verdict else { throw TestFailure("\(error.verdict)") }
        }
        #expect(targets(bench).count(where: { $0 == "/old" }) == 2)
    }

    @Test("another token endpoint, or another endpoint at another origin, is another service")
    func fingerprints() throws {
        let mark = { (change: (inout IdentitySettings.OAuth) -> Void) throws in
            try OAuthBench(settings: { client, _ in
                client.issuer = "https://idp.example.com/a"
                change(&client)
            }).identity.fingerprint
        }
        let plain = try mark { _ in }
        #expect(try plain == mark { $0.scopes = ["x"] })
        #expect(try plain == mark { $0.endpoints.revocation = "https://idp.example.com/revoke" })
        #expect(try plain != mark { $0.endpoints.revocation = "https://other.example.com/revoke" })
        let endpoints: [WritableKeyPath<OAuthEndpoints, String?>] = [
            \.deviceAuthorization, \.authorization, \.pushedAuthorization,
        ]
        for endpoint in endpoints {
            #expect(try plain == mark { $0.endpoints[keyPath: endpoint] = "https://idp.example.com/login" })
            #expect(try plain != mark { $0.endpoints[keyPath: endpoint] = "https://other.example.com/login" })
        }
        let first = try mark { $0.endpoints.token = "https://idp.example.com/a/token" }
        #expect(try first != mark { $0.endpoints.token = "https://idp.example.com/b/token" })
        #expect(plain != first)
    }
}

extension Result {
    fileprivate var error: Failure? { if case .failure(let error) = self { error } else { nil } }
}
