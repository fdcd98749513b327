import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard init`: the file that it writes, and that nothing else is changed.
@Suite struct InitCommandTests {
    private let folder: TemporaryFolder
    private let output: String

    init() throws {
        // As a working folder is: a store is refused in it.
        folder = try TemporaryFolder(shared: true)
        try folder.write("secret", "a-secret\n")
        output = folder.file("lanyard.yaml")
    }

    /// An OpenID provider as far as `init` asks it.
    static func provider() throws -> RawServer {
        try RawServer { request in
            guard request.message.target == "/.well-known/openid-configuration" else {
                return .response(404, "Not Found", fields: [("Content-Type", "application/json")], body: "{}")
            }
            let issuer = "http://\(request.message["Host"] ?? "")"
            return .response(
                fields: [("Content-Type", "application/json")],
                body: """
                    {"issuer":"\(issuer)","token_endpoint":"\(issuer)/token","authorization_endpoint":"\(issuer)/authorize",\
                    "device_authorization_endpoint":"\(issuer)/device","jwks_uri":"\(issuer)/keys"}
                    """)
        }
    }

    private var content: String { (try? String(contentsOfFile: output, encoding: .utf8)) ?? "" }
    private var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []).sorted()
    }

    // MARK: Flags

    @Test(
        "the file of each kind of login passes lanyard check --strict, has mode 0600, and names no secret",
        arguments: ["client_credentials", "device", "authorization-code", "refresh_token", "static", "app_services"])
    func kinds(_ kind: String) async throws {
        let (provider, upstream) = (try Self.provider(), try RawServer())
        let emulator = kind == "app_services" ? try await EmulatorProcess.start(tokens: "30m") : nil
        let client = ["--issuer", "http://\(provider.endpoint)", "--client-id", "orders"]
        let secret = folder.file("secret")
        let flags =
            switch kind {
            case "client_credentials": client + ["--client-secret-file", secret, "--scopes", "read write"]
            case "refresh_token": client + ["--refresh-token-file", secret]
            case "static": ["--token-file", secret]
            case "app_services":
                [
                    "--app-id", EmulatorProcess.app, "--base-url", "http://\(emulator?.endpoint ?? provider.endpoint)",
                    "--email", "a@b.c", "--password-file", secret,
                ]
            default: client + ["--login", kind]
            }
        let run = try await CommandRun(
            ["init", "--output", output, "--upstream", "http://\(upstream.endpoint)"] + flags)
        #expect(run.exit == .code(0) && run.errors == [], "\(run.errors)")
        let wantsStore = !["client_credentials", "static"].contains(kind)
        #expect(run.output.hasPrefix("\(output) is written.\n"), "\(run.output)")
        #expect(
            run.output.contains("The configuration is valid.\n") && run.output.contains("ok upstream default http://"))
        #expect(kind == "static" || run.output.contains("ok identity default http://"), "\(run.output)")
        #expect(run.output.contains(". lanyard run --config \(output)\n"))
        #expect(run.output.contains("curl http://127.0.0.1:7400/\n"))
        let isInteractive = ["device", "authorization-code"].contains(kind)
        #expect(run.output.contains("lanyard login default --config \(output)") == isInteractive)
        var status = stat()
        #expect(stat(output, &status) == 0 && status.st_mode & 0o7777 == 0o600)
        #expect(names == ["lanyard.yaml", "secret"] + (wantsStore ? ["store.key"] : []))
        #expect(!content.contains("a-secret") && content.hasPrefix("# Written by lanyard init."), "\(content)")
        let check = try await CommandRun(["check", "--strict", "--config", output])
        #expect(check.exit == .code(0) && check.errors == [], "\(check.errors)")
        // A second time the file is there.
        let second = try await CommandRun(
            ["init", "--output", output, "--upstream", "http://\(upstream.endpoint)"] + flags)
        #expect(second.exit == .code(78))
        #expect(second.errors.first == "error: \(output) exists: nothing was written")
    }

    @Test("what exists is not touched, and nothing is asked: a file, a folder, a link that leads nowhere")
    func existing() async throws {
        try folder.write("lanyard.yaml", "mine")
        #expect(symlink("/nonexistent/target", folder.file("link")) == 0)
        #expect(mkdir(folder.file("place"), 0o700) == 0)
        let before = names
        for (name, message) in [
            ("lanyard.yaml", "exists: nothing was written"), ("link", "exists: nothing was written"),
            ("place", "is a folder"),
            ("none/x.yaml", "cannot be made (No such file or directory): nothing was written"),
        ] {
            let run = try await CommandRun(["init", "--output", folder.file(name), "--token-file", "t"])
            #expect(run.exit == .code(78) && run.output.isEmpty)
            #expect(run.errors.count == 2 && run.errors[0] == "error: \(folder.file(name)) \(message)", "\(run.errors)")
            #expect(run.errors.last?.hasPrefix("what to do: ") == true)
        }
        #expect(content == "mine" && names == before)
    }

    @Test(
        "a folder without rights: 78, before anything is asked", .enabled(if: getuid() == 0, "needs another Unix user"))
    func rights() async throws {
        let shared = try TemporaryFolder(shared: true)
        let path = shared.file("lanyard.yaml")
        let process = try ServerProcess("lanyard", ["init", "--output", path], as: .nobody)
        #expect(try await process.waitForExit() == .code(78))
        #expect(process.log.contains("error: \(path) cannot be made (Permission denied): nothing was written"))
        #expect(access(path, F_OK) != 0)
    }

    @Test("a provider and an upstream that are down are warnings: the file is written, and says how to ask again")
    func down() async throws {
        let (provider, upstream) = (try Self.provider(), try RawServer())
        let flags = [
            "init", "--output", output, "--upstream", "http://\(upstream.endpoint)", "--issuer",
            "http://\(provider.endpoint)", "--client-id", "c", "--client-secret-file", folder.file("secret"),
        ]
        provider.stop()
        upstream.stop()
        let run = try await CommandRun(flags)
        #expect(run.exit == .code(0), "\(run.errors)")
        #expect(
            run.errors.count { $0.hasPrefix("warning: ") && $0.contains("Connection refused") } == 2, "\(run.errors)")
        #expect(
            run.errors.last
                == "what to do: \(output) is written; correct it or wait, then lanyard check --online --config \(output)"
        )
        #expect(run.output.contains("What to do next:\n") && content.contains("issuer: "))
        unlink(output)
        let silent = try await CommandRun(flags + ["--no-online"])
        #expect(silent.exit == .code(0) && silent.errors == [], "\(silent.errors)")
    }

    @Test("a secret that is not there yet is a warning, and the next steps write it")
    func missingSecret() async throws {
        let run = try await CommandRun([
            "init", "--output", output, "--no-online", "--upstream", "http://127.0.0.1:9", "--issuer",
            "http://127.0.0.1:9",
            "--client-id", "c", "--client-secret-file", folder.file("not yet"),
        ])
        #expect(run.exit == .code(0))
        #expect(
            run.errors.count == 1
                && run.errors[0].contains("does not exist; its user is refused until the file appears"))
        let path = "'\(folder.file("not yet"))'"
        #expect(run.output.contains("1. write the client's secret into its file: (umask 077; cat > \(path))"))
    }

    @Test(
        "missing flags without a terminal, contradictions and wrong values: nothing is written",
        arguments: [
            ([], 64, "missing: --upstream, --issuer and --client-id (or --token-file, or --app-id and --base-url)"),
            (["--upstream", "http://127.0.0.1:9", "--issuer", "http://127.0.0.1:9"], 64, "missing: --client-id"),
            (["--login", "refresh-token"], 64, "missing: --upstream, --issuer, --client-id, --refresh-token-file"),
            (["--login", "nobody"], 64, "nobody"), (["--output", ""], 64, "--output has no value"),
            (["--config", "x"], 64, "--config names a file to read; --output names the file that is written"),
            (
                ["--token-file", "t", "--issuer", "http://127.0.0.1:9"], 64,
                "--issuer does not belong to the login static"
            ),
            (
                ["--upstream", "http://10.0.0.1:9", "--token-file", "t"], 78,
                "--upstream: routes[0].upstream: plain http would show tokens"
            ),
            (["--upstream", "nowhere", "--token-file", "t"], 78, "error: --upstream: "),
            (
                ["--upstream", "http://127.0.0.1:9", "--token-file", "t", "--listen", "0.0.0.0:1"], 78,
                "error: --listen: "
            ),
        ] as [([String], Int, String)])
    func refused(_ arguments: [String], _ code: Int, _ message: String) async throws {
        let given = arguments.contains("--output") ? [] : ["--output", output]
        let run = try await CommandRun(["init"] + given + arguments)
        #expect(run.exit == .code(code) && run.output.isEmpty, "\(run.errors)")
        #expect(run.errors.joined(separator: "\n").contains(message), "\(run.errors)")
        #expect(names == ["secret"])
    }

    @Test("a full disk leaves nothing: 74")
    func full() async throws {
        let command = [
            try Products.path("lanyard"), "init", "--no-online", "--output", output, "--upstream", "http://127.0.0.1:9",
            "--issuer", "http://127.0.0.1:9", "--client-id", "c",
        ]
        // A limit on the size of files stands for the disk: the store's key fits, the configuration does not.
        let process = try ServerProcess("/bin/bash", ["-c", "ulimit -f 1; exec \"$@\"", "bash"] + Self.padded(command))
        #expect(try await process.waitForExit() == .code(74), "\(process.log)")
        #expect(process.log.contains("\(output) cannot be written (File too large): nothing is left of it"))
        #expect(names == ["secret"])
    }

    /// With scopes of more than a block of 1024 bytes.
    private static func padded(_ command: [String]) -> [String] {
        command + ["--scopes", (0..<300).map { "scope\($0)" }.joined(separator: ",")]
    }

    // MARK: Terminal

    private func start(_ terminal: PseudoTerminal, _ arguments: [String] = []) throws -> ServerProcess {
        try ServerProcess(
            "lanyard", ["init", "--output", output] + arguments, environment: ["LC_ALL": "C"],
            input: .terminal(terminal, showsOutput: true))
    }

    @Test("on a terminal it asks, repeats a question after a wrong reply, and shows ASCII alone")
    func asked() async throws {
        let (terminal, provider, upstream) = (try PseudoTerminal(columns: 60), try Self.provider(), try RawServer())
        let process = try start(terminal)
        try await terminal.shows("Where requests go (URL): ")
        try terminal.type("nowhere\n")
        try await eventually("it is told") { process.log.contains("error: ") }
        try terminal.type("http://\(upstream.endpoint)\n")
        try await terminal.shows("Number or word [1]: ")
        try terminal.type("9\n")
        try await eventually("it is told") { process.log.contains("write a number from 1 to 6") }
        try terminal.type("device\n")
        try await terminal.shows("Issuer, as the server writes it (URL): ")
        try terminal.type(bytes: [0xff, 0xfe, 10])
        try await eventually("it is told") { process.log.contains("no text in UTF-8") }
        try terminal.type("\n")
        try await eventually("it is told") { process.log.contains("a value is needed") }
        try terminal.type("http://\(provider.endpoint)\n")
        try await terminal.shows("Client id: ")
        try terminal.type("  cli  \n")
        try await terminal.shows("a public client): ")
        try terminal.type("\n")
        try await terminal.shows("Scopes, separated by blanks (empty: none): ")
        try terminal.type("openid offline_access\n")
        try await terminal.shows("Audience (empty: none): ")
        try terminal.type("\n")
        #expect(try await process.waitForExit() == .code(0), "\(terminal.screen)")
        try await terminal.shows("What to do next:")
        #expect(terminal.screen.unicodeScalars.allSatisfy { $0.isASCII || $0 == "\u{fffd}" }, "\(terminal.screen)")
        #expect(
            content.contains("client_id: cli\n") && content.contains("scopes: [openid, offline_access]\n"), "\(content)"
        )
        #expect(content.contains("device: {}\n") && names == ["lanyard.yaml", "secret", "store.key"])
    }

    @Test(
        "an end of input in the middle is 64, ^C ends it by SIGINT, and nothing is written",
        arguments: ["\u{4}", "\u{3}"])
    func ended(_ key: String) async throws {
        let terminal = try PseudoTerminal()
        let process = try start(terminal, ["--login", "static"])
        try await terminal.shows("Where requests go (URL): ")
        try terminal.type("http://127.0.0.1:9\n")
        try await terminal.shows("File of the token [token]: ")
        try terminal.type(key)
        let exit = try await process.waitForExit()
        #expect(exit == (key == "\u{4}" ? .code(64) : .signal(Int(SIGINT))))
        if key == "\u{4}" {
            #expect(process.log.contains("the input has ended: nothing was written"), "\(process.log)")
        }
        #expect(names == ["secret"])
    }

    @Test("values that contradict each other are said with the command that repeats them")
    func repeated() async throws {
        let terminal = try PseudoTerminal()
        let process = try start(terminal, ["--login", "static"])
        try await terminal.shows("Where requests go (URL): ")
        try terminal.type("http://10.0.0.1:9\n")
        try await terminal.shows("File of the token [token]: ")
        try terminal.type("\n")
        #expect(try await process.waitForExit() == .code(78))
        let command = "lanyard init --output \(output) --login static --upstream http://10.0.0.1:9 --token-file token"
        #expect(process.log.contains(command), "\(process.log)")
        #expect(names == ["secret"])
    }
}
