import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 4: Host, and who may ask.
@Suite(.serialized) struct HostRuleTests {
    private static let shared = Task {
        try await HTTPBench.start { plan in
            plan.listener = """
                allowed_hosts: ["localhost:80", "api.test:8080", "[2001:db8::1]:80"], \
                allowed_origins: ["https://app.test", "http://localhost:3000"]
                """
            plan.routes = """
                {name: client, match: {path: /client}, upstream: "UP", host: client},
                {name: fixed, match: {path: /fixed}, upstream: "UP", host: {value: "api.internal:81"}},
                {name: none, match: {path: /none, hosts: [nobody.test]}, upstream: "UP"},

                """
        }
    }
    /// Without `allowed_hosts`.
    private static let standard = Task { try await HTTPBench.start { $0.listener = "" } }
    private static let unix = Task {
        try await HTTPBench.start { plan in
            plan.listener = ""
            plan.isUnix = true
            plan.routes = """
                {name: client, match: {path: /client}, upstream: "UP", host: client},
                {name: fixed, match: {path: /fixed}, upstream: "UP", host: {value: "api.internal:81"}},
                {name: named, match: {path: /named, hosts: [named.test]}, upstream: "UP"},

                """
        }
    }
    private static let strict = Task { try await HTTPBench.start() }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    private func request(_ lines: String..., line: String = "GET / HTTP/1.1") -> String {
        "\(line)\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    @Test("4.1 No Host in HTTP/1.1 and two Host lines in any version, even equal ones, are refused")
    func missing() async throws {
        try await bench.refuses(request())
        for version in ["HTTP/1.1", "HTTP/1.0"] {
            try await bench.refuses(request("Host: localhost", "hOST: localhost", line: "GET / \(version)"))
        }
    }

    @Test("4.1 A value that is not host[:port] is refused in any version, on a unix socket too")
    func malformed() async throws {
        let unix = try await Self.unix.value
        for line in ["GET / HTTP/1.1", "GET / HTTP/1.0", "OPTIONS * HTTP/1.1"] {
            try await bench.refuses(request("Host: localhost:80:80", line: line))
            try await unix.refuses(request("Host: u@localhost", line: line))
        }
        try await bench.refuses(request("Host: "))
    }

    @Test(
        "4.1 Over a unix socket an empty Host is lawful; the upstream gets its own, and a missing or second one is refused"
    )
    func empty() async throws {
        let unix = try await Self.unix.value
        for (line, host, via) in [
            ("GET / HTTP/1.1", "localhost", "1.1"), ("GET /client HTTP/1.1", "localhost", "1.1"),
            ("GET /fixed HTTP/1.1", "api.internal:81", "1.1"), ("GET /client HTTP/1.0", "localhost", "1.0"),
            ("GET /named HTTP/1.1", "localhost", "1.1"),
        ] {
            for field in ["Host:", "Host: ", "hOST: \t "] {
                try await unix.startOver()
                #expect(try await unix.ask(request(field, "A: 1", line: line)).status == 200, "\(line) \(field)")
                let target = String(line.dropLast(9))
                let head = HTTPBench.forwarded(target, ["A: 1"], via: via)
                #expect(unix.received == [head.replacing("Host: up", with: "Host: \(host)")])
            }
        }
        try await unix.startOver()
        #expect(try await unix.ask(request("Host:", line: "OPTIONS * HTTP/1.1")).status == 200)
        let denied = try await unix.ask(request("Host:", "Origin: null"))
        #expect(denied.status == 403)
        try await unix.refuses(request())
        for lines in [["Host:", "Host:"], ["Host:", "Host: localhost"]] {
            try await unix.refuses(request(lines[0], lines[1]))
        }
        // An absolute target has an authority, and Host must be equal to it.
        try await unix.refuses(request("Host:", line: "GET http://localhost/ HTTP/1.1"))
        for value in ["", " "] {
            try await bench.refuses(request("Host:\(value)"))
            try await bench.refuses(request("Host:\(value)", line: "GET / HTTP/1.0"))
        }
    }

    @Test("4.2 A well-formed Host that is not on the list, name and port, gets 421")
    func unknown() async throws {
        for value in ["evil.test", "localhost:8080", "\(bench.lanyard.data)"] {
            try await bench.refuses(request("Host: \(value)"), .host)
        }
        let closing = try await bench.ask(request("Host: evil.test", line: "GET / HTTP/1.0"))
        #expect(try Refusal.host.closing.faults(of: closing) == [])
        for value in ["localhost", "LOCALHOST:80", "Api.Test:8080", "[2001:DB8::1]", "[2001:db8::1]:80"] {
            try await bench.startOver()
            #expect(try await bench.ask(request("Host: \(value)")).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("GET /")])
        }
    }

    @Test("4.2 By default the bound address and localhost are allowed, each with the port")
    func standardHosts() async throws {
        let bench = try await Self.standard.value
        try await bench.startOver()
        let port = bench.lanyard.data.port
        for value in ["127.0.0.1:\(port)", "localhost:\(port)", "LocalHost:\(port)"] {
            let client = try await bench.connect()
            let own = "GET / HTTP/1.1\r\nHost: \(value)\r\n\r\n"
            #expect(try await client.ask(own).status == 200)
            for other in ["localhost", "127.0.0.1", "localhost:80", "127.0.0.2:\(port)", "evil.test:\(port)"] {
                let response = try await client.ask("GET / HTTP/1.1\r\nHost: \(other)\r\n\r\n")
                #expect(try Refusal.host.faults(of: response) == [])
            }
        }
        #expect(bench.upstream.requests.count == 3)
    }

    @Test("4.2 A host that a route names is allowed with the listener's port, beside the list or the default")
    func routeHosts() async throws {
        let listed = try await HTTPBench.start {
            $0.routes =
                "{name: named, match: {path: /named, hosts: [Named.test, \"[2001:db8::7]\"]}, upstream: \"UP\"},"
        }
        let standard = try await HTTPBench.start {
            $0.listener = ""
            $0.routes = "{name: named, match: {hosts: [named.test]}, upstream: \"UP\"},"
        }
        let empty = try await HTTPBench.start {
            $0.listener = "allowed_hosts: []"
            $0.routes = "{name: named, match: {hosts: [named.test]}, upstream: \"UP\"},"
        }
        for bench in [listed, standard, empty] {
            let port = bench.lanyard.data.port
            for line in ["GET /named", "GET /named/x", "GET http://named.test:\(port)/named"] {
                let response = try await bench.ask(request("Host: NAMED.test:\(port)", line: "\(line) HTTP/1.1"))
                #expect(response.status == 200, "\(line)")
            }
            for value in [
                "named.test", "named.test:1", "x.named.test:\(port)", "named.tes:\(port)", "evil.test:\(port)",
            ] {
                let response = try await bench.ask(request("Host: \(value)", line: "GET /named HTTP/1.1"))
                #expect(try Refusal.host.faults(of: response) == [], "\(value)")
            }
            let health = bench.lanyard.health
            let probe = try RawClient(health).exchange("GET", "/livez", host: "named.test:\(port)")
            #expect(probe.status == 421)
        }
        // An IPv6 literal in another case, and a named host at a path of another route.
        let port = listed.lanyard.data.port
        #expect(try await listed.ask(request("Host: [2001:DB8::7]:\(port)", line: "GET /named HTTP/1.1")).status == 200)
        #expect(try await listed.ask(request("Host: named.test:\(port)")).status == 200)
    }

    @Test("4.2 A wildcard address needs a list, a unix socket takes any Host, HTTP/1.0 without Host is served")
    func otherListeners() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "0.0.0.0:0", unsafe: true}]
            identities: {fixed: {static: {token_file: \(try folder.write("token", "t"))}}}
            users: {alice: {identity: fixed}}
            routes: [{upstream: "http://127.0.0.1:9"}]
            """)
        let process = try ServerProcess("lanyard", ["run", "--config", path])
        #expect(try await process.waitForExit() == .code(78))
        #expect((process.log + process.output).contains("allowed_hosts"))
        let unix = try await Self.unix.value
        try await unix.startOver()
        for value in ["localhost", "evil.test:81", "[::1]:9"] {
            #expect(try await unix.ask(request("Host: \(value)")).status == 200)
        }
        try await unix.refuses(request())
        try await bench.startOver()
        #expect(try await bench.ask(request(line: "GET /x HTTP/1.0")).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /x", via: "1.0")])
    }

    @Test("4.3 The upstream gets exactly one Host, written first: its own, the client's valid one, or the route's")
    func upstreamHost() async throws {
        func head(_ target: String, _ host: String, via: String = "1.1") -> String {
            HTTPBench.forwarded("GET \(target)", ["A: 1"], via: via).replacing("Host: up", with: "Host: \(host)")
        }
        for (target, sent, expected) in [
            ("/", "localhost", "up"), ("/client", "LocalHost", "LocalHost"),
            ("/client", "api.test:8080", "api.test:8080"),
            ("/client", "localhost:80", "localhost:80"), ("/fixed", "localhost", "api.internal:81"),
        ] {
            try await bench.startOver()
            #expect(try await bench.ask(request("A: 1", "Host: \(sent)", line: "GET \(target) HTTP/1.1")).status == 200)
            #expect(bench.received == [head(target, expected)])
        }
        try await bench.startOver()
        #expect(try await bench.ask(request("A: 1", line: "GET /client HTTP/1.0")).status == 200)
        #expect(bench.received == [head("/client", "up", via: "1.0")])
        try await bench.refuses(request("Host: evil.test", line: "GET /client HTTP/1.1"), .host)
        let unix = try await Self.unix.value
        try await unix.startOver()
        #expect(try await unix.ask(request("A: 1", "Host: any.test")).status == 200)
        #expect(unix.received == [head("/", "localhost")])
    }

    @Test("4.4 Origin, also null, and Sec-Fetch-Site of another site get 403, upgrades too")
    func origins() async throws {
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"
        let strict = try await Self.strict.value
        for field in [
            "Origin: null", "Origin: http://evil.test", "Origin: http://localhost", "Origin:", "oRIGIN: x",
            "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "sec-fetch-site: Cross-Site",
            "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site",
        ] {
            for more in ["A: 1", upgrade] {
                for bench in [self.bench, strict] {
                    let response = try await bench.refuses(request("Host: localhost", field, more), .origin)
                    #expect(!response.fields.contains { $0.name.lowercased().hasPrefix("access-control") })
                }
            }
        }
        for field in ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: cors"] {
            try await bench.startOver()
            #expect(try await bench.ask(request("Host: localhost", field)).status == 200)
            #expect(bench.received == [HTTPBench.forwarded("GET /", [field])])
        }
    }

    @Test("4.4 A program's Origin that names the listener itself passes; a browser's, another one and two get 403")
    func ownOrigin() async throws {
        let bench = try await Self.standard.value
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"
        let port = bench.lanyard.data.port
        for (host, origin) in [
            ("localhost:\(port)", "http://localhost:\(port)"), ("127.0.0.1:\(port)", "http://127.0.0.1:\(port)"),
            ("LocalHost:\(port)", "HTTP://LOCALHOST:\(port)"),
        ] {
            for (line, more) in [
                ("GET / HTTP/1.1", "A: 1"), ("POST / HTTP/1.1", "Content-Length: 0"), ("GET / HTTP/1.1", upgrade),
                ("GET http://\(host)/ HTTP/1.1", "A: 1"),
                ("GET / HTTP/1.1", "User-Agent: Python/3.11 websockets/12.0 (not Mozilla/5.0)\r\n\(upgrade)"),
            ] {
                try await bench.startOver()
                let response = try await bench.ask(request("Host: \(host)", "Origin: \(origin)", more, line: line))
                #expect(response.status == 200, "\(origin) \(line)")
                #expect(bench.received.joined().contains("\r\nOrigin: \(origin)\r\n"))
            }
        }
        let own = "Origin: http://localhost:\(port)"
        // HTTP/1.0 may name the host in the target alone, or not at all.
        for (target, expected) in [("http://localhost:\(port)/", 200), ("/", 403)] {
            #expect(try await bench.ask(request(own, line: "GET \(target) HTTP/1.0")).status == expected)
        }
        for field in [
            "Origin: null", "Origin: http://127.0.0.1:\(port)", "Origin: https://localhost:\(port)",
            "Origin: http://localhost", "Origin: http://localhost:\(port)/", "Origin: http://evil.localhost:\(port)",
            "\(own)\r\n\(own)", "\(own)\r\nOrigin: http://evil.test", "\(own)\r\nSec-Fetch-Site: same-origin",
            "Sec-Fetch-Site: cross-site\r\n\(own)", "\(own)\r\nSec-Fetch-Mode: websocket",
            "sec-fetch-dest: empty\r\n\(own)", "\(own)\r\nSec-Fetch-User: ?1", "\(own)\r\nSec-Fetch-New: 1",
            // A WebSocket handshake of Chromium has no such field.
            "\(own)\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0",
            "user-agent: mozilla/4.0\r\n\(own)",
        ] {
            for more in ["A: 1", upgrade] {
                try await bench.startOver()
                let response = try await bench.ask(request("Host: localhost:\(port)", field, more))
                #expect(response.status == 403 && bench.received.isEmpty, "\(field)")
            }
        }
        let unix = try await Self.unix.value
        #expect(try await unix.ask(request("Host: localhost", "Origin: http://localhost")).status == 403)
    }

    @Test("4.4 Allowed origins pass unchanged, and no CORS field is added")
    func allowedOrigins() async throws {
        bench.script { _ in .bytes(Wire.bytes("HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n")) }
        for lines in [
            ["Origin: https://app.test", "Sec-Fetch-Site: cross-site"], ["Origin: http://localhost:3000"],
            ["Sec-Fetch-Site: same-site", "Origin: https://app.test"],
        ] {
            for method in ["GET", "OPTIONS"] {
                try await bench.startOver()
                bench.script { _ in .bytes(Wire.bytes("HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n")) }
                let client = try await bench.connect()
                try await client.send(
                    "\(method) / HTTP/1.1\r\nHost: localhost\r\n\(lines.map { $0 + "\r\n" }.joined())\r\n")
                #expect(try await client.head() == "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n")
                #expect(bench.received == [HTTPBench.forwarded("\(method) /", lines)])
            }
        }
        for field in [
            "Origin: https://app.test:80", "Origin: https://app.test/",
            "Origin: https://app.test https://app.test", "Origin: https://app.test\r\nOrigin: https://evil.test",
            "Origin: http://app.test", "Origin: https://app.test.evil",
        ] {
            try await bench.refuses(request("Host: localhost", field), .origin)
        }
    }

    @Test("4.4 Lanyard-Capability is never forwarded")
    func capability() async throws {
        let lines = ["Host: localhost", "Lanyard-Capability: x", "lanyard-capability: y", "Lanyard_Capability: z"]
        #expect(try await bench.ask(request(lines[0], lines[1], lines[2], lines[3])).status == 200)
        #expect(bench.received == [HTTPBench.forwarded("GET /")])
    }

    @Test(
        "4.5 Where several refusals apply: syntax, version, framing, Host, Origin, method, Max-Forwards, Expect, route")
    func order() async throws {
        let end = "Content-Length: 1\r\n"
        func all(_ line: String, _ fields: String...) -> String {
            "\(line)\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n"
        }
        let (syntax, framing, badHost) = (" folded", "\(end)Transfer-Encoding: chunked", "Host: a b")
        let (unknown, origin, expect) = ("Host: evil.test", "Origin: null", "\(end)Expect: x")
        let (trace, options) = ("TRACE /none%", "OPTIONS /none%")
        let forwards = "Max-Forwards: x"
        // Each line drops the fault that the line before it was refused for.
        try await bench.refuses(all("\(trace) HTTP/2.0", "A: 1", syntax, framing, badHost, origin), .malformed)
        try await bench.refuses(all("\(trace) HTTP/2.0", framing, badHost, origin), .versionNotSupported)
        try await bench.refuses(all("\(trace) HTTP/1.1", framing, badHost, origin), .malformed)
        let gzip = "Transfer-Encoding: gzip"
        try await bench.refuses(all("\(trace) HTTP/1.1", gzip, badHost, origin), .notImplemented)
        try await bench.refuses(all("\(trace) HTTP/1.1", gzip, unknown, origin), .notImplemented)
        try await bench.refuses(all("\(trace) HTTP/1.1", badHost, origin), .malformed)
        try await bench.refuses(all("\(trace) HTTP/1.1", unknown, origin), .host)
        try await bench.refuses(all("\(trace) HTTP/1.1", "Host: localhost", origin, forwards), .origin)
        try await bench.refuses(all("\(trace) HTTP/1.1", "Host: localhost", forwards, expect), Refusal.method.closing)
        try await bench.refuses(all("\(options) HTTP/1.1", unknown, forwards, expect), Refusal.host.closing)
        try await bench.refuses(all("\(options) HTTP/1.1", "Host: localhost", forwards, expect), .malformed)
        try await bench.refuses(all("\(options) HTTP/1.1", "Host: localhost", expect), .expectation)
        try await bench.refuses(all("\(options) HTTP/1.1", "Host: localhost"), .malformedButFramed)
        try await bench.refuses(all("GET /x/../hand HTTP/1.1", "Host: localhost", expect), .expectation)
        try await bench.refuses(all("GET /x/../hand HTTP/1.1", "Host: localhost"), .ambiguous)
    }
}
