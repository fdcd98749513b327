import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Descriptors 0 to 2 that are closed at the start lead nowhere; they never become a listener, a connection or a file of the store.
@Suite struct StandardDescriptorTests {
    private static let combinations = [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]

    private let folder: TemporaryFolder
    private let token: String

    init() throws {
        folder = try TemporaryFolder()
        token = try folder.write("token", "a-token")
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("new", String(repeating: "n", count: 32))
        guard mkdir(folder.file("state"), 0o700) == 0 else { throw TestFailure("mkdir: errno \(errno)") }
    }

    private func configuration(upstream: RawEndpoint) -> String {
        """
        listeners: [{address: "unix:\(folder.file("data"))"}]
        health: {address: "unix:\(folder.file("health"))"}
        admin: off
        identities: {fixed: {static: {token_file: \(token)}}}
        users: {alice: {identity: fixed}}
        routes: [{name: all, upstream: "http://\(upstream)"}]
        store: {path: \(folder.file("state/sessions")), key_file: \(folder.file("key"))}
        log: {level: debug}

        """
    }

    private func lanyard(_ launcher: [String], _ arguments: [String]) throws -> ServerProcess {
        let command = launcher + [try Products.path("lanyard")] + arguments
        return try ServerProcess(command[0], Array(command.dropFirst()))
    }

    /// The closed ones lead to /dev/null, the others to what the process was given.
    private func expectNothing(_ closed: [Int], _ pid: pid_t) {
        guard DescriptorTable.isReadable else { return }
        for descriptor in 0...2 {
            let target = DescriptorTable.target(of: descriptor, in: pid)
            if closed.contains(descriptor) || descriptor == 0 {
                #expect(target == "/dev/null", "\(descriptor)")
            } else {
                #expect(target?.hasPrefix("pipe:") == true, "\(descriptor): \(target ?? "closed")")
            }
        }
    }

    @Test("run: requests and the store hold what belongs to them, and no log line", arguments: combinations)
    func run(_ closed: [Int]) async throws {
        let upstream = try RawServer()
        let path = try folder.write("lanyard.yaml", configuration(upstream: upstream.endpoint))
        let process = try lanyard(Launcher.closing(closed), ["run", "--config", path])
        let health = RawEndpoint.unix(folder.file("health"))
        try await eventually("it is ready; it said:\n\(process.log)") {
            (try? await RawClient.ask(health, "GET", "/readyz"))?.status == 200
        }
        let bodies = (0..<8).map { "body \($0) " + String(repeating: "b", count: 2000) }
        for body in bodies {
            let response = try await RawClient.ask(.unix(folder.file("data")), "POST", "/", body: body)
            #expect(response.status == 200)
        }
        expectNothing(closed, process.pid)
        #expect(try await process.terminate() == .code(143))
        // Each client has its own connection, so the order upstream is another one.
        #expect(upstream.requests.map(\.bodyText).sorted() == bodies)
        for record in upstream.records {
            #expect(!String(decoding: record.bytes, as: UTF8.self).contains("\"event\""))
        }
        #expect(try Data(contentsOf: URL(filePath: folder.file("state/sessions.open"))).isEmpty)
        #expect(process.lines.contains { $0.event == "shutdown.finished" } == !closed.contains(2))
    }

    @Test(
        "run, check and store rekey, seen while they read their configuration",
        arguments: [["run"], ["check"], ["store", "rekey", "--new-key-file", "NEW"]], combinations)
    func reading(_ command: [String], _ closed: [Int]) async throws {
        let fifo = try Fifo(in: folder)
        let arguments = command.map { $0 == "NEW" ? folder.file("new") : $0 } + ["--config", fifo.path]
        let process = try lanyard(Launcher.closing(closed), arguments)
        let handle = try await fifo.opened()
        expectNothing(closed, process.pid)
        try handle.write(contentsOf: Data("routes: []\n".utf8))
        try handle.close()
        #expect(try await process.waitForExit() == .code(78))
        #expect(process.lines.isEmpty == closed.contains(2))
    }

    @Test("health, seen while it waits for a response", arguments: combinations)
    func health(_ closed: [Int]) async throws {
        let isSeen = Milestone()
        defer { isSeen.set() }
        let server = try RawServer { _ in .response(503, "Service Unavailable").after(isSeen, "it is seen") }
        let process = try lanyard(Launcher.closing(closed), ["health", "--health", "\(server.endpoint)"])
        try await eventually("it has asked") { !server.requests.isEmpty }
        expectNothing(closed, process.pid)
        isSeen.set()
        #expect(try await process.waitForExit() == .code(1))
        #expect(server.records.count == 1 && server.requests.allSatisfy { $0.body.isEmpty })
    }

