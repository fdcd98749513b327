import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// libcurl is loaded while the program runs: when, and what follows if it cannot be.
@Suite(.enabled("needs mounts of its own") { MountNamespace.isPossible && LoadedLibrary.path != nil })
struct IdentityLibraryTests {
    private static let calling = """
        identities: {demo: {app_services: {app_id: demo-abcde, base_url: "http://127.0.0.1:9"}}}
        users: {alice: {identity: demo, login: {anonymous: {}}}}
        routes: [{name: all, upstream: "http://127.0.0.1:9"}]

        """

    /// A file that is no library hides libcurl.
    private static func launcher(hiding folder: TemporaryFolder) throws -> [String] {
        let empty = try folder.write("empty", "")
        return MountNamespace.launcher([(empty, try #require(LoadedLibrary.path))])
    }

    private static func file(_ yaml: String, in folder: TemporaryFolder) throws -> String {
        try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            admin: off
            log: {level: debug}

            """ + yaml)
    }

    @Test("an identity that makes calls: libcurl is loaded before the second thread, without a call")
    func beforeThreads() async throws {
        // No user: nothing is ever called.
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              demo: {app_services: {app_id: demo-abcde, base_url: "http://127.0.0.1:9"}}
              fixed: {static: {token_file: /dev/null}}
            users: {bob: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]
            log: {level: debug}
            """)
        try await lanyard.process.event("listening")
        #expect(LoadedLibrary.isLoaded(by: lanyard.process.pid))
        if !Sanitizer.isOn { #expect(try await lanyard.process.event("start.bound")["threads"].int == 1) }
        #expect(!lanyard.process.lines.contains { $0.event == "start.threads" })
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("without libcurl: the start fails with 69, check with 78, and both name identity, library and package")
    func missing() async throws {
        let folder = try TemporaryFolder()
        let path = try Self.file(Self.calling, in: folder)
        let launcher = try Self.launcher(hiding: folder)
        for (command, code) in [("run", 69), ("check", 78)] {
            let all = launcher + [try Products.path("lanyard"), command, "--config", path]
            let lanyard = try ServerProcess(all[0], Array(all.dropFirst()))
            #expect(try await lanyard.waitForExit() == .code(code))
            let text = lanyard.log
            for part in ["lanyard.yaml:5", "libcurl.so.4", "libcurl4", "install or repair"] {
                #expect(text.contains(part), "\(command): \(text)")
            }
            guard command == "run" else { continue }
            let line = try await lanyard.event("start.failed")
            #expect(line["reason"].string == "libcurl")
            #expect(line["place"].string?.contains("lanyard.yaml:5") == true, "\(line)")
        }
    }

    @Test(
        "tokens of files need no libcurl: a reload that adds a call fails while it is missing, and succeeds once it is back"
    )
    func reload() async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "a-token")
        let fixed = """
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]

            """
        let path = try Self.file(fixed, in: folder)
        let all = try Self.launcher(hiding: folder) + [try Products.path("lanyard"), "run", "--config", path]
        let lanyard = try ServerProcess(all[0], Array(all.dropFirst()))
        try await lanyard.event("listening") { $0["listener"].string == "health" }
        _ = try Self.file(Self.calling, in: folder)
        lanyard.signal(SIGHUP)
        let failed = try await lanyard.event("reload.failed")
        #expect(failed["reason"].string?.contains("libcurl") == true, "\(failed)")
        #expect(!LoadedLibrary.isLoaded(by: lanyard.pid))
        let target = try #require(LoadedLibrary.path)
        let back = try ServerProcess("/usr/bin/nsenter", ["-t", "\(lanyard.pid)", "-m", "umount", target])
        #expect(try await back.waitForExit() == .code(0))
        lanyard.signal(SIGHUP)
        try await lanyard.event("reload.applied")
        #expect(LoadedLibrary.isLoaded(by: lanyard.pid))
        // The service of port 9 does not respond: the call was made.
        try await lanyard.event("session.login.failed")
        #expect(!lanyard.log.contains("libcurl cannot be loaded"))
        #expect(try await lanyard.terminate() == .code(143))
    }
}

/// libcurl on this machine, and in a process.
private enum LoadedLibrary {
    /// The library's own file, behind its link; nil: it is in no usual folder.
    static let path: String? = {
        let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]
        let link: String? = folders.map { $0 + "/libcurl.so.4" }.first { access($0, F_OK) == 0 }
        guard let link, let path = realpath(link, nil) else { return nil }
        defer { free(path) }
        return String(cString: path)
    }()

    static func isLoaded(by pid: pid_t) -> Bool {
        (try? ProcFile.text("/proc/\(pid)/maps").contains("libcurl.so")) ?? false
    }
}
