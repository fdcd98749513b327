import LanyardSettings
import TestSupport
import Testing

@testable import LanyardConfiguration

/// `routes[].proxy`.
@Suite struct ProxyConfigurationTests {
    private static func text(_ upstream: String, _ keys: String) -> String {
        Loading.identities + Loading.users + "routes:\n  - {upstream: \"\(upstream)\", \(keys)}\n"
    }

    private static func proxy(
        _ upstream: String, _ keys: String, _ environment: [String: String] = [:]
    ) throws -> UpstreamSettings.Proxy? {
        let (loaded, diagnostics) = try Loading.load(text(upstream, keys), environment: environment)
        let configuration = try #require(loaded.configuration, "\(diagnostics)")
        return configuration.routes[0].upstream.proxy
    }

    @Test("a proxy is reached at its host and port, and the upstream stays the route's")
    func url() throws {
        let keys = "proxy: {url: \"http://Proxy.internal.:3128/\", credentials_file: token}"
        let loaded = try Loading.load(Self.text("https://api.internal", keys)).loaded
        let upstream = try #require(loaded.configuration?.routes[0].upstream)
        let proxy = try #require(upstream.proxy)
        #expect(proxy.host == "proxy.internal" && proxy.port == 3128 && proxy.isFullyQualified)
        #expect(proxy.credentialsFile?.hasSuffix("/token") == true)
        #expect(upstream.lookupName == "proxy.internal." && upstream.forwardingProxy == nil)
        #expect(upstream.endpoint == .tcp(host: "api.internal", port: 443, tls: true))
        #expect(upstream.dialled == .tcp(host: "proxy.internal", port: 3128, tls: false))
        #expect(loaded.configuration?.readsProxyVariables == false)
    }

    @Test("a route has no proxy unless it says so, whatever the environment says")
    func none() throws {
        let environment = ["http_proxy": "http://p:1", "https_proxy": "http://p:2"]
        #expect(try Self.proxy("https://api.internal", "proxy: none", environment) == nil)
        #expect(try Self.proxy("https://api.internal", "host: upstream", environment) == nil)
    }

    @Test("environment: the variables of the upstream's scheme hold, with libcurl's defaults of scheme and port")
    func environment() throws {
        let variables = [
            "http_proxy": "plain.internal", "HTTPS_PROXY": "http://tls.internal:3128", "no_proxy": "local",
        ]
        let tls = try Self.proxy("https://api.internal", "proxy: environment", variables)
        #expect(tls == UpstreamSettings.Proxy(host: "tls.internal", port: 3128))
        let plain = try Self.proxy("http://api.internal", "proxy: environment, unsafe_plain: true", variables)
        #expect(plain == UpstreamSettings.Proxy(host: "plain.internal", port: 1080))
        #expect(try Self.proxy("https://api.local", "proxy: environment", variables) == nil)
        #expect(try Self.proxy("unix:/run/up.sock", "proxy: environment", variables) == nil)
        #expect(try Self.proxy("https://api.internal", "proxy: environment") == nil)
        let loaded = try Loading.load(Self.text("https://api.internal", "proxy: environment")).loaded
        #expect(loaded.configuration?.readsProxyVariables == true)
    }

    @Test(
        "a proxy that cannot be used is an error with its remedy",
        arguments: [
            ("https://a.test", "proxy: {url: \"https://p:3128\"}", "is not http"),
            ("https://a.test", "proxy: {url: \"socks5://p:1080\"}", "is not http"),
            ("https://a.test", "proxy: {url: \"http://p\"}", "has no port"),
            ("https://a.test", "proxy: {url: \"http://p:0\"}", "out of range"),
            ("https://a.test", "proxy: {url: \"http://p:1/x\"}", "remove the path"),
            ("https://a.test", "proxy: {url: \"http://[fe80::1%25eth0]:1\"}", "has a %"),
            ("https://a.test", "proxy: {url: \"http://u:hunter2@p:1\"}", "secrets are given as files"),
            ("https://a.test", "proxy: {url: \"http://u:hunter2%@p:1\"}", "secrets are given as files"),
            ("https://a.test", "proxy: {credentials_file: token}", "missing key \"routes[0].proxy.url\""),
            ("https://a.test", "proxy: \"http://p:1\"", "neither a mapping"),
            ("https://a.test", "proxy: {url: \"http://169.254.1.1:1\"}", "allow_link_local"),
            ("unix:/run/up.sock", "proxy: {url: \"http://p:1\"}", "without a proxy"),
            ("http://localhost:1", "proxy: {url: \"http://p:1\"}", "network path to p"),
            ("http://a.test", "proxy: {url: \"http://127.0.0.1:1\"}", "network path to a.test"),
            ("http://169.254.169.254", "unsafe_plain: true, proxy: {url: \"http://p:1\"}", "metadata services"),
            ("https://[fe80::1%25eth0]", "allow_link_local: true, proxy: {url: \"http://p:1\"}", "zone"),
            ("http://a.test", "unsafe_plain: true, protocol: http2, proxy: {url: \"http://p:1\"}", "http2 without TLS"),
            ("http://a.test", "unsafe_plain: true, host: client, proxy: {url: \"http://p:1\"}", "sends the Host"),
        ])
    func faults(_ upstream: String, _ keys: String, _ expected: String) throws {
        let diagnostics = try Loading.diagnostics(Self.text(upstream, keys)).filter { !$0.hasPrefix("warning") }
        #expect(diagnostics.count == 1 && diagnostics[0].contains(expected), "\(diagnostics)")
        #expect(!diagnostics.joined().contains("hunter2"))
    }

