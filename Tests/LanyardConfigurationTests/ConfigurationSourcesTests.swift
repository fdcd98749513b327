import Foundation
import Glibc
import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// File, environment and flags together, and the short form without a file.
@Suite struct ConfigurationSourcesTests {
    private func load(_ arguments: [String], _ environment: [String: String] = [:]) -> LoadedConfiguration {
        Configuration.load(arguments: arguments, environment: environment)
    }

    @Test("a flag wins over a variable, a variable over the file, the file over the default")
    func precedence() throws {
        let text = Loading.whole + "limits: {connections_max: 1, header_fields_max: 99, idle_timeout: 1s}\n"
        let environment = ["LANYARD_LIMITS_CONNECTIONS_MAX": "2", "LANYARD_LIMITS_HEADER_FIELDS_MAX": "98"]
        let (loaded, diagnostics) = try Loading.load(
            text, arguments: ["--limits-connections-max", "3"], environment: environment)
        #expect(diagnostics == [])
        let limits = try #require(loaded.configuration?.limits)
        #expect(limits.connectionsMax == 3)
        #expect(limits.headerFieldsMax == 98)
        #expect(limits.idleTimeout == .seconds(1))
        #expect(limits.parkedRequestsMax == 1024)
    }

    @Test("every single key outside lists and names has a flag and a variable, with its value in either spelling")
    func flags() throws {
        let arguments = [
            "--refresh-at=50-60%", "--shutdown-drain-max", "7s", "--log-level", "debug", "--health-address", "off",
            "--shards",
            "2", "--shutdown-exit-zero-on-sigterm", "--log-access", "false", "--login-required-status", "401",
        ]
        let configuration = try #require(try Loading.load(Loading.whole, arguments: arguments).loaded.configuration)
        #expect(configuration.refresh.at == 0.5...0.6)
        #expect(configuration.shutdown.drainMax == .seconds(7))
        #expect(configuration.shutdown.exitZeroOnSIGTERM)
        #expect(configuration.log.level == .debug && !configuration.log.logsAccess)
        #expect(configuration.health == nil)
        #expect(configuration.shards == 2)
        #expect(configuration.loginRequiredStatus == 401)
        let names = ConfigurationFlag.all.map(\.name)
        #expect(Set(names).count == names.count)
        #expect(!names.contains { $0.hasPrefix("--port") || $0.hasPrefix("--service-") })
    }

