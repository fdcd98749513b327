import Foundation
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard top` in a terminal.
@Suite struct TopCommandTests {
    /// A terminal of tmux that runs a command. Its server ends with it.
    private final class Tmux: Sendable {
        static let path = "/usr/bin/tmux"
        private let socket: String
        private let folder: TemporaryFolder
        /// In the foreground, so that it ends with this.
        private let server: ServerProcess

        init(_ command: [String], columns: Int = 200, rows: Int = 40) async throws {
            folder = try TemporaryFolder()
            let socket = folder.file("tmux")
            self.socket = socket
            server = try ServerProcess(
                Self.path, ["-D", "-S", socket, "-f", "/dev/null"], environment: Self.environment)
            try await eventually("tmux listens") { access(socket, F_OK) == 0 }
            let words = command.map { "'\($0)'" }.joined(separator: " ")
            // The screen stays when the command has ended, and shows its exit status.
            _ = try await run([
                "new-session", "-d", "-x", "\(columns)", "-y", "\(rows)",
                "\(words); echo \"ended with $?\"; exec cat",
            ])
        }

        private static let environment = ["TERM": "xterm-256color", "LANG": "C.UTF-8"]

        private func run(_ arguments: [String]) async throws -> String {
            let process = try ServerProcess(Self.path, ["-S", socket] + arguments, environment: Self.environment)
            let exit = try await process.waitForExit()
            guard exit == .code(0) else { throw TestFailure("tmux \(arguments): \(exit) \(process.log)") }
            return process.output
        }

        func press(_ keys: String...) async throws { _ = try await run(["send-keys"] + keys) }

        var screen: String { get async throws { try await run(["capture-pane", "-p"]) } }

        func shows(_ text: String) async throws {
            try await eventually("the screen shows \(text)") { try await screen.contains(text) }
        }
    }

    @Test(
        "in tmux: the status live; keys choose a user, refresh, log in, switch, set the log level, follow a route's log, and end it",
        .enabled("needs tmux: apt-get install tmux") { access(Tmux.path, X_OK) == 0 })
    func keys() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, rest: "log: {access: true}")
        let running = try await device.start()
        try await running.untilReady()
        try await eventually("bob is logged in, too") {
            try await running.admin.status()["bob"]?.state == "inactive"
        }
        let lanyard = try Products.path("lanyard")
        let terminal = try await Tmux([lanyard, "top", "--admin", "\(running.admin.endpoint)"])
        try await terminal.shows("ready")
        try await terminal.shows("q quit")
        #expect(try await terminal.screen.contains("ROUTE"))
        let refreshes = try await emulator.calls("refresh")
        try await terminal.press("r")
        try await terminal.shows("refresh of alice: done")
        #expect(try await emulator.calls("refresh") == refreshes + 1)
        try await terminal.press("Down", "u")
        try await terminal.shows("switch to bob: done")
        try await terminal.shows("bob is active")
        try await terminal.press("l")
        try await terminal.shows("login of bob: done")
        try await terminal.press("d")
        try await terminal.shows("the log level is debug")
        try await terminal.press("d")
        try await terminal.shows("the log level is info")
        // The first route is the one that pins alice.
        try await terminal.press("f")
        try await terminal.shows("log of route alice")
        _ = try await RawClient.ask(running.data, "GET", "/as/alice/hello")
        _ = try await RawClient.ask(running.data, "GET", "/as/bob/hello")
        try await terminal.shows("path=/as/alice/hello")
        #expect(try await !terminal.screen.contains("/as/bob/hello"))
        try await terminal.press("Tab")
        try await terminal.shows("log of route bob")
        try await terminal.shows("/as/bob/hello")
        try await terminal.press("Escape")
        try await terminal.shows("ROUTE")
        try await running.kill()
        try await terminal.shows("no Lanyard responds")
        try await terminal.press("q")
        try await terminal.shows("ended with 0")
    }

    @Test("the terminal is given back: at q, and when a signal ends it; no terminal is a usage error")
    func terminal() async throws {
        let bench = try ScriptedAdmin([
            "GET /v1/log-level": ScriptedAdmin.json(#"{"level":"info","configured":"info"}"#)
        ])
        for signal in [nil, SIGINT, SIGTERM] as [CInt?] {
            let terminal = try PseudoTerminal(columns: 100)
            let top = try ServerProcess(
                "lanyard", ["top", "--interval", "100ms"] + bench.flags, environment: ["TERM": "xterm"],
                input: .terminal(terminal, showsOutput: true))
            try await terminal.shows("lanyard 0.0.9")
            #expect(!terminal.echoes && terminal.screen.contains("\u{1b}[?1049h"))
            if let signal { top.signal(signal) } else { try terminal.type("q") }
            #expect(try await top.waitForExit() == signal.map { .signal(Int($0)) } ?? .code(0))
            #expect(terminal.echoes)
            try await terminal.shows("\u{1b}[?1049l")
        }
        let run = try await CommandRun(["top"] + bench.flags)
        #expect(run.exit == .code(64) && run.errors[0] == "error: top needs a terminal that shows escape sequences")
    }

    @Test("keys work while a call hangs; how long it has lasted is told, and q ends it")
    func hanging() async throws {
        let released = Milestone()
        defer { released.set() }
        let asked = Guarded(0)
        let bench = try ScriptedAdmin { call in
            guard call == "GET /v1/status" else { return ScriptedAdmin.json(#"{"level":"info","configured":"info"}"#) }
            let count = asked.withLock { asked -> Int in
                asked += 1
                return asked
            }
            return count == 1 ? nil : ScriptedAdmin.json(ScriptedAdmin.status).after(released, "the test has ended")
        }
        let terminal = try PseudoTerminal(columns: 100)
        let top = try ServerProcess(
            "lanyard", ["top", "--interval", "100ms"] + bench.flags, environment: ["TERM": "xterm"],
            input: .terminal(terminal, showsOutput: true))
        try await terminal.shows("lanyard 0.0.9")
        try await eventually("the second look hangs") { asked.withLock { $0 } == 2 }
        try terminal.type("d")
        try await terminal.shows("the log level is info")
        try await terminal.shows("Lanyard has not responded for ")
        try terminal.type("q")
        #expect(try await top.waitForExit() == .code(0))
        #expect(asked.withLock { $0 } == 2)
    }
}
