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

    @Test("when the time is over: 75, the failing checks, and what to do")
    func over() async throws {
        let server = try RawServer { _ in Self.notReady }
        let run = try await CommandRun(["wait", "--max", "1s", "--health", "\(server.endpoint)"])
        #expect(run.exit == .code(75))
        #expect(
            run.errors == [
                "/readyz of \(server.endpoint): 503", "failing: session:alice: login_required",
                "what to do: lanyard login alice", "error: not ready within 1s",
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
        #expect(run.exit == .code(1) && run.errors.contains("what to do: lanyard login alice"))
        let well = try RawServer()
        let terminal = try PseudoTerminal()
        let process = try ServerProcess(
            "lanyard", ["health", "--ready", "--health", "\(well.endpoint)"],
            input: .terminal(terminal, showsOutput: true))
        #expect(try await process.waitForExit() == .code(0))
        try await terminal.shows("Lanyard at \(well.endpoint) is ready.")
    }
}
