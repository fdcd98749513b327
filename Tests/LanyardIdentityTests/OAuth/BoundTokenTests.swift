import Foundation
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardIdentity
@testable import LanyardSettings

/// Access tokens that name the certificate that they are bound to (RFC 8705 §3.1).
@Suite("OAuth: tokens that are bound to a certificate") struct BoundTokenTests {
    private static let authority = TestAuthority()
    private static let (own, other) = (issue("lanyard"), issue("gateway"))

    private static func issue(_ name: String) -> TestAuthority.Issued {
        authority.issue("DNS:\(name).test", commonName: name, purpose: "clientAuth")
    }

    private static func contents(_ issued: TestAuthority.Issued) -> IdentityTLSContents {
        IdentityTLSContents(certificate: Tokens.secret(issued.certificate), key: Tokens.secret(issued.key))
    }

    /// `x5t#S256` of a certificate.
    private static func thumbprint(_ issued: TestAuthority.Issued) throws -> String {
        let lines = issued.certificate.split(separator: "\n").filter { !$0.hasPrefix("-") }
        let der = try #require(Data(base64Encoded: lines.joined()))
        let hex = SHA256Digest.hex(of: [UInt8](der))
        let digest = stride(from: 0, to: hex.count, by: 2).compactMap { UInt8(hex.dropFirst($0).prefix(2), radix: 16) }
        return Data(digest).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
    }

    private static func token(_ thumbprint: String) -> String {
        Tokens.jwt(#"{"sub":"robot","cnf":{"kid":"k","x5t#S256":"\#(thumbprint)"}}"#)
    }

    /// A client, the next token of its server, and the lines of its log about certificates.
    private struct Client {
        private final class Next: Sendable {
            let token = Guarded("")
        }

        private let next = Next()
        private let log = LogRecorder()
        let bench: OAuthBench

        init(_ issued: TestAuthority.Issued?) throws {
            bench = try OAuthBench(
                script: { [next] request in
                    let token = next.token.withLock { $0 }
                    return request.target == "/token"
                        ? OAuthBench.json(200, #"{"access_token":"\#(token)","expires_in":20}"#) : nil
                },
                tls: issued.map(BoundTokenTests.contents) ?? IdentityTLSContents(),
                certificateFile: issued.map { _ in "/run/client.pem" }, logger: log.logger)
        }

        func get(_ token: String) async throws -> [String] {
            next.token.withLock { $0 = token }
            _ = try await bench.login(.clientCredentials).get()
            return log.lines.filter { $0.contains("identity.token.binding_differs") }
        }
    }

    @Test("a token that is bound to another certificate than the client's is warned of, once until one fits")
    func bound() async throws {
        let (own, other) = (try Self.thumbprint(Self.own), try Self.thumbprint(Self.other))
        let client = try Client(Self.own)
        var counts: [Int] = []
        let unbound = Tokens.jwt(#"{"cnf":{"jkt":"x"},"a":{"cnf":{"x5t#S256":"\#(other)"}}}"#)
        let tokens = [own, other, other, own, other].map(Self.token) + ["opaque", unbound, Tokens.jwt(#"{"cnf":1}"#)]
        for token in tokens { counts.append(try await client.get(token).count) }
        #expect(counts == [0, 1, 1, 1, 2, 2, 2, 2])
        let line = try #require(try await client.get("opaque").first)
        #expect(line.hasPrefix("warning") && line.contains(own) && line.contains(other))
        // The file of the certificate has changed.
        client.bench.identity.replaceTLS(Self.contents(Self.other))
        #expect(try await client.get(Self.token(other)).count == 2)
        #expect(try await client.get(Self.token(own)).count == 3)
    }

    @Test("without a certificate nothing is compared; a server's text in the place of a thumbprint is shown as ASCII")
    func others() async throws {
        #expect(try await Client(nil).get(Self.token("x")).isEmpty)
        let lines = try await Client(Self.own).get(Self.token("é\\u0000" + String(repeating: "b", count: 5_000)))
        #expect(lines.count == 1 && lines[0].utf8.count < 800 && lines[0].contains("??bbb"))
    }
}
