import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

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
        try await Self.expectClosed(lanyard.pid)
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("so it is with store rekey, which has both keys and all sessions while it waits for the file's lock")
    func rekey() async throws {
        let folder = try TemporaryFolder(shared: true)
        let configuration = try Self.configure(folder)
        let lanyard = try ServerProcess("lanyard", ["run", "--config", configuration], as: .nobody)
        try await lanyard.event("listening")
        #expect(try await lanyard.terminate() == .code(143))
        let lock = open(folder.file("store/sessions.lock"), O_RDWR | O_CLOEXEC)
        defer { close(lock) }
        try #require(flock(lock, LOCK_EX | LOCK_NB) == 0)
        let rekey = try ServerProcess(
            "lanyard", ["store", "rekey", "--config", configuration, "--new-key-file", folder.file("new")],
            environment: ["MARKER": "seen-by-neighbours"], as: .nobody)
        try await eventually("rekey has the store to itself") {
            try String(contentsOfFile: "/proc/locks", encoding: .utf8).contains(" \(rekey.pid) ")
        }
        try await Self.expectClosed(rekey.pid)
        flock(lock, LOCK_UN)
        #expect(try await rekey.waitForExit() == .code(0), "\(rekey.log)")
    }

    @Test("so it is with check, which reads the store and its key, from before it reads its configuration")
    func check() async throws {
        let folder = try TemporaryFolder(shared: true)
        let yaml = try String(contentsOfFile: try Self.configure(folder), encoding: .utf8)
        unlink(folder.file("lanyard.yaml"))
        let fifo = try Fifo(in: folder)
        if getuid() == 0 { chown(fifo.path, 65534, 65534) }
        let check = try ServerProcess(
            "lanyard", ["check", "--config", fifo.path], environment: ["MARKER": "seen-by-neighbours"], as: .nobody)
        let configuration = try await fifo.opened()
        try await Self.expectClosed(check.pid)
        try configuration.write(contentsOf: Data(yaml.utf8))
        try configuration.close()
        #expect(try await check.waitForExit() == .code(0), "\(check.log)")
    }

    /// A Lanyard with a store in a folder of its own; all of it belongs to user `nobody`.
    private static func configure(_ folder: TemporaryFolder) throws -> String {
        guard mkdir(folder.file("store"), 0o700) == 0 else { throw TestFailure("mkdir: errno \(errno)") }
        try folder.write("token", "t")
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("new", String(repeating: "n", count: 32))
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            identities: {fixed: {static: {token_file: token}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]
            store: {path: store/sessions, key_file: key}

            """)
        if getuid() == 0 { try folder.give(to: 65534, group: 65534) }
        return path
    }

    /// No core file, and only root may look into it.
    private static func expectClosed(_ pid: pid_t) async throws {
        let limits = try String(contentsOfFile: "/proc/\(pid)/limits", encoding: .utf8)
        let core = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
        #expect(core.split(separator: " ").dropFirst(4).prefix(2) == ["0", "0"])
        // The kernel gives the folder of a process that is not dumpable to root.
        #expect(try owner(ofMemory: pid) == 0)
        #expect(try await environment(of: pid) == nil)
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
