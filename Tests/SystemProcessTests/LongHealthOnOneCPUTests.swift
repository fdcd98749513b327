import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Lanyard has one CPU and is kept busy on it from the other; the probes come from there, too.
@Suite struct LongHealthOnOneCPUTests {
    private static let tools = ["/usr/bin/wrk", "/usr/sbin/nginx", "/usr/bin/taskset"]

    @Test(
        "health answers within 100 ms while the only shard has its CPU to the full",
        .enabled("needs wrk, nginx, taskset and two CPUs") {
            Self.tools.allSatisfy { access($0, X_OK) == 0 } && sysconf(CInt(_SC_NPROCESSORS_ONLN)) > 1
        })
    func oneCPU() async throws {
        let folder = try TemporaryFolder()
        let nginx = try await NginxProcess.start(
            "location / { return 200 \"ok\"; }", in: folder, http: "keepalive_requests 100000000;", cpus: "1")
        let token = try folder.write("token", "a-token")
        let lanyard = try await LanyardProcess.start(
            """
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "\(nginx.endpoint)"}]
            """, cpus: "0")
        try await lanyard.untilReady()
        // It ends at SIGINT.
        let load = try ServerProcess("/usr/bin/wrk", ["-t1", "-c64", "-d1h", "http://\(lanyard.data)/"], cpus: "1")
        try await eventually("wrk has connected") { try await lanyard.metric("lanyard_client_connections") >= 64 }
        let before = (try ProcessorTime.used(by: lanyard.process.pid), try ProcessorTime.idle(ofCPU: 0))
        let outcome = try Self.probe(lanyard, over: .seconds(10))
        let used = try ProcessorTime.used(by: lanyard.process.pid) - before.0
        let idle = try ProcessorTime.idle(ofCPU: 0) - before.1
        #expect(outcome.responses == 100)
        #expect(outcome.slowest <= .milliseconds(100))
        // Health's own part is in it: a hundred responses are some hundredths of a second.
        #expect(used / (used + idle) > 0.9, "used \(used) s, left \(idle) s idle")
        load.signal(SIGINT)
        _ = try await load.waitForExit()
        #expect(load.output.contains("requests in"), "\(load.output)")
        #expect(!load.output.contains("Non-2xx"), "\(load.output)")
        #expect(try await lanyard.process.terminate() == .code(143))
        try await nginx.process.terminate()
    }

    /// A hundred probes while the program uses so much of its CPU, each on a connection of its own; connecting counts.
    private static func probe(
        _ lanyard: LanyardProcess, over work: Duration
    ) throws -> (responses: Int, slowest: Duration) {
        var (responses, slowest) = (0, Duration.zero)
        let (pid, health) = (lanyard.process.pid, lanyard.health)
        let start = try ProcessorTime.preciseUsed(by: pid)
        for number in 0..<100 {
            try blockUntil("the program is at work before probe \(number)") {
                try ProcessorTime.preciseUsed(by: pid) >= start + work * number / 100
            }
            let asked = ContinuousClock.now
            let client = try RawClient(health)
            if try client.exchange("GET", number % 2 == 0 ? "/livez" : "/readyz", host: "\(health)").status == 200 {
                responses += 1
            }
            client.close()
            slowest = max(slowest, .now - asked)
        }
        return (responses, slowest)
    }
}
