import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard check --online`: each identity service and upstream is connected to; a service is asked for the app's location, and nothing
/// else is sent.
@Suite(.enabled(if: PythonProcess.isInstalled, "needs Python"))
struct OnlineCheckTests {
    fileprivate struct Outcome {
        let exit: ServerProcess.Exit
        /// Without the line that says that the configuration is valid.
        let lines: [String]
        let errors: String

        /// The line of one identity or upstream.
        func line(_ name: String) -> String { lines.first { $0.contains(" \(name) ") } ?? "no line of \(name)" }
    }

    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        try folder.write("token", "never-sent-token")
    }

    /// - Parameters:
    ///   - routes: keys of each route, by its name.
    ///   - identities: keys of each identity beside a fixed one, by its name.
    fileprivate func check(
        routes: [(name: String, keys: String)], identities: [(name: String, keys: String)] = [],
        launcher: [String] = [],
        flags: [String] = ["--online"]
    ) async throws -> Outcome {
        var yaml = "identities:\n  fixed: {static: {token_file: token}}\n"
        for (name, keys) in identities { yaml += "  \(name): {\(keys)}\n" }
        yaml += "users:\n  alice: {identity: fixed}\n"
        for (name, _) in identities { yaml += "  user-\(name): {identity: \(name), login: {anonymous: {}}}\n" }
        yaml += "routes:\n"
        for (index, route) in routes.enumerated() {
            yaml += "  - {name: \(route.name), match: {path: /\(index)}, \(route.keys)}\n"
        }
        let path = try folder.write("lanyard.yaml", yaml)
        let command = launcher + [try Products.path("lanyard"), "check"] + flags + ["--config", path]
        let process = try ServerProcess(command[0], Array(command.dropFirst()))
        let exit = try await process.waitForExit()
        let errors = process.lines.map(\.text).joined(separator: "\n")
        #expect(!(process.output + errors).contains("never-sent-token"))
        let lines = process.output.split(separator: "\n").map(String.init)
        return Outcome(exit: exit, lines: Array(lines.dropFirst()), errors: errors)
    }

    private static let until = #", certificate until 20\d\d-[-0-9:.T]+Z"#

    @Test("what is reached has a line with its address, its TLS and the end of its certificate, and exit is 0")
    func reached() async throws {
        let (newer, older) = (try await TLSUpstream.start(), try await TLSUpstream.start(mode: "1.2"))
        let demanding = try await TLSUpstream.start(mode: "demand")
        let own = TLSUpstream.authority.issue(purpose: "clientAuth")
        let shown =
            "certificate_file: \(try folder.write("own.pem", own.certificate)), "
            + "key_file: \(try folder.write("own.key", own.key))"
        let other = try await TLSUpstream.start(TestAuthority("Other").issue("DNS:other"))
        let plain = try RawServer()
        let socket = try RawServer(at: .unix(folder.file("up.sock")))
        let outcome = try await check(routes: [
            ("newer", "upstream: \"\(newer.url)/base\", \(newer.trust)"),
            ("older", "upstream: \"\(older.url)\", \(older.trust)"),
            (
                "demanding",
                "upstream: \"\(demanding.url)\", tls: {ca_file: \(demanding.folder.file("ca.pem")), \(shown)}"
            ),
            ("unverified", "upstream: \"\(other.url)\", tls: {unsafe_skip_verify: true}"),
            ("plain", "upstream: \"http://\(plain.endpoint)\""), ("socket", "upstream: \"\(socket.endpoint)\""),
        ])
        #expect(outcome.exit == .code(0), "\(outcome.errors)\n\(outcome.lines)")
        let address = { (upstream: TLSUpstream) in "\(upstream.url) 127.0.0.1:\(upstream.port)" }
        for (name, text, version) in [
            ("newer", address(newer), "TLSv1.3"), ("older", address(older), "TLSv1.2"),
            ("demanding", address(demanding), "TLSv1.3"),
        ] {
            let expected = try Regex("ok upstream \(name) \(text) \(version), HTTP/1.1\(Self.until)")
            #expect(try expected.wholeMatch(in: outcome.line(name)) != nil, "\(outcome.line(name))")
        }
        #expect(
            outcome.line("unverified")
                == "ok upstream unverified \(address(other)) TLSv1.3, HTTP/1.1, certificate not verified")
        #expect(outcome.line("plain") == "ok upstream plain http://\(plain.endpoint) \(plain.endpoint)")
        #expect(outcome.line("socket") == "ok upstream socket \(socket.endpoint) \(socket.endpoint)")
        #expect(outcome.lines.count == 6)
        for upstream in [newer, older, demanding, other] {
            try await eventually("the connection has ended") {
                ["ended", "failed"].contains { upstream.process.output.contains($0) }
            }
            #expect(upstream.requests.isEmpty)
        }
        #expect((plain.records + socket.records).allSatisfy { $0.bytes.isEmpty })
    }

    @Test("ALPN offers what the route would: what was agreed on is said, and protocol: http2 without h2 is a failure")
    func versions() async throws {
        let (both, only) = (try await TLSUpstream.start(mode: "h2"), try await TLSUpstream.start(mode: "h2 only"))
        let (older, none) = (try await TLSUpstream.start(), try await TLSUpstream.start(mode: "no ALPN"))
        let demanding = try await TLSUpstream.start(mode: "h2 demand")
        let own = TLSUpstream.authority.issue(purpose: "clientAuth")
        let pair =
            "certificate_file: \(try folder.write("h2.pem", own.certificate)), "
            + "key_file: \(try folder.write("h2.key", own.key))"
        let cases: [(upstream: TLSUpstream, version: String, words: String?)] = [
            (both, "auto", "HTTP/2"), (both, "http1", "HTTP/1.1"), (both, "http2", "HTTP/2"),
            (only, "auto", "HTTP/2"), (only, "http1", "HTTP/1.1 without ALPN"), (only, "http2", "HTTP/2"),
            (older, "auto", "HTTP/1.1"), (older, "http1", "HTTP/1.1"), (older, "http2", nil),
            (none, "auto", "HTTP/1.1 without ALPN"), (none, "http2", nil), (demanding, "http2", "HTTP/2"),
        ]
        let routes = cases.enumerated().map { index, row in
            let authority = row.upstream.folder.file("ca.pem")
            let shown = row.upstream === demanding ? ", \(pair)" : ""
            let keys =
                "upstream: \"\(row.upstream.url)\", protocol: \(row.version), tls: {ca_file: \(authority)\(shown)}"
            return (name: "r\(index)", keys: keys)
        }
        let outcome = try await check(routes: routes)
        #expect(outcome.exit == .code(69) && outcome.lines.count == cases.count, "\(outcome.errors)\n\(outcome.lines)")
        for (index, row) in cases.enumerated() {
            let (line, url) = (outcome.line("r\(index)"), row.upstream.url)
            if let words = row.words {
                #expect(
                    line.hasPrefix(
                        "ok upstream r\(index) \(url) 127.0.0.1:\(row.upstream.port) TLSv1.3, \(words), cert"),
                    "\(row.version): \(line)")
            } else {
                #expect(
                    line == "FAILED upstream r\(index) \(url): The upstream does not agree on HTTP/2 by ALPN, and the "
                        + "route has protocol: http2. Have the upstream offer h2, or set protocol: auto. "
                        + "The address is 127.0.0.1:\(row.upstream.port).")
            }
        }
        for upstream in [both, only, older, none, demanding] { #expect(upstream.requests.isEmpty) }
    }

    struct Failure: Sendable, CustomTestStringConvertible {
        let name: String
        let words: String
        var issued = TLSUpstream.authority.issue()
        var mode = ""
        var tls = "ca_file: AUTHORITY"

        var testDescription: String { name }

        static let all: [Failure] = [
            .init(name: "authority", words: "its authority is unknown", issued: TestAuthority("Other").issue()),
            .init(name: "system", words: "its authority is unknown", tls: ""),
            .init(name: "name", words: "it is for another name", issued: TLSUpstream.authority.issue("DNS:other")),
            .init(
                name: "expired", words: "it has expired", issued: TLSUpstream.authority.issue(from: -7200, to: -3600)),
            .init(name: "future", words: "it is not valid yet", issued: TLSUpstream.authority.issue(from: 3600)),
            .init(name: "plain", words: "speaks HTTP without TLS", mode: "plain"),
            .init(name: "bare", words: "demands a client certificate, and none is configured", mode: "demand"),
            .init(name: "bare-1.2", words: "demands a client certificate, and none is configured", mode: "1.2 demand"),
            .init(
                name: "foreign", words: "refuses Lanyard's certificate", mode: "demand",
                tls: "ca_file: AUTHORITY, certificate_file: OWN, key_file: KEY"),
        ]
    }

    @Test("each failure of TLS has its cause, with the address, and exit is 69")
    func failures() async throws {
        let other = TestAuthority("Other").issue(purpose: "clientAuth")
        let own = (try folder.write("other.pem", other.certificate), try folder.write("other.key", other.key))
        var (routes, upstreams) = ([(name: String, keys: String)](), [TLSUpstream]())
        for failure in Failure.all {
            let upstream = try await TLSUpstream.start(failure.issued, mode: failure.mode)
            let tls = failure.tls.replacing("AUTHORITY", with: upstream.folder.file("ca.pem"))
                .replacing("OWN", with: own.0).replacing("KEY", with: own.1)
            routes.append((failure.name, "upstream: \"\(upstream.url)\"" + (tls.isEmpty ? "" : ", tls: {\(tls)}")))
            upstreams.append(upstream)
        }
        let outcome = try await check(routes: routes)
        #expect(outcome.exit == .code(69))
        #expect(outcome.errors == "error: 9 of 9 identities and upstreams cannot be used")
        for (failure, upstream) in zip(Failure.all, upstreams) {
            let line = outcome.line(failure.name)
            #expect(line.hasPrefix("FAILED upstream \(failure.name) \(upstream.url): TLS failed: "), "\(line)")
            #expect(line.contains(failure.words), "\(line)")
            #expect(line.hasSuffix("The address is 127.0.0.1:\(upstream.port)."), "\(line)")
            #expect(upstream.requests.isEmpty)
        }
    }

    @Test("nothing there, nothing that answers, no such name: the causes")
    func unreachable() async throws {
        let silent = try FaultGate(before: .tcp(1), mode: .silence)
        // One connection fills a backlog of 0, and the kernel drops what comes behind it.
        let full = try RawSocket.listen(at: .tcp(0), backlog: 0)
        let waiting = try RawSocket.connect(to: .tcp(full.localPort))
        let closed = try FaultGate(before: .tcp(1), mode: .refuse)
        let (fine, times) = (try RawServer(), "timeouts: {connect: 1s}")
        let outcome = try await check(routes: [
            ("silent", "upstream: \"https://localhost:\(silent.endpoint.port)\", \(times)"),
            ("full", "upstream: \"http://127.0.0.1:\(full.localPort)\", \(times)"),
            ("refused", "upstream: \"http://\(closed.endpoint)\""),
            ("missing", "upstream: \"unix:\(folder.file("none.sock"))\""),
            ("unknown", "upstream: \"https://no-such-name.invalid\""),
            ("fine", "upstream: \"http://\(fine.endpoint)\""),
        ])
        #expect(outcome.exit == .code(69))
        #expect(outcome.line("silent").contains(": The TLS handshake took too long. The address is "))
        #expect(outcome.line("full").hasSuffix("Connecting took too long. The address is 127.0.0.1:\(full.localPort)."))
        #expect(outcome.line("refused").contains("Connecting failed: Connection refused. The address is "))
        #expect(outcome.line("missing").contains("Connecting failed: No such file or directory. The address is unix:"))
        // Where there is no name server, its silence is the cause.
        let unknown = outcome.line("unknown")
        #expect(unknown.contains("cannot be resolved") || unknown.contains("was not resolved within"), "\(unknown)")
        #expect(outcome.errors == "error: 5 of 6 identities and upstreams cannot be used", "\(outcome.lines)")
        withExtendedLifetime((waiting, fine)) {}
    }

    @Test(
        "a name is connected to where it leads, and localhost on this machine", .enabled(if: MountNamespace.isPossible))
    func elsewhere() async throws {
        let network = try PrivateNetwork(hosts: ["\(PrivateNetwork.address) localhost service.test"])
        let outcome = try await check(
            routes: [
                ("local", "upstream: \"http://localhost:\(PrivateNetwork.port)\""),
                ("open", "upstream: \"http://service.test:\(PrivateNetwork.port)\", unsafe_plain: true"),
                ("lost", "upstream: \"https://a.test\""),
            ],
            launcher: network.launcher)
        #expect(outcome.exit == .code(69))
        let own = "127.0.0.1:\(PrivateNetwork.port)"
        #expect(outcome.line("local") == "ok upstream local http://localhost:\(PrivateNetwork.port) \(own)")
        let address = "\(PrivateNetwork.address):\(PrivateNetwork.port)"
        #expect(outcome.line("open") == "ok upstream open http://service.test:\(PrivateNetwork.port) \(address)")
        #expect(outcome.line("lost") == "FAILED upstream lost https://a.test: The upstream's name cannot be resolved.")
        #expect(try network.visits() == [])
    }

    @Test("identity services are connected to with their own TLS, asked for the app's location, and get no credential")
    func identities() async throws {
        let server = try RawServer()
        let upstream = "upstream: \"http://\(server.endpoint)\""
        let (good, demanding) = (try await TLSUpstream.start(), try await TLSUpstream.start(mode: "1.2 demand"))
        let plain = try await EmulatorProcess.start(tokens: "1h")
        let speaksPlain = try await TLSUpstream.start(mode: "plain")
        let closed = try FaultGate(before: .tcp(1), mode: .refuse)
        let trust = "tls: {ca_file: \(good.folder.file("ca.pem"))}"
        let service = { (url: String) in "app_services: {app_id: demo-abcde, base_url: \"\(url)\"}" }
        let outcome = try await check(
            routes: [("all", upstream)],
            identities: [
                ("good", "\(service(good.url)), \(trust)"), ("untrusted", service(good.url)),
                ("demanding", "\(service(demanding.url)), \(trust)"), ("plain", service("http://\(plain.endpoint)")),
                ("wrong", "\(service(speaksPlain.url)), \(trust)"), ("refused", service("http://\(closed.endpoint)")),
                ("unknown", service("https://no-such-name.invalid")),
                ("other", "app_services: {app_id: demo-typos, base_url: \"http://\(plain.endpoint)\"}"),
                ("upstream", service("http://\(server.endpoint)")),
            ])
        #expect(outcome.exit == .code(69))
        let expected = try Regex("ok identity good \(good.url) 127.0.0.1:\(good.port)\(Self.until)")
        #expect(try expected.wholeMatch(in: outcome.line("good")) != nil, "\(outcome.line("good"))")
        #expect(outcome.line("plain") == "ok identity plain http://\(plain.endpoint) \(plain.endpoint)")
        for (name, words) in [
            ("untrusted", "no trust in the identity service's TLS connection"),
            ("demanding", "TLS could not be agreed with the identity service"),
            ("wrong", "TLS could not be agreed with the identity service"),
            ("refused", "(connecting failed: Connection refused)"), ("unknown", "(its name cannot be resolved)"),
            ("other", "it knows no app demo-typos; check app_id and base_url"), ("upstream", "it names no hostname"),
        ] {
            let line = outcome.line(name)
            #expect(line.hasPrefix("FAILED identity \(name) http") && line.contains(words), "\(line)")
        }
        #expect(outcome.lines.count == 10 && outcome.errors.contains("7 of 10"), "\(outcome.lines)\n\(outcome.errors)")
        let location = "/api/client/v2.0/app/demo-abcde/location"
        #expect(good.requests == ["request GET \(location)"] && demanding.requests.isEmpty)
        #expect(server.requests.map(\.target) == [location])
        #expect(server.requests.allSatisfy { $0["Authorization"] == nil })
    }

    @Test("--login logs each user in that may be, and leaves no session; a wrong password is a failure")
    func logins() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        try folder.write("wrong", "wrong-password")
        func check(_ password: String) async throws -> CommandRun {
            let path = try folder.write(
                "login.yaml",
                """
                identities:
                  demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}
                users:
                  alice: {identity: demo, login: {email_password: {email: \(EmulatorProcess.email), password_file: \(password)}}}
                  kiosk: {identity: demo, login: {anonymous: {}}}
                  bob: {identity: demo}
                routes: [{upstream: "http://\(emulator.endpoint)"}]

                """)
            return try await CommandRun(["check", "--online", "--login", "--config", path])
        }
        let good = try await check(emulator.passwordFile)
        #expect(good.exit == .code(0), "\(good)")
        let lines = good.output.split(separator: "\n").map(String.init)
        // A response of the next second than its token's leaves it a second less.
        let ended = [1800, 1799].map {
            "ok login of alice at demo: a token for \($0) s, and its session is ended again"
        }
        #expect(ended.contains(where: lines.contains), "\(lines)")
        #expect(lines.contains("skipped login of kiosk at demo: each anonymous login makes a new account"))
        #expect(lines.contains("skipped login of bob at demo: no login is configured"))
        #expect(try await emulator.calls("login") == 1)
        #expect(try await emulator.calls("logout") == 1)
        let wrong = try await check(folder.file("wrong"))
        #expect(wrong.exit == .code(69))
        #expect(wrong.output.contains("\nFAILED login of alice at demo: "), "\(wrong.output)")
        #expect(wrong.errors.last == "error: 1 of 5 identities, logins and upstreams cannot be used", "\(wrong.errors)")
    }

    @Test("a wrong configuration connects to nothing; --online beside --print-config is wrong usage")
    func usage() async throws {
        let upstream = try RawServer()
        let route = "upstream: \"http://\(upstream.endpoint)\""
        #expect(try await check(routes: [("all", route + ", nonsense: 1")]).exit == .code(78))
        let both = try await check(routes: [("all", route)], flags: ["--online", "--print-config"])
        #expect(both.exit == .code(64) && both.errors.contains("--print-config"))
        #expect(upstream.connectionCount == 0)
    }
}

/// How long the check takes. Alone, since time is measured.
@Suite struct AloneOnlineCheckTests {
    @Test("twenty upstreams that stay silent for a second each cost less than ten: all are asked at the same time")
    func atOnce() async throws {
        let full = try RawSocket.listen(at: .tcp(0), backlog: 0)
        let waiting = try RawSocket.connect(to: .tcp(full.localPort))
        let start = ContinuousClock.now
        let outcome = try await OnlineCheckTests().check(
            routes: (0..<20).map {
                ("r\($0)", "upstream: \"http://127.0.0.1:\(full.localPort)\", timeouts: {connect: 1s}")
            })
        #expect(outcome.exit == .code(69))
        #expect(ContinuousClock.now - start < .seconds(10))
        withExtendedLifetime((full, waiting)) {}
    }
}
