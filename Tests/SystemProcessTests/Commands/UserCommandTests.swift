import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// The commands against a running Lanyard beside the emulator.
@Suite struct UserCommandTests {
    private static func flags(_ bench: UsersBench) -> [String] { ["--admin", "\(bench.admin)"] }

    @Test("log a new user in by a password file, switch, refresh, log out, remove")
    func life() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let folder = try TemporaryFolder()
        let password = try folder.write("password", UsersBench.password + "\n")
        func lanyard(_ arguments: String...) async throws -> CommandRun {
            try await CommandRun([arguments[0]] + Self.flags(bench) + arguments.dropFirst())
        }
        let login = try await lanyard(
            "login", "bob", "--identity", "demo", "--email", "bob@example.com", "--password-file", password)
        #expect(login.exit == .code(0), "\(login.errors)")
        #expect(
            login.output.contains(
                /^bob is logged in and active; account [0-9a-f]{24}; the access token expires in (29|30) min\n$/))
        #expect(try await lanyard("use", "alice").output == "alice is active.\n")
        #expect(try await lanyard("refresh").output.hasPrefix("alice has a new access token; it expires in "))
        let again = try await lanyard("login", "alice")
        #expect(again.exit == .code(0) && again.output.hasPrefix("alice is logged in and active"), "\(again.errors)")
        #expect(try await lanyard("logout", "bob").output == "bob is logged out.\n")
        #expect(try await bench.users().contains("bob:logged_out"))
        let remove = try await lanyard("remove", "bob")
        #expect(remove.exit == .code(0) && remove.output == "bob is removed.\n")
        #expect(try await !bench.users().contains("bob:logged_out"))
    }

    @Test("the table has a row for each user, and --json is the API's response")
    func tables() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let users = try await CommandRun(["users"] + Self.flags(bench))
        let lines = users.output.split(separator: "\n").map(String.init)
        #expect(
            lines[0].split(separator: " ", omittingEmptySubsequences: true).joined(separator: " ")
                == "USER STATE SESSION IDENTITY TOKEN SESSION ENDS NEXT REFRESH MUST ACT LAST ERROR")
        #expect(lines.count == 4)
        #expect(
            lines.contains {
                $0.contains(
                    /^alice  active      valid  +demo +expires in (29|30) min  in \d+ d +in \d+ min +nobody +-$/)
            },
            "\(lines)")
        #expect(lines.contains { $0.hasPrefix("robot  inactive    valid ") && $0.contains("no expiry") }, "\(lines)")
        let status = try await CommandRun(["status"] + Self.flags(bench)).output
        #expect(
            status.contains(/\n\nlanyard 0\.1\.0, up \d+ s, 3 users, alice is active\nlistening: data 127/),
            "\(status)")
        #expect(!status.contains("\u{1b}"))
        let json = try await CommandRun(["users", "--json"] + Self.flags(bench))
        #expect(try await json.json == bench.call("GET", "/users").json)
        #expect(try await CommandRun(["status", "--json"] + Self.flags(bench)).json["active_user"].string == "alice")
    }

    @Test("colour on a terminal only, and not with NO_COLOR")
    func colour() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        for (environment, isColoured) in [
            (["TERM": "xterm"], true), (["NO_COLOR": "1"], false), (["TERM": "dumb"], false),
        ] {
            let terminal = try PseudoTerminal()
            let process = try ServerProcess(
                "lanyard", ["users"] + Self.flags(bench), environment: environment,
                input: .terminal(terminal, showsOutput: true))
            #expect(try await process.waitForExit() == .code(0))
            try await terminal.shows("robot")
            #expect(terminal.screen.contains("\u{1b}[32mactive") == isColoured)
        }
    }

    @Test("refused credentials are 77; unknown users and identities are 1 with what to do")
    func refused() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let flags = Self.flags(bench)
        let wrong = try await CommandRun(
            ["login", "bob", "--identity", "demo", "--email", "bob@example.com"] + flags, input: "mistaken")
        #expect(wrong.exit == .code(77) && wrong.errors[0].hasPrefix("error: Credential refused: "), "\(wrong.errors)")
        #expect(!wrong.errors.joined().contains("mistaken"))
        let nowhere = try await CommandRun(["login", "bob", "--identity", "corp", "--anonymous"] + flags)
        #expect(nowhere.exit == .code(1) && nowhere.errors[0].hasPrefix("error: No such identity: "))
        let unknown = try await CommandRun(["logout", "zoe"] + flags)
        #expect(unknown.exit == .code(1) && unknown.errors[1].hasPrefix("what to do: lanyard users lists"))
        let near = try await CommandRun(["login", "alcie"] + flags)
        #expect(near.exit == .code(64) && near.errors[1].hasPrefix("what to do: did you mean alice? "))
        let several = try await CommandRun(["login"] + flags)
        #expect(several.exit == .code(64) && several.errors[1].contains("alice, carol, robot"), "\(several.errors)")
        let other = try await CommandRun(["login", "alice", "--identity", "fixed"] + flags)
        #expect(other.exit == .code(64) && other.errors[0] == "error: alice is a user of demo, not of fixed")
        let fixed = try await CommandRun(["refresh", "robot"] + flags)
        #expect(fixed.exit == .code(1) && fixed.errors[0].hasPrefix("error: Not supported: "))
    }

    @Test("without an active user a command asks for a name")
    func noneActive() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let flags = Self.flags(bench)
        #expect(try await CommandRun(["logout"] + flags).output == "alice is logged out.\n")
        let run = try await CommandRun(["refresh"] + flags)
        #expect(run.exit == .code(64) && run.errors[0] == "error: no user is active")
        #expect(run.errors[1] == "what to do: name one of alice, carol, robot")
    }

    @Test("a watched status is redrawn on a capable terminal, and follows itself on any other")
    func watchOnTerminal() async throws {
        let bench = try await UsersBench.start()
        for (environment, redraws) in [(["TERM": "xterm"], true), (["TERM": "dumb"], false), ([:], false)] {
            let terminal = try PseudoTerminal()
            let watch = try ServerProcess(
                "lanyard", ["status", "--watch", "--interval", "100ms"] + Self.flags(bench), environment: environment,
                input: .terminal(terminal, showsOutput: true))
            try await eventually("two tables") { terminal.screen.ranges(of: "lanyard 0.").count > 1 }
            watch.signal(SIGINT)
            #expect(try await watch.waitForExit() == .signal(Int(SIGINT)))
            #expect(terminal.screen.contains("\u{1b}[H\u{1b}[J") == redraws, "\(environment)")
            #expect(redraws || !terminal.screen.contains("\u{1b}"), "\(environment)")
        }
    }

    @Test("a watched status continues while Lanyard is away, and shutdown ends Lanyard with 0")
    func watch() async throws {
        let bench = try await UsersBench.start()
        try await bench.untilAlice()
        let watch = try ServerProcess(
            "lanyard", ["status", "--watch", "--interval", "200ms", "--json"] + Self.flags(bench))
        try await eventually("several lines") { watch.output.split(separator: "\n").count > 2 }
        for line in watch.output.split(separator: "\n").prefix(2) {
            #expect(try JSON(text: String(line))["active_user"].string == "alice")
        }
        let run = try await CommandRun(["shutdown"] + Self.flags(bench))
        #expect(run.exit == .code(0) && run.output == "Lanyard is stopping.\n")
        #expect(try await bench.lanyard.process.waitForExit() == .code(0))
        try await eventually("the watch says so") { watch.log.contains("error: no Lanyard responds at ") }
        #expect(watch.exit == nil)
        watch.signal(SIGINT)
        #expect(try await watch.waitForExit() == .signal(Int(SIGINT)))
    }

    @Test("another Unix user is refused at the socket, and told what to do", .enabled(if: getuid() == 0))
    func otherUser() async throws {
        let bench = try await UsersBench.start()
        let process = try ServerProcess("lanyard", ["users"] + Self.flags(bench), as: .nobody)
        #expect(try await process.waitForExit() == .code(69))
        #expect(process.log.contains("Permission denied"))
        #expect(process.log.contains("what to do: run the command as root or as the Unix user that Lanyard runs as"))
    }
}
