import Foundation
import Glibc
import TestSupport
import Testing

@Suite struct DumpableTests {
    /// A process of the same user looks into another one: what it gets to see, nil if it may not.
    private static func environment(of pid: pid_t) async throws -> String? {
        let reader = try ServerProcess("/usr/bin/cat", ["/proc/\(pid)/environ"], as: .nobody)
        return try await reader.waitForExit() == .code(0) ? reader.output : nil
    }

    private static func owner(ofMemory pid: pid_t) throws -> uid_t {
        var status = stat()
        guard stat("/proc/\(pid)/mem", &status) == 0 else { throw TestFailure("/proc/\(pid)/mem: errno \(errno)") }
        return status.st_uid
    }

    @Test("the process can leave no core file, and another process of its user cannot look into it")
    func notDumpable() async throws {
        let folder = try TemporaryFolder(shared: true)
        let token = try folder.write("token", "a-token", mode: 0o644)
        let marker = ["MARKER": "seen-by-neighbours"]
        let lanyard = try ServerProcess(
            "lanyard",
            [
                "run", "--listen", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--upstream", "http://127.0.0.1:9",
                "--token-file", token,
            ], environment: marker, as: .nobody)
        try await lanyard.event("listening")
        let limits = try String(contentsOfFile: "/proc/\(lanyard.pid)/limits", encoding: .utf8)
        let core = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
        #expect(core.split(separator: " ").dropFirst(4).prefix(2) == ["0", "0"])
        // The kernel gives the folder of a process that is not dumpable to root.
        #expect(try Self.owner(ofMemory: lanyard.pid) == 0)
        #expect(try await Self.environment(of: lanyard.pid) == nil)
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("the same look into a process that allows it succeeds")
    func control() async throws {
        let neighbour = try ServerProcess(
            "/usr/bin/sleep", ["100"], environment: ["MARKER": "seen-by-neighbours"], as: .nobody)
        try await eventually("it is the program itself") {
            try String(contentsOfFile: "/proc/\(neighbour.pid)/comm", encoding: .utf8) == "sleep\n"
        }
        #expect(try Self.owner(ofMemory: neighbour.pid) == (getuid() == 0 ? 65534 : getuid()))
        #expect(try await Self.environment(of: neighbour.pid)?.contains("MARKER=seen-by-neighbours") == true)
    }
}
