import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// The built binary in front of `https` upstreams (http-forwarding.md 12.4, http-connections.md 16.1, 16.2).
@Suite(.enabled(if: PythonProcess.isInstalled, "needs Python"))
struct UpstreamTLSTests {
    private func lanyard(
        _ upstream: TLSUpstream, _ keys: String? = nil, url: String? = nil, under clock: TestClock? = nil
    ) async throws -> LanyardProcess {
        try await .start(before: url ?? upstream.url, route: keys ?? upstream.trust, under: clock)
    }

    @Test("16.1 Requests go over TLS, with the token, on kept connections", arguments: ["1.2", "1.3"])
    func requests(_ version: String) async throws {
        let upstream = try await TLSUpstream.start(mode: version)
        let lanyard = try await lanyard(upstream)
        var facts: [String] = []
        do {
            let client = try RawClient(lanyard.data)
            for _ in 0..<3 {
                let answer = try client.exchange("GET", "/", host: lanyard.data.description)
                #expect(answer.status == 200, "\(answer.headText)")
            }
        }
        for _ in 0..<3 { facts.append(try await lanyard.get("/").bodyText) }
        #expect(facts[0].hasPrefix("TLSv\(version) ") && facts[0].hasSuffix(" http/1.1 Bearer stream-token"))
        #expect(Set(facts).count <= 3)
        try await eventually("the upstream has told of every request") { upstream.requests.count == 6 }
    }

    @Test(
        "H3 HTTP/2 over TLS needs an agreement: an upstream that agrees on another version, or on none, gets no request",
        arguments: ["", "no ALPN"])
    func agreement(_ mode: String) async throws {
        let upstream = try await TLSUpstream.start(mode: mode)
        let lanyard = try await lanyard(upstream, upstream.trust + ", protocol: http2")
        let answer = try await lanyard.get("/")
        let isTold = answer.bodyText.contains("have no version of HTTP in common")
        #expect(answer.status == 502 && isTold, "\(answer.bodyText)")
        #expect(upstream.requests.isEmpty)
    }

    @Test("a later connection resumes the session", arguments: ["1.2 late", "late"])
    func resumes(_ mode: String) async throws {
        let upstream = try await TLSUpstream.start(mode: mode)
        let lanyard = try await lanyard(upstream)
        // Each shard asks the same cache: only the very first connection has a full handshake.
        let facts = try await (0..<6).asyncMap { _ in try await lanyard.get("/").bodyText.split(separator: " ")[1] }
        #expect(facts.first == "False" && facts.dropFirst().allSatisfy { $0 == "True" }, "\(facts)")
    }

    @Test("16.2 A session ticket leaves an idle connection usable, and an end does not")
    func idleTickets() async throws {
        let upstream = try await TLSUpstream.start()
        let lanyard = try await LanyardProcess.start(
            before: upstream.url, route: upstream.trust, rest: "shards: 1\n")
        let ports = try await (0..<3).asyncMap { _ in
            // The ticket comes behind the handshake, and may come when the connection is idle.
            try await settled(lanyard.process, upstream.process)
            return try await lanyard.get("/").bodyText.split(separator: " ")[2]
        }
        #expect(Set(ports).count == 1, "\(ports)")
        upstream.process.signal(SIGKILL)
        _ = try await upstream.process.waitForExit()
        try await eventually("the idle connection is closed") {
            try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
                .contains("lanyard_upstream_connections{route=\"all\",state=\"open\"} 0")
        }
    }

