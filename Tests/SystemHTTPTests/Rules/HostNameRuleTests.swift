import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 4.6: hosts have one canonical form, wherever they are compared.
@Suite(.serialized) struct HostNameRuleTests {
    private static let shared = Task {
        try await HTTPBench.start { plan in
            plan.listener = """
                allowed_hosts: ["LocalHost.:80", "API.Test.:8080", "[2001:DB8:0:0::1]:80", "::7", "XN--mnchen-3ya.example", \
                "10.0.0.1"], allowed_origins: ["HTTPS://App.Test:443", "http://[0:0::1]:3000", "https://other.test."]
                """
            plan.routes = """
                {name: named, match: {path: /named, hosts: ["Named.Test.", "[2001:DB8:0::7]", "0::8"]}, upstream: "UP/mapped"},

                """
        }
    }
    /// Without `allowed_hosts`.
    private static let standard = Task {
        try await HTTPBench.start { plan in
            plan.listener = ""
        }
    }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private func request(_ host: String, _ lines: String..., target: String = "/") -> String {
        "GET \(target) HTTP/1.1\r\nHost: \(host)\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    @Test(
        "4.6 Host and allowed_hosts: case, the root's dot, spellings of an IPv6 address and the default port do not count"
    )
    func hosts() async throws {
        for host in [
            "localhost", "localhost.", "LOCALHOST.:80", "localhost:080", "api.test:8080", "API.TEST.:8080",
            "[2001:db8::1]", "[2001:DB8:0:0:0:0:0:1]:80", "[2001:0db8::0001]", "[::7]", "[0:0:0:0:0:0:0:7]:80",
            "xn--MNCHEN-3YA.example.", "10.0.0.1:80",
        ] {
            #expect(try await bench.ask(request(host)).status == 200, "\(host)")
        }
        let standard = try await Self.standard.value
        let port = standard.lanyard.data.port
        for host in ["localhost.:\(port)", "LocalHost.:\(port)", "127.0.0.1:\(port)"] {
            #expect(try await standard.ask(request(host)).status == 200, "\(host)")
        }
        let health = standard.lanyard.health
        for host in ["localhost.:\(health.port)", "LOCALHOST:\(health.port)", "[0::1]:1"] {
            #expect(try RawClient(health).exchange("GET", "/livez", host: host).status == 200, "\(host)")
        }
    }

    @Test("4.6 Two dots, an empty label, a lone dot and old spellings of an IPv4 address stay refused")
    func others() async throws {
        for host in [
            "localhost..", "localhost...", ".localhost", "api..test:8080", ".", "..", "localhost.evil", "10.1",
            "10.0.0.1.",
        ] {
            try await bench.refuses(request(host), .host)
        }
        let standard = try await Self.standard.value
        let port = standard.lanyard.data.port
        for host in [
            "localhost..:\(port)", "127.1:\(port)", "0x7f.1:\(port)", "0x7f.0.0.1:\(port)", "2130706433:\(port)",
            "0127.0.0.1:\(port)", "127.0.0.1.:\(port)", "127.0.0.01:\(port)", "[::ffff:127.0.0.1]:\(port)",
            "local%68ost:\(port)", "localhost.", "localhost.:80",
        ] {
            #expect(try Refusal.host.faults(of: try await standard.ask(request(host))) == [], "\(host)")
        }
        for host in ["127.1", "1.2.3", "0x7f.1", "127.0.0.1.", "localhost..:\(standard.lanyard.health.port)"] {
            let probe = try RawClient(standard.lanyard.health).exchange("GET", "/livez", host: host)
            #expect(probe.status == 421, "\(host)")
        }
        for host in ["[fe80::1%25eth0]", "[fe80::1%eth0]", "[::1.02.3.4]"] { try await bench.refuses(request(host)) }
    }

    @Test("4.6 The authority of an absolute target and Host are compared in that form")
    func absolute() async throws {
        for (target, host) in [
            ("http://LOCALHOST./x", "localhost"), ("http://localhost:80/x", "localhost."),
            ("http://api.test.:8080/x", "API.test:8080"), ("http://[2001:db8:0::1]/x", "[2001:DB8::1]:80"),
        ] {
            try await bench.startOver()
            #expect(try await bench.ask(request(host, target: target)).status == 200, "\(target)")
            #expect(bench.received == [HTTPBench.forwarded("GET /x")])
        }
        for (target, host) in [
            ("http://localhost../x", "localhost"), ("http://localhost/x", "localhost.."),
            ("http://localhost../x", "localhost.."), ("http://[2001:db8::1]/x", "[2001:db8::2]"),
            ("http://127.1/x", "127.0.0.1"),
        ] {
            try await bench.refuses(
                request(host, target: target), host == "localhost.." && target.contains("..") ? .host : .malformed)
        }
    }

