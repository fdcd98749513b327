import Foundation
import Glibc
import TestSupport
import Testing

@Suite struct DumpableTests {
    @Test("the process can leave no core file, and another process of its user cannot read its memory")
    func notDumpable() async throws {
        let folder = try TemporaryFolder(shared: true)
        let token = try folder.write("token", "a-token", mode: 0o644)
        let lanyard = try ServerProcess(
            "lanyard",
            [
                "run", "--listen", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--upstream", "http://127.0.0.1:9",
                "--token-file", token,
            ])
        try await lanyard.event("listening")
        let limits = try String(contentsOfFile: "/proc/\(lanyard.pid)/limits", encoding: .utf8)
        let core = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
        #expect(core.split(separator: " ").dropFirst(4).prefix(2) == ["0", "0"])
        // The kernel gives the folder of a process that is not dumpable to root.
        var status = stat()
        #expect(stat("/proc/\(lanyard.pid)/mem", &status) == 0 && status.st_uid == 0)
        if getuid() != 0 { #expect(open("/proc/\(lanyard.pid)/mem", O_RDONLY) < 0) }
        #expect(try await lanyard.terminate() == .code(143))
    }
}
