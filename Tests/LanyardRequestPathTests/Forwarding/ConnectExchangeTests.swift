import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

@Suite("The exchange of CONNECT with a proxy")
struct ConnectExchangeTests {
    private static func exchange(_ authorization: String? = nil) -> ProxyTunnel {
        ProxyTunnel(to: "api.test", port: 443, authorization: authorization.map { Tokens.secret($0) })
    }

    private static func text(_ secret: Secret) -> String {
        secret.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    /// The verdict on a text that comes in these parts, and the bytes that were taken.
    private static func read(
        _ text: String, cutAt cuts: [Int] = [], _ authorization: String? = nil
    ) -> (verdict: ProxyTunnel.Verdict, taken: Int) {
        var exchange = exchange(authorization)
        let bytes = Array(text.utf8)
        let ends = cuts.filter { $0 < bytes.count } + [bytes.count]
        var start = 0
        for end in ends {
            let verdict = bytes[start..<end].withUnsafeBytes { exchange.receive($0) }
            switch verdict {
            case .incomplete: start = end
            case .open(let count): return (verdict, start + count)
            case .failed: return (verdict, start)
            }
        }
        return (.incomplete, start)
    }

    @Test("the request names the upstream with its port, and carries a credential only if there is one")
    func request() {
        #expect(
            Self.text(Self.exchange().request)
                == "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
        #expect(
            Self.text(Self.exchange("Basic dTpw").request)
                == "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n")
        #expect(
            Self.text(ProxyTunnel(to: "::1", port: 8443, authorization: nil).request)
                .hasPrefix("CONNECT [::1]:8443 HTTP/1.1\r\nHost: [::1]:8443\r\n"))
    }

    @Test(
        "2xx opens the tunnel, whatever body its fields announce, and what stands behind its head is the upstream's",
        arguments: [
            "HTTP/1.1 200 Connection established\r\n\r\n", "HTTP/1.0 200\r\n\r\n", "HTTP/1.1 299 x\r\nA: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        ])
    func open(_ head: String) {
        let text = head + "\u{16}\u{3}\u{3}bytes of TLS"
        // The whole, each cut in two, and byte by byte.
        let cuts = [[]] + (1..<text.utf8.count).map { [$0] } + [Array(1..<text.utf8.count)]
        for cut in cuts {
            let (verdict, taken) = Self.read(text, cutAt: cut)
            guard case .open = verdict else {
                Issue.record("cut at \(cut): \(verdict)")
                continue
            }
            #expect(taken == head.utf8.count, "cut at \(cut)")
        }
        for length in 0..<head.utf8.count {
            let part = String(decoding: Array(head.utf8.prefix(length)), as: UTF8.self)
            #expect(Self.read(part).verdict == .incomplete, "\(length) bytes")
        }
    }

    @Test(
        "any other status refuses the tunnel",
        arguments: [101, 301, 400, 401, 403, 404, 500, 502, 503, 504])
    func refused(_ status: Int) {
        let text = "HTTP/1.1 \(status) x\r\nContent-Length: 100\r\n\r\n<html>"
        for cut in 0..<text.utf8.count {
            #expect(Self.read(text, cutAt: [cut]).verdict == .failed(.refused(status: status)), "cut at \(cut)")
        }
    }

    @Test("407 says whether a credential was sent")
    func login() {
        let text = "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm=\"p\"\r\n\r\n"
        #expect(Self.read(text).verdict == .failed(.loginRequired(hasSentCredential: false)))
        #expect(Self.read(text, "Basic dTpw").verdict == .failed(.loginRequired(hasSentCredential: true)))
    }

    @Test(
        "bytes that are no response of HTTP end it at the first wrong one",
        arguments: [
            "\u{15}\u{3}\u{1}", "SSH-2.0-x\r\n", "HTTP/2 200\r\n", "HTTP/1.1 2x0 y\r\n",
            "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
        ])
    func noResponse(_ text: String) {
        for cut in 0..<text.utf8.count {
            guard case .failed(.invalid) = Self.read(text, cutAt: [cut]).verdict else {
                Issue.record("cut at \(cut)")
                continue
            }
        }
    }

    @Test(
        "a head without end is given up, also if it comes in small parts or as interim responses",
        arguments: [1, 700, 1 << 20])
    func long(_ part: Int) {
        let field = "A: \(String(repeating: "x", count: 200))\r\n"
        let texts = [
            "HTTP/1.1 200 OK\r\n" + String(repeating: field, count: 120),
            "HTTP/1.1 200 " + String(repeating: "x", count: 20_000),
            String(repeating: "HTTP/1.1 102 Processing\r\n\(field)\r\n", count: 120),
        ]
        for text in texts {
            let cuts = Array(stride(from: part, to: text.utf8.count, by: part))
            guard case .failed(.invalid(let error)) = Self.read(text, cutAt: cuts).verdict else {
                Issue.record("\(text.prefix(30))")
                continue
            }
            #expect(error.kind == .fieldsTooLarge)
        }
    }
}
