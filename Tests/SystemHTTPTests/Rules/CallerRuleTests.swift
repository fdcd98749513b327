import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 4.4 and security.md T1, T4 as far as they are about who may call: `capability_file`, `required_header`, `peers`.
@Suite struct CallerRuleTests {
    private static let capability = "0123456789abcdef0123456789abcdef"
    private static let refused = Refusal.denial(403, "caller-not-allowed", "capability")
    private static let unasked = Refusal.denial(403, "caller-not-allowed", "caller")

    private static func request(_ fields: String..., line: String = "GET /") -> String {
        "\(line) HTTP/1.1\r\nHost: localhost\r\n\(fields.map { $0 + "\r\n" }.joined())\r\n"
    }

    /// Sends a request that must be refused. Its connection stays: a second one gets the same answer.
    private static func refuse(
        _ bench: HTTPBench, _ text: String, _ refusal: Refusal, to method: String = "GET",
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await bench.startOver()
        let client = try await bench.connect()
        for _ in 0..<2 {
            try await client.send(text)
            let faults = try refusal.faults(of: try await client.response(to: method), to: method)
            #expect(faults == [], "\(text.debugDescription)", sourceLocation: sourceLocation)
        }
        let counted = try await bench.values(of: "lanyard_rejected_requests_total", by: "reason")
        #expect(counted[refusal.reason ?? "", default: 0] >= 2, sourceLocation: sourceLocation)
        #expect(bench.received == [], sourceLocation: sourceLocation)
    }

    /// - Parameter clock: of the program; it stands from then on. nil: real time.
    private static func start(_ folder: TemporaryFolder, under clock: TestClock? = nil) async throws -> HTTPBench {
        let file = try folder.write("capability", capability + "\n")
        let bench = try await HTTPBench.start {
            $0.listener = "allowed_hosts: [\"localhost:80\"], capability_file: \(file)"
            $0.route = "upgrades: [websocket]"
            $0.clock = clock
        }
        clock?.stop()
        return bench
    }

    @Test("4.4 Only a request with exactly the capability passes, and the upstream never sees it")
    func capability() async throws {
        let folder = try TemporaryFolder()
        let bench = try await Self.start(folder)
        let own = "Lanyard-Capability: \(Self.capability)"
        #expect(try await bench.ask(Self.request(own)).status == 200)
        #expect(try await bench.ask(Self.request("LANYARD-capability:\t\(Self.capability)  ")).status == 200)
        #expect(bench.received.joined() == HTTPBench.forwarded("GET /") + HTTPBench.forwarded("GET /"))
        for fields in [
            "", "Lanyard-Capability:\r\n", "Lanyard-Capability: x\r\n", "\(own)0\r\n", "\(own.dropLast())\r\n",
            "Lanyard-Capability: \(Self.capability.uppercased())\r\n", "\(own)\r\n\(own)\r\n",
            "\(own), \(Self.capability)\r\n",
            "Lanyard_Capability: \(Self.capability)\r\n", "Authorization: Bearer \(Self.capability)\r\n",
        ] {
            try await Self.refuse(bench, "GET / HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n", Self.refused)
        }
    }

    @Test("4.4 An upgrade needs the capability, and the order of refusals is Host, Origin, capability, method")
    func order() async throws {
        let folder = try TemporaryFolder()
        let bench = try await Self.start(folder)
        let upgrade = "Upgrade: websocket\r\nConnection: Upgrade"
        try await Self.refuse(bench, Self.request(upgrade, line: "GET /hand"), Self.refused)
        try await Self.refuse(bench, Self.request("Origin: https://evil.test"), .origin)
        try await Self.refuse(bench, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", .host)
        try await Self.refuse(bench, Self.request(line: "TRACE /"), Self.refused, to: "TRACE")
        try await Self.refuse(bench, Self.request(line: "OPTIONS *"), Self.refused, to: "OPTIONS")
        let client = try await bench.connect()
        try await client.send(
            Self.request("Lanyard-Capability: \(Self.capability)", upgrade, line: "GET /hand"))
        let upstream = try await bench.accept()
        #expect(!(try await upstream.head().lowercased().contains("capability")))
    }

    @Test(
        "4.4 A changed capability holds soon; while its file is gone or too short no request passes, and the log says why"
    )
    func changes() async throws {
        let (folder, clock) = (try TemporaryFolder(), try TestClock())
        let bench = try await Self.start(folder, under: clock)
        let other = "fedcba9876543210fedcba9876543210"
        func status(_ capability: String) async throws -> Int {
            try await bench.ask(Self.request("Lanyard-Capability: \(capability)")).status
        }
        try folder.write("new", other)
        #expect(rename(folder.file("new"), folder.file("capability")) == 0)
        try await clock.pass(LanyardProcess.fileDelay)
        #expect(try await status(other) == 200)
        #expect(try await status(Self.capability) == 403)
        #expect(unlink(folder.file("capability")) == 0)
        try await clock.pass(LanyardProcess.fileDelay)
        #expect(try await status(other) == 403)
        let gone = try await bench.lanyard.process.event("listener.capability.failed")
        #expect(gone["level"].string == "error")
        #expect(gone["reason"].string?.contains("\(folder.file("capability")) does not exist") == true)
        try folder.write("capability", "short")
        try await clock.pass(LanyardProcess.fileDelay)
        try await bench.lanyard.process.event("listener.capability.failed") {
            $0["reason"].string?.contains("fewer than 32 characters") == true
        }
        #expect(try await status("short") == 403)
        try folder.write("capability", Self.capability)
        try await clock.pass(LanyardProcess.fileDelay)
        #expect(try await status(Self.capability) == 200)
        try await bench.lanyard.process.settle()
        for line in bench.lanyard.process.lines {
            #expect(!line.text.contains(other) && !line.text.contains(Self.capability))
        }
    }

    @Test("4.4 The required field may have any value, and it is forwarded as any other")
    func requiredField() async throws {
        let bench = try await HTTPBench.start {
            $0.listener = "allowed_hosts: [\"localhost:80\"], required_header: X-From-Our-Client"
        }
        #expect(try await bench.ask(Self.request("x-from-our-client: 1")).status == 200)
        #expect(try await bench.ask(Self.request("X-From-Our-Client:")).status == 200)
        #expect(
            bench.received.joined() == HTTPBench.forwarded("GET /", ["x-from-our-client: 1"])
                + HTTPBench.forwarded("GET /", ["X-From-Our-Client: "]))
        try await Self.refuse(bench, Self.request(), Self.unasked)
        try await Self.refuse(bench, Self.request("X_From_Our_Client: 1"), Self.unasked)
    }

