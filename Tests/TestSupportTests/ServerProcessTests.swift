import Glibc
import TestSupport
import Testing

@Suite struct ServerProcessTests {
    @Test("lines of stderr are read as they come, and the exit status at the end")
    func lines() async throws {
        let process = try ServerProcess(
            "/bin/sh",
            ["-c", #"echo '{"event":"listening","address":"127.0.0.1:1"}' >&2; printf tail >&2; env; exit 78"#],
            environment: ["A": "b"])
        #expect(try await process.event("listening")["address"].string == "127.0.0.1:1")
        #expect(try await process.waitForExit() == .code(78))
        #expect(process.lines.map(\.text).last == "tail")
        #expect(process.output.contains("A=b") && !process.output.contains("HOME="))
        await #expect(throws: TestFailure.self) { try await process.event("never") }
    }

    @Test("a signal reaches it, and shows in the exit")
    func signals() async throws {
        let process = try ServerProcess("/bin/sleep", ["60"])
        #expect(process.exit == nil)
        #expect(try await process.terminate() == .signal(15))
    }

    @Test("a process goes with its value")
    func goes() async throws {
        var process: ServerProcess? = try ServerProcess("/bin/sleep", ["60"])
        let pid = process!.pid
        process = nil
        try await eventually("the process is gone") { kill(pid, 0) != 0 }
    }

    @Test("as nobody it has uid and gid 65534 and no groups", .enabled(if: getuid() == 0))
    func nobody() async throws {
        let process = try ServerProcess("/bin/sh", ["-c", "id -u; id -g; id -G"], as: .nobody)
        #expect(try await process.waitForExit() == .code(0))
        #expect(process.output == "65534\n65534\n65534\n")
    }
}

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