    @Test("what guards and is not in this version is a fault from flags and variables, too, at their place")
    func guards() throws {
        let environment = ["LANYARD_USER": "nobody", "LANYARD_SHUTDOWN_LOGOUT": "true", "LANYARD_SANDBOX": "require"]
        let flags = ["--user", "nobody", "--shutdown-logout", "--sandbox=require"]
        for (arguments, variables) in [(flags, [:]), ([], environment)] {
            let (loaded, diagnostics) = try Loading.load(Loading.whole, arguments: arguments, environment: variables)
            #expect(loaded.exitCode == 78)
            #expect(
                diagnostics.count == 3 && diagnostics.allSatisfy { $0.contains("is not in this version") },
                "\(diagnostics)")
            let given = variables.isEmpty ? ["--user", "--shutdown-logout", "--sandbox"] : Array(environment.keys)
            for name in given {
                #expect(diagnostics.count { $0.hasPrefix("\(name): ") } == 1, "\(name): \(diagnostics)")
            }
        }
    }

    @Test("a flag of a section that the file has wrong adds no fault of its own")
    func sectionBelowFlag() throws {
        #expect(
            try Loading.diagnostics(Loading.whole + "admin: 5\n", arguments: ["--admin-address", "127.0.0.1:1"]) == [
                "lanyard.yaml:8:8: admin: \"5\" is neither a mapping nor off; write off, or keys and values below it"
            ])
    }

    @Test("a wrong value says which flag or variable it came from")
    func places() throws {
        #expect(
            try Loading.diagnostics(
                Loading.whole, arguments: ["--log-level", "loud"], environment: ["LANYARD_REFRESH_AT": "never"]) == [
                    "LANYARD_REFRESH_AT: refresh.at: \"never\" is not a part of the lifetime in percent; write such as 65-75%",
                    "--log-level: log.level: \"loud\" is not one of trace, debug, info, notice, warning, error, critical; "
                        + "write one of them",
                ])
    }

    @Test("an unknown variable is a warning, and those of Kubernetes and empty ones are nothing")
    func variables() throws {
        let environment = [
            "LANYARD_LOG_LEVLE": "debug", "LANYARD_PORT": "tcp://10.0.0.1:80", "LANYARD_PORT_80_TCP_ADDR": "10.0.0.1",
            "LANYARD_SERVICE_HOST": "10.0.0.1", "LANYARD_SHARDS": "", "PATH": "/bin", "LANYARD_QQQQQ": "1",
        ]
        #expect(
            try Loading.diagnostics(Loading.whole, environment: environment) == [
                "warning: LANYARD_LOG_LEVLE: an unknown variable, which is ignored; did you mean LANYARD_LOG_LEVEL?",
                "warning: LANYARD_QQQQQ: an unknown variable, which is ignored; remove it",
            ])
    }

    @Test(
        "a flag or a variable of another program is told by its meaning, not by its spelling",
        arguments: [
            ("--token-url", "--token-endpoint"), ("--issuer-url", "--issuer"), ("--bind", "--listen"),
            ("--target", "--upstream"),
        ])
    func meant(_ name: String, _ expected: String) throws {
        #expect(load([name, "x"]).diagnostics.contains { $0.description.contains("did you mean \(expected)?") })
        let (variable, known) = (ConfigurationFlag.environment(of: name), ConfigurationFlag.environment(of: expected))
        #expect(
            try Loading.diagnostics(Loading.whole, environment: [variable: "x"]) == [
                "warning: \(variable): an unknown variable, which is ignored; did you mean \(known)?"
            ])
    }

    @Test(
        "a command line that contradicts itself is a usage error, 64",
        arguments: [
            (["--config", "a", "--config", "b"], "--config is given twice"),
            (["--upsteam", "http://127.0.0.1:1"], "unknown flag \"--upsteam\""),
            (["--password", "hunter2"], "unknown flag \"--password\""),
            (["run"], "unexpected argument \"run\""), (["--"], "unexpected argument \"--\""),
            (["--upstream"], "--upstream has no value"), (["--upstream", "--anonymous"], "--upstream has no value"),
            (["--upstream="], "--upstream has no value"),
            (["--log-access=maybe"], nil),
            (
                ["--upstream", "http://127.0.0.1:1", "--token-file", "/t", "--app-id", "x"],
                "--token-file and --app-id are two kinds of identity"
            ),
            (
                [
                    "--upstream", "http://127.0.0.1:1", "--app-id", "x", "--base-url", "http://127.0.0.1:1",
                    "--anonymous", "--api-key-file", "/k",
                ],
                "--api-key-file and --anonymous are two ways to log in"
            ),
        ] as [([String], String?)])
    func usage(_ arguments: [String], _ message: String?) {
        let loaded = load(arguments)
        #expect(loaded.exitCode == (message == nil ? 78 : 64))
        if let message { #expect(loaded.diagnostics.map(\.message).contains(message)) }
        #expect(!loaded.diagnostics.map(\.description).joined().contains("hunter2"))
    }

    @Test(
        "of two kinds of identity, or two ways to log in, nothing is said but that",
        arguments: [
            ["--token-file", "/t", "--anonymous"], ["--token-file", "/t", "--email", "a@b.c"],
            ["--app-id", "x", "--base-url", "http://127.0.0.1:1", "--email", "a@b.c", "--anonymous"],
        ])
    func oneContradiction(_ arguments: [String]) {
        let loaded = load(["--upstream", "http://127.0.0.1:1"] + arguments)
        let diagnostics = loaded.diagnostics.filter { $0.severity != .warning }
        #expect(
            diagnostics.count == 1 && diagnostics[0].severity == .usage && diagnostics[0].place == .commandLine,
            "\(diagnostics)")
    }

    @Test("what the short form has no key for is said to need a file, for flags and variables alike")
    func keysOfFilesOnly() throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "t")
        let remedies = [
            "add --unsafe if", "add --allowed-hosts, such as", "add --unsafe-plain if",
            "use a configuration file with routes[].allow_link_local: true",
        ]
        let flags = load(["--upstream", "http://169.254.0.1:1", "--listen", "0.0.0.0:7400", "--token-file", token])
        let variables = load(
            [],
            [
                "LANYARD_UPSTREAM": "http://169.254.0.1:1", "LANYARD_LISTEN": "0.0.0.0:7400",
                "LANYARD_TOKEN_FILE": token,
            ])
        for diagnostics in [flags.diagnostics, variables.diagnostics] {
            #expect(diagnostics.count == remedies.count, "\(diagnostics)")
            for remedy in remedies {
                let told = diagnostics.count { $0.remedy.contains(remedy) }
                #expect(told == 1, "\(remedy): \(diagnostics)")
            }
        }
    }

    @Test("flags of the listener say what a file says, with and without --listen")
    func listenerFlags() throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "t")
        let capability = try folder.write("capability", "0123456789abcdef0123456789abcdef")
        let flags = ["--upstream", "http://127.0.0.1:1", "--token-file", token, "--capability-file", capability]
        let open = load(
            flags + [
                "--listen", "0.0.0.0:7400", "--allowed-hosts", "api.internal:7400, other:1", "--required-header",
                "X-Here",
            ])
        let listener = try #require(open.configuration?.listeners.first, "\(open.diagnostics)")
        #expect(listener.address == .tcp(host: "0.0.0.0", port: 7400))
        #expect(listener.allowedHosts == ["api.internal:7400", "other:1"])
        #expect(listener.capabilityFile == capability && listener.requiredHeader == "X-Here")
        let ordinary = load(flags).configuration?.listeners.first
        #expect(ordinary?.address == .tcp(host: "127.0.0.1", port: 7400) && ordinary?.capabilityFile == capability)
        let unix = load(
            [
                "--upstream", "http://127.0.0.1:1", "--token-file", token, "--listen", "unix:/run/l.sock",
                "--peer-uids",
                "1,20", "--peer-gids", "5", "--socket-mode", "0660",
            ])
        #expect(unix.configuration?.listeners.first?.peers == .init(uids: [1, 20], gids: [5]), "\(unix.diagnostics)")
        #expect(unix.configuration?.listeners.first?.socketMode == 0o660)
        let wrong = load(flags + ["--listen", "unix:/run/l.sock", "--peer-uids", "1,,x"])
        #expect(
            wrong.diagnostics.map(\.description).filter { $0.contains("peers.uids") }.count == 2, "\(wrong.diagnostics)"
        )
    }

    @Test(
        "a short flag or variable beside a file with listeners, users, identities or routes is a usage error",
        arguments: [
            (["--upstream", "http://127.0.0.1:1"], [:], "--upstream"), (["--listen", "127.0.0.1:0"], [:], "--listen"),
            ([], ["LANYARD_APP_ID": "x"], "LANYARD_APP_ID"),
        ] as [([String], [String: String], String)])
    func shortBesideFile(_ arguments: [String], _ environment: [String: String], _ place: String) throws {
        let (loaded, diagnostics) = try Loading.load(Loading.whole, arguments: arguments, environment: environment)
        #expect(loaded.exitCode == 64)
        #expect(
            diagnostics == [
                "usage: \(place): is of the short form, and the file has users; remove it, or write it into the file"
            ])
    }

    @Test("a short form beside a file without such keys is fine")
    func shortBesideOtherKeys() throws {
        let folder = try TemporaryFolder()
        let token = try folder.write("token", "t")
        let arguments = ["--upstream", "http://127.0.0.1:1", "--token-file", token]
        let (loaded, diagnostics) = try Loading.load("log: {level: debug}\n", arguments: arguments)
        #expect(diagnostics == [])
        #expect(loaded.configuration?.log.level == .debug)
        #expect(loaded.configuration?.routes.count == 1)
    }

    @Test("one user needs no file: email and password")
    func email() throws {
        let folder = try TemporaryFolder()
        let password = try folder.write("password", "p")
        let loaded = load([
            "--upstream", "http://127.0.0.1:9000", "--app-id", "demo-abcde", "--base-url", "http://127.0.0.1:7490",
            "--email", "alice@example.com", "--password-file", password, "--listen", "127.0.0.1:0",
        ])
        #expect(loaded.diagnostics == [])
        let configuration = try #require(loaded.configuration)
        #expect(configuration.listeners.map(\.address) == [.tcp(host: "127.0.0.1", port: 0)])
        #expect(
            configuration.identities == [
                IdentitySettings(
                    name: "default",
                    kind: .appServices(.init(appID: "demo-abcde", baseURL: "http://127.0.0.1:7490")))
            ])
        #expect(
            configuration.users == [
                UserSettings(
                    name: "default", identity: "default",
                    login: .emailPassword(email: "alice@example.com", password: password))
            ])
        #expect(configuration.routes.map(\.route) == [RouteSettings(name: "default")])
        #expect(configuration.activeUser == "default")
    }

    @Test("one user needs no file: API key, anonymous, static, by flags or variables")
    func otherLogins() throws {
        let folder = try TemporaryFolder()
        let key = try folder.write("key", "k")
        let service = ["--upstream", "http://127.0.0.1:1", "--app-id", "a", "--base-url", "http://127.0.0.1:1"]
        #expect(load(service + ["--api-key-file", key]).configuration?.users.first?.login == .apiKey(key))
        let files: [(String, UserSettings.Login)] = [
            ("--function-payload-file", .function(payload: key)), ("--jwt-file", .jwt(key)),
            ("--facebook-access-token-file", .facebook(accessToken: key)),
            ("--google-id-token-file", .googleIDToken(key)),
            ("--google-auth-code-file", .googleAuthCode(key)),
            ("--apple-id-token-file", .apple(idToken: key)),
        ]
        for (flag, login) in files {
            #expect(load(service + [flag, key]).configuration?.users.first?.login == login)
            let variables = [
                "LANYARD_UPSTREAM": "http://127.0.0.1:1", "LANYARD_APP_ID": "a",
                "LANYARD_BASE_URL": "http://127.0.0.1:1",
                "LANYARD_" + flag.dropFirst(2).uppercased().replacing("-", with: "_"): key,
            ]
            #expect(load([], variables).configuration?.users.first?.login == login)
            let two = load(service + [flag, key, "--anonymous"])
            #expect(two.diagnostics.map(\.message).contains("\(flag) and --anonymous are two ways to log in"))
            let inline = load(service + [String(flag.dropLast("-file".count)), "secret"])
            #expect(inline.diagnostics.map(\.remedy).contains("secrets are never flags: use \(flag)"))
        }
        #expect(load(service + ["--anonymous"]).configuration?.users.first?.login == .anonymous)
        let environment = [
            "LANYARD_UPSTREAM": "http://127.0.0.1:1", "LANYARD_APP_ID": "a", "LANYARD_BASE_URL": "http://127.0.0.1:1",
            "LANYARD_ANONYMOUS": "true",
        ]
        #expect(load([], environment).configuration?.users.first?.login == .anonymous)
        let fixed = load(["--upstream", "http://127.0.0.1:1", "--token-file", key])
        #expect(fixed.configuration?.identities.first?.kind == .staticToken(file: key))
        #expect(fixed.configuration?.users == [UserSettings(name: "default", identity: "default")])
    }

    @Test(
        "an incomplete short form says which flags are missing",
        arguments: [
            ([], ["no configuration"]),
            (["--upstream", "http://127.0.0.1:1"], ["no identity"]),
            (["--token-file", "/dev/null"], ["missing flag --upstream"]),
            (["--upstream", "http://127.0.0.1:1", "--app-id", "a"], ["missing flag --base-url", "no login"]),
            (
                ["--upstream", "http://127.0.0.1:1", "--email", "a@b.c"],
                ["missing flag --app-id", "missing flag --password-file"]
            ),
            (["--listen", "127.0.0.1:1"], ["no identity", "missing flag --upstream"]),
        ] as [([String], [String])])
    func incomplete(_ arguments: [String], _ message: [String]) {
        let loaded = load(arguments)
        #expect(loaded.diagnostics.filter { $0.severity != .warning }.map(\.message) == message)
        #expect(loaded.exitCode == 78)
    }

    @Test("the file's name can come from the environment, and the flag wins")
    func file() throws {
        let folder = try TemporaryFolder()
        try folder.write("token", "t")
        let path = try folder.write("a.yaml", Loading.whole)
        #expect(load([], ["LANYARD_CONFIG": path]).configuration != nil)
        #expect(load(["--config", path], ["LANYARD_CONFIG": "/nonexistent"]).configuration != nil)
    }

    @Test("the health listener's address is found even in a configuration that is otherwise wrong")
    func healthAddress() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("a.yaml", "health: {address: 127.0.0.1:9}\nbogus: 1\n")
        let off = try folder.write("b.yaml", "health: off\n")
        let nothing = try folder.write("c.yaml", "")
        func place(_ path: String?, _ environment: [String: String] = [:]) -> HealthEndpoint {
            Configuration.healthEndpoint(arguments: path.map { ["--config", $0] } ?? [], environment: environment)
        }
        func address(_ path: String?, _ environment: [String: String] = [:]) -> ListenerSettings.Address? {
            if case .address(let address) = place(path, environment) { address } else { nil }
        }
        let standard = ListenerSettings.Address.tcp(host: "127.0.0.1", port: 7401)
        #expect(address(path) == .tcp(host: "127.0.0.1", port: 9))
        #expect(place(off) == .none)
        #expect(address(nothing) == standard)
        #expect(address(nil) == standard)
        #expect(address(nil, ["LANYARD_CONFIG": path]) == .tcp(host: "127.0.0.1", port: 9))
        #expect(address(nil, ["LANYARD_HEALTH_ADDRESS": "127.0.0.1:8"]) == .tcp(host: "127.0.0.1", port: 8))
        #expect(place(nil, ["LANYARD_HEALTH_ADDRESS": "off"]) == .none)
    }

    @Test(
        "a health address that the configuration hides is unknown, for the reason",
        arguments: [
            (nil, "cannot read the configuration file: No such file or directory"),
            ("health: {address: 127.0.0.1:9\n", "expected"),
            ("healht: {address: 127.0.0.1:9}\n", "did you mean \"health\"?"),
            ("health: {address: 127.0.0.1}\n", "health.address"),
            ("health: {adress: 127.0.0.1:9}\n", "did you mean \"address\"?"),
        ])
    func healthUnknown(_ text: String?, _ message: String) throws {
        let folder = try TemporaryFolder()
        let path = try text.map { try folder.write("a.yaml", $0) } ?? folder.file("none.yaml")
        for named in [(["--config", path], [:]), ([], ["LANYARD_CONFIG": path])] {
            guard
                case .unknown(let diagnostics) = Configuration.healthEndpoint(arguments: named.0, environment: named.1)
            else {
                Issue.record("\(text ?? "no file")")
                continue
            }
            #expect(diagnostics.count == 1 && diagnostics[0].description.contains(message), "\(diagnostics)")
            #expect(diagnostics[0].description.hasPrefix(path))
        }
    }

    @Test("the admin API is found even in a configuration that is otherwise wrong, with its token and the identities")
    func adminPlace() throws {
        let folder = try TemporaryFolder()
        let whole = try folder.write(
            "a.yaml",
            """
            admin: {address: "127.0.0.1:9", token_file: token}
            identities:
              demo: {app_services: {app_id: a, base_url: "http://127.0.0.1:1"}}
              fixed: {static: {token_file: t}}
            bogus: 1

            """)
        let nothing = try folder.write("c.yaml", "")
        func place(
            _ path: String?, _ environment: [String: String] = [:], uid: UInt32 = 1000, existing: [String] = []
        ) -> AdminEndpoint {
            Configuration.adminEndpoint(
                arguments: path.map { ["--config", $0] } ?? [], environment: environment, uid: uid,
                exists: existing.contains)
        }
        let found = AdminEndpoint.Place(
            address: .tcp(host: "127.0.0.1", port: 9), tokenFile: folder.file("token"), identities: ["demo"])
        #expect(place(whole) == .found(found))
        #expect(place(nil, ["LANYARD_CONFIG": whole]) == .found(found))
        let root = AdminEndpoint.Place(address: .unix(path: "/run/lanyard/admin.sock"))
        for uid: UInt32 in [0, 1000] {
            #expect(place(nil, uid: uid) == .found(root) && place(nothing, uid: uid) == .found(root))
        }
        let login = AdminEndpoint.Place(address: .unix(path: "/run/user/7/lanyard/admin.sock"))
        let session = ["XDG_RUNTIME_DIR": "/run/user/7"]
        #expect(place(nothing, session) == .found(login))
        #expect(place(nothing, session, existing: ["/run/lanyard"]) == .found(root))
        #expect(
            place(nothing, session, existing: ["/run/lanyard", "/run/user/7/lanyard/admin.sock"]) == .found(login))
        #expect(place(nothing, session, uid: 0, existing: ["/run/user/7/lanyard/admin.sock"]) == .found(root))
        let service = AdminEndpoint.Place(address: .unix(path: "/run/x/admin.sock"))
        #expect(
            place(
                nil, ["RUNTIME_DIRECTORY": "/run/x:/run/y", "XDG_RUNTIME_DIR": "/z"], existing: ["/run/lanyard"])
                == .found(service))
        #expect(
            place(nil, ["LANYARD_ADMIN_ADDRESS": "unix:/run/x/admin.sock"]) == .found(service))
        for text in ["admin: off\n", "admin: {address: off}\n"] {
            #expect(place(try folder.write("off.yaml", text)) == .off)
        }
        for text in ["admin: {adress: x}\n", "admin: {address: here}\n", "admni: off\n", "admin: [\n"] {
            guard case .unknown(let diagnostics) = place(try folder.write("w.yaml", text)) else {
                Issue.record("\(text)")
                continue
            }
            #expect(!diagnostics.isEmpty)
        }
    }

    @Test(
        "the store is found in each spelling that a configuration can have, even in one that is otherwise wrong",
        arguments: [
            "store: {path: /srv/l/store, key_file: k}\n",
            "\"store\": {path: /srv/l/store}\n",
            "store: {\"path\": /srv/l/store}\n",
            "{\"log\": {}, \"store\": {\"path\": \"/srv/l/store\", \"key_file\": \"k\"}}\n",
            "{\n  \"store\": {\n    \"path\": \"/srv/l/store\"\n  }\n}\n",
            "store:\n  path: >-\n    /srv/l/store\n",
            "store:\n  path:\n    /srv/l/store\n",
            "store :\n  path : /srv/l/store # moved\n",
            "? store\n: path: /srv/l/store\n",
            "\"st\\x6fre\": {\"p\\u0061th\": \"\\x2fsrv/l/store\"}\n",
            "--- {store: {path: /srv/l/store}}\n",
            "\u{feff}store: {path: '/srv/l/store'}\n",
            "store: {path: /srv/l/store}\nbogus: 1\nroutes: here\nusers: {a: {identity: none}}\n",
            "store: {path: /srv/l/store, memory: true, passphrase: x}\n",
        ])
    func storePlace(_ text: String) throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("a.yaml", text)
        #expect(Configuration.storePlace(arguments: ["--config", path], environment: [:]) == .path("/srv/l/store"))
    }

    @Test("a relative path of a store starts from the configuration's folder; flags and variables name one, too")
    func storePlaceSources() throws {
        let folder = try TemporaryFolder()
        let relative = try folder.write("a.yaml", "store: {path: here/store}\n")
        let none = try folder.write("b.yaml", "store: {memory: true}\n")
        func place(_ arguments: [String], _ environment: [String: String] = [:]) -> StorePlace {
            Configuration.storePlace(arguments: arguments, environment: environment)
        }
        #expect(place(["--config", relative]) == .path(folder.file("here/store")))
        #expect(place(["--config", none]) == .none)
        #expect(place(["--config", try folder.write("c.yaml", "")]) == .none)
        #expect(place(["--config", none], ["LANYARD_STORE_PATH": "/srv/v"]) == .path("/srv/v"))
        #expect(
            place(["--config", none, "--store-path", "/srv/f"], ["LANYARD_STORE_PATH": "/srv/v"]) == .path("/srv/f"))
    }

    @Test(
        "a store that the configuration may hide is unknown, for the reason",
        arguments: [
            nil, "store: {path: /srv/a\n", "store: {path: [a, b]}\n", "store: {pth: /srv/a}\n",
            "stroe: {path: /srv/a}\n",
            "store: /srv/a\n", "store: {path: }\n", "store: {path: /a}\nstore: {path: /b}\n",
            "store: {path: &a /srv/a}\n", "store: {path: !!str /srv/a}\n", "store: {path: \"/srv/a\\nb\"}\n",
            "anything: {path: /srv/a}\n", "hunter2\n", "store:\t{path: /srv/a}\n",
        ])
    func storeUnknown(_ text: String?) throws {
        let folder = try TemporaryFolder()
        let path = try text.map { try folder.write("a.yaml", $0) } ?? folder.file("none.yaml")
        guard case .unknown(let errors) = Configuration.storePlace(arguments: ["--config", path], environment: [:])
        else {
            Issue.record("\(text ?? "no file")")
            return
        }
        #expect(!errors.isEmpty)
    }

    @Test("a reload refuses a configuration that is a pipe or a device; a start takes what the pipe brings")
    func pipe() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("pipe")
        #expect(mkfifo(path, 0o600) == 0)
        for file in [path, "/dev/zero"] {
            let loaded = Configuration.load(arguments: ["--config", file], environment: [:], isReload: true)
            #expect(loaded.configuration == nil && loaded.exitCode == 78)
            #expect(loaded.diagnostics.count == 1 && loaded.diagnostics[0].description.contains("not a regular file"))
        }
        Thread.detachNewThread {
            // Waits for the reader.
            let writer = open(path, O_WRONLY | O_CLOEXEC)
            let text = Array(ConfigurationFile.smallest.utf8)
            _ = text.withUnsafeBytes { write(writer, $0.baseAddress, 100) }
            _ = text.withUnsafeBytes { write(writer, $0.baseAddress! + 100, $0.count - 100) }
            close(writer)
        }
        let loaded = Configuration.load(arguments: ["--config", path], environment: [:])
        #expect(loaded.configuration != nil, "\(loaded.diagnostics)")
    }
}
