import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// The command line itself: mistyped words, help, versions, completions, and where the admin API is looked for.
@Suite struct CommandLineTests {
    @Test(
        "a mistyped command gets the nearest name, and 64",
        arguments: [
            (["loign"], "lanyard has no command \"loign\"", "did you mean login?"),
            (["stauts", "--json"], "lanyard has no command \"stauts\"", "did you mean status?"),
            (["api-keys", "lst"], "lanyard api-keys has no command \"lst\"", "did you mean list?"),
            (["account", "regster"], "lanyard account has no command \"regster\"", "did you mean register?"),
            (["store", "rekye"], "lanyard store has no command \"rekye\"", "did you mean rekey?"),
            (["setup"], "lanyard has no command \"setup\"", "did you mean init?"),
            (["stop"], "lanyard has no command \"stop\"", "did you mean shutdown?"),
            (["start", "--config", "x"], "lanyard has no command \"start\"", "did you mean run?"),
            (["help", "stauts"], "lanyard has no command \"stauts\"", "did you mean status?"),
            (["help", "account", "regster"], "lanyard account has no command \"regster\"", "did you mean register?"),
            (["zzzzzz"], "lanyard has no command \"zzzzzz\"", "lanyard --help lists the commands"),
        ])
    func mistyped(_ arguments: [String], _ message: String, _ remedy: String) async throws {
        let run = try await CommandRun(arguments)
        #expect(run.exit == .code(64) && run.output.isEmpty)
        #expect(run.errors == ["error: \(message)", "what to do: \(remedy)"])
    }

    @Test(
        "a group of commands without one of them is 64: nothing was done",
        arguments: [
            ("store", "rekey, export"), ("log", "level"), ("api-keys", "list, create, show, enable, disable, delete"),
            ("account", "register, "),
        ])
    func group(_ name: String, _ commands: String) async throws {
        let run = try await CommandRun([name])
        #expect(run.exit == .code(64) && run.output.isEmpty)
        #expect(run.errors.first?.hasPrefix("error: lanyard \(name) needs one of its commands: \(commands)") == true)
        #expect(run.errors.last == "what to do: lanyard \(name) --help explains them")
        let help = try await CommandRun(["help", name])
        #expect(help.exit == .code(0) && help.output.contains("USAGE: lanyard \(name)"))
    }

    @Test("a file without --config is 64, and the message names that flag", arguments: ["check", "run"])
    func bareFile(_ command: String) async throws {
        let run = try await CommandRun([command, "lanyard.yaml"])
        #expect(run.exit == .code(64) && run.output.isEmpty)
        #expect(run.errors.joined().contains("the configuration's file is named by --config PATH"), "\(run.errors)")
    }

    @Test("a mistyped flag gets the nearest name, and 64")
    func flag() async throws {
        let run = try await CommandRun(["status", "--jsn"])
        #expect(run.exit == .code(64) && run.errors[0].contains("--json"), "\(run.errors)")
    }

    @Test(
        "arguments that contradict each other are 64 before anything is asked",
        arguments: [
            ["status", "--admin", "127.0.0.1:1", "--config", "x"], ["status", "--admin", "nowhere"],
            ["login", "bob", "--anonymous", "--email", "a@x"], ["login", "bob", "--password-file", "x"],
            ["link", "bob"], ["wait", "--for", "redy"], ["wait", "--max", "5"],
            ["status", "--interval", "1ms", "--watch"],
            ["call", "f", "1", "--arguments-file", "x"], ["use", "a/b", "--admin", "unix:/none"],
            ["call", "f", "Ada", "--admin", "unix:/none"], ["users", "--admin", "127.0.0.1:1"],
            ["account", "delete", "bob", "--admin", "unix:/none"], ["users", "--password", "x"],
        ])
    func contradiction(_ arguments: [String]) async throws {
        let run = try await CommandRun(arguments)
        #expect(run.exit == .code(64) && run.output.isEmpty, "\(run.errors)")
        #expect(!run.errors.isEmpty)
        // One form for all errors, whichever layer finds them.
        #expect(run.errors[0].hasPrefix("error: ") && !run.errors.contains { $0.hasPrefix("Error") }, "\(run.errors)")
    }

    @Test("an error of the parser has the form of the others: error, usage, what to do")
    func parserErrors() async throws {
        let run = try await CommandRun(["wait", "--for", "redy"])
        #expect(run.exit == .code(64) && run.errors[0].hasPrefix("error: "), "\(run.errors)")
        #expect(run.errors.contains { $0.hasPrefix("usage: lanyard wait") }, "\(run.errors)")
        #expect(run.errors.last == "what to do: lanyard wait --help lists the arguments", "\(run.errors)")
        let emulator = try ServerProcess("lanyard-emulator", ["--frobnicate"])
        #expect(try await emulator.waitForExit() == .code(64))
        #expect(emulator.lines.first?.text.hasPrefix("error: ") == true, "\(emulator.log)")
    }