    @Test("version, seen while its output is not read", arguments: [[0], [2], [0, 2]])
    func version(_ closed: [Int]) async throws {
        let pipe = try NarrowPipe(in: folder)
        pipe.fill()
        let redirections = closed.map { "\($0)>&-" }.joined(separator: " ") + " >\(pipe.path)"
        let process = try lanyard(Launcher.shell(redirections: redirections), ["version"])
        if DescriptorTable.isReadable {
            try await eventually("it has taken its place") {
                let name = try? String(contentsOfFile: "/proc/\(process.pid)/comm", encoding: .utf8)
                return name == "lanyard\n"
                    && closed.allSatisfy { DescriptorTable.target(of: $0, in: process.pid) == "/dev/null" }
            }
        }
        var output = ""
        try await eventually("it ends") {
            output += pipe.take()
            return process.exit != nil
        }
        #expect(process.exit == .code(0))
        output += pipe.take()
        #expect(output.drop { $0 == NarrowPipe.filler }.hasPrefix("lanyard "))
    }

    @Test("store rekey with all of them closed does its work", arguments: combinations)
    func rekey(_ closed: [Int]) async throws {
        let path = try folder.write(
            "lanyard.yaml", configuration(upstream: .tcp(9)).replacing("log: {level: debug}", with: ""))
        let first = try lanyard([], ["run", "--config", path])
        try await first.event("serving")
        #expect(try await first.terminate() == .code(143))
        let rekey = ["store", "rekey", "--config", path, "--new-key-file", folder.file("new")]
        #expect(try await lanyard(Launcher.closing(closed), rekey).waitForExit() == .code(0))
        #expect(try Data(contentsOf: URL(filePath: folder.file("state/sessions.open"))).isEmpty)
        // The old key opens it no more, the new one does.
        #expect(try await lanyard([], ["check", "--config", path]).waitForExit() == .code(78))
        let renewed = try String(contentsOfFile: path, encoding: .utf8)
            .replacing(folder.file("key"), with: folder.file("new"))
        let check = ["check", "--config", try folder.write("new.yaml", renewed)]
        #expect(try await lanyard([], check).waitForExit() == .code(0))
    }

    @Test(
        "without /dev/null a program that would need it does not start: exit 1, and with its three descriptors it does",
        .enabled("mounts are root's") { MountNamespace.isPossible })
    func withoutNull() async throws {
        // An empty folder in the place of /dev.
        let hidden = ["/usr/bin/unshare", "-m", "/bin/sh", "-c", "mount -t tmpfs none /dev && exec \"$@\"", "sh"]
        for closed in Self.combinations {
            let process = try lanyard(hidden + Launcher.closing(closed), ["version"])
            #expect(try await process.waitForExit() == .code(1))
            #expect(process.output.isEmpty)
            if !closed.contains(2) { #expect(process.log.contains("/dev/null"), "\(process.log)") }
        }
        #expect(try await lanyard(hidden, ["version"]).waitForExit() == .code(0))
    }

    @Test(
        "log lines go to a socket, as systemd's journal gives one",
        .enabled("needs Python") { PythonProcess.isInstalled },
        arguments: [[2], [0, 1, 2]])
    func socket(_ descriptors: [Int]) async throws {
        let listener = try RawSocket.listen(at: .unix(folder.file("journal")))
        let script = """
            import os, socket, sys
            s = socket.socket(socket.AF_UNIX)
            s.connect(sys.argv[1])
            for n in (\(descriptors.map { "\($0)," }.joined())): os.dup2(s.fileno(), n)
            s.close()
            os.execv(sys.argv[2], sys.argv[2:])
            """
        let upstream = try RawServer()
        let path = try folder.write("lanyard.yaml", configuration(upstream: upstream.endpoint))
        let launcher = ["/usr/bin/python3", "-c", script, folder.file("journal")]
        let process = try lanyard(launcher, ["run", "--config", path])
        let journal = try #require(listener.accept())
        let health = RawEndpoint.unix(folder.file("health"))
        try await eventually("it is ready") { (try? await RawClient.ask(health, "GET", "/readyz"))?.status == 200 }
        let response = try await RawClient.ask(.unix(folder.file("data")), "POST", "/", body: "a body")
        #expect(response.status == 200 && upstream.requests.first?.bodyText == "a body")
        #expect(try await process.terminate() == .code(143))
        var lines = ""
        while case let bytes = try journal.receive(), !bytes.isEmpty { lines += String(decoding: bytes, as: UTF8.self) }
        #expect(lines.contains("\"event\":\"listening\"") && lines.contains("\"event\":\"shutdown.finished\""))
        #expect(process.lines.isEmpty)
    }

    @Test("the emulator", arguments: combinations)
    func emulator(_ closed: [Int]) async throws {
        let command =
            Launcher.closing(closed) + [
                try Products.path("lanyard-emulator"), "--listen", "unix:\(folder.file("emulator"))",
            ]
        let process = try ServerProcess(command[0], Array(command.dropFirst()))
        try await eventually("it answers") {
            let response = try? await RawClient.ask(.unix(folder.file("emulator")), "GET", "/emulator/counts")
            return response?.status == 200
        }
        for descriptor in closed { #expect(DescriptorTable.target(of: descriptor, in: process.pid) == "/dev/null") }
        #expect(try await process.terminate() == .signal(Int(SIGTERM)))
    }
}
