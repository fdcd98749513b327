import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Output that could not be written is a failure: exit 74, and one line on standard error that says so.
@Suite struct FailedOutputTests {
    private static let words = "error: standard output cannot be written (No space left on device)"

    private let folder: TemporaryFolder
    private let configuration: String

    init() throws {
        folder = try TemporaryFolder()
        try folder.write("token", "a-token")
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("new", String(repeating: "n", count: 32))
        configuration = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: off
            admin: off
            identities: {fixed: {static: {token_file: token}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]
            store: {path: state/sessions, key_file: key}

            """)
    }

    private func lanyard(_ arguments: [String], _ launcher: [String] = []) async throws -> (
        exit: ServerProcess.Exit, output: String, errors: [String]
    ) {
        let command = launcher + [try Products.path("lanyard")] + arguments
        let process = try ServerProcess(command[0], Array(command.dropFirst()))
        let exit = try await process.waitForExit()
        return (exit, process.output, process.lines.map(\.text))
    }

    @Test(
        "a full disk",
        arguments: [
            ["version"], ["--help"], ["help"], ["run", "--help"], ["store", "rekey", "--help"],
            ["check", "--config", "FILE"], ["check", "--print-config", "--config", "FILE"],
            ["--generate-completion-script", "bash"],
        ])
    func full(_ arguments: [String]) async throws {
        let arguments = arguments.map { $0 == "FILE" ? configuration : $0 }
        let whole = try await lanyard(arguments)
        #expect(whole.exit == .code(0) && !whole.output.isEmpty && whole.errors.isEmpty)
        let failed = try await lanyard(arguments, Launcher.shell(redirections: ">/dev/full"))
        #expect(failed.exit == .code(74))
        #expect(failed.errors == [Self.words])
        let silent = try await lanyard(arguments, Launcher.shell(redirections: ">/dev/full 2>/dev/full"))
        #expect(silent.exit == .code(74))
    }

    @Test("lanyard-emulator says so too, for its help and for a mail")
    func emulator() async throws {
        let seed = try folder.write(
            "seed.yaml", "apps: [{app_id: demo-abcde, providers: {local-userpass: {confirmation: email}}}]")
        let service = try ServerProcess("lanyard-emulator", ["--listen", "127.0.0.1:0", "--seed", seed])
        let address = try await service.event("listening")["address"].string ?? ""
        let register = "/api/client/v2.0/app/demo-abcde/auth/providers/local-userpass/register"
        let account = #"{"email":"bob@example.com","password":"123456"}"#
        #expect(try await RawClient.ask(RawEndpoint(address), "POST", register, body: account).status == 201)
        let program = try Products.path("lanyard-emulator")
        for arguments in [["--help"], ["mail", "bob@example.com", "--emulator", "http://\(address)"]] {
            let whole = try ServerProcess(program, arguments)
            #expect(try await whole.waitForExit() == .code(0))
            #expect(!whole.output.isEmpty && whole.log.isEmpty)
            let command = Launcher.shell(redirections: ">/dev/full") + [program] + arguments
            let failed = try ServerProcess(command[0], Array(command.dropFirst()))
            #expect(try await failed.waitForExit() == .code(74), "\(arguments)")
            #expect(failed.log == Self.words)
        }
        #expect(try await service.terminate() == .signal(Int(SIGTERM)))
    }

    @Test("what was wrong before stays the exit code")
    func earlier() async throws {
        let launcher = Launcher.shell(redirections: ">/dev/full 2>/dev/full")
        #expect(try await lanyard(["bogus"], launcher).exit == .code(64))
        #expect(try await lanyard(["check", "--config", "/nonexistent"], launcher).exit == .code(78))
        #expect(try await lanyard(["health", "--health", "unix:/nonexistent"], launcher).exit == .code(1))
    }

    @Test("warnings of check are output, too")
    func warnings() async throws {
        try FileManager.default.removeItem(atPath: folder.file("token"))
        let arguments = ["check", "--config", configuration]
        let whole = try await lanyard(arguments)
        #expect(whole.exit == .code(0) && whole.errors.count == 1)
        #expect(try await lanyard(arguments, Launcher.shell(redirections: "2>/dev/full")).exit == .code(74))
    }

    @Test("store rekey has done its work, and says so on standard error")
    func rekey() async throws {
        let process = try ServerProcess("lanyard", ["run", "--config", configuration])
        try await process.event("serving")
        #expect(try await process.terminate() == .code(143))
        let rekey = ["store", "rekey", "--config", configuration, "--new-key-file", folder.file("new")]
        let outcome = try await lanyard(rekey, Launcher.shell(redirections: ">/dev/full"))
        #expect(outcome.exit == .code(74))
        #expect(outcome.errors.contains("\(folder.file("state/sessions")) is sealed with \(folder.file("new"))."))
        #expect(outcome.errors.last == Self.words)
        let renewed = try String(contentsOfFile: configuration, encoding: .utf8)
            .replacing("key_file: key", with: "key_file: new")
        try folder.write("lanyard.yaml", renewed)
        #expect(try await lanyard(["check", "--config", configuration]).exit == .code(0))
    }

    @Test("a reader that is gone, where SIGPIPE is ignored")
    func gone() async throws {
        let (go, code) = (folder.file("go"), folder.file("code"))
        try #require(mkfifo(go, 0o600) == 0)
        // The left side begins when the right one has closed the pipe.
        let script = """
            trap "" PIPE
            { read nothing <\(go); "$0" version; echo $? >\(code); } | { exec 0<&-; echo now >\(go); }
            """
        let shell = try ServerProcess("/bin/sh", ["-c", script, try Products.path("lanyard")])
        try await shell.waitForExit()
        #expect(try String(contentsOfFile: code, encoding: .utf8) == "74\n")
        #expect(shell.log == "error: standard output cannot be written (Broken pipe)")
    }

    @Test(
        "a pipe that another process has made non-blocking is waited for",
        .enabled("needs Python") { PythonProcess.isInstalled },
        arguments: [["run", "--help"], ["check", "--print-config", "--config", "FILE"]])
    func nonBlocking(_ arguments: [String]) async throws {
        let arguments = arguments.map { $0 == "FILE" ? configuration : $0 }
        let whole = try await lanyard(arguments).output
        let pipe = try NarrowPipe(in: folder)
        pipe.fill()
        let script = """
            import os, sys
            os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK), 1)
            os.execv(sys.argv[2], sys.argv[2:])
            """
        let program = [try Products.path("lanyard")] + arguments
        let process = try ServerProcess("/usr/bin/python3", ["-c", script, pipe.path] + program)
        var output = ""
        try await eventually("it ends") {
            output += pipe.take()
            return process.exit != nil
        }
        output += pipe.take()
        #expect(process.exit == .code(0), "\(process.log)")
        #expect(output.drop { $0 == NarrowPipe.filler } == whole)
    }
}
