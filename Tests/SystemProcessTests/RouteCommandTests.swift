import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard route`: the result that a request would have, told by the code of the request path.
@Suite struct RouteCommandTests {
    private static let yaml = """
        listeners:
          - {address: "127.0.0.1:7400", allowed_origins: []}
          - {address: "127.0.0.1:7402", allowed_hosts: ["api.internal:7402"], capability_file: capability}
          - {address: "unix:/run/lanyard/data.sock"}
        identities: {fixed: {static: {token_file: token}}}
        users: {alice: {identity: fixed}, bob: {identity: fixed}}
        routes:
          - {name: orders, match: {path: /orders, methods: [GET]}, upstream: "http://127.0.0.1:9000/v1", user: bob,
             inject: {header: X-Token, format: "{token}"}, deny: [{path: /orders/secret}]}
          - {name: named, match: {hosts: [named.internal]}, upstream: "unix:/run/up.sock"}
          - {name: rest, match: {path: /any}, upstream: "http://127.0.0.1:9001"}

        """

    private func route(_ arguments: String..., yaml: String = yaml) async throws -> (
        exit: ServerProcess.Exit, output: [String], errors: String
    ) { try await route(arguments, yaml: yaml) }

    private func route(_ arguments: [String], yaml: String) async throws -> (
        exit: ServerProcess.Exit, output: [String], errors: String
    ) {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        try folder.write("capability", String(repeating: "c", count: 32))
        let path = try folder.write("lanyard.yaml", yaml)
        let process = try ServerProcess("lanyard", ["route"] + arguments + ["--config", path])
        let exit = try await process.waitForExit()
        let lines = process.output.split(separator: "\n").map(String.init)
        return (exit, lines, process.lines.map(\.text).joined(separator: "\n"))
    }

    @Test("a forwarded request: route, user, upstream, the target with the mapped prefix, and the field's name")
    func forwarded() async throws {
        let mapped = try await route("GET", "/orders/7?q=1")
        #expect(mapped.exit == .code(0), "\(mapped.errors)")
        #expect(
            mapped.output == [
                "route:    orders", "user:     bob", "upstream: http://127.0.0.1:9000", "target:   /v1/7?q=1",
                "field:    X-Token",
            ])
        let active = try await route("POST", "http://localhost:7400/any/x")
        #expect(active.output.first == "route:    rest" && active.exit == .code(0))
        #expect(active.output[1] == "user:     the active user (alice, until another one is activated)")
        let named = try await route("GET", "/x", "--host", "named.internal:7400")
        #expect(named.output.contains("upstream: unix:/run/up.sock") && named.output.contains("target:   /x"))
    }

    @Test("a method that is left out is GET, wherever flags stand; a method alone lacks its URL")
    func withoutMethod() async throws {
        let whole = try await route("GET", "/orders/7?q=1")
        #expect(whole.exit == .code(0))
        #expect(try await route("/orders/7?q=1") == whole)
        #expect(try await route("--shards", "1", "/orders/7?q=1") == whole)
        let named = try await route("--host", "named.internal:7400", "/x")
        #expect(named.output == (try await route("GET", "/x", "--host", "named.internal:7400")).output)
        let alone = try await route("GET")
        #expect(alone.exit == .code(64) && alone.errors.contains("no URL follows \"GET\""))
        let nothing = try await route()
        #expect(nothing.exit == .code(64) && nothing.errors.contains("a URL is missing"))
    }

    @Test(
        "the hosts of a socket of the service manager are those of allowed_hosts and of routes",
        arguments: [
            ("api.internal:8443", 0), ("named.internal:8443", 0), ("evil.test:8443", 1),
        ])
    func activatedSocket(_ host: String, _ code: Int) async throws {
        let yaml = Self.yaml.replacing(
            #"{address: "127.0.0.1:7400", allowed_origins: []}"#,
            with: #"{address: "systemd:data", allowed_hosts: ["api.internal:8443"]}"#)
        let process = try await route("GET", "/any", "--host", host, yaml: yaml)
        #expect(process.exit == .code(code), "\(process.output) \(process.errors)")
        #expect(process.output.contains("refused:  421 host-not-allowed") == (code == 1))
    }

    @Test("a refused request: status, problem and reason, the same that a client would get")
    func refused() async throws {
        let refusals: [([String], String, String?)] = [
            (["POST", "/orders/7"], "405 method-not-allowed", nil), (["GET", "/none"], "404 no-route", nil),
            (["GET", "/orders/secret"], "403 denied-by-route", "orders"),
            (["GET", "/orders/%2e%2e/x"], "400 ambiguous-path", nil),
            (["GET", "/x", "--host", "evil.test"], "421 host-not-allowed", nil),
            (["GET", "http://localhost:7402/any"], "421 host-not-allowed", nil),
            (["TRACE", "/any"], "405 method-not-allowed", nil), (["G(T", "/any"], "400 malformed-request", nil),
        ]
        for (arguments, problem, name) in refusals {
            let process = try await route(
                arguments[0], arguments[1],
                arguments.count > 2
                    ? arguments[2...].joined(separator: "=")
                    : "--host=\(arguments[1].contains("7402") ? "localhost:7402" : "localhost:7400")")
            #expect(process.exit == .code(1), "\(arguments): \(process.errors)")
            #expect(process.output.contains("refused:  \(problem)"), "\(arguments): \(process.output)")
            #expect(process.output.last?.hasPrefix("because:  ") == true)
            #expect(process.output.contains { $0.hasPrefix("route:") } == (name != nil))
        }
        let other = try await route("GET", "http://api.internal:7402/any")
        #expect(
            other.exit == .code(0) && other.output.first == "route:    rest", "a capability is no matter of a route")
    }

    @Test(
        "an Upgrade: the protocol that the upstream is asked for, also of a request with a body, or why it is dropped",
        arguments: [
            (["Connection: Upgrade", "Upgrade: TCP"], "tcp"),
            (["connection: keep-alive, upgrade", "upgrade: tcp", "Content-Length: 28"], "tcp"),
            (["Upgrade: tcp"], "dropped: Connection does not name upgrade"),
            (["Connection: Upgrade", "Upgrade: tcp, websocket"], "dropped: Upgrade names several protocols"),
            (["Connection: Upgrade", "Upgrade: websocket"], "dropped: the route's upgrades do not name the protocol"),
            (["Connection: Upgrade", "Upgrade: h2c"], "dropped: the route's upgrades do not name the protocol"),
            (["Connection: Upgrade", "Upgrade:"], "dropped: Upgrade names no protocol"),
        ])
    func upgrade(_ fields: [String], _ shown: String) async throws {
        let yaml = Self.yaml.replacing("{path: /any}", with: "{path: /any}, upgrades: [tcp]")
        let arguments = ["POST", "/any/exec"] + fields.flatMap { ["--header", $0] }
        let process = try await route(arguments, yaml: yaml)
        #expect(process.exit == .code(0), "\(process.errors)")
        #expect(process.output.first == "route:    rest" && process.output.last == "upgrade:  \(shown)")
    }

    @Test("further fields are judged as the request path does; Host and what is no field are wrong arguments")
    func fields() async throws {
        let origin = try await route("GET", "/any", "--header", "Origin: http://evil.test")
        #expect(origin.exit == .code(1) && origin.output.contains("refused:  403 origin-not-allowed"))
        for field in ["Host: x", "no field", ": x", "A: b\r\nC: d"] {
            #expect(try await route("GET", "/any", "--header", field).exit == .code(64), "\(field.debugDescription)")
        }
    }

    @Test("configuration flags stand before the method, between, or behind the URL")
    func placeOfFlags() async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "t")
        let short = ["--token-file", token, "--upstream=http://127.0.0.1:9000"]
        let orders = [
            short + ["--unsafe-plain", "GET", "/x", "--host", "localhost:7400"],
            ["GET"] + short + ["/x"], ["--host", "localhost:7400", "GET"] + short + ["/x"], ["GET", "/x"] + short,
        ]
        for arguments in orders {
            let process = try ServerProcess("lanyard", ["route"] + arguments)
            #expect(try await process.waitForExit() == .code(0), "\(arguments): \(process.lines.map(\.text))")
            #expect(process.output.hasPrefix("route:    default\n"), "\(arguments)")
        }
    }

    @Test("arguments that are no request: 64; a wrong configuration: 78")
    func unusable() async throws {
        for url in ["orders", "ftp://x/", "http://a b/", "/a b", "http://host:99999/"] {
            let process = try await route("GET", url)
            #expect(process.exit == .code(64), "\(url)")
            #expect(process.errors.hasPrefix("error: "))
        }
        let wrong = try ServerProcess("lanyard", ["route", "GET", "/", "--config", "/nonexistent.yaml"])
        #expect(try await wrong.waitForExit() == .code(78))
    }
}