    @Test("--version and version say the same")
    func version() async throws {
        let run = try await CommandRun(["--version"])
        #expect(run.exit == .code(0) && run.output.hasPrefix("lanyard 0.1.0 (commit "))
        #expect(try await CommandRun(["version"]).output == run.output)
    }

    @Test("help has every command, values and defaults")
    func help() async throws {
        let root = try await CommandRun(["--help"])
        for name in [
            "run", "init", "check", "route", "store", "version", "status", "top", "health", "wait", "reload", "log",
            "shutdown",
            "users", "login",
            "logout", "use", "refresh", "remove", "token", "link", "profile", "custom-data", "call", "api-keys",
            "account",
        ] {
            #expect(root.output.contains("\n  \(name) "), "\(name)")
            let help = try await CommandRun([name, "--help"])
            #expect(help.exit == .code(0) && help.output.contains("USAGE: lanyard \(name)"), "\(name): \(help.output)")
        }
        // `run` leaves the parser out only if each of its flags is one of the configuration's.
        let late = try await CommandRun(["run", "--upstream", "http://127.0.0.1:1", "--help"])
        #expect(late.exit == .code(0) && late.output.contains("USAGE: lanyard run"), "\(late.output)")
        let wait = try await CommandRun(["wait", "--help"]).output.split(whereSeparator: \.isWhitespace).joined(
            separator: " ")
        #expect(wait.contains("values: ready, live, startup; default: ready"), "\(wait)")
        #expect(wait.contains("default: 30s"))
        #expect(try await CommandRun(["status", "--help"]).output.contains("default: 2s"))
        #expect(try await CommandRun(["account", "confirm", "--help"]).output.contains("--token-id <id>"))
        let level = try await CommandRun(["log", "level", "--help"]).output.split(whereSeparator: \.isWhitespace)
            .joined(
                separator: " ")
        #expect(level.contains("values: trace, debug, info, notice, warning, error, critical"), "\(level)")
    }

