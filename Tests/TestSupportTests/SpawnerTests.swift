import Glibc
import TestSupport
import Testing

@Suite struct SpawnerTests {
    @Test("a child is given stdin, stdout and stderr, and nothing else that a test has open at that moment")
    func inherited() async throws {
        // As every descriptor is between the call that makes it and the one that marks it close-on-exec.
        let unmarked = fcntl(0, F_DUPFD, 200)
        defer { close(unmarked) }
        #expect(unmarked >= 200)
        let lister = try ServerProcess("/bin/ls", ["/proc/self/fd"])
        #expect(try await lister.waitForExit() == .code(0))
        // The fourth is the one by which ls reads the folder.
        #expect(lister.output.split(separator: "\n") == ["0", "1", "2", "3"])
    }
}
