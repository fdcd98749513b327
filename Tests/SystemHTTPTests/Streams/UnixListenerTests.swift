import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// A listener's unix path: its permissions, and whose it is when something else stands there.
@Suite struct UnixListenerTests {
    private let folder: TemporaryFolder
    private let path: String
    private let token: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.file("data.sock")
        token = try folder.write("token", "a-token")
    }

    private static func mode(_ path: String) -> mode_t? {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_mode & 0o7777 : nil
    }

    private func configuration(_ mode: String = "0600") throws -> String {
        try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "unix:\(path)", socket_mode: \(mode), unsafe: \(mode == "0666")}]
            health: off
            admin: off
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]

            """)
    }

    private func start(_ configuration: String, _ launcher: [String] = []) throws -> ServerProcess {
        let command = launcher + [try Products.path("lanyard"), "run", "--config", configuration]
        return try ServerProcess(command[0], Array(command.dropFirst()))
    }

    @Test(
        "the socket has socket_mode exactly, whatever the umask, and the process keeps its umask",
        arguments: ["0600", "0660", "0666"], ["000", "022", "077", "177"])
    func modes(_ mode: String, _ umask: String) async throws {
        let lanyard = try start(configuration(mode), Launcher.shell("umask \(umask)"))
        try await lanyard.event("listening")
        #expect(Self.mode(path) == mode_t(mode, radix: 8))
        let status = try String(contentsOfFile: "/proc/\(lanyard.pid)/status", encoding: .utf8)
        #expect(status.contains("Umask:\t0\(umask)\n"))
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test(
        "the folder that is made for the admin socket, and the socket in it", arguments: ["000", "022", "077", "177"])
    func adminFolder(_ umask: String) async throws {
        let runtime = folder.file("lanyard")
        let command =
            Launcher.shell("umask \(umask)") + [
                try Products.path("lanyard"), "run", "--upstream", "http://127.0.0.1:1", "--token-file", token,
                "--listen",
                "127.0.0.1:0", "--health-address", "off",
            ]
        let lanyard = try ServerProcess(
            command[0], Array(command.dropFirst()), environment: ["RUNTIME_DIRECTORY": runtime])
        try await lanyard.event("listening") { $0["listener"].string == "admin" }
        #expect(Self.mode(runtime) == 0o700)
        #expect(Self.mode(runtime + "/admin.sock") == 0o600)
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("data, health and admin take an empty Host and refuse a missing one; curl sends the first by -H 'Host;'")
    func emptyHost() async throws {
        let upstream = try RawServer()
        let (health, admin) = (folder.file("health"), folder.file("admin"))
        let configuration = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "unix:\(path)"}]
            health: {address: "unix:\(health)"}
            admin: {address: "unix:\(admin)"}
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://\(upstream.endpoint)", host: client}]

            """)
        let lanyard = try start(configuration)
        try await eventually("it is ready") {
            (try? await RawClient.ask(.unix(health), "GET", "/readyz"))?.status == 200
        }
        for (socket, target) in [(path, "/x"), (health, "/livez"), (health, "/metrics"), (admin, "/v1/status")] {
            for field in ["Host:", "Host: "] {
                let client = try RawClient(.unix(socket))
                defer { client.close() }
                try client.send("GET \(target) HTTP/1.1\r\n\(field)\r\n\r\n")
                #expect(try client.response().status == 200, "\(target) \(field)")
                try client.send("GET \(target) HTTP/1.1\r\n\r\n")
                #expect(try client.response().status == 400, "\(target)")
            }
            let curl = try ServerProcess(
                "/usr/bin/curl",
                ["-s", "-f", "-o", "/dev/null", "-H", "Host;", "--unix-socket", socket, "http://x\(target)"])
            #expect(try await curl.waitForExit() == .code(0), "\(target)")
        }
        let hosts = upstream.requests.map { $0["Host"] }
        #expect(hosts == Array(repeating: "\(upstream.endpoint)", count: 3))
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test(
        "a link that takes the socket's place as soon as it is bound: nothing is changed behind it, and nothing listens",
        .enabled("needs strace and root") { SystemCallTrace.isPossible && getuid() == 0 })
    func swapped() async throws {
        let victim = try folder.write("victim", "another's")
        // Stopped by a signal within the first bind, which is the data listener's.
        let trace = SystemCallTrace.launcher(["bind"], to: folder.file("trace"))
        let lanyard = try start(configuration("0666"), trace + ["-e", "inject=bind:signal=SIGSTOP:when=1"])
        try await eventually("it has bound and stands still") {
            Self.mode(path) != nil && lanyard.threadStates.first.map { "Tt".contains($0) } == true
        }
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: victim)
        lanyard.signal(SIGCONT)
        #expect(try await lanyard.waitForExit() == .code(69), "\(lanyard.log)")
        #expect(Self.mode(victim) == 0o600)
        #expect(try String(contentsOfFile: victim, encoding: .utf8) == "another's")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: path) == victim)
    }

    @Test("the end of a process leaves its successor's socket alone")
    func successor() async throws {
        let file = try configuration()
        let first = try start(file)
        try await first.event("listening")
        try FileManager.default.removeItem(atPath: path)
        let second = try start(file)
        try await second.event("listening")
        #expect(try await first.terminate() == .code(143))
        // Asked without waiting for an upstream: that it answers at all is what counts.
        #expect(try await RawClient.ask(.unix(path), "GET", "/").status > 0)
        #expect(try await second.terminate() == .code(143))
        #expect(Self.mode(path) == nil)
    }

    @Test("the end of a process leaves alone what another program has put in the place of its socket")
    func replaced() async throws {
        let lanyard = try start(configuration())
        try await lanyard.event("listening")
        try FileManager.default.removeItem(atPath: path)
        try folder.write("data.sock", "a file")
        #expect(try await lanyard.terminate() == .code(143))
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "a file")
    }

    @Test("a start that fails after it has bound leaves no socket behind")
    func failed() async throws {
        let server = try RawServer()
        defer { server.stop() }
        let text = try String(contentsOfFile: configuration(), encoding: .utf8)
            .replacing("health: off", with: "health: {address: \"\(server.endpoint)\"}")
        let lanyard = try start(folder.write("lanyard.yaml", text))
        #expect(try await lanyard.waitForExit() == .code(69))
        #expect(Self.mode(path) == nil)
    }
}
