import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Programs where /proc is not mounted: in a chroot, or below `RootDirectory=` of systemd. They do what they were asked for, and no command
/// that was not done exits with 0.
@Suite(.enabled("mounts are root's") { MountNamespace.isPossible })
struct WithoutProcTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// A program under an empty folder in the place of /proc.
    private func process(_ program: String, _ arguments: [String]) throws -> ServerProcess {
        let hidden = ["-m", "/bin/sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"]
        return try ServerProcess("/usr/bin/unshare", hidden + [try Products.path(program)] + arguments)
    }

    @Test("run serves requests, and health, metrics, status and shutdown reach it")
    func run() async throws {
        let upstream = try RawServer()
        let admin = "unix:\(folder.file("admin.sock"))"
        let token = try folder.write("token", "a-token")
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            admin: {address: "\(admin)"}
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://\(upstream.endpoint)"}]

            """)
        let lanyard = try process("lanyard", ["run", "--config", path])
        let data = try await lanyard.event("listening") { $0["listener"].string == "data" }
        let health = try await lanyard.event("listening") { $0["listener"].string == "health" }["address"].string ?? ""
        try await eventually("it is ready") {
            (try? await RawClient.ask(RawEndpoint(health), "GET", "/readyz"))?.status == 200
        }
        let response = try await RawClient.ask(RawEndpoint(data["address"].string ?? ""), "GET", "/")
        #expect(response.status == 200)
        #expect(upstream.requests.first?.values("Authorization") == ["Bearer a-token"])
        let page = try await RawClient.ask(RawEndpoint(health), "GET", "/metrics")
        // What only /proc knows is left out.
        #expect(page.status == 200 && page.bodyText.contains("\nprocess_max_fds "))
        #expect(!page.bodyText.contains("\nprocess_open_fds "))

        let ready = try process("lanyard", ["health", "--ready", "--health", health])
        #expect(try await ready.waitForExit() == .code(0))
        let check = try process("lanyard", ["check", "--config", path])
        #expect(try await check.waitForExit() == .code(0))
        #expect(check.output == "The configuration is valid.\n")
        let status = try process("lanyard", ["status", "--json", "--admin", admin])
        #expect(try await status.waitForExit() == .code(0))
        #expect(try JSON(text: status.output)["active_user"].string == "alice")
        let shutdown = try process("lanyard", ["shutdown", "--admin", admin])
        #expect(try await shutdown.waitForExit() == .code(0))
        #expect(try await lanyard.waitForExit() == .code(0))
    }

    @Test(
        "a command that is not done does not exit with 0",
        arguments: [
            (["run", "--config", "/nowhere.yaml"], 78), (["check", "--config", "/nowhere.yaml"], 78),
            (["health", "--ready", "--health", "127.0.0.1:1"], 1), (["status", "--admin", "unix:/nowhere"], 69),
            (["wait", "--max", "1ms", "--health", "127.0.0.1:1"], 75), (["store"], 64), (["loign"], 64),
            (["route", "GET", "/", "--config", "/nowhere.yaml"], 78),
        ])
    func undone(_ arguments: [String], _ code: Int) async throws {
        let lanyard = try process("lanyard", arguments)
        #expect(try await lanyard.waitForExit() == .code(code))
        #expect(lanyard.output.isEmpty, "\(lanyard.output)")
    }

    @Test("the emulator listens where it was told to, and its other command asks it")
    func emulator() async throws {
        let socket = folder.file("emulator")
        let emulator = try process("lanyard-emulator", ["--listen", "unix:\(socket)", "--app", "other-fghij"])
        #expect(try await emulator.event("listening")["app"].string == "other-fghij")
        let mail = try process("lanyard-emulator", ["mail", "a@example.com", "--emulator", "unix:\(socket)"])
        #expect(try await mail.waitForExit() == .code(1))
        #expect(mail.log.contains("a@example.com"))
        let unknown = try process("lanyard-emulator", ["mial"])
        #expect(try await unknown.waitForExit() == .code(64))
        #expect(try await emulator.terminate() == .signal(Int(SIGTERM)))
    }

    @Test("the simulation refuses a flag that it does not know")
    func simulation() async throws {
        let simulation = try process("lanyard-simulation", ["--nothing", "1"])
        #expect(try await simulation.waitForExit() == .code(64))
    }
}