    @Test(
        "a variable that names no usable proxy is an error of the route that reads it, and its value is not shown",
        arguments: ["http://u:hunter2@p:1", "u:hunter2@p:1", "socks5h://p:1", "https://p:1", "http://p:1/hunter2"])
    func variables(_ value: String) throws {
        let environment = ["https_proxy": value]
        let text = Self.text("https://api.internal", "proxy: environment")
        let diagnostics = try Loading.diagnostics(text, environment: environment)
        #expect(diagnostics.count == 1 && diagnostics[0].contains("the variable https_proxy"), "\(diagnostics)")
        if value.contains("@") { #expect(!diagnostics[0].contains("hunter2")) }
        #expect(
            try Loading.diagnostics(Self.text("https://api.internal", "proxy: none"), environment: environment) == [])
    }

    @Test("a file of credentials that is missing is a warning, because it may come")
    func missingFile() throws {
        let keys = "proxy: {url: \"http://p:1\", credentials_file: missing}"
        let diagnostics = try Loading.diagnostics(Self.text("https://a.test", keys))
        #expect(diagnostics.count == 1 && diagnostics[0].hasPrefix("warning: "), "\(diagnostics)")
    }

    @Test("the proxy of an identity is a URL alone, or one with a file of credentials, which must exist")
    func identities() throws {
        func load(_ proxy: String) throws -> (identity: IdentitySettings?, diagnostics: [String]) {
            let text =
                "identities:\n  demo: {app_services: {app_id: a, base_url: \"https://id.test\"}, proxy: \(proxy)}\n"
                + "users:\n  alice: {identity: demo}\n" + Loading.routes
            let (loaded, diagnostics) = try Loading.load(text)
            return (loaded.configuration?.identities[0], diagnostics.filter { !$0.hasPrefix("warning") })
        }
        let (alone, named) = (try load("http://p:3128").identity, try load("{url: \"http://p:3128\"}").identity)
        #expect(alone?.proxy == .url("http://p:3128") && alone == named)
        let asking = try load("{url: \"http://p:3128\", credentials_file: token}").identity
        #expect(asking?.proxy == .url("http://p:3128") && asking?.proxyCredentialsFile?.hasSuffix("/token") == true)
        #expect(try load("environment").identity?.proxy == .environment)
        #expect(try load("none").identity?.proxy == IdentitySettings.Proxy.none)
        for (proxy, expected) in [
            ("{url: \"http://p:1\", credentials_file: missing}", "missing does not exist"),
            ("{credentials_file: token}", "missing key \"identities.demo.proxy.url\""),
            ("{url: \"http://u:hunter2@p:1\"}", "a URL with user info"),
            ("\"http://u:hunter2@p:1\"", "a URL with user info"), ("[http://p:1]", "expected a mapping"),
        ] {
            let diagnostics = try load(proxy).diagnostics
            #expect(diagnostics.count == 1 && diagnostics[0].contains(expected), "\(diagnostics)")
            #expect(!diagnostics.joined().contains("hunter2"))
        }
    }

    @Test("a proxy is applied by a reload, and the variables by a restart if nothing has read them")
    func reload() throws {
        func changes(_ old: String, _ new: String) throws -> ConfigurationChanges {
            var changes = ConfigurationChanges(
                from: try Loading.load(Self.text("https://a.test", old)).loaded,
                to: try Loading.load(Self.text("https://a.test", new)).loaded)
            // Each document has a folder of its own, and so another path of its token.
            changes.live.removeAll { !$0.hasPrefix("routes") }
            return changes
        }
        let applied = try changes("proxy: none", "proxy: {url: \"http://p:1\"}")
        #expect(applied.live.contains { $0.hasPrefix("routes[0].proxy") } && applied.restartOnly == [])
        let refused = try changes("proxy: none", "proxy: environment")
        #expect(refused.live == [] && refused.restartOnly == ["routes[0].proxy"])
        let removed = try changes("proxy: environment", "proxy: none")
        #expect(removed.live == ["routes[0].proxy"] && removed.restartOnly == [])
    }
}
