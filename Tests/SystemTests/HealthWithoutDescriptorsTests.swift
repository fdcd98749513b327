import Foundation
import TestSupport
import Testing

@Suite struct HealthWithoutDescriptorsTests {
    @Test(
        "health answers when clients have used up every descriptor",
        .enabled("needs prlimit of util-linux") { access("/usr/bin/prlimit", X_OK) == 0 })
    func exhausted() async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "a-token")
        let lanyard = try await LanyardProcess.start(
            """
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]
            """)
        try await lanyard.untilReady()
        // The lowest free number is beyond the limit from now on: nothing new can be opened.
        let used = try Self.descriptors(of: lanyard)
        let limit = try #require((0...used.count).first { !used.contains($0) })
        let prlimit = try ServerProcess(
            "/usr/bin/prlimit", ["--pid", "\(lanyard.process.pid)", "--nofile=\(limit):\(limit)"])
        #expect(try await prlimit.waitForExit() == .code(0))
        let clients = try await offPool { try (0..<30).map { _ in try RawClient(lanyard.data) } }
        try await lanyard.process.event("listener.paused")
        for _ in 0..<20 {
            let start = ContinuousClock.now
            #expect(try await RawClient.ask(lanyard.health, "GET", "/livez").status == 200)
            #expect(try await lanyard.readiness().status == 200)
            #expect(ContinuousClock.now - start < .seconds(1))
        }
        // Several at once, as a probe and a scraper may come; and kept connections give theirs back.
        try await offPool {
            let both = try (0..<3).map { _ in try RawClient(lanyard.health) }
            for client in both { #expect(try client.exchange("GET", "/metrics", host: "127.0.0.1").status == 200) }
            both.forEach { $0.close() }
        }
        #expect(try await lanyard.readiness().status == 200)
        clients.forEach { $0.close() }
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    private static func descriptors(of lanyard: LanyardProcess) throws -> Set<Int> {
        let names = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(lanyard.process.pid)/fd")
        return Set(names.compactMap { Int($0) })
    }
}