    @Test("4.6 Hosts of routes are compared in that form")
    func routeHosts() async throws {
        let port = bench.lanyard.data.port
        for host in ["named.test", "NAMED.test.", "[2001:db8::7]", "[2001:db8:0:0:0:0:0:7]", "[::8]", "[0::0:8]"] {
            try await bench.startOver()
            #expect(try await bench.ask(request("\(host):\(port)", target: "/named")).status == 200, "\(host)")
            #expect(bench.received == [HTTPBench.forwarded("GET /mapped")], "\(host)")
        }
        // HTTP/1.0 may name the host in the target alone.
        try await bench.startOver()
        #expect(try await bench.ask("GET http://Named.test:\(port)/named HTTP/1.0\r\n\r\n").status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /mapped", via: "1.0")])
        for host in ["named.test..", ".named.test", "[::9]"] {
            try await bench.refuses(request("\(host):\(port)", target: "/named"), .host)
        }
    }

    @Test("4.6 Origins are compared in that form")
    func origins() async throws {
        for origin in [
            "https://app.test", "https://APP.test:443", "https://app.test.", "HTTPS://app.test", "http://[::1]:3000",
            "http://[0:0:0:0:0:0:0:1]:3000", "https://other.test", "https://other.test.:443",
        ] {
            #expect(try await bench.ask(request("localhost", "Origin: \(origin)")).status == 200, "\(origin)")
        }
        for origin in [
            "https://app.test..", "https://.app.test", "http://app.test", "http://app.test:443", "https://app.test:80",
            "https://app.test/", "https://app.test https://app.test", "https://u@app.test", "app.test", "//app.test",
            "://app.test", "https:app.test", "https://", "http://[::1]", "null",
        ] {
            try await bench.refuses(request("localhost", "Origin: \(origin)"), .origin)
        }
    }

    @Test(
        "4.6 The name of an https upstream, its SNI and its certificate's name have no dot of the root and no case",
        .enabled(if: PythonProcess.isInstalled, "needs Python"),
        arguments: ["https://localhost.", "https://LOCALHOST", "HTTPS://LocalHost."])
    func upstreams(_ url: String) async throws {
        let upstream = try await TLSUpstream.start()
        let lanyard = try await LanyardProcess.start(
            before: "\(url):\(upstream.port)", route: upstream.trust)
        #expect(try await lanyard.get("/name").bodyText == "localhost localhost:\(upstream.port)")
    }

    @Test("4.6 server_name has that form, too", .enabled(if: PythonProcess.isInstalled, "needs Python"))
    func serverName() async throws {
        let upstream = try await TLSUpstream.start(TLSUpstream.authority.issue("DNS:api.example"))
        let lanyard = try await LanyardProcess.start(
            before: "https://localhost.:\(upstream.port)",
            route: "tls: {ca_file: \(upstream.folder.file("ca.pem")), server_name: \"API.Example.\"}")
        #expect(try await lanyard.get("/name").bodyText == "api.example localhost:\(upstream.port)")
    }

    @Test(
        "4.6 A name with the root's dot is found in the hosts file",
        .enabled(if: MountNamespace.isPossible, "needs root and a mount namespace of its own"))
    func hostsFile() async throws {
        let hosts = try OwnHostsFile(["127.0.0.1 up.test"])
        let upstream = try RawServer(script: { _ in .response() })
        let lanyard = try await LanyardProcess.start(
            before: "http://UP.test.:\(upstream.endpoint.port)", route: "unsafe_plain: true", launcher: hosts.launcher)
        #expect(try await lanyard.get("/").status == 200)
        #expect(
            try #require(upstream.requests.first).headText.contains("\r\nHost: up.test:\(upstream.endpoint.port)\r\n"))
    }

    @Test(
        "4.6 What is no name is refused in a configuration",
        arguments: [
            "https://localhost..:1", "https://.:1", "https://..:1", "https://.a:1", "https://a..b:1",
            "https://127.0.0.1.:1",
            "https://127.1.:1", "https://0x7f.1:1",
        ])
    func refusedUpstreams(_ url: String) async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write(
            "lanyard.yaml",
            """
            identities: {fixed: {static: {token_file: \(try folder.write("token", "t"))}}}
            users: {alice: {identity: fixed}}
            routes: [{upstream: "\(url)"}]
            """)
        let process = try ServerProcess("lanyard", ["check", "--config", path])
        #expect(try await process.waitForExit() == .code(78))
        #expect((process.log + process.output).contains("is not a host"))
    }
}
