import IdentityTestSupport
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// The rule of upstreams (`TLSHandshakeTests/names`). libcurl by itself has another one, which accepts common names.
@Suite("Identity calls: the name in the certificate")
struct CurlNameTests {
    private static let authority = TestAuthority()

    /// Whether a call to `https://HOST` trusts a certificate with these names.
    struct Case: CustomTestStringConvertible, Sendable {
        let host: String
        let names: String
        let commonName: String
        let isTrusted: Bool
        var testDescription: String { "\(host): \(names), CN=\(commonName)" }

        init(_ host: String, _ names: String, commonName: String = "leaf", isTrusted: Bool = false) {
            (self.host, self.names, self.commonName, self.isTrusted) = (host, names, commonName, isTrusted)
        }
    }

    @Test(
        "alternative names alone count, addresses as addresses, and a wildcard stands for one whole label",
        arguments: [
            Case("localhost", "DNS:localhost", isTrusted: true),
            Case("LOCALHOST", "DNS:localhost", isTrusted: true),
            Case("127.0.0.1", "IP:127.0.0.1", isTrusted: true),
            Case("a.b.localhost", "DNS:*.b.localhost", isTrusted: true),
            Case("localhost", "", commonName: "localhost"),
            Case("127.0.0.1", "", commonName: "127.0.0.1"),
            Case("localhost", "email:a@localhost", commonName: "localhost"),
            Case("127.0.0.1", "URI:https://127.0.0.1", commonName: "127.0.0.1"),
            Case("127.0.0.1", "DNS:127.0.0.1"),
            Case("127.0.0.1", "DNS:*.0.0.1"),
            Case("127.0.0.1", "IP:127.0.0.2", commonName: "127.0.0.1"),
            Case("localhost", "DNS:localhost.example", commonName: "localhost"),
            Case("a.localhost", "DNS:*.localhost"),
            Case("ab.b.localhost", "DNS:a*.b.localhost"),
            Case("xn--a.b.localhost", "DNS:xn--*.b.localhost"),
            Case("x.a.b.localhost", "DNS:*.b.localhost"),
            Case("a.b.localhost", "DNS:a.*.localhost"),
        ])
    func names(_ given: Case) async throws {
        let server = try RawServer { _ in IdentityBench.location("http://127.0.0.1:1") }
        let issued = Self.authority.issue(given.names, commonName: given.commonName)
        let relay = try TLSRelay(.server(issued), before: server.endpoint)
        let bench = try IdentityBench(
            baseURL: "https://\(given.host):\(relay.endpoint.port)",
            tls: IdentityTLSContents(authorities: Tokens.secret(Self.authority.pem)))
        let error = try #require(await bench.refresh().failure)
        // A service that is trusted leads to plain http, which is refused for that.
        #expect(error.isAlarming != given.isTrusted, "\(error.message)")
        #expect(error.message.contains("leads from https to http") == given.isTrusted, "\(error.message)")
        #expect(server.requests.isEmpty != given.isTrusted)
    }
}
