import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// An address that cannot be had ends the start with 69 and one line that says where it was given, why, and what to do.
@Suite struct AddressTests {
    private static let portsOfRoot: Int = {
        let text = try? String(contentsOfFile: "/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding: .utf8)
        return text.flatMap { Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) } ?? 1024
    }()

    private let folder: TemporaryFolder
    private let token: String

    init() throws {
        folder = try TemporaryFolder()
        token = try folder.write("token", "a-token")
    }

    /// The one line of a start that must fail.
    private func failure(
        _ arguments: [String], environment: [String: String] = [:], launcher: [String] = []
    ) async throws -> String {
        let command = launcher + [try Products.path("lanyard"), "run"] + arguments
        let process = try ServerProcess(command[0], Array(command.dropFirst()), environment: environment)
        let exit = try await process.waitForExit()
        #expect(exit == .code(69), "\(process.log)")
        // Without a warning about the machine's own limits.
        let lines = process.lines.filter { $0.json["level"].string != "warning" }
        #expect(lines.count == 1, "\(process.log)")
        #expect(lines.first?.event == "start.failed")
        return lines.first?.json["msg"].string ?? ""
    }

    private func file(_ listening: String) throws -> String {
        try folder.write(
            "lanyard.yaml",
            """
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]
            \(listening)

            """)
    }

    private var short: [String] { ["--upstream", "http://127.0.0.1:9", "--token-file", token] }

    @Test("an address in use in the file: its line and key")
    func inFile() async throws {
        let server = try RawServer()
        defer { server.stop() }
        let taken = server.endpoint
        var path = try file("health: off\nlisteners:\n  - address: 127.0.0.1:0\n  - address: \(taken)")
        #expect(
            try await failure(["--config", path])
                == "\(path):7:14: listeners[1].address: \(taken) is in use by another process; stop it, or choose another port"
        )
        path = try file("listeners: [{address: '127.0.0.1:0'}]\nhealth:\n  address: \(taken)")
        #expect(
            try await failure(["--config", path])
                == "\(path):6:12: health.address: \(taken) is in use by another process; stop it, or choose another port"
        )
    }

    @Test("an address in use given by a flag or a variable: its name")
    func elsewhere() async throws {
        let server = try RawServer()
        defer { server.stop() }
        let taken = server.endpoint
        let words = "\(taken) is in use by another process; stop it, or choose another port"
        let path = try file("listeners: [{address: '127.0.0.1:0'}]")
        #expect(
            try await failure(short + ["--listen", "\(taken)", "--health-address", "off"])
                == "--listen: listeners[0].address: \(words)")
        #expect(
            try await failure(["--config", path, "--health-address", "\(taken)"])
                == "--health-address: health.address: \(words)")
        #expect(
            try await failure(short, environment: ["LANYARD_LISTEN": "\(taken)", "LANYARD_HEALTH_ADDRESS": "off"])
                == "LANYARD_LISTEN: listeners[0].address: \(words)")
        #expect(
            try await failure(["--config", path], environment: ["LANYARD_HEALTH_ADDRESS": "\(taken)"])
                == "LANYARD_HEALTH_ADDRESS: health.address: \(words)")
    }

    @Test("a unix path: a server answers there, something else stands there, its folder is missing")
    func unix() async throws {
        let socket = folder.file("taken.sock")
        let server = try RawServer(at: .unix(socket))
        let flags = ["--config", try file("listeners: [{address: '127.0.0.1:0'}]"), "--health-address"]
        let said = "--health-address: health.address: unix:"
        #expect(
            try await failure(flags + ["unix:\(socket)"])
                == "\(said)\(socket) is in use by another process; stop it, or choose another path")
        #expect(
            try await failure(flags + ["unix:\(token)"])
                == "\(said)\(token) is taken by something that is not a socket; remove it, or choose another path")
        #expect(
            try await failure(flags + ["unix:\(folder.path)/none/a.sock"])
                == "\(said)\(folder.path)/none/a.sock lies in a folder that does not exist; make it, or choose another path"
        )
        server.stop()
        #expect(try String(contentsOfFile: token, encoding: .utf8) == "a-token")
    }

    @Test("a unix path whose owner has no room for another connection is in use; the start does not wait for it")
    func busy() async throws {
        let crowd = try CrowdedSocket(at: folder.file("busy.sock"))
        let flags = ["--config", try file("listeners: [{address: '127.0.0.1:0'}]"), "--health-address"]
        #expect(
            try await failure(flags + ["unix:\(crowd.path)"])
                == "--health-address: health.address: unix:\(crowd.path) is in use by another process; "
                + "stop it, or choose another path")
        #expect(crowd.accepted() == crowd.clientCount)
    }

    @Test("an address of another machine")
    func notHere() async throws {
        let path = try file("listeners:\n- {address: '192.0.2.1:7480', unsafe: true}")
        #expect(
            try await failure(["--config", path, "--health-address", "off"])
                == "\(path):5:13: listeners[0].address: 192.0.2.1:7480 is not an address of this machine; choose one that is"
        )
    }

    @Test(
        "a port of root's, and a folder of another user",
        .enabled("needs root, to give up its rights, and ports that are root's") {
            getuid() == 0 && Self.portsOfRoot > 81
        })
    func denied() async throws {
        let rights = ["/usr/bin/setpriv", "--bounding-set=-net_bind_service,-dac_override"]
        var path = try file("listeners: [{address: '127.0.0.1:81'}]")
        #expect(
            try await failure(["--config", path, "--health-address", "off"], launcher: rights)
                == "\(path):4:23: listeners[0].address: 127.0.0.1:81 may not be bound by this user (Permission denied); "
                + "choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE")
        path = try file("listeners: [{address: 'unix:\(folder.path)/a.sock'}]")
        #expect(chmod(folder.path, 0o500) == 0)
        defer { chmod(folder.path, 0o700) }
        #expect(
            try await failure(["--config", path, "--health-address", "off"], launcher: rights)
                == "\(path):4:23: listeners[0].address: unix:\(folder.path)/a.sock may not be bound by this user "
                + "(Permission denied); let it write to that folder, or choose another path")
    }

    @Test("a unix socket without a listener is replaced, and removed at the end")
    func stale() async throws {
        let path = folder.file("stale.sock")
        let old = try ServerProcess(
            "lanyard", ["run", "--listen", "unix:\(path)", "--health-address", "off"] + short)
        try await old.event("listening")
        old.signal(SIGKILL)
        try await old.waitForExit()
        #expect(FileManager.default.fileExists(atPath: path))
        let new = try ServerProcess(
            "lanyard", ["run", "--listen", "unix:\(path)", "--health-address", "off"] + short)
        try await new.event("listening")
        #expect(try await new.terminate() == .code(143))
        #expect(!FileManager.default.fileExists(atPath: path))
    }
}