    /// Sends one request to a unix socket as another Unix user. Returns status and problem type.
    private func ask(_ path: String, as account: [String]) async throws -> (status: String, body: String) {
        let curl = try ServerProcess(
            "/usr/bin/setpriv",
            account + ["/usr/bin/curl", "-s", "-w", "|%{http_code}", "--unix-socket", path, "http://localhost/"])
        #expect(try await curl.waitForExit() == .code(0))
        let parts = curl.output.split(separator: "|")
        return (String(parts.last ?? ""), parts.count > 1 ? String(parts[0]) : "")
    }

    @Test(
        "4.4 Only listed users and groups connect to a unix socket; others get 403 and a closed connection",
        .enabled("needs root to be other users") { getuid() == 0 })
    func peers() async throws {
        let folder = try TemporaryFolder(shared: true)
        let path = folder.file("in")
        let upstream = try RawServer(at: .tcp(0), script: { _ in .response(body: "passed") })
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\"}]", token: "t",
            listener: "address: \"unix:\(path)\", socket_mode: \"0666\", peers: {uids: [7001], gids: [7002]}")
        try await lanyard.untilReady()
        let passed: [[String]] = [
            ["--reuid=7001", "--regid=7009", "--clear-groups"], ["--reuid=7009", "--regid=7002", "--clear-groups"],
            ["--reuid=7009", "--regid=7009", "--groups=7008,7002"],
        ]
        for account in passed { #expect(try await ask(path, as: account).body == "passed", "\(account)") }
        let turnedAway: [[String]] = [
            ["--reuid=7009", "--regid=7009", "--clear-groups"], ["--reuid=7002", "--regid=7001", "--clear-groups"],
            // Root is not listed, either.
            ["--reuid=0"],
        ]
        for account in turnedAway {
            let response = try await ask(path, as: account)
            #expect(response.status == "403" && response.body.contains("caller-not-allowed"), "\(account): \(response)")
        }
        let forwarded = upstream.records.map { String(decoding: $0.bytes, as: UTF8.self) }.joined()
        #expect(forwarded.split(separator: "GET / ", omittingEmptySubsequences: false).count - 1 == passed.count)
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
        #expect(page.contains("lanyard_rejected_requests_total{reason=\"caller\"} \(turnedAway.count)\n"))
    }

    @Test(
        "4.4 A crowd of refused peers takes no place of those who may connect", .enabled("needs root") { getuid() == 0 }
    )
    func crowd() async throws {
        let folder = try TemporaryFolder(shared: true)
        let path = folder.file("in")
        let upstream = try RawServer(at: .tcp(0), script: { _ in .response(body: "passed") })
        // The tests' own user is the one that is refused; curl runs as the listed one.
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\"}]\nlimits: {connections_max: 4}",
            token: "t",
            listener: "address: \"unix:\(path)\", socket_mode: \"0666\", peers: {uids: [7001]}")
        try await lanyard.untilReady()
        let crowd = try (0..<40).map { _ in try RawClient(.unix(path)) }
        for _ in 0..<3 {
            let account = ["--reuid=7001", "--regid=7001", "--clear-groups"]
            #expect(try await ask(path, as: account).body == "passed")
        }
        for client in crowd { client.close() }
    }

    @Test("an address that is not loopback is served with a capability, and health needs none")
    func anyAddress() async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("capability", Self.capability)
        let upstream = try RawServer(at: .tcp(0), script: { _ in .response(body: "passed") })
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\"}]", token: "t",
            listener: "address: \"0.0.0.0:0\", allowed_hosts: [\"api.internal:80\"], capability_file: \(file)")
        try await lanyard.untilReady()
        let port = lanyard.data.port
        func status(_ fields: String) async throws -> Int {
            let client = try RawClient(.tcp(port))
            defer { client.close() }
            try client.send("GET / HTTP/1.1\r\nHost: api.internal\r\n\(fields)\r\n")
            return try client.response().status
        }
        #expect(try await status("") == 403)
        #expect(try await status("Lanyard-Capability: \(Self.capability)\r\n") == 200)
    }
}
