import LanyardSettings
import Testing

@testable import LanyardRequestPath

/// Which `Origin` names the listener itself (http-requests.md 4.4).
@Suite struct ListenerRulesTests {
    private static func isOwn(_ origin: String, _ host: String, at address: String, tls: Bool = false) -> Bool {
        var settings = ListenerSettings(address: .tcp(host: "127.0.0.1", port: 0))
        if tls { settings.tls = ListenerSettings.TLS(certificateFile: "", keyFile: "") }
        let port = address.split(separator: ":").last.flatMap { UInt16($0) }
        let rules = ListenerRules(of: settings, at: (address, port), index: 0)
        return Array(origin.utf8).withUnsafeBufferPointer { origin in
            Array(host.utf8).withUnsafeBufferPointer { rules.isOwn(origin: origin, host: $0) }
        }
    }

    @Test(
        "its scheme and port are the listener's, its host is the request's, which browsers trust without TLS",
        arguments: [
            ("http://127.0.0.1:7400", "127.0.0.1:7400", "127.0.0.1:7400", true),
            ("http://localhost:7400", "LOCALHOST:7400", "127.0.0.1:7400", true),
            ("HTTP://app.localhost:7400", "app.localhost.:7400", "127.0.0.1:7400", true),
            ("http://[::1]:7400", "[0:0::1]:7400", "[::1]:7400", true),
            ("http://localhost", "localhost", "127.0.0.1:80", true),
            ("http://localhost:80", "localhost", "127.0.0.1:80", true),
            // Another port than the listener's, which the allow-list may have.
            ("http://localhost", "localhost", "127.0.0.1:7400", false),
            ("http://localhost:7401", "localhost:7401", "127.0.0.1:7400", false),
            // Another scheme, host or form.
            ("https://localhost:7400", "localhost:7400", "127.0.0.1:7400", false),
            ("ws://localhost:7400", "localhost:7400", "127.0.0.1:7400", false),
            ("http://127.0.0.1:7400", "localhost:7400", "127.0.0.1:7400", false),
            ("http://localhost:7400/", "localhost:7400", "127.0.0.1:7400", false),
            ("http://a@localhost:7400", "localhost:7400", "127.0.0.1:7400", false),
            ("http:localhost:7400", "localhost:7400", "127.0.0.1:7400", false),
            ("null", "localhost:7400", "127.0.0.1:7400", false), ("", "localhost:7400", "127.0.0.1:7400", false),
            ("http://", "localhost:7400", "127.0.0.1:7400", false),
            // A browser does not trust these names without TLS: it adds no field that tells its pages from programs.
            ("http://app.test:7400", "app.test:7400", "127.0.0.1:7400", false),
            ("http://127.0.0.1.app.test:7400", "127.0.0.1.app.test:7400", "127.0.0.1:7400", false),
            ("http://notlocalhost:7400", "notlocalhost:7400", "127.0.0.1:7400", false),
            ("http://10.0.0.5:7400", "10.0.0.5:7400", "127.0.0.1:7400", false),
            // Other machines reach the listener.
            ("http://localhost:7400", "localhost:7400", "10.0.0.5:7400", false),
            ("http://localhost:7400", "localhost:7400", "0.0.0.0:7400", false),
            ("http://localhost:7400", "localhost:7400", "[::]:7400", false),
        ])
    func plain(_ origin: String, _ host: String, _ address: String, _ expected: Bool) {
        #expect(Self.isOwn(origin, host, at: address) == expected)
    }

    @Test(
        "with TLS its host is any that the listener has",
        arguments: [
            ("https://app.test:7443", "app.test:7443", "10.0.0.5:7443", true),
            ("https://app.test", "app.test", "0.0.0.0:443", true),
            ("https://app.test", "app.test:443", "0.0.0.0:443", true),
            ("http://app.test:7443", "app.test:7443", "10.0.0.5:7443", false),
            ("https://app.test", "app.test:7443", "10.0.0.5:7443", false),
            ("https://other.test:7443", "app.test:7443", "10.0.0.5:7443", false),
        ])
    func tls(_ origin: String, _ host: String, _ address: String, _ expected: Bool) {
        #expect(Self.isOwn(origin, host, at: address, tls: true) == expected)
    }
}
