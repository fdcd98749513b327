import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Prompts at a terminal: nothing typed is shown, and the echo comes back whatever happens.
@Suite struct PromptTests {
    private static let prompt = "Password of a@x: "

    /// A login that asks for its password.
    private static func login(
        _ terminal: PseudoTerminal, _ admin: ScriptedAdmin, _ arguments: [String] = []
    ) throws -> ServerProcess {
        try ServerProcess(
            "lanyard", ["link", "alice", "--email", "a@x"] + arguments + admin.flags,
            input: .terminal(terminal))
    }

    private static func admin() throws -> ScriptedAdmin {
        try ScriptedAdmin(["POST /v1/users/alice/link": ScriptedAdmin.json(#"{"user_id":"1","identities":[]}"#)])
    }

    @Test("a typed password is not shown, and reaches the call", arguments: [[], ["--password-file", "-"]])
    func typed(_ arguments: [String]) async throws {
        let (terminal, admin) = (try PseudoTerminal(), try Self.admin())
        let process = try Self.login(terminal, admin, arguments)
        try await terminal.shows(Self.prompt)
        #expect(!terminal.echoes)
        try terminal.type("wrong\u{15}hünter2\n")
        #expect(try await process.waitForExit() == .code(0), "\(process.log)")
        #expect(
            admin.calls == [
                #"POST /v1/users/alice/link {"credential":{"email_password":{"email":"a@x","password":"hünter2"}}}"#
            ])
        #expect(!terminal.screen.contains("nter2") && !terminal.screen.contains("wrong"))
        #expect(terminal.echoes)
    }

    @Test("^C ends it by SIGINT with the echo back, and nothing is sent")
    func interrupted() async throws {
        let (terminal, admin) = (try PseudoTerminal(), try Self.admin())
        let process = try Self.login(terminal, admin)
        try await terminal.shows(Self.prompt)
        try terminal.type("half\u{3}")
        #expect(try await process.waitForExit() == .signal(Int(SIGINT)))
        #expect(terminal.echoes && admin.calls.isEmpty)
        #expect(!terminal.screen.contains("half"))
    }

    @Test("a signal from elsewhere gives the echo back, too", arguments: [SIGTERM, SIGHUP, SIGQUIT])
    func signalled(_ signal: CInt) async throws {
        let (terminal, admin) = (try PseudoTerminal(), try Self.admin())
        let process = try Self.login(terminal, admin)
        try await terminal.shows(Self.prompt)
        process.signal(signal)
        #expect(try await process.waitForExit() == .signal(Int(signal)))
        #expect(terminal.echoes && admin.calls.isEmpty)
    }

    @Test("a terminal that closes during the prompt ends it, and nothing is sent")
    func closed() async throws {
        let (terminal, admin) = (try PseudoTerminal(), try Self.admin())
        let process = try Self.login(terminal, admin)
        try await terminal.shows(Self.prompt)
        try await terminal.hangUp()
        let exit = try await process.waitForExit()
        #expect(exit == .signal(Int(SIGHUP)) || exit == .code(64), "\(exit)")
        #expect(admin.calls.isEmpty)
    }

    @Test("^D and an empty line are no password: 64, with the echo back", arguments: ["\u{4}", "\n"])
    func empty(_ keys: String) async throws {
        let (terminal, admin) = (try PseudoTerminal(), try Self.admin())
        let process = try Self.login(terminal, admin)
        try await terminal.shows(Self.prompt)
        try terminal.type(keys)
        #expect(try await process.waitForExit() == .code(64))
        #expect(process.log.contains("nothing was sent\nwhat to do: "), "\(process.log)")
        #expect(terminal.echoes && admin.calls.isEmpty)
    }

    @Test("a line that a terminal cannot give whole is refused")
    func long() async throws {
        let (terminal, admin) = (try PseudoTerminal(), try Self.admin())
        let process = try Self.login(terminal, admin)
        try await terminal.shows(Self.prompt)
        for _ in 0..<5 { try terminal.type(String(repeating: "x", count: 1000)) }
        try terminal.type("\n")
        #expect(try await process.waitForExit() == .code(64))
        #expect(process.log.contains("give a file"), "\(process.log)")
    }

    @Test("a new password is typed twice, and two that differ are refused")
    func twice() async throws {
        let path = "POST /v1/identities/demo/email-password/register"
        let arguments = ["account", "register", "--identity", "demo", "--email", "a@x"]
        for (second, exit) in [("one", 0), ("two", 64)] {
            let (terminal, admin) = (try PseudoTerminal(), try ScriptedAdmin([path: ScriptedAdmin.json("{}")]))
            let process = try ServerProcess("lanyard", arguments + admin.flags, input: .terminal(terminal))
            try await terminal.shows("New password of a@x: ")
            try terminal.type("one\n")
            try await terminal.shows("The same again: ")
            try terminal.type(second + "\n")
            #expect(try await process.waitForExit() == .code(exit), "\(process.log)")
            #expect(admin.calls == (exit == 0 ? [path + #" {"email":"a@x","password":"one"}"#] : []))
        }
    }

    @Test("deleting an account asks for the user's name")
    func deletion() async throws {
        for (answer, exit) in [("alice", 0), ("yes", 64)] {
            let terminal = try PseudoTerminal()
            let admin = try ScriptedAdmin([
                "DELETE /v1/users/alice?account=delete": .text("HTTP/1.1 204 No Content\r\n\r\n")
            ])
            let process = try ServerProcess(
                "lanyard", ["account", "delete", "alice"] + admin.flags, input: .terminal(terminal))
            try await eventually("it asks") { process.log.contains("Write the user's name") }
            try terminal.type(answer + "\n")
            #expect(try await process.waitForExit() == .code(exit), "\(process.log)")
            #expect(admin.calls.count == (exit == 0 ? 1 : 0))
        }
    }
}
