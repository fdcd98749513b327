import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// "Where the admin API is, and who may use it."
@Suite struct AdminSocketTests {
    private static let yaml = "routes: [{name: all, upstream: \"http://127.0.0.1:1\"}]\n"

    private static func mode(_ path: String) -> mode_t? {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_mode & 0o7777 : nil
    }

    @Test("curl speaks it: status names what was bound")
    func curl() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("admin.sock")
        let lanyard = try await LanyardProcess.start(
            Self.yaml, token: "t", admin: "{address: \"unix:\(path)\"}")
        let bound = try await lanyard.process.event("listening") { $0["listener"].string == "admin" }
        #expect(bound["address"].string == "unix:\(path)")
        #expect(Self.mode(path) == 0o600)
        let curl = try ServerProcess("/usr/bin/curl", ["-sS", "--unix-socket", path, "http://lanyard/v1/status"])
        #expect(try await curl.waitForExit() == .code(0))
        let status = try JSON(text: curl.output)
        #expect(status["listeners"].array.compactMap { $0["listener"].string } == ["data", "health", "admin"])
        #expect(status["listeners"][0]["address"].string == "\(lanyard.data)")
        #expect(status["version"].string?.isEmpty == false)
        #expect(status["users"][0]["name"].string == "alice")
        // Gone with the process.
        #expect(try await lanyard.process.terminate() == .code(143))
        #expect(Self.mode(path) == nil)
    }

    @Test("a socket that a killed process left behind is replaced; one that answers is not: 69")
    func stale() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("admin.sock")
        let admin = "{address: \"unix:\(path)\"}"
        let first = try await LanyardProcess.start(Self.yaml, token: "t", admin: admin)
        first.process.signal(SIGKILL)
        try await first.process.waitForExit()
        #expect(Self.mode(path) != nil)
        let second = try await LanyardProcess.start(Self.yaml, token: "t", admin: admin)
        _ = try await second.process.event("listening") { $0["listener"].string == "admin" }
        let third = try ServerProcess(
            "lanyard",
            [
                "run", "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("token", "t"), "--listen",
                "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--admin-address", "unix:\(path)",
            ])
        #expect(try await third.waitForExit() == .code(69))
        #expect(third.log.contains("is in use by another process"))
        #expect(try await RawClient.ask(.unix(path), "GET", "/v1/status").status == 200)
    }

    @Test(
        "a configured path that is a folder is 69, one that is too long 78; both name the path",
        arguments: [true, false])
    func unusable(_ isFolder: Bool) async throws {
        let folder = try TemporaryFolder()
        let path = isFolder ? folder.file("admin.sock") : "/tmp/" + String(repeating: "a", count: 103)
        if isFolder { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false) }
        let process = try ServerProcess(
            "lanyard",
            [
                "run", "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("token", "t"), "--listen",
                "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--admin-address", "unix:\(path)",
            ])
        #expect(try await process.waitForExit() == .code(isFolder ? 69 : 78))
        // A long value is shortened.
        #expect(process.log.contains(path.prefix(50)), "\(process.log)")
        if !isFolder { #expect(process.log.contains("at most 107 bytes"), "\(process.log)") }
    }

    @Test("by default it is in the runtime folder, which only its user may enter")
    func standard() async throws {
        let folder = try TemporaryFolder()
        let runtime = folder.file("lanyard")
        let process = try ServerProcess(
            "lanyard",
            [
                "run", "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("token", "t"), "--listen",
                "127.0.0.1:0", "--health-address", "127.0.0.1:0",
            ], environment: ["RUNTIME_DIRECTORY": runtime])
        let bound = try await process.event("listening") { $0["listener"].string == "admin" }
        #expect(bound["address"].string == "unix:\(runtime)/admin.sock")
        #expect(Self.mode(runtime) == 0o700)
        #expect(Self.mode(runtime + "/admin.sock") == 0o600)
        #expect(try await RawClient.ask(.unix(runtime + "/admin.sock"), "GET", "/v1/users").status == 200)
    }

    @Test("a default that cannot be had is a warning, and everything else works", arguments: ["taken", "open", "none"])
    func unavailable(_ why: String) async throws {
        let folder = try TemporaryFolder(shared: true)
        let runtime = folder.file("lanyard")
        var environment = ["RUNTIME_DIRECTORY": runtime]
        switch why {
        case "taken": try folder.write("lanyard", "a file")
        case "open":
            try FileManager.default.createDirectory(atPath: runtime, withIntermediateDirectories: false)
            chmod(runtime, 0o777)
        default: environment = [:]
        }
        let process = try ServerProcess(
            "lanyard",
            [
                "run", "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("token", "t", mode: 0o644),
                "--listen", "127.0.0.1:0", "--health-address", "127.0.0.1:0",
            ], environment: environment, as: why == "none" ? .nobody : .same)
        try await process.event("admin.unavailable")
        let health = try await process.event("listening") { $0["listener"].string == "health" }
        let endpoint = try RawEndpoint(health["address"].string ?? "")
        try await eventually("it is ready") { try await RawClient.ask(endpoint, "GET", "/readyz").status == 200 }
    }

    @Test("another user of the machine may not call, even where the socket's mode would let them")
    func otherAccounts() async throws {
        guard getuid() == 0 else { return }
        let folder = try TemporaryFolder(shared: true)
        let path = folder.file("admin.sock")
        let lanyard = try await LanyardProcess.start(Self.yaml, token: "t", admin: "{address: \"unix:\(path)\"}")
        let call = [
            "-sS", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", path, "http://x/v1/status",
        ]
        let denied = try ServerProcess("/usr/bin/curl", call, as: .nobody)
        #expect(try await denied.waitForExit() == .code(7))
        chmod(path, 0o666)
        let refused = try ServerProcess("/usr/bin/curl", call, as: .nobody)
        #expect(try await refused.waitForExit() == .code(0))
        #expect(refused.output == "403")
        let line = try await lanyard.process.event("admin.refused")
        #expect(line["reason"].string == "caller-not-allowed")
    }

    @Test("over TCP it needs the token")
    func tcp() async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("admin-token", "0123456789abcdef0123456789abcdef\n")
        let lanyard = try await LanyardProcess.start(
            Self.yaml, token: "t", admin: "{address: \"127.0.0.1:0\", token_file: \(token)}")
        let bound = try await lanyard.process.event("listening") { $0["listener"].string == "admin" }
        let endpoint = try RawEndpoint(bound["address"].string ?? "")
        #expect(try await RawClient.ask(endpoint, "GET", "/v1/status").status == 401)
        let fields = [("Authorization", "Bearer 0123456789abcdef0123456789abcdef")]
        try await eventually("the token counts") {
            try await RawClient.ask(endpoint, "GET", "/v1/status", fields: fields).status == 200
        }
        #expect(!lanyard.process.log.contains("0123456789abcdef0123456789abcdef"))
    }

    @Test("shutdown drains and ends with 0")
    func shutdown() async throws {
        let clock = try TestClock()
        let folder = try TemporaryFolder()
        let path = folder.file("admin.sock")
        let lanyard = try await LanyardProcess.start(
            Self.yaml + "shutdown: {drain_min: 2s}\n", token: "t", admin: "{address: \"unix:\(path)\"}", under: clock)
        clock.stop()
        #expect(try await RawClient.ask(.unix(path), "POST", "/v1/shutdown").status == 202)
        #expect(try await RawClient.ask(.unix(path), "POST", "/v1/shutdown").status == 202)
        #expect(try await lanyard.readiness().status == 503)
        try await clock.pass(until: "it ends", atMost: .seconds(60)) { lanyard.process.exit != nil }
        #expect(try await lanyard.process.waitForExit() == .code(0))
        #expect(lanyard.process.lines.count { $0.event == "shutdown.started" } == 1)
    }

    @Test("admin: off means that nothing listens")
    func off() async throws {
        let folder = try TemporaryFolder()
        let process = try ServerProcess(
            "lanyard",
            [
                "run", "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("token", "t"), "--listen",
                "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--admin-address", "off",
            ], environment: ["RUNTIME_DIRECTORY": folder.file("lanyard")])
        _ = try await process.event("listening") { $0["listener"].string == "health" }
        #expect(!process.lines.contains { $0.event == "admin.unavailable" || $0.json["listener"].string == "admin" })
        #expect(Self.mode(folder.file("lanyard")) == nil)
    }
}
