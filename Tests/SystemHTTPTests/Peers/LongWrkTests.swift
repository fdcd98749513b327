import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// wrk in front of the built binary, nginx behind it.
@Suite(
    .serialized,
    .enabled("needs wrk and nginx") { NginxProcess.isInstalled && access("/usr/bin/wrk", X_OK) == 0 })
struct LongWrkTests {
    @Test(
        "no request of wrk's fails: small and large responses, kept and closed connections, on TCP and unix upstreams",
        arguments: [
            ["/small"], ["/large"], ["/small", "Connection: close"], ["/listing"], ["/closing"],
            ["/small", "Authorization: Basic Zm9v"],
        ])
    func load(_ plan: [String]) async throws {
        let folder = try TemporaryFolder()
        let nginx = try await NginxProcess.start(
            """
            location /small { return 200 "ok"; }
            location /large { return 200 "\(String(repeating: "0123456789abcdef", count: 200))"; }
            location /listing { alias \(folder.path)/; autoindex on; }
            location /closing { keepalive_timeout 0; return 200 "gone"; }
            """, in: folder, http: "keepalive_requests 1000;")
        let lanyard = try await LanyardProcess.start(before: "\(nginx.endpoint)")
        let path = plan[0] == "/listing" ? "/listing/" : plan[0]
        let fields = plan.dropFirst().flatMap { ["-H", $0] }
        let wrk = try ServerProcess(
            "/usr/bin/wrk", ["-t1", "-c48", "-d4", "--timeout", "10s"] + fields + ["http://\(lanyard.data)\(path)"])
        #expect(try await wrk.waitForExit() == .code(0))
        let output = wrk.output
        #expect(!output.contains("Non-2xx") && !output.contains("Socket errors"), "\(output)")
        let requests = output.firstMatch(of: /(\d+) requests in/).flatMap { Int($0.1) } ?? 0
        #expect(requests > 200, "\(output)")
        #expect(try await lanyard.process.terminate() == .code(143))
        try await nginx.process.terminate()
    }
}
