import LanyardFoundations
import LanyardSettings
import Testing

@testable import Lanyard
@testable import LanyardRequestPath

/// What `lanyard check --online` says of the version of HTTP that an upstream speaks.
@Suite struct OnlineCheckFindingTests {
    private static func finding(
        _ version: UpstreamSettings.HTTPVersion, tls: String? = "TLSv1.3", agreed: String?
    ) throws -> OnlineCheck.Finding {
        let address = try #require(SocketAddress(host: "127.0.0.1", port: 443))
        let connection = UpstreamProbe.Connection(
            address: address, version: tls, agreedProtocol: agreed, certificateEnd: nil)
        return OnlineCheck.finding("upstream u", .success(connection), speaking: version, isVerified: true)
    }

    @Test("what was agreed on by ALPN is said; HTTP/1.1 is spoken where nothing was")
    func agreed() throws {
        for (version, agreed, words) in [
            (.auto, "h2", "HTTP/2"), (.auto, "http/1.1", "HTTP/1.1"), (.auto, nil, "HTTP/1.1 without ALPN"),
            (.http1, "http/1.1", "HTTP/1.1"), (.http1, nil, "HTTP/1.1 without ALPN"), (.http2, "h2", "HTTP/2"),
        ] as [(UpstreamSettings.HTTPVersion, String?, String)] {
            let finding = try Self.finding(version, agreed: agreed)
            #expect(
                finding == OnlineCheck.Finding(outcome: .reached, text: "upstream u 127.0.0.1:443 TLSv1.3, \(words)"))
        }
        for version in [UpstreamSettings.HTTPVersion.auto, .http1, .http2] {
            let plain = try Self.finding(version, tls: nil, agreed: nil)
            #expect(plain == OnlineCheck.Finding(outcome: .reached, text: "upstream u 127.0.0.1:443"))
        }
    }

    @Test("protocol: http2 needs the upstream's agreement: none, and its refusal, are the same failure")
    func withoutHTTP2() throws {
        let text =
            "upstream u: The upstream does not agree on HTTP/2 by ALPN, and the route has protocol: http2. "
            + "Have the upstream offer h2, or set protocol: auto. The address is 127.0.0.1:443."
        #expect(try Self.finding(.http2, agreed: nil) == OnlineCheck.Finding(outcome: .failed, text: text))
        let address = SocketAddress(host: "127.0.0.1", port: 443)
        let refused: Result<UpstreamProbe.Connection, UpstreamError> = .failure(.tls(.noSharedProtocol, at: address))
        let finding = OnlineCheck.finding("upstream u", refused, speaking: .http2, isVerified: true)
        #expect(finding == OnlineCheck.Finding(outcome: .failed, text: text))
        let other = OnlineCheck.finding("upstream u", refused, speaking: .http1, isVerified: true)
        #expect(other.outcome == .failed && other.text.hasPrefix("upstream u: TLS failed: "), "\(other)")
    }
}
