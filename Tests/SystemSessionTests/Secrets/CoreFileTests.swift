import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Where the kernel puts core files (core(5)).
private enum CorePattern {
    /// They are in the process's folder. A pattern with a bar is a program; one with a slash, a place that processes share.
    static var isFile: Bool {
        let pattern = (try? String(contentsOfFile: "/proc/sys/kernel/core_pattern", encoding: .utf8)) ?? "|"
        return !pattern.contains("|") && !pattern.contains("/")
    }
}

/// No core file holds a secret, because there is none.
@Suite(
    .enabled(if: getuid() == 0, "needs root, to run as another user"),
    .enabled("core files go elsewhere here") { CorePattern.isFile })
struct CoreFileTests {
    private let folder: TemporaryFolder
    private let secret = "a-token-that-a-core-file-would-hold"

    init() throws {
        folder = try TemporaryFolder(shared: true)
        try folder.write("token", secret)
        try folder.give(to: 65534, group: 65534)
    }

    /// A process of another user, in the folder, with leave to write core files of any size.
    private func start(_ command: [String]) throws -> ServerProcess {
        let launcher = Launcher.shell("cd \(folder.file("")); ulimit -c unlimited")
        return try ServerProcess(
            launcher[0], launcher.dropFirst() + command, environment: ["MARKED": secret], as: .nobody)
    }

    /// Core files that hold the secret, and others.
    private func cores() throws -> (telling: Int, silent: Int) {
        let search = SecretSearch([("the token", secret)])
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.file("")).filter { $0.hasPrefix("core") }
        let telling = try names.count { name in
            let bytes = try Data(contentsOf: URL(filePath: folder.file(name)))
            return !search.finds(in: Array(bytes), of: name).isEmpty
        }
        return (telling, names.count - telling)
    }

    /// A dump that a debugger of the same user takes of the living process.
    private func dump(_ pid: pid_t) async throws -> ServerProcess.Exit {
        let debugger = try ServerProcess("/usr/bin/gcore", ["-o", folder.file("core"), "\(pid)"], as: .nobody)
        return try await debugger.waitForExit()
    }

    @Test("an abort of Lanyard leaves no core file, and a debugger of its user gets none")
    func lanyard() async throws {
        let lanyard = try start([
            try Products.path("lanyard"), "run", "--listen", "127.0.0.1:0", "--health-address", "127.0.0.1:0",
            "--admin-address", "off", "--upstream", "http://127.0.0.1:9", "--token-file", folder.file("token"),
        ])
        try await lanyard.event("session.token.changed")
        if access("/usr/bin/gcore", X_OK) == 0 { #expect(try await dump(lanyard.pid) != .code(0)) }
        lanyard.signal(SIGABRT)
        #expect(try await lanyard.waitForExit() == .signal(Int(SIGABRT)))
        #expect(!lanyard.log.contains("rsp 0x"), "no report of the registers and what they point to")
        #expect(try cores() == (0, 0))
    }

    @Test("another program in its place leaves one, in which the search finds the secret")
    func control() async throws {
        let sleeper = try start(["/usr/bin/sleep", "100"])
        try await eventually("it is the program itself") {
            try String(contentsOfFile: "/proc/\(sleeper.pid)/comm", encoding: .utf8) == "sleep\n"
        }
        sleeper.signal(SIGABRT)
        #expect(try await sleeper.waitForExit() == .signal(Int(SIGABRT)))
        #expect(try cores() == (1, 0))
    }
}