    @Test("bodies of megabytes pass both ways unchanged")
    func bodies() async throws {
        let upstream = try await TLSUpstream.start()
        let lanyard = try await lanyard(upstream)
        let body = String(repeating: "0123456789abcdef", count: 200_000)
        let answer = try await RawClient.ask(lanyard.data, "POST", "/", body: body)
        #expect(answer.bodyText == SHA256Digest.hex(of: Array(body.utf8)))
        let big = try await lanyard.get("/big")
        #expect(
            big.bodyCount == 5_000_000
                && big.bodyDigest == SHA256Digest.hex(of: [UInt8](repeating: 121, count: 5_000_000)))
    }

    @Test("12.4 Over TLS a close-delimited response is complete on close_notify, and cut off without it")
    func closeDelimited() async throws {
        let upstream = try await TLSUpstream.start()
        let lanyard = try await lanyard(upstream)
        #expect(try await lanyard.get("/whole").bodyCount == 50_000)
        await #expect(throws: (any Error).self) { _ = try await lanyard.get("/cut") }
    }

    @Test("an upgraded connection is a tunnel over TLS")
    func upgrade() async throws {
        let upstream = try await TLSUpstream.start()
        let lanyard = try await lanyard(upstream)
        let client = try RawClient(lanyard.data)
        let fields = [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        #expect(try client.exchange("GET", "/upgrade", host: lanyard.data.description, fields: fields).status == 101)
        for count in [1, 1000, 100_000] {
            let bytes = [UInt8](repeating: 9, count: count)
            try client.send(bytes)
            #expect(try client.read(count) == bytes)
        }
        client.halfClose()
        #expect(try client.readToEnd().isEmpty)
    }

    // MARK: Failures

    struct Failure: Sendable, CustomTestStringConvertible {
        let reason: String
        var issued = TLSUpstream.authority.issue()
        var mode = ""
        var tls = "ca_file: AUTHORITY"
        var status = 502
        var error = "tls_certificate_error"
        var url: String?
        /// What the problem says of the certificate.
        var words = ""

        var testDescription: String { reason }

        static let all: [Failure] = {
            let authority = TLSUpstream.authority
            return [
                Failure(reason: "unknown_authority", issued: TestAuthority("Other").issue()),
                Failure(reason: "unknown_authority", tls: ""),
                Failure(
                    reason: "name_mismatch", issued: authority.issue("DNS:other.example", commonName: "localhost"),
                    words: "it is for another name (\"other.example\")."),
                Failure(reason: "name_mismatch", tls: "ca_file: AUTHORITY, server_name: api.example"),
                Failure(
                    reason: "name_mismatch", issued: authority.issue("", commonName: "127.0.0.1"),
                    url: "https://127.0.0.1"),
                Failure(
                    reason: "expired", issued: authority.issue(from: -7200, to: -3600),
                    words: "it has expired (\"localhost\", it ended at 20"),
                Failure(
                    reason: "not_yet_valid", issued: authority.issue(from: 3600),
                    words: "it is not valid yet (\"localhost\", it begins at 20"),
                Failure(reason: "wrong_purpose", issued: authority.issue(purpose: "clientAuth")),
                Failure(reason: "plain_http", mode: "plain", error: "tls_protocol_error"),
                Failure(reason: "certificate_required", mode: "demand", error: "tls_protocol_error"),
                Failure(reason: "certificate_required", mode: "1.2 demand", error: "tls_protocol_error"),
                Failure(
                    reason: "certificate_refused", mode: "demand",
                    tls: "ca_file: AUTHORITY, certificate_file: OWN, key_file: KEY", error: "tls_protocol_error"),
            ]
        }()
    }

    @Test(
        "16.1 Each failure of TLS has its own reason, and the upstream gets no byte of a request",
        arguments: Failure.all)
    func failures(_ failure: Failure) async throws {
        let upstream = try await TLSUpstream.start(failure.issued, mode: failure.mode)
        let other = TestAuthority("Other").issue(purpose: "clientAuth")
        let certificate = try upstream.folder.write("client.pem", other.certificate)
        let key = try upstream.folder.write("client.key", other.key)
        let tls = failure.tls.replacing("AUTHORITY", with: upstream.folder.file("ca.pem"))
            .replacing("OWN", with: certificate).replacing("KEY", with: key)
        let lanyard = try await lanyard(
            upstream, tls.isEmpty ? "" : "tls: {\(tls)}", url: failure.url.map { "\($0):\(upstream.port)" })
        let answer = try await lanyard.get("/")
        #expect(answer.status == failure.status, "\(answer.headText)")
        #expect(answer["Proxy-Status"] == "lanyard; error=\(failure.error)", "\(answer.bodyText)")
        let problem = try answer.json
        #expect(problem["retryable"].bool == false && problem["action"].string == "operator", "\(answer.bodyText)")
        #expect(failure.words.isEmpty || problem["detail"].string?.contains(failure.words) == true, "\(problem)")
        let line = try await lanyard.process.event("upstream.tls.failed")
        #expect(
            failure.words.isEmpty || line["msg"].string?.contains(String(failure.words.dropLast())) == true, "\(line)")
        #expect(line["reason"].string == failure.reason, "\(lanyard.process.log)")
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
        let sample = "lanyard_upstream_tls_failures_total{route=\"all\",reason=\"\(failure.reason)\"}"
        #expect(page.contains(sample), "\(page)")
        #expect(upstream.requests.isEmpty)
        #expect(!lanyard.process.log.contains("stream-token"))
    }

    @Test(
        "an upstream that is silent in the handshake is a time-out, and one that closes has terminated it",
        arguments: [true, false])
    func stops(closes: Bool) async throws {
        let gate = try FaultGate(before: .tcp(1), mode: closes ? .dropRequest(.close) : .silence)
        let clock = try TestClock()
        clock.watch(gate.threads)
        let lanyard = try await LanyardProcess.start(
            before: "https://localhost:\(gate.endpoint.port)", route: "timeouts: {connect: 60s, connect_all: 1h}",
            under: clock)
        clock.stop()
        let client = try RawClient(lanyard.data)
        try client.send("GET / HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n")
        if !closes {
            try await clock.pass(.seconds(59))
            #expect(client.waitingBytes == 0)
            try await clock.pass(.seconds(2))
        }
        let answer = try client.response()
        #expect(answer.status == (closes ? 502 : 504))
        let error = closes ? "connection_terminated" : "connection_timeout"
        #expect(answer["Proxy-Status"] == "lanyard; error=\(error)", "\(answer.bodyText)")
    }

    // MARK: Trust

    @Test(
        "a client certificate is shown, a server name replaces the host's, and nothing is verified where that is said")
    func keys() async throws {
        let authority = TLSUpstream.authority
        let upstream = try await TLSUpstream.start(authority.issue("DNS:api.example"), mode: "demand")
        let own = authority.issue(purpose: "clientAuth")
        let certificate = try upstream.folder.write("client.pem", own.certificate)
        let key = try upstream.folder.write("client.key", own.key)
        let shown = "certificate_file: \(certificate), key_file: \(key)"
        let named = try await lanyard(
            upstream, "tls: {ca_file: \(upstream.folder.file("ca.pem")), server_name: api.example, \(shown)}")
        #expect(try await named.get("/").status == 200)
    }

    @Test("where nothing is verified, the start warns and the status says so")
    func unverified() async throws {
        let upstream = try await TLSUpstream.start(TestAuthority("Other").issue("DNS:other"))
        let socket = upstream.folder.file("admin.sock")
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"\(upstream.url)\", tls: {unsafe_skip_verify: true}}]\n", token: "a-token",
            admin: "{address: \"unix:\(socket)\"}")
        try await lanyard.untilReady()
        #expect(try await lanyard.get("/").status == 200)
        let warning = try await lanyard.process.event("configuration.warning")
        #expect(warning["msg"].string?.contains("unsafe_skip_verify") == true)
        let status = try await RawClient.ask(.unix(socket), "GET", "/v1/status").json
        #expect(status["unverified_routes"].array.map(\.string) == ["all"])
    }

    @Test("changed files are used without a restart, a broken one is logged, and no request fails in that time")
    func reload() async throws {
        let upstream = try await TLSUpstream.start()
        let clock = try TestClock()
        let lanyard = try await lanyard(upstream, under: clock)
        clock.stop()
        let file = upstream.folder.file("ca.pem")
        #expect(try await lanyard.get("/").status == 200)
        try upstream.folder.write("new", "-----BEGIN CERTIFICATE-----\nbroken")
        #expect(rename(upstream.folder.file("new"), file) == 0)
        try await clock.pass(LanyardProcess.fileDelay)
        _ = try await lanyard.process.event("upstream.tls.reload_failed")
        #expect(try await lanyard.get("/").status == 200)
        try upstream.folder.write("new", TestAuthority("Other").pem)
        #expect(rename(upstream.folder.file("new"), file) == 0)
        try await clock.pass(LanyardProcess.fileDelay)
        _ = try await lanyard.process.event("upstream.tls.reloaded")
        // The connections that the former authorities have verified are not used any more, nor their sessions.
        try await eventually("no shard trusts the upstream") {
            try await (0..<6).asyncMap { _ in try await lanyard.get("/").status }.allSatisfy { $0 == 502 }
        }
        try upstream.folder.write("new", TLSUpstream.authority.pem)
        #expect(rename(upstream.folder.file("new"), file) == 0)
        try await clock.pass(LanyardProcess.fileDelay)
        #expect(try await lanyard.get("/").status == 200)
    }

    @Test("files that cannot be used end the start and the check with 78, and say which")
    func startFaults() async throws {
        let folder = try TemporaryFolder()
        let (own, other) = (TLSUpstream.authority.issue(), TLSUpstream.authority.issue())
        let locked = TLSUpstream.authority.issue(password: "hunter2")
        let token = try folder.write("token", "a-token")
        let certificate = try folder.write("own.pem", own.certificate)
        let cases = [
            (try folder.write("other.key", other.key), "does not belong"),
            (try folder.write("locked.key", locked.key), "password"),
            (try folder.write("empty.key", ""), "empty"), (try folder.write("text.key", "hello\n"), "no private key"),
            (try folder.write("half.key", String(own.key.prefix(100))), "damaged"),
        ]
        for (key, words) in cases {
            for command in ["check", "run"] {
                let process = try ServerProcess(
                    "lanyard",
                    [
                        command, "--upstream", "https://localhost", "--token-file", token, "--listen",
                        "unix:\(folder.file("s"))", "--health-address", "off", "--admin-address", "off",
                        "--upstream-certificate-file", certificate, "--upstream-key-file", key,
                    ])
                #expect(try await process.waitForExit() == .code(78), "\(key)")
                #expect(process.log.contains(words) && process.log.contains(key), "\(process.log)")
                #expect(!process.log.contains("hunter2"))
            }
        }
    }

    @Test("five flags are enough in front of an https API of a private authority")
    func flags() async throws {
        let upstream = try await TLSUpstream.start()
        let token = try upstream.folder.write("token", "a-token")
        let process = try ServerProcess(
            "lanyard",
            [
                "run", "--upstream", upstream.url, "--upstream-ca-file", upstream.folder.file("ca.pem"), "--token-file",
                token, "--listen", "unix:\(upstream.folder.file("s"))", "--health-address", "off", "--admin-address",
                "off",
            ])
        _ = try await process.event("session.token.changed")
        let answer = try await RawClient.ask(.unix(upstream.folder.file("s")), "GET", "/")
        #expect(answer.status == 200 && answer.bodyText.hasSuffix("Bearer a-token"), "\(answer.bodyText)")
    }
}

extension Sequence {
    /// One after the other.
    fileprivate func asyncMap<Value>(_ body: (Element) async throws -> Value) async rethrows -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await body(element)) }
        return values
    }
}
