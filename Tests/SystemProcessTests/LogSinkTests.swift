import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// A log that cannot be written costs lines, which are counted, and nothing else.
@Suite struct LogSinkTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private var health: RawEndpoint { .unix(folder.file("health")) }

    /// Starts it behind a launcher, waits until it is ready, and sends requests.
    private func serve(_ launcher: [String], requests: Int = 50) async throws -> ServerProcess {
        let upstream = try RawServer(requestsKeptMax: 0)
        let data = RawEndpoint.unix(folder.file("in"))
        let command =
            launcher + [
                try Products.path("lanyard"), "run", "--upstream", "http://\(upstream.endpoint)", "--token-file",
                try folder.write("token", "t"), "--listen", "\(data)", "--health-address", "\(health)",
                "--admin-address", "off",
            ]
        let lanyard = try ServerProcess(command[0], Array(command.dropFirst()))
        // Before its thread runs, each line waits a second for a reader.
        try await eventually("it is ready; \(lanyard.log)") {
            if let exit = lanyard.exit { throw TestFailure("it ended: \(exit); \(lanyard.log)") }
            return (try? await RawClient.ask(health, "GET", "/readyz"))?.status == 200
        }
        for _ in 0..<requests { #expect(try await RawClient.ask(data, "GET", "/x").status == 200) }
        return lanyard
    }

    private func droppedLines() async throws -> Int {
        let page = try await RawClient.ask(health, "GET", "/metrics").body
        let samples = try ExpositionReader(page, openMetrics: false).samples
        return Int(try #require(samples.first { $0.name == "lanyard_log_lines_dropped_total" }?.value))
    }

    @Test("a file that can be written again after a line was cut: the next line begins on a line of its own")
    func roomAgain() async throws {
        let blocks = 4096
        let log = try folder.write("log", "")
        try #require(truncate(log, blocks * 512 - 1024) == 0)
        let lanyard = try await serve(Launcher.shell("ulimit -S -f \(blocks)", redirections: "2>>\(log)"))
        try await eventually("lines are lost") { try await droppedLines() >= 40 }
        let raised = try ServerProcess("/usr/bin/prlimit", ["--pid", "\(lanyard.pid)", "--fsize=unlimited:unlimited"])
        try #require(try await raised.waitForExit() == .code(0), "\(raised.log)")
        for _ in 0..<3 {
            // The upstream has gone: each request has two lines.
            #expect(try await RawClient.ask(.unix(folder.file("in")), "GET", "/after").status == 502)
        }
        #expect(try await lanyard.terminate() == .code(143))
        let text = String(decoding: try Data(contentsOf: URL(fileURLWithPath: log)).drop { $0 == 0 }, as: UTF8.self)
        let lines = text.split(separator: "\n")
        #expect(lines.count { $0.contains("/after") } == 6)
        #expect(lines.allSatisfy { $0.ranges(of: "\"time\":").count <= 1 }, "\(text)")
    }

    private func expectOnlyLinesLost(_ launcher: [String], requests: Int = 50) async throws {
        let lanyard = try await serve(launcher, requests: requests)
        try await eventually("the lost lines are counted") { try await droppedLines() >= 40 }
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("/dev/full")
    func full() async throws { try await expectOnlyLinesLost(Launcher.shell(redirections: "2>/dev/full")) }

    @Test("a file at the limit of the process's file size")
    func fileSize() async throws {
        // In blocks of 512 bytes. The log is a kilobyte short of the limit, which leaves enough for the file that the thread sanitizer
        // writes and maps at its start.
        let blocks = 4096
        let log = try folder.write("log", "")
        try #require(truncate(log, blocks * 512 - 1024) == 0)
        try await expectOnlyLinesLost(Launcher.shell("ulimit -f \(blocks)", redirections: "2>>\(log)"))
    }

    @Test("a file on a full disk", .enabled("needs root and mount namespaces") { MountNamespace.isPossible })
    func disk() async throws {
        let script = "mount -t tmpfs -o size=4k tmpfs /mnt && exec \"$@\" 2>>/mnt/log"
        // A page holds about twenty lines.
        try await expectOnlyLinesLost(["/usr/bin/unshare", "-m", "/bin/sh", "-c", script, "sh"], requests: 150)
    }

    @Test("a pipe that is never read, from the start to the stop")
    func neverRead() async throws {
        let pipe = try NarrowPipe(in: folder)
        pipe.fill()
        let lanyard = try await serve(Launcher.shell(redirections: "2>\(pipe.path)"))
        #expect(try await lanyard.terminate() == .code(143))
        #expect(pipe.isFull)
    }
}
