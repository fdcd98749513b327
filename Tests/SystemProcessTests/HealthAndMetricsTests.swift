import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

@Suite struct HealthAndMetricsTests {
    @Test("health and metrics tell of a login, of requests and of refusals")
    func tells() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let lanyard = try await LanyardProcess.start(emulator)
        try await lanyard.untilReady()
        #expect(try await RawClient.ask(lanyard.health, "GET", "/startupz").status == 200)
        #expect(try await RawClient.ask(lanyard.health, "GET", "/readyz/alice").status == 200)
        for _ in 0..<3 { #expect(try await lanyard.get("/protected/x").status == 200) }
        #expect(try await lanyard.get("/emulator/nothing").status == 404)
        let refused = try RawClient(lanyard.data).exchange("GET", "/protected/x", host: "evil.example")
        #expect(refused.status == 421)
        let fields = [("Accept", "application/openmetrics-text; version=1.0.0")]
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics", fields: fields)
        let metrics = try ExpositionReader(page.body, openMetrics: true)
        #expect(metrics["lanyard_session_state", ["user": "alice", "state": "valid"]] == 1)
        #expect(metrics["lanyard_active_user_info", ["user": "alice"]] == 1)
        let version = try ServerProcess("lanyard", ["version"])
        try await version.waitForExit()
        let build = metrics.samples.filter { $0.name == "lanyard_build_info" }.map(\.labels)
        #expect(build.map { "lanyard \($0["version"] ?? "") (commit \($0["commit"] ?? ""))\n" } == [version.output])
        let labels = ["route": "all", "origin": "upstream"]
        #expect(metrics["lanyard_requests_total", labels.merging(["code_class": "2xx"]) { $1 }] == 3)
        #expect(metrics["lanyard_requests_total", labels.merging(["code_class": "4xx"]) { $1 }] == 1)
        #expect(metrics["lanyard_rejected_requests_total", ["reason": "host"]] == 1)
        let expiry = try #require(metrics["lanyard_access_token_expiry_timestamp_seconds", ["user": "alice"]])
        let refresh = try #require(metrics["lanyard_next_refresh_timestamp_seconds", ["user": "alice"]])
        #expect(refresh < expiry && refresh > expiry - 0.36 * 1_800)
        let reference = try String(contentsOfFile: Products.root + "/docs/use/monitoring.md", encoding: .utf8)
        let families = Set(metrics.samples.map { $0.name.replacing(/_(bucket|sum|count)$/, with: "") })
        let unnamed = families.filter { !$0.hasPrefix("process_") && !reference.contains("`\($0)`") }
            .filter { !reference.contains("`\($0){") }
        #expect(unnamed.sorted() == [])
    }

    @Test("a scrape by a name of health.allowed_hosts is served, another name gets 421, and a reload changes the names")
    func scrapeByName() async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "a-token")
        let upstream = try RawServer()
        func yaml(_ hosts: String) -> String {
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0", allowed_hosts: [\(hosts)]}
            admin: off
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://\(upstream.endpoint)"}]

            """
        }
        let path = try folder.write("lanyard.yaml", yaml("lanyard, \"metrics.test:9401\""))
        let lanyard = try ServerProcess("lanyard", ["run", "--config", path])
        let bound = try await lanyard.event("listening") { $0["listener"].string == "health" }["address"].string ?? ""
        let health = try RawEndpoint(bound)
        func scrape(_ host: String) throws -> Int {
            try RawClient(health).exchange("GET", "/metrics", host: host).status
        }
        #expect(try scrape("lanyard:\(health.port)") == 200)
        #expect(try scrape("metrics.test:9401") == 200)
        #expect(try scrape("prometheus.test:\(health.port)") == 421)
        #expect(try scrape("\(health)") == 200)
        try folder.write("lanyard.yaml", yaml("prometheus.test"))
        lanyard.signal(SIGHUP)
        let applied = try await lanyard.event("reload.applied")
        #expect(applied["keys"].string == "health.allowed_hosts")
        #expect(try scrape("prometheus.test:\(health.port)") == 200)
        #expect(try scrape("lanyard:\(health.port)") == 421)
        #expect(try scrape("localhost:\(health.port)") == 200)
    }

    @Test("names of health.allowed_hosts are a variable as well, as a container sets it")
    func scrapeByVariable() async throws {
        let folder = try TemporaryFolder()
        let lanyard = try ServerProcess(
            "lanyard",
            [
                "run", "--listen", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--admin-address", "off",
                "--upstream", "http://127.0.0.1:9", "--token-file", try folder.write("token", "a-token"),
            ], environment: ["LANYARD_HEALTH_ALLOWED_HOSTS": "lanyard, metrics.test:9401"])
        let bound = try await lanyard.event("listening") { $0["listener"].string == "health" }["address"].string ?? ""
        let health = try RawEndpoint(bound)
        for host in ["lanyard:\(health.port)", "metrics.test:9401"] {
            #expect(try RawClient(health).exchange("GET", "/readyz", host: host).status != 421, "\(host)")
        }
    }

    @Test("during a drain readiness is off with its reason, everything is served, and health answers to the end")
    func drain() async throws {
        let clock = try TestClock()
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "a-token")
        let upstream = try RawServer()
        let lanyard = try await LanyardProcess.start(
            """
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://\(upstream.endpoint)"}]
            shutdown: {drain_min: 2s, exit_zero_on_sigterm: true}
            """, under: clock)
        try await lanyard.untilReady()
        clock.stop()
        lanyard.process.signal(15)
        try await eventually("readiness is off") { try await lanyard.readiness().status == 503 }
        let checks = try await lanyard.readiness().json["checks"].array
        let listener = try #require(checks.first { $0["name"].string == "listener" })
        #expect(listener["reason"].string == "draining")
        #expect(try await RawClient.ask(lanyard.health, "GET", "/livez").status == 200)
        #expect(try await lanyard.get("/").status == 200)
        try await clock.pass(until: "it ends", atMost: .seconds(60)) { lanyard.process.exit != nil }
        #expect(try await lanyard.process.waitForExit() == .code(0))
    }
}
