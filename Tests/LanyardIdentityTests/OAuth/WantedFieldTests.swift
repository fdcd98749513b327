import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Fields of the client that servers on the `mcp` SDK (2.3.0) and fastmcp (4.1.6) want in the form, although they prove nothing.
@Suite("OAuth: fields that a server wants besides") struct WantedFieldTests {
    /// A server that wants `client_id` in each form, and `client_secret` in that of a revocation.
    private static func bench(
        _ change: @escaping (inout IdentitySettings.OAuth, TemporaryFolder) throws -> Void
    ) throws -> OAuthBench {
        try OAuthBench(
            script: { request in
                guard ["/token", "/revoke"].contains(request.target) else { return nil }
                if !request.bodyText.contains("client_id=") {
                    return OAuthBench.json(
                        401, #"{"error":"unauthorized_client","error_description":"Missing client_id"}"#)
                }
                guard request.target == "/revoke", !request.bodyText.contains("client_secret=") else { return nil }
                return OAuthBench.json(
                    400, #"{"error":"invalid_request","error_description":"client_secret: Field required"}"#)
            }, settings: change)
    }

    private static func forms(_ bench: OAuthBench, _ target: String) -> [String] {
        bench.server.requests.filter { $0.target == target }.map(\.bodyText)
    }

    @Test(
        "auto sends client_id beside Basic once the server has asked for it; the login is made a second time, and no later call is"
    )
    func automatic() async throws {
        let bench = try Self.bench {
            $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
            $0.isAuthenticationAutomatic = true
        }
        _ = try await bench.login(.clientCredentials).get()
        _ = try await bench.refresh().get()
        #expect(
            bench.forms == [
                "grant_type=client_credentials", "grant_type=client_credentials&client_id=lan+yard",
                "grant_type=refresh_token&refresh_token=\(Tokens.refresh)&client_id=lan+yard",
            ])
        #expect(bench.server.requests.filter { $0.target == "/token" }.allSatisfy { $0["Authorization"] != nil })
    }

    @Test("a refresh and a revocation are repeated in the same way; a revocation gets its empty client_secret")
    func otherCalls() async throws {
        let bench = try Self.bench {
            $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
            $0.isAuthenticationAutomatic = true
        }
        _ = try await bench.revoke().get()
        let token = "token=\(Tokens.refresh)&token_type_hint=refresh_token"
        #expect(
            Self.forms(bench, "/revoke") == [
                token, token + "&client_id=lan+yard", token + "&client_id=lan+yard&client_secret=",
            ])
        _ = try await bench.refresh().get()
        #expect(bench.forms == ["grant_type=refresh_token&refresh_token=\(Tokens.refresh)&client_id=lan+yard"])
    }

    @Test(
        "a public client's revocation gets an empty client_secret once the server has asked for it; token calls never")
    func publicClient() async throws {
        let bench = try Self.bench { _, _ in }
        for _ in 0..<2 { _ = try await bench.revoke().get() }
        _ = try await bench.refresh().get()
        let form = "token=\(Tokens.refresh)&token_type_hint=refresh_token&client_id=lan+yard"
        #expect(Self.forms(bench, "/revoke") == [form, form + "&client_secret=", form + "&client_secret="])
        #expect(bench.forms == ["grant_type=refresh_token&refresh_token=\(Tokens.refresh)&client_id=lan+yard"])
    }

    @Test("basic_with_id sends it from the first call; basic, as configured, never")
    func configured() async throws {
        let bench = try Self.bench { $0.authentication = .basicWithID(secretFile: try $1.write("s", "p:x")) }
        _ = try await bench.login(.clientCredentials).get()
        #expect(bench.forms == ["grant_type=client_credentials&client_id=lan+yard"])
        #expect(bench.server.requests.last?.values("Authorization") == ["Basic bGFuK3lhcmQ6cCUzQXg="])
        let basic = try Self.bench { $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false) }
        let error = try #require(await basic.login(.clientCredentials).failure)
        #expect(basic.forms == ["grant_type=client_credentials"] && error.operatorMessage.contains("Missing client_id"))
    }

    @Test("a server that asks again gets no third call, and other errors no second one")
    func once() async throws {
        for (words, calls) in [("Missing client_id", 2), ("client_id is wrong", 1), ("Missing secret", 1)] {
            let bench = try OAuthBench(
                script: { request in
                    guard request.target == "/token" else { return nil }
                    return OAuthBench.json(401, #"{"error":"invalid_client","error_description":"\#(words)"}"#)
                },
                settings: {
                    $0.authentication = .basic(secretFile: try $1.write("s", "s1"), isRaw: false)
                    $0.isAuthenticationAutomatic = true
                })
            #expect(await bench.login(.clientCredentials).failure?.status == 401)
            #expect(bench.forms.count == calls, "\(words)")
        }
    }

    @Test("metadata below the issuer's path is the third place, which a root without a path does not have")
    func places() {
        #expect(
            OAuthMetadata.urls(of: "https://i.example/o/") == [
                "https://i.example/o/.well-known/openid-configuration",
                "https://i.example/.well-known/oauth-authorization-server/o",
                "https://i.example/o/.well-known/oauth-authorization-server",
            ])
        #expect(OAuthMetadata.urls(of: "https://i.example").count == 2)
    }

    @Test("authgent-server's polls of a device login are pending although it says invalid_grant")
    func devicePolls() {
        for (body, error) in [
            (#"{"error":"invalid_grant","error_description":"authorization_pending"}"#, "authorization_pending"),
            (#"{"error":"invalid_grant","error_description":"slow_down"}"#, "slow_down"),
            (#"{"error":"invalid_grant","error_description":"expired_token"}"#, "expired_token"),
            (#"{"error":"invalid_grant","error_description":"The code is wrong"}"#, "invalid_grant"),
            (#"{"error":"invalid_client","error_description":"authorization_pending"}"#, "invalid_client"),
            (#"{"error":"slow_down"}"#, "slow_down"),
        ] {
            #expect(Tokens.secret(body).withBytes { OAuthResponse($0).deviceError } == error, "\(body)")
        }
    }
}
