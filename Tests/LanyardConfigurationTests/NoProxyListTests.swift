import Testing

@testable import LanyardConfiguration

/// Against the rules of libcurl's `CURLOPT_NOPROXY`, 7.86 and later.
@Suite struct NoProxyListTests {
    @Test(
        "a host is reached without a proxy if an entry names it, a name above it or its network",
        arguments: [
            ("example.com", "example.com", true), ("www.example.com", "example.com", true),
            ("example.com", ".example.com", true), ("a.b.example.com", ".example.com", true),
            ("example.com.", "example.com", true), ("example.com", "example.com.", true),
            ("WWW.Example.COM", "eXample.com", true), ("nonexample.com", "example.com", false),
            ("example.com", "www.example.com", false), ("example.com", "", false), ("com", ".", false),
            ("example.com", "*", true), ("10.0.0.1", "*", true), ("example.com", "*,other", false),
            ("example.com", "*.example.com", false), ("example.com", "localhost,example.com", true),
            ("example.com", "localhost, example.com ,other", true), ("example.com", "localhost example.com", true),
            ("example.com", ",,\texample.com,,", true), ("localhost", "localhost", true),
            ("example.com", "example.com:443", false), ("192.168.1.1", "192.168.1.1", true),
            ("192.168.1.1", "192.168.1.1:80", false), ("192.168.1.1", "192.168.0.0/16", true),
            ("192.168.1.1", "192.168.0.0/24", false), ("192.168.1.1", "192.168.1.0/31", true),
            ("192.168.1.2", "192.168.1.0/31", false), ("192.168.1.1", "192.168.1.1/32", true),
            ("192.168.1.1", "192.168.1.1/0", true), ("192.168.1.2", "192.168.1.1/0", false),
            ("192.168.1.1", "192.168.1.1/33", false), ("192.168.1.1", "192.168.1.1/x", false),
            ("192.168.1.1", "168.1.1", false), ("192.168.1.1", ".168.1.1", false),
            ("1.example.com", "0.0.0.0/1", false),
            ("::1", "::1", true), ("::1", "0:0::0:1", true), ("::1", "[::1]", false), ("fe80::1", "fe80::/10", true),
            ("febf::1", "fe80::/10", true), ("fec0::1", "fe80::/10", false), ("2001:db8::1", "2001:db8::/32", true),
            ("2001:db9::1", "2001:db8::/32", false), ("::1", "127.0.0.1", false), ("::1", "::/129", false),
        ])
    func match(_ host: String, _ list: String, _ isListed: Bool) {
        #expect(NoProxyList(list).contains(host) == isListed, "\(host) in \(list)")
    }

    private static func url(_ variables: [String: String], isTLS: Bool, host: String = "api.test") -> String? {
        ProxyEnvironment(variables).choice(forHost: host, isTLS: isTLS)?.url
    }

    @Test("each scheme has its variable, and all_proxy holds for both")
    func schemes() {
        let both = ["http_proxy": "one", "https_proxy": "two", "all_proxy": "three"]
        #expect(Self.url(both, isTLS: false) == "one" && Self.url(both, isTLS: true) == "two")
        let rest = ["all_proxy": "three"]
        #expect(Self.url(rest, isTLS: false) == "three" && Self.url(rest, isTLS: true) == "three")
        #expect(Self.url([:], isTLS: true) == nil)
    }

    @Test("the lower case goes first, an empty variable is none, and HTTP_PROXY is never read")
    func cases() {
        #expect(Self.url(["https_proxy": "low", "HTTPS_PROXY": "high"], isTLS: true) == "low")
        #expect(Self.url(["https_proxy": "", "HTTPS_PROXY": "high"], isTLS: true) == "high")
        #expect(Self.url(["https_proxy": "", "ALL_PROXY": "all"], isTLS: true) == "all")
        #expect(Self.url(["HTTP_PROXY": "high"], isTLS: false) == nil)
        let named = ["all_proxy": "all", "NO_PROXY": "test"]
        #expect(Self.url(named, isTLS: true) == nil && Self.url(named, isTLS: true, host: "other") == "all")
        #expect(Self.url(["all_proxy": "all", "no_proxy": "x", "NO_PROXY": "test"], isTLS: true) == "all")
    }
}
