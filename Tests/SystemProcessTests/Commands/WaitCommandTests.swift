import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard wait`, and what `lanyard health` says on a terminal and of failing checks.
@Suite struct WaitCommandTests {
    private static let notReady = RawResponse.response(
        503, "X",
        body: #"{"status":"not_ready","checks":[{"name":"session:alice","ok":false,"reason":"login_required"},"#
            + #"{"name":"listener","ok":true,"reason":"listening"}]}"#)

    @Test("it waits for a listener that comes later, and asks the page of its goal")
    func later() async throws {
        let folder = try TemporaryFolder()
        let place = folder.file("health.sock")
        let process = try ServerProcess(
            "lanyard", ["wait", "--for", "startup", "--max", "60s", "--health", "unix:\(place)"])
        let server = try RawServer(at: .unix(place)) { $0.connection < 2 ? Self.notReady : .response() }
        #expect(try await process.waitForExit() == .code(0), "\(process.log)")
        #expect(server.requests.count >= 3 && server.requests.allSatisfy { $0.target == "/startupz" })
        #expect(process.log.isEmpty && process.output.isEmpty)
    }

    @Test("each goal has its page", arguments: [("ready", "/readyz"), ("live", "/livez"), ("startup", "/startupz")])
    func goals(_ goal: String, _ page: String) async throws {
        let server = try RawServer()
        let run = try await CommandRun(["wait", "--for", goal, "--max", "30s", "--health", "\(server.endpoint)"])
        #expect(run.exit == .code(0) && server.requests.map(\.target) == [page])
    }

    @Test("after the timeout: 75, the failing checks, and what to do")
    func over() async throws {
        let server = try RawServer { _ in Self.notReady }
        let run = try await CommandRun(["wait", "--max", "1s", "--health", "\(server.endpoint)"])
        #expect(run.exit == .code(75))
        #expect(
            run.errors == [
                "error: not ready within 1s: /readyz of \(server.endpoint): 503",
                "failing: session:alice: login_required", "what to do: lanyard login alice",
            ])
        #expect(server.requests.count > 1)
    }

    @Test("no time at all is one look")
    func once() async throws {
        let server = try RawServer { _ in Self.notReady }
        let run = try await CommandRun(["wait", "--max", "0s", "--health", "\(server.endpoint)"])
        #expect(run.exit == .code(75) && server.requests.count == 1)
    }

    @Test("health says what is wrong, and on a terminal that all is well")
    func health() async throws {
        let sick = try RawServer { _ in Self.notReady }
        let run = try await CommandRun(["health", "--ready", "--health", "\(sick.endpoint)"])
        #expect(
            run.errors == [
                "error: /readyz of \(sick.endpoint): 503", "failing: session:alice: login_required",
                "what to do: lanyard login alice",
            ])
        #expect(run.exit == .code(1))
        let well = try RawServer()
        let terminal = try PseudoTerminal()
        let process = try ServerProcess(
            "lanyard", ["health", "--ready", "--health", "\(well.endpoint)"],
            input: .terminal(terminal, showsOutput: true))
        #expect(try await process.waitForExit() == .code(0))
        try await terminal.shows("Lanyard at \(well.endpoint) is ready.")
    }

    @Test("on a terminal wait shows what is missing, since when, on one line that the result replaces")
    func progress() async throws {
        let body = #"{"status":"not_ready","checks":[{"name":"session:alice","ok":false,"reason":"logging_in"}]}"#
        let server = try RawServer { _ in .response(503, "Service Unavailable", body: body) }
        let terminal = try PseudoTerminal(columns: 200)
        // Standard error is the terminal, too.
        let words = ["wait", "--timeout", "3s", "--health", "\(server.endpoint)"]
        let wait = try ServerProcess(
            "/bin/sh", ["-c", "exec \"$@\" 2>&1", "sh", try Products.path("lanyard")] + words,
            environment: ["TERM": "xterm"], input: .terminal(terminal, showsOutput: true))
        try await terminal.shows("\rwaiting until ready: session:alice: logging_in, for 1 s; ")
        try await terminal.shows("\r\u{1b}[Kerror: not ready within 3s: /readyz of \(server.endpoint): 503")
        #expect(try await wait.waitForExit() == .code(75))
    }

    @Test("shutdown --wait returns when the running Lanyard has ended; another end of the wait is 75")
    func shutdown() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s")
        let device = try await Device.make(emulator, users: [Device.alice])
        let running = try await device.start()
        try await running.untilReady()
        let run = try await CommandRun(["shutdown", "--wait", "--admin", "\(running.admin.endpoint)"])
        #expect(run.exit == .code(0) && run.output == "Lanyard has ended.\n" && run.errors.isEmpty, "\(run)")
        #expect(try await running.process.waitForExit() == .code(0))
        let stop = #"{"listeners_closed":true,"client_connections":3,"seconds_left":27}"#
        let stopping = ScriptedAdmin.status.replacing("\"users\"", with: "\"stopping\":\(stop),\"users\"")
        let bench = try ScriptedAdmin([
            "POST /v1/shutdown": ScriptedAdmin.json("{}", status: 202), "GET /v1/status": ScriptedAdmin.json(stopping),
        ])
        let late = try await CommandRun(["shutdown", "--wait", "--timeout", "300ms"] + bench.flags)
        #expect(late.exit == .code(75))
        let words = "error: Lanyard has not ended within 300ms (stopping: 3 requests in flight, 27 s left)"
        #expect(late.errors.first == words, "\(late.errors)")
    }

    @Test("a login that lasts is told on a terminal, and its result takes the place of that line")
    func login() async throws {
        let released = Milestone()
        let user = #"{"name":"alice","identity":"demo","state":"active","session":"valid","generation":1}"#
        let bench = try ScriptedAdmin { call in
            switch call {
            case "GET /v1/users": ScriptedAdmin.json("{\"users\":[\(user)]}")
            case "POST /v1/users/alice/login": ScriptedAdmin.json(user).after(released, "the service responds")
            default: nil
            }
        }
        let terminal = try PseudoTerminal(columns: 200)
        let words = ["login", "alice"] + bench.flags
        let login = try ServerProcess(
            "/bin/sh", ["-c", "exec \"$@\" 2>&1", "sh", try Products.path("lanyard")] + words,
            environment: ["TERM": "xterm"], input: .terminal(terminal, showsOutput: true))
        try await terminal.shows("\rlogin of alice: in progress (")
        released.set()
        try await terminal.shows("\r\u{1b}[Kalice is logged in and active")
        #expect(try await login.waitForExit() == .code(0))
    }
}
