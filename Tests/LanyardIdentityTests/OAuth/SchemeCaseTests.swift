import IdentityTestSupport
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// A scheme has any case (RFC 3986 §3.1). Plain http is restricted to this machine in each of them.
@Suite("Identity: the case of a scheme") struct SchemeCaseTests {
    /// An address of no machine (RFC 5737): a call to it is prohibited before a connection is tried.
    private static let elsewhere = "192.0.2.1"
    private static let schemes = ["http", "HTTP", "hTTp"]

    private static func check(_ error: IdentityError?, _ text: String) {
        #expect(error?.message.contains("plain http") == true, "\(text): \(error?.message ?? "a success")")
    }

    @Test("an endpoint or alias of the metadata", arguments: schemes)
    func metadata(_ scheme: String) async throws {
        let url = "\(scheme)://\(Self.elsewhere)"
        let aliases = #","mtls_endpoint_aliases":{"token_endpoint":"\#(url)/token"}"#
        for (more, certificate) in [(#","token_endpoint":"\#(url)/token""#, nil), (aliases, "client.pem")] {
            let own = Guarded("")
            let bench = try OAuthBench(
                script: { request in
                    guard request.target == "/.well-known/openid-configuration" else { return nil }
                    let issuer = own.withLock { $0 }
                    let token = certificate == nil ? "" : #","token_endpoint":"\#(issuer)/token""#
                    return OAuthBench.json(200, #"{"issuer":"\#(issuer)"\#(token)\#(more)}"#)
                }, certificateFile: certificate)
            own.withLock { $0 = bench.issuer }
            Self.check(await bench.login(UserSettings.Login.clientCredentials).failure, more)
            #expect(bench.forms == [])
        }
    }

    @Test("a configured endpoint", arguments: schemes)
    func configured(_ scheme: String) async throws {
        let bench = try OAuthBench(settings: { client, _ in
            client.endpoints.token = "\(scheme)://\(Self.elsewhere)/token"
        })
        Self.check(await bench.login(UserSettings.Login.clientCredentials).failure, scheme)
    }

    @Test("the location of an App Services application, and a redirect to it", arguments: schemes)
    func location(_ scheme: String) async throws {
        let url = "\(scheme)://\(Self.elsewhere)"
        for isRedirect in [false, true] {
            let bench = try IdentityBench { _, path in
                guard path.hasSuffix("/location") else { return nil }
                return isRedirect
                    ? .response(302, "Found", fields: [("Location", "\(url)/location")]).closing
                    : IdentityBench.location(url)
            }
            Self.check(await bench.login().failure, "\(scheme) \(isRedirect)")
        }
    }

    @Test("an issuer in capitals: https that leads to http is refused, http on this machine works")
    func issuer() async throws {
        let bytes = { (endpoint: String, issuer: String) in
            Array(#"{"issuer":"\#(issuer)","token_endpoint":"\#(endpoint)"}"#.utf8)
        }
        for (endpoint, issuer, isTaken) in [
            ("HTTP://idp.example.com/t", "https://idp.example.com", false),
            ("http://idp.example.com/t", "HTTPS://idp.example.com", false),
            ("hTTp://idp.example.com/t", "hTTpS://idp.example.com", false),
            ("HTTPS://idp.example.com/t", "https://idp.example.com", true),
            ("HTTPS://idp.example.com/t?p=B2C_1", "HTTP://127.0.0.1:1", true),
        ] {
            let read = try? bytes(endpoint, issuer).withUnsafeBytes { try OAuthMetadata($0, issuer: issuer) }
            #expect((read != nil) == isTaken, "\(endpoint) \(issuer)")
        }
        #expect(
            OAuthMetadata.urls(of: "HTTPS://idp.example.com/a").contains(
                "https://idp.example.com/.well-known/oauth-authorization-server/a"))
    }
}