    @Test(
        "help of run and check says of each configuration flag what it takes and its default",
        arguments: ["run", "check"])
    func flagHelp(_ command: String) async throws {
        let help = try await CommandRun([command, "--help"]).output
        let list = try #require(help.components(separatedBy: "\nUSAGE:").first)
        let flags = list.split(separator: "\n").reduce(into: [String]()) { flags, line in
            if line.hasPrefix("  --") { flags.append("") }
            if line.hasPrefix("  -") || line.hasPrefix("      ") {
                flags[flags.count - 1] += line.drop { $0 == " " } + " "
            }
        }
        for group in ["Configuration file", "One user, without a file", "Store", "Sessions", "Limits", "Process"] {
            #expect(list.contains("\n\n\(group):\n  --"), "\(group)")
        }
        // Help is wrapped at 80 columns, and a command that is broken there cannot be pasted.
        #expect(
            list.contains(
                """
                Examples:
                  lanyard run --config lanyard.yaml
                  lanyard run --config lanyard.yaml --log-level debug --shutdown-drain-max 10s
                  lanyard run --upstream URL --issuer URL --client-id ID
                  lanyard run --upstream https://api.example.com --token-file token
                  lanyard check --strict --online --config lanyard.yaml

                """), "\(list)")
        #expect(flags.count > 60)
        for flag in flags {
            #expect(flag.hasSuffix("; no default) ") || flag.contains(/; default: [^;]+\) $/), "\(flag)")
        }
        for flag in [
            "--refresh-wait-max A request waits at most this long for a token. (a duration from 0s to 1d; default: 5s) ",
            "--log-format One JSON object per line, or a line of text for a terminal. (json | text; default: text on a "
                + "terminal, else json) ",
            "--shards Threads that serve requests. (a whole number from 1 to 64, or auto; default: auto) ",
            "--store-key-file Key that seals it: 32 bytes or more, taken as they are. (the path of a secret's file; "
                + "no default) ",
        ] {
            #expect(flags.contains(flag), "\(flag)")
        }
    }

    @Test("completions offer the words of a configuration flag")
    func flagCompletions() async throws {
        func script(_ shell: String) async throws -> String {
            try await CommandRun(["--generate-completion-script", shell]).output
        }
        #expect(try await script("zsh").contains(":value:(json text)'"))
        #expect(try await script("fish").contains(" -l 'log-format' "))
        #expect(try await script("fish").contains(" -rfka 'json text'"))
        let folder = try TemporaryFolder()
        let path = try folder.write(
            "completion",
            try await script("bash") + """

                COMP_WORDS=(lanyard run --log-format '') COMP_CWORD=3 COMP_LINE='lanyard run --log-format ' COMP_POINT=25
                _lanyard lanyard '' --log-format
                printf '%s\\n' "${COMPREPLY[@]}"

                """)
        let bash = try ServerProcess("/bin/bash", [path])
        #expect(try await bash.waitForExit() == .code(0), "\(bash.log)")
        #expect(bash.output == "json\ntext\n", "\(bash.log)")
    }

    @Test("bash completes a command as a word, though a folder has its name, and a file as a file")
    func folderCompletions() async throws {
        let folder = try TemporaryFolder()
        for name in ["store", "storage"] { #expect(mkdir(folder.file(name), 0o700) == 0) }
        // In an interactive shell a completion ends with a slash or a blank.
        let path = try folder.write(
            "completion",
            try await CommandRun(["--generate-completion-script", "bash"]).output + """

                complete -p lanyard
                compopt() { printf 'compopt %s\\n' "$*"; }
                COMP_WORDS=(lanyard sto) COMP_CWORD=1 COMP_LINE='lanyard sto' COMP_POINT=11
                _lanyard lanyard sto lanyard
                printf '%s\\n' "${COMPREPLY[@]}"
                COMPREPLY=()
                COMP_WORDS=(lanyard run --config '\(folder.path)/sto') COMP_CWORD=3 COMP_LINE='lanyard run --config x' COMP_POINT=22
                _lanyard lanyard '\(folder.path)/sto' --config
                printf '%s\\n' "${#COMPREPLY[@]}"

                """)
        let bash = try ServerProcess("/bin/bash", [path])
        #expect(try await bash.waitForExit() == .code(0), "\(bash.log)")
        #expect(
            bash.output == "complete -F _lanyard lanyard\nstore\ncompopt -o filenames\n2\n",
            "\(bash.output) \(bash.log)")
    }

    @Test("names of users are completed from the running Lanyard; without one there are none, and no message")
    func userCompletions() async throws {
        let users = [("alice", "active"), ("bob", "inactive")].map { name, state in
            #"{"name":"\#(name)","identity":"demo","state":"\#(state)","session":"valid","generation":1}"#
        }
        let bench = try ScriptedAdmin([
            "GET /v1/users": ScriptedAdmin.json("{\"users\":[\(users.joined(separator: ","))]}")
        ])
        for command in [["login"], ["use"], ["logout"], ["refresh"], ["remove"]] {
            let words = ["---completion"] + command + ["--", "positional@0", "\(command.count + 2)", "0", "lanyard"]
            // On a machine that is busy the second in which Lanyard must respond may pass.
            try await eventually("\(command) completes names") {
                let run = try await CommandRun(words + command + bench.flags + [""])
                #expect(run.errors.isEmpty, "\(run.errors)")
                return run.output == "alice\nbob\n"
            }
        }
        let folder = try TemporaryFolder()
        let words = ["---completion", "use", "--", "positional@0", "4", "0", "lanyard", "use"]
        let none = try await CommandRun(words + ["--admin", "unix:\(folder.file("none.sock"))", ""])
        #expect(none.errors.isEmpty && !none.output.contains("alice"), "\(none)")
    }

    @Test("completions of three shells name commands and flags", arguments: ["bash", "zsh", "fish"])
    func completions(_ shell: String) async throws {
        let run = try await CommandRun(["--generate-completion-script", shell])
        #expect(run.exit == .code(0) && run.errors.isEmpty)
        for word in [
            "api-keys", "custom-data", "password-file", "no-activate", "limits-idle-timeout", "listen",
            "client-secret-file", "issuer",
        ] {
            #expect(run.output.contains(word))
        }
        // With as many lines for each command that takes configuration flags.
        let commands = ["run", "check", "init", "route", "store rekey", "store export"]
        for flag in ["--config", "--health-address", "--unsafe-plain"] {
            let found =
                switch shell {
                case "bash":
                    run.output.split(separator: "\n").count { $0.split { " ()".contains($0) }.contains(flag[...]) }
                case "zsh": run.output.split(separator: "\n").count { $0.hasPrefix("        '\(flag)[") }
                default:
                    run.output.split(separator: "\n").count { line in
                        commands.contains { line.contains("\"lanyard \($0)\" \(flag.dropFirst(2))' ") }
                    }
                }
            #expect(found >= commands.count, "\(flag) is there \(found) times")
        }
        let programs = ["bash": "/bin/bash", "zsh": "/usr/bin/zsh", "fish": "/usr/bin/fish"]
        guard let program = programs[shell], access(program, X_OK) == 0 else { return }
        let folder = try TemporaryFolder()
        let script = try folder.write("completion", run.output)
        let check = try ServerProcess(program, ["-n", script])
        #expect(try await check.waitForExit() == .code(0), "\(check.log)")
    }

    // MARK: Places

    @Test("no Lanyard: 69, with the address, the reason and what to do")
    func absent() async throws {
        let folder = try TemporaryFolder()
        let socket = folder.file("admin.sock")
        let run = try await CommandRun(["status", "--admin", "unix:\(socket)"])
        #expect(run.exit == .code(69) && run.output.isEmpty)
        #expect(
            run.errors == [
                "error: no Lanyard responds at unix:\(socket): No such file or directory",
                "what to do: start it with lanyard run, or name its admin address with --admin or --config; if it runs "
                    + "without an admin API, its log has admin.unavailable, or its configuration admin: off",
            ])
        let listener = try RawServer(at: .unix(socket))
        listener.stop()
        let refused = try await CommandRun(["users", "--admin", "unix:\(socket)"])
        #expect(refused.exit == .code(69) && refused.errors[0].hasSuffix("Connection refused"))
    }

    @Test("the default place: RUNTIME_DIRECTORY, else XDG_RUNTIME_DIR or root's folder")
    func defaultPlace() async throws {
        let folder = try TemporaryFolder()
        let runtime = try await CommandRun(["users"], environment: ["RUNTIME_DIRECTORY": folder.path])
        #expect(runtime.exit == .code(69))
        #expect(runtime.errors[0].contains("unix:\(folder.path)/admin.sock"))
        let variable = try await CommandRun(
            ["users"], environment: ["LANYARD_ADMIN_ADDRESS": "unix:\(folder.path)/x", "RUNTIME_DIRECTORY": "/none"])
        #expect(variable.errors[0].contains("unix:\(folder.path)/x:"))
    }

    @Test("a reload whose file has another admin API says that this key needs a restart")
    func reloadElsewhere() async throws {
        let folder = try TemporaryFolder()
        let moved = try folder.write("moved.yaml", "admin: {address: \"unix:\(folder.file("new.sock"))\"}\n")
        let off = try folder.write("off.yaml", "admin: off\n")
        for (arguments, environment) in [(["--config", moved], [:]), ([], ["LANYARD_CONFIG": moved])] {
            let run = try await CommandRun(["reload"] + arguments, environment: environment)
            #expect(run.exit == .code(69) && run.errors[0].contains("no Lanyard responds at unix:"))
            #expect(
                run.errors[1]
                    == "what to do: start it with lanyard run; if admin.address was changed, restart Lanyard or give --admin "
                    + "with the former address, because that key applies only at a start")
        }
        let without = try await CommandRun(["reload", "--config", off])
        #expect(without.exit == .code(78) && without.errors[1].contains("because admin applies only at a start"))
        let named = try await CommandRun(["reload", "--admin", "unix:\(folder.file("none.sock"))"])
        #expect(named.exit == .code(69) && !named.errors[1].contains("admin.address was changed"))
    }

    @Test("the configuration names address and token; one that is off or wrong is 78")
    func configured() async throws {
        let folder = try TemporaryFolder()
        try folder.write("admin-token", String(repeating: "a", count: 32) + "\n")
        let server = try RawServer { _ in
            .response(200, "OK", fields: [("Content-Type", "application/json")], body: #"{"users":[]}"#)
        }
        let path = try folder.write(
            "lanyard.yaml", "admin: {address: \"\(server.endpoint)\", token_file: admin-token}\n")
        let run = try await CommandRun(["users", "--config", path])
        #expect(run.exit == .code(0), "\(run.errors)")
        #expect(run.output == "There are no users: lanyard login NAME adds one.\n")
        #expect(server.requests[0]["Authorization"] == "Bearer \(String(repeating: "a", count: 32))")
        let off = try await CommandRun(["users", "--config", try folder.write("off.yaml", "admin: off\n")])
        #expect(off.exit == .code(78) && off.errors[0].contains("turns the admin API off"))
        let missing = try await CommandRun(["users", "--config", folder.file("none.yaml")])
        #expect(missing.exit == .code(78) && missing.errors[0].contains("cannot read the configuration file"))
        let wrong = try await CommandRun(["users", "--config", try folder.write("w.yaml", "admin: {adress: x}\n")])
        #expect(wrong.exit == .code(78) && wrong.errors[0].contains("did you mean \"address\"?"), "\(wrong.errors)")
        let tokenless = try folder.write("t.yaml", "admin: {address: \"127.0.0.1:9\", token_file: none}\n")
        let unread = try await CommandRun(["users", "--config", tokenless])
        #expect(unread.exit == .code(78) && unread.errors[0].contains("No such file or directory"), "\(unread.errors)")
    }
}
