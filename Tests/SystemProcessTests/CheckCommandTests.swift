import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard check` and `lanyard version` as an operator meets them.
@Suite struct CheckCommandTests {
    private struct Outcome {
        var exit: ServerProcess.Exit
        var output: String
        var errors: [String]
    }

    private func lanyard(_ arguments: [String], environment: [String: String] = [:]) async throws -> Outcome {
        let process = try ServerProcess("lanyard", arguments, environment: environment)
        let exit = try await process.waitForExit()
        return Outcome(exit: exit, output: process.output, errors: process.lines.map(\.text))
    }

    private static let valid = """
        identities:
          demo:
            static: {token_file: token}
        users:
          alice: {identity: demo}
        routes:
          - upstream: http://127.0.0.1:9000

        """

    @Test("a valid configuration: exit 0 and one line")
    func valid() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let path = try folder.write("lanyard.yaml", Self.valid)
        let outcome = try await lanyard(["check", "--config", path])
        #expect(outcome.exit == .code(0))
        #expect(outcome.output == "The configuration is valid.\n")
        #expect(outcome.errors == [])
    }

    @Test("what run says of the content of secret files is a warning of check, and an error with --strict")
    func secretFiles() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", Tokens.jwt(#"{"exp":1700000000}"#))
        let fixed = try folder.write("fixed.yaml", Self.valid)
        try folder.write("secret", "s")
        let head = try folder.write("head", "one\ntwo\n")
        let fields = try folder.write(
            "fields.yaml",
            """
            identities:
              corp: {oauth2: {issuer: "https://idp.example", client_id: c, client_secret_file: secret, token_headers: {X-A: {file: head}}}}
            users: {robot: {identity: corp, login: {client_credentials: {}}}}
            routes: [{upstream: "http://127.0.0.1:9000"}]

            """)
        let routes = try folder.write(
            "routes.yaml",
            """
            identities: {demo: {static: {token_file: plain}}}
            users: {alice: {identity: demo}}
            routes: [{upstream: "http://127.0.0.1:9000", set_headers: {X-A: {file: head}}}]

            """)
        try folder.write("plain", "t")
        let line = "has more than one line: it does not hold the value of a field"
        for (path, words) in [
            (
                fixed,
                "identities.demo.static.token_file: \(folder.path)/token holds a token that names its own end (exp)"
            ),
            (fixed, "2023-11-14T22:13:20.000Z, which has passed"),
            (fields, "identities.corp.oauth2.token_headers.X-A.file: \(head) \(line)"),
            (routes, "routes[0].set_headers.X-A.file: \(head) \(line)"),
        ] {
            let outcome = try await lanyard(["check", "--config", path])
            #expect(outcome.exit == .code(0), "\(outcome.errors)")
            #expect(outcome.errors.count == 1 && outcome.errors[0].contains(words), "\(outcome.errors)")
            #expect(try await lanyard(["check", "--strict", "--config", path]).exit == .code(78))
        }
    }

    @Test("everything that is wrong is said at once, a line each with file and line: exit 78")
    func faults() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let text = Self.valid + "limts: {}\nlimits: {connections_max: many}\nlog: {level: info, level: debug}\n"
        let path = try folder.write("lanyard.yaml", text)
        let outcome = try await lanyard(["check", "--config", path])
        #expect(outcome.exit == .code(78))
        #expect(outcome.output == "")
        #expect(
            outcome.errors == [
                "error: \(path):8:1: unknown key \"limts\"; did you mean \"limits\"?",
                "error: \(path):9:27: limits.connections_max: \"many\" is not a whole number from 1 to 1000000; write digits only",
                "error: \(path):10:20: duplicate key \"level\", first on line 10; keep one of them",
            ])
    }

    @Test(
        "of hundreds of faults the first hundred are said, and that there are more",
        arguments: [
            ("wrong#: 1", "8:1: unknown key \"wrong0\"", "108:1"),
            ("  - {name: n#}", "7:5: missing key \"routes[0].name\"", "107:5"),
        ])
    func hundreds(_ line: String, _ first: String, _ last: String) async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let lines = (0..<250).map { line.replacing("#", with: "\($0)") + "\n" }
        let path = try folder.write("lanyard.yaml", Self.valid + lines.joined())
        let outcome = try await lanyard(["check", "--config", path])
        #expect(outcome.exit == .code(78))
        #expect(outcome.errors.count == 101)
        #expect(outcome.errors[0].hasPrefix("error: \(path):\(first)"))
        #expect(
            outcome.errors[100] == "error: \(path):\(last): and more errors from here on; correct those above first")
    }

    @Test("a missing configuration: exit 78, with its name")
    func missing() async throws {
        let outcome = try await lanyard(["check", "--config", "/nonexistent/lanyard.yaml"])
        #expect(outcome.exit == .code(78))
        #expect(
            outcome.errors == [
                "error: /nonexistent/lanyard.yaml: cannot read the configuration file: No such file or directory; "
                    + "check --config or LANYARD_CONFIG"
            ])
        #expect(try await lanyard(["check"]).exit == .code(78))
        #expect(try await lanyard(["run"]).exit == .code(78))
    }

    @Test("a missing and a world-readable secret file: warnings, and exit 0")
    func secrets() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("lanyard.yaml", Self.valid)
        let missing = try await lanyard(["check", "--config", path])
        #expect(missing.exit == .code(0))
        #expect(
            missing.errors == [
                "warning: \(path):3:26: identities.demo.static.token_file: \(folder.file("token")) does not exist; "
                    + "its user is refused until the file appears"
            ])
        try folder.write("token", "t", mode: 0o644)
        let open = try await lanyard(["check", "--config", path])
        #expect(open.exit == .code(0))
        #expect(open.errors.count == 1 && open.errors[0].contains("every Unix user of this machine can read"))
    }

    @Test("--strict takes a warning as an error, of the configuration and of the store alike")
    func strict() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("lanyard.yaml", Self.valid)
        let missing = try await lanyard(["check", "--strict", "--config", path])
        #expect(missing.exit == .code(78))
        #expect(missing.errors.count == 2 && missing.errors[0].hasPrefix("warning: "))
        #expect(missing.errors.last == "error: --strict: a warning counts as an error")
        #expect(missing.output.isEmpty)
        try folder.write("token", "t")
        let right = try await lanyard(["check", "--strict", "--config", path])
        #expect(right.exit == .code(0) && right.errors.isEmpty)
    }

    @Test("what is wrong with the short form names the flags that mend it: exit 78")
    func shortForm() async throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "t")
        let outcome = try await lanyard([
            "check", "--upstream", "http://10.0.0.1:1", "--listen", "0.0.0.0:7400", "--token-file", token,
        ])
        #expect(outcome.exit == .code(78))
        #expect(
            outcome.errors == [
                "error: --listen: listeners[0].address: other machines can reach 0.0.0.0:7400 and would act as the user; "
                    + "bind 127.0.0.1:7400, add --capability-file, or add --unsafe if something else prevents that",
                "error: --listen: listeners[0].address: 0.0.0.0:7400 is every address, so there is no default for allowed_hosts; "
                    + "add --allowed-hosts, such as api.internal:7400",
                "error: --upstream: routes[0].upstream: plain http would show tokens on the network path to 10.0.0.1; "
                    + "add --unsafe-plain if that way is safe",
            ])
    }

    @Test("a CA file that is no PEM: exit 78 for check and run, with file, line and remedy")
    func authorities() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let file = try folder.write("ca.pem", "no certificate\n")
        let text = Self.valid.replacing("{token_file: token}", with: "{token_file: token}\n    tls: {ca_file: ca.pem}")
        let path = try folder.write("lanyard.yaml", text)
        let words = "\(path):4:20: identities.demo.tls.ca_file: \(file) holds no certificate in PEM, or a damaged one; "
        for command in ["check", "run"] {
            let outcome = try await lanyard([command, "--config", path])
            #expect(outcome.exit == .code(78))
            #expect(outcome.errors.count == 1 && outcome.errors[0].contains(words), "\(outcome.errors)")
        }
        try folder.write("ca.pem", TestCertificate.pem)
        #expect(try await lanyard(["check", "--config", path]).exit == .code(0))
    }

    @Test(
        "a capability or an admin token that run refuses: one error with place and remedy, exit 78 for check and run",
        arguments: [
            ("short", "holds fewer than 32 characters, which could be guessed; openssl rand -hex 32 makes a good one"),
            ("", "holds fewer than 32 characters"),
            (String(repeating: "c", count: 1025), "holds more than 1024 characters"),
            ("0123456789abcdef 0123456789abcdef", "has a blank at byte 16"),
            ("0123456789abcdef\n0123456789abcdef", "has more than one line"),
            ("\u{FEFF}\u{e9}0123456789abcdef0123456789abcdef", "has a character at byte 0 that is not ASCII"),
        ],
        [
            "listeners: [{address: '127.0.0.1:0', capability_file: word}]",
            "admin: {address: '127.0.0.1:0', token_file: word}",
        ])
    func fieldSecrets(_ secret: (text: String, words: String), _ line: String) async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        try folder.write("word", secret.text)
        let path = try folder.write("lanyard.yaml", Self.valid + line + "\n")
        let (key, column) = line.hasPrefix("admin") ? ("admin.token_file", 45) : ("listeners[0].capability_file", 55)
        for command in ["check", "run"] {
            let outcome = try await lanyard([command, "--config", path])
            #expect(outcome.exit == .code(78))
            #expect(outcome.errors.count == 1, "\(outcome.errors)")
            let start = "error: \(path):8:\(column): \(key): \(folder.file("word")) \(secret.words)"
            #expect(outcome.errors.first?.hasPrefix(start) == true, "\(outcome.errors)")
        }
        try folder.write("word", String(repeating: "w", count: 32))
        #expect(try await lanyard(["check", "--strict", "--config", path]).exit == .code(0))
    }

    @Test(
        "a unix socket that run cannot bind is named with place and remedy, as run names it",
        arguments: [
            (
                "admin: {address: 'unix:#/none/admin.sock'}", "8:18: admin.address: ",
                "lies in a folder that does not exist"
            ),
            (
                "admin: {address: 'unix:#/token/admin.sock'}", "8:18: admin.address: ",
                "lies in a folder that does not exist"
            ),
            ("admin: {address: 'unix:#/token'}", "8:18: admin.address: ", "is taken by something that is not a socket"),
            (
                "listeners: [{address: 'unix:#/none/in'}]", "8:23: listeners[0].address: ",
                "lies in a folder that does not exist"
            ),
            (
                "health: {address: 'unix:#/token'}", "8:19: health.address: ",
                "is taken by something that is not a socket"
            ),
        ])
    func sockets(_ text: String, _ place: String, _ words: String) async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let others = ["listeners: [{address: '127.0.0.1:0'}]", "health: off", "admin: off"].filter {
            $0.prefix { $0 != ":" } != text.prefix { $0 != ":" }
        }
        let lines = [text.replacing("#", with: folder.path)] + others
        let path = try folder.write("lanyard.yaml", Self.valid + lines.joined(separator: "\n") + "\n")
        let outcome = try await lanyard(["check", "--config", path])
        #expect(outcome.exit == .code(78))
        #expect(outcome.errors.count == 1, "\(outcome.errors)")
        let line = try #require(outcome.errors.first)
        #expect(line.hasPrefix("error: \(path):\(place)") && line.contains(words), "\(line)")
        let run = try await lanyard(["run", "--config", path])
        #expect(run.exit == .code(69))
        #expect(run.errors.contains { $0.contains(line.dropFirst("error: ".count)) }, "\(run.errors)")
    }

    @Test("a folder that is made at the start, below /run, is a warning; a socket in use by a running Lanyard is none")
    func socketsOfRunning() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let path = try folder.write(
            "lanyard.yaml", Self.valid + "admin: {address: 'unix:/run/lanyard-none/admin.sock'}\n")
        let early = try await lanyard(["check", "--config", path])
        #expect(early.exit == .code(0))
        #expect(early.errors.count == 1 && early.errors[0].hasPrefix("warning: \(path):8:18: "), "\(early.errors)")
        let used = try RawServer(at: .unix(folder.file("admin.sock")))
        try folder.write("lanyard.yaml", Self.valid + "admin: {address: 'unix:\(folder.file("admin.sock"))'}\n")
        #expect(try await lanyard(["check", "--strict", "--config", path]).errors == [])
        withExtendedLifetime(used) {}
    }

    @Test("a folder of the store that cannot be made: named with its remedy, as run names it; one that can be: nothing")
    func storeFolder() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        try folder.write("seal", String(repeating: "k", count: 32))
        for (store, code) in [("none/below/sessions", 78), ("token/sessions", 78), ("new/sessions", 0)] {
            let path = try folder.write("lanyard.yaml", Self.valid + "store: {path: \(store), key_file: seal}\n")
            let outcome = try await lanyard(["check", "--config", path])
            #expect(outcome.exit == .code(code), "\(outcome.errors)")
            guard code != 0 else {
                #expect(outcome.errors == [])
                continue
            }
            let line = try #require(outcome.errors.first)
            let place = "error: \(path):8:15: store.path: "
            #expect(line.hasPrefix(place) && line.contains("folder") && line.contains("; "), "\(line)")
            let run = try await lanyard(["run", "--config", path])
            #expect(run.exit == .code(78))
            #expect(run.errors.contains { $0.contains(line.dropFirst(place.count)) }, "\(line) \(run.errors)")
        }
    }

    @Test(
        "folders that only this user may not write: warnings with the remedy", .enabled("needs root") { getuid() == 0 })
    func foldersOfOthers() async throws {
        let folder = try TemporaryFolder()
        chmod(folder.path, 0o755)
        for (name, text) in [("token", "t"), ("seal", String(repeating: "k", count: 32))] {
            try folder.write(name, text)
            chown(folder.file(name), 65534, 65534)
        }
        let path = try folder.write(
            "lanyard.yaml",
            Self.valid
                + "store: {path: new/sessions, key_file: seal}\nadmin: {address: 'unix:\(folder.file("admin.sock"))'}\n",
            mode: 0o644)
        let process = try ServerProcess("lanyard", ["check", "--config", path], as: .nobody)
        #expect(try await process.waitForExit() == .code(0))
        let lines = process.lines.map(\.text)
        #expect(lines.count == 2 && lines.allSatisfy { $0.hasPrefix("warning: ") }, "\(lines)")
        #expect(lines.contains { $0.contains("may not be bound by this user") }, "\(lines)")
        #expect(lines.contains { $0.contains("let uid 65534 read and write in") }, "\(lines)")
    }

    @Test("certificates that end within 14 days are warnings at their place; later ones are nothing")
    func endingCertificates() async throws {
        let (folder, authority) = (try TemporaryFolder(), TestAuthority("Ends"))
        try folder.write("token", "t")
        for (name, hours) in [("soon", 60), ("today", 5), ("later", 15 * 24)] {
            let issued = authority.issue("DNS:localhost", to: hours * 3600)
            try folder.write("\(name).pem", issued.certificate)
            try folder.write("\(name).key", issued.key)
        }
        func keys(_ name: String) -> String { "tls: {certificate_file: \(name).pem, key_file: \(name).key}" }
        let path = try folder.write(
            "lanyard.yaml",
            Self.valid + "  - {name: b, match: {path: /b}, upstream: \"https://localhost:1\", \(keys("later"))}\n"
                + "listeners: [{address: \"127.0.0.1:0\", \(keys("soon"))}]\n")
        let named = try String(contentsOfFile: path, encoding: .utf8)
            .replacing("- upstream", with: "- name: a\n    upstream")
        try folder.write("lanyard.yaml", named)
        let outcome = try await lanyard(["check", "--config", path])
        #expect(outcome.exit == .code(0))
        let words =
            "warning: \(path):10:62: listeners[0].tls.certificate_file: the certificate of \(folder.file("soon.pem")) ends in 2 days, at "
        #expect(outcome.errors.count == 1 && outcome.errors[0].hasPrefix(words), "\(outcome.errors)")
        try folder.write("lanyard.yaml", named.replacing("soon", with: "today"))
        let today = try await lanyard(["check", "--strict", "--config", path])
        #expect(today.exit == .code(78) && today.errors[0].contains("ends in less than a day, at "))
    }

    @Test("two files, an unknown flag or a short flag beside a whole file: exit 64")
    func usage() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let path = try folder.write("lanyard.yaml", Self.valid)
        for arguments in [
            ["check", "--config", path, "--config", path], ["check", "--config", path, "--bogus", "1"],
            ["run", "--config", path, "--upstream", "http://127.0.0.1:1"], ["bogus"], ["health", "--bogus"],
        ] {
            let outcome = try await lanyard(arguments)
            #expect(outcome.exit == .code(64), "\(arguments): \(outcome.errors)")
            #expect(!outcome.errors.isEmpty)
        }
    }

    @Test("--print-config prints what holds in the end, flags and variables included, and never a secret")
    func printed() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "hunter2")
        let path = try folder.write("lanyard.yaml", Self.valid)
        let outcome = try await lanyard(
            ["check", "--print-config", "--config", path, "--refresh-at", "50-60%"],
            environment: ["LANYARD_LOG_LEVEL": "debug"])
        #expect(outcome.exit == .code(0))
        #expect(outcome.output.contains("\n  at: 50-60%\n"))
        #expect(outcome.output.contains("\nstore:\n  memory: true\n"))
        #expect(outcome.output.contains("\n  - name: default\n"))
        #expect(outcome.output.contains("\n  level: debug\n"))
        #expect(outcome.output.contains("token_file: \(folder.file("token"))\n"))
        #expect(!outcome.output.contains("hunter2"))
        let again = try folder.write("again.yaml", outcome.output)
        #expect(try await lanyard(["check", "--config", again]).exit == .code(0))
    }

    @Test(
        "what guards and is not in this version keeps check and run from starting, wherever it was given",
        arguments: [
            (["--user", "nobody"], [:], "--user: user \"nobody\" is not in this version"),
            (["--shutdown-logout"], [:], "--shutdown-logout: shutdown.logout \"true\" is not in this version"),
            (["--sandbox", "require"], [:], "--sandbox: sandbox \"require\" is not in this version"),
            ([], ["LANYARD_USER": "nobody"], "LANYARD_USER: user \"nobody\" is not in this version"),
            (
                [], ["LANYARD_SHUTDOWN_LOGOUT": "true"],
                "LANYARD_SHUTDOWN_LOGOUT: shutdown.logout \"true\" is not in this"
            ),
            (["user: nobody\n"], nil, ":8:7: user \"nobody\" is not in this version"),
            (["shutdown: {logout: true}\n"], nil, ":8:20: shutdown.logout \"true\" is not in this version"),
            (
                ["listeners: [{address: '127.0.0.1:0', socket_mode: '0600'}]\n"], nil,
                ":8:51: listeners[0].socket_mode: 127.0.0.1:0 is not a unix socket"
            ),
        ] as [([String], [String: String]?, String)])
    func guards(_ given: [String], _ environment: [String: String]?, _ words: String) async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        // Without an environment the text is a line of the file.
        let path = try folder.write("lanyard.yaml", Self.valid + (environment == nil ? given[0] : ""))
        for command in ["check", "run"] {
            let arguments = [command, "--config", path] + (environment == nil ? [] : given)
            let outcome = try await lanyard(arguments, environment: environment ?? [:])
            #expect(outcome.exit == .code(78))
            #expect(outcome.errors.count == 1 && outcome.errors[0].hasPrefix("error: "), "\(outcome.errors)")
            #expect(outcome.errors.first?.contains(words) == true, "\(outcome.errors)")
        }
    }

    @Test("a byte order mark before UTF-8 is nothing special")
    func byteOrderMark() async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let path = try folder.write("lanyard.yaml", "\u{FEFF}" + Self.valid)
        #expect(try await lanyard(["check", "--config", path]).exit == .code(0))
        try folder.write("lanyard.yaml", "\u{FEFF}" + Self.valid + "limts: {}\n")
        #expect(
            try await lanyard(["check", "--config", path]).errors == [
                "error: \(path):8:1: unknown key \"limts\"; did you mean \"limits\"?"
            ])
        try folder.write("lanyard.yaml", "\u{FEFF}limts: {}\n" + Self.valid)
        #expect(
            try await lanyard(["check", "--config", path]).errors == [
                "error: \(path):1:1: unknown key \"limts\"; did you mean \"limits\"?"
            ])
    }

    @Test(
        "a file in another encoding of Unicode is told to be saved as UTF-8",
        arguments: [
            (String.Encoding.utf16LittleEndian, [0xff, 0xfe], "UTF-16"), (.utf16LittleEndian, [], "UTF-16"),
            (.utf16BigEndian, [0xfe, 0xff], "UTF-16"), (.utf16BigEndian, [], "UTF-16"),
            (.utf32LittleEndian, [0xff, 0xfe, 0, 0], "UTF-32"), (.utf32LittleEndian, [], "UTF-32"),
            (.utf32BigEndian, [0, 0, 0xfe, 0xff], "UTF-32"), (.utf32BigEndian, [], "UTF-32"),
        ] as [(String.Encoding, [UInt8], String)])
    func otherEncodings(_ encoding: String.Encoding, _ mark: [UInt8], _ name: String) async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("lanyard.yaml")
        try (Data(mark) + #require(Self.valid.data(using: encoding))).write(to: URL(fileURLWithPath: path))
        let outcome = try await lanyard(["check", "--config", path])
        #expect(outcome.exit == .code(78))
        #expect(outcome.errors == ["error: \(path):1:1: \(name), not UTF-8; save the file as UTF-8"])
    }

    @Test(
        "a file that says nothing is told so, and the smallest file that works, which does",
        arguments: [
            "", "\n", "# nothing yet\n", "---\n", "---\n...\n", "null\n", "~\n", "{}\n", "\u{FEFF}", "\u{FEFF}# a\n",
        ])
    func empty(_ text: String) async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("lanyard.yaml", text)
        for command in ["check", "run"] {
            let outcome = try await lanyard([command, "--config", path])
            #expect(outcome.exit == .code(78))
            #expect(outcome.errors.count == 1)
            let line = try #require(outcome.errors.first)
            let start = "error: \(path): the file is empty; write at least: "
            #expect(line.hasPrefix(start), "\(line)")
            let shown = try folder.write("shown.yaml", String(line.dropFirst(start.count)))
            // Its token file is missing here, which is a warning.
            let second = try await lanyard(["check", "--config", shown])
            #expect(second.exit == .code(0))
            #expect(second.errors.allSatisfy { $0.contains("does not exist") }, "\(second.errors)")
            try folder.write("token", "t")
            #expect(try await lanyard(["check", "--config", shown]).errors == [])
        }
    }

    @Test(
        "a route of an unknown user is a fault where nothing can bring that user, else a warning",
        arguments: [
            ("admin: off\n", 78), ("admin: {address: off}\n", 78), ("", 0),
            ("admin: off\nstore: {path: sessions, key_file: seal}\n", 0),
        ])
    func unknownUser(_ rest: String, _ code: Int) async throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        try folder.write("seal", String(repeating: "k", count: 32))
        let severity = code == 0 ? "warning" : "error"
        let path = try folder.write("lanyard.yaml", Self.valid + "    user: zoe\n" + rest)
        let outcome = try await lanyard(["check", "--config", path])
        #expect(outcome.exit == .code(code), "\(outcome.errors)")
        #expect(outcome.errors.count == 1)
        #expect(
            outcome.errors.first?.hasPrefix(
                "\(severity): \(path):8:11: routes[0].user: no user \"zoe\" is configured; ")
                == true,
            "\(outcome.errors)")
        if code == 78 { #expect(try await lanyard(["run", "--config", path]).exit == .code(78)) }
    }

    @Test("the help of run and check lists every kind of flag, and version is one line")
    func help() async throws {
        for command in ["run", "check"] {
            let outcome = try await lanyard([command, "--help"])
            #expect(outcome.exit == .code(0))
            for flag in ["--config", "--upstream", "--refresh-at", "--limits-connections-max"] {
                #expect(outcome.output.contains("  \(flag)\n"))
            }
        }
        let version = try await lanyard(["version"])
        #expect(version.exit == .code(0))
        let line = /lanyard \d+\.\d+\.\d+ \(commit ([0-9a-f]{12}(-dirty)?|unknown)\)\n/
        #expect(version.output.wholeMatch(of: line) != nil, "\(version.output)")
    }
}
