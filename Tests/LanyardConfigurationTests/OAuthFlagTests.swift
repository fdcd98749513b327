import LanyardSettings
import TestSupport
import Testing

@testable import LanyardConfiguration

/// One user of an OAuth 2.0 server without a file.
@Suite struct OAuthFlagTests {
    private static let upstream = ["--upstream", "http://127.0.0.1:9000"]
    private static let client = upstream + ["--issuer", "https://login.example.com", "--client-id", "orders"]

    private func load(_ arguments: [String], _ environment: [String: String] = [:]) -> LoadedConfiguration {
        Configuration.load(arguments: arguments, environment: environment)
    }

    private func variables(_ flags: [String]) -> [String: String] {
        var variables: [String: String] = [:]
        for place in stride(from: 0, to: flags.count, by: 2) {
            variables[ConfigurationFlag.environment(of: flags[place])] = flags[place + 1]
        }
        return variables
    }

    @Test("a secret file is client credentials, by flags, by variables, and by both, where the flag wins")
    func clientCredentials() throws {
        let folder = try TemporaryFolder()
        let secret = try folder.write("secret", "s")
        let flags =
            Self.client + [
                "--client-secret-file", secret, "--scopes", "read, write admin", "--audience",
                "https://api.example.com",
            ]
        var other = variables(flags)
        other["LANYARD_CLIENT_ID"] = "another"
        for loaded in [load(flags), load([], variables(flags)), load(Array(flags[4...5]), other)] {
            #expect(loaded.diagnostics == [])
            let configuration = try #require(loaded.configuration)
            var client = IdentitySettings.OAuth(clientID: "orders")
            client.issuer = "https://login.example.com"
            client.issuerURL = "https://login.example.com"
            client.authentication = .basic(secretFile: secret, isRaw: false)
            client.isAuthenticationAutomatic = true
            client.scopes = ["read", "write", "admin"]
            client.parameters = [OAuthParameter("audience", "https://api.example.com")]
            client.refreshTokens = RefreshTokenSettings(.auto)
            client.refreshTokens.lastTry = true
            #expect(configuration.identities == [IdentitySettings(name: "default", kind: .oauth(client))])
            #expect(
                configuration.users == [
                    UserSettings(name: "default", identity: "default", login: .clientCredentials)
                ])
            // What is printed is a file that loads as the same.
            let again = Configuration.load(text: Array(loaded.printed.utf8), path: "printed.yaml")
            #expect(again.configuration?.identities == configuration.identities, "\(again.diagnostics)")
            #expect(again.configuration?.users == configuration.users)
        }
    }

    @Test("without a secret file a user confirms a device login, and a store is missed")
    func device() throws {
        let loaded = load(Self.client)
        #expect(loaded.configuration?.users.map(\.interactiveLogin) == [.device])
        #expect(
            loaded.diagnostics.map(\.description) == [
                "--issuer: users.default.login.device: without a store a restart forgets the login, and a user must log in "
                    + "again; add --store-path and --store-key-file, or --store-memory if that is meant"
            ])
        #expect(loaded.diagnostics.map(\.severity) == [.warning])
        #expect(load(Self.client + ["--store-memory"]).diagnostics == [])
        let folder = try TemporaryFolder()
        let key = try folder.write("key", "0123456789abcdef0123456789abcdef")
        let kept = load(Self.client + ["--store-path", folder.file("sessions"), "--store-key-file", key])
        #expect(kept.diagnostics == [] && kept.configuration != nil)
        let again = Configuration.load(text: Array(loaded.printed.utf8), path: "printed.yaml")
        #expect(again.diagnostics == [] && again.configuration?.users.map(\.interactiveLogin) == [.device])
    }

    @Test("a token endpoint does without metadata, or stands beside the issuer")
    func tokenEndpoint() throws {
        let folder = try TemporaryFolder()
        let secret = try folder.write("secret", "s")
        let endpoint = ["--token-endpoint", "https://login.example.com/token?x=1", "--client-id", "c"]
        for more in [[], ["--issuer", "https://login.example.com"]] {
            let loaded = load(Self.upstream + endpoint + more + ["--client-secret-file", secret])
            #expect(loaded.diagnostics == [])
            guard case .oauth(let client) = loaded.configuration?.identities.first?.kind else {
                Issue.record("no OAuth identity")
                continue
            }
            #expect(client.endpoints.token == "https://login.example.com/token?x=1")
            #expect(client.issuer == more.last)
        }
        for (more, remedy) in [
            ([], "give --issuer in place of --token-endpoint"),
            (
                ["--issuer", "https://login.example.com"],
                "leave out --token-endpoint, so that the metadata are asked for"
            ),
        ] {
            let device = load(Self.upstream + endpoint + more + ["--store-memory"])
            #expect(device.diagnostics.map(\.remedy) == [remedy], "\(device.diagnostics)")
        }
    }

    @Test("plain http to another machine needs --unsafe-plain, which the identity gets, too")
    func plain() throws {
        let folder = try TemporaryFolder()
        let secret = try folder.write("secret", "s")
        let flags = [
            "--upstream", "https://api.example.com", "--issuer", "http://10.0.0.1", "--client-id", "c",
            "--client-secret-file", secret,
        ]
        let refused = load(flags)
        #expect(refused.exitCode == 78)
        #expect(refused.diagnostics.map(\.place) == [.flag("--issuer")])
        #expect(refused.diagnostics.first?.remedy == "use https, or add --unsafe-plain if that way is safe")
        #expect(load(flags + ["--unsafe-plain"]).configuration?.identities.map(\.allowsPlain) == [true])
    }

    @Test(
        "two kinds of identity contradict each other: 64, in the words of who gave them",
        arguments: [
            (["--app-id", "x"], [:], "--app-id and --issuer are two kinds of identity"),
            (["--base-url", "http://127.0.0.1:1"], [:], "--base-url and --issuer are two kinds of identity"),
            (["--email", "a@b.c"], [:], "--email and --issuer are two kinds of identity"),
            (["--anonymous"], [:], "--anonymous and --issuer are two kinds of identity"),
            (["--token-file", "/t"], [:], "--token-file and --issuer are two kinds of identity"),
            ([], ["LANYARD_APP_ID": "x"], "LANYARD_APP_ID and --issuer are two kinds of identity"),
            (
                ["--token-file", "/t", "--app-id", "x"], [:],
                "--token-file and --app-id are two kinds of identity"
            ),
        ] as [([String], [String: String], String)])
    func contradictions(_ more: [String], _ environment: [String: String], _ message: String) {
        let loaded = load(Self.client + more, environment)
        let errors = loaded.diagnostics.filter { $0.severity != .warning }
        #expect(loaded.exitCode == 64)
        #expect(errors.map(\.message) == [message] && errors.first?.severity == .usage, "\(errors)")
    }

    @Test(
        "what is missing or empty is said, each once",
        arguments: [
            (["--issuer", "https://h"], 78, ["missing flag --client-id"]),
            (["--client-id", "c"], 78, ["missing flag --issuer"]),
            (["--client-secret-file", "/dev/null"], 78, ["missing flag --issuer", "missing flag --client-id"]),
            (["--scopes", "a"], 78, ["missing flag --issuer", "missing flag --client-id"]),
            (["--audience", "a"], 78, ["missing flag --issuer", "missing flag --client-id"]),
            (["--token-endpoint", "https://h/t"], 78, ["missing flag --client-id"]),
            (["--issuer=", "--client-id", "c"], 64, ["--issuer has no value"]),
            (["--issuer", "https://h", "--client-id", "c", "--scopes", " ,"], 64, ["no scope in \" ,\""]),
            (
                ["--issuer", "https://h", "--client-id", "c", "--client-secret", "hush"], 64,
                ["unknown flag \"--client-secret\""]
            ),
            (["--issuer", "https://h", "--issuer", "https://h"], 64, ["--issuer is given twice"]),
            ([], 78, ["no identity"]),
        ] as [([String], Int32, [String])])
    func incomplete(_ more: [String], _ code: Int32, _ messages: [String]) {
        let loaded = load(Self.upstream + more)
        #expect(loaded.exitCode == code)
        #expect(loaded.diagnostics.filter { $0.severity != .warning }.map(\.message) == messages)
        #expect(!loaded.diagnostics.map(\.description).joined().contains("hush"))
    }

    @Test("values are checked, and the error names the flag or the variable")
    func wrongValues() {
        let flags = load(Self.upstream + ["--issuer", "login.example.com", "--client-id", "c"])
        #expect(flags.exitCode == 78 && flags.diagnostics.contains { $0.place == .flag("--issuer") })
        let variable = load(
            Self.upstream + ["--client-id", "c"], ["LANYARD_TOKEN_ENDPOINT": "ftp://h", "LANYARD_SCOPES": ""])
        #expect(variable.exitCode == 78)
        #expect(
            variable.diagnostics.filter { $0.severity == .error }.map(\.place) == [
                .environment("LANYARD_TOKEN_ENDPOINT")
            ]
        )
        let missing = load(Self.client + ["--client-secret-file", "/nonexistent/secret"])
        #expect(missing.configuration != nil && missing.diagnostics.map(\.severity) == [.warning])
        #expect(missing.diagnostics.first?.place == .flag("--client-secret-file"))
    }
}
