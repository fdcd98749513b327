import Glibc
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardConfiguration

/// The file of `lanyard init`: it loads as what the flags mean, from questions as well.
@Suite struct ConfigurationDraftTests {
    typealias Login = ConfigurationDraft.Login

    private static let upstream = ["--upstream", "http://127.0.0.1:9000"]
    private static let client = upstream + ["--issuer", "https://login.example.com", "--client-id", "orders"]
    private static let app = upstream + ["--app-id", "demo-abcde", "--base-url", "http://127.0.0.1:7490"]

    /// Flags of each kind of login, with the name of a secret's file.
    static let kinds: [(login: Login, flags: [String], refresh: String?)] = [
        (
            .clientCredentials,
            client + ["--client-secret-file", "secret", "--scopes", "a,b", "--audience", "x: \"y\" #"], nil
        ),
        (.device, client + ["--scopes", "openid"], nil), (.authorizationCode, client, nil),
        (.refreshToken, client + ["--client-secret-file", "secret"], "secret"),
        (.staticToken, upstream + ["--token-file", "secret"], nil),
        (.appServices, app + ["--email", "a@b.c", "--password-file", "secret"], nil),
    ]

    @Test("the file of each kind loads without an error as what its flags mean", arguments: kinds.indices)
    func whole(_ index: Int) throws {
        let (login, flags, refresh) = Self.kinds[index]
        let folder = try TemporaryFolder()
        try folder.write("secret", "0123456789abcdef0123456789abcdef")
        let draft = ConfigurationDraft(
            arguments: flags + ["--listen", "127.0.0.1:0", "--log-level", "debug", "--health-address=off"],
            login: login,
            refreshTokenFile: refresh, asks: false)
        #expect(draft.missing == [] && draft.diagnostics == [])
        let addition = ConfigurationDraft.Addition(
            store: login.wantsStore ? ("sessions", "secret") : nil, adminAddress: "unix:\(folder.path)/admin.sock")
        let path = try folder.write("lanyard.yaml", draft.text(name: "lanyard.yaml", folder: nil, adding: addition))
        let loaded = Configuration.load(arguments: ["--config", path], environment: [:], readsSecrets: true)
        #expect(loaded.diagnostics == [])
        let file = try #require(loaded.configuration, "\(loaded.diagnostics)")
        #expect(file.listeners.map(\.address) == [.tcp(host: "127.0.0.1", port: 0)])
        #expect(file.log.level == .debug)
        #expect(file.routes.map(\.route.name) == ["default"])
        // Its identities and users are those of the flags, but for the folder of the secret.
        let meant = try #require(draft.loaded(environment: [:]).configuration)
        #expect(file.identities.map(\.name) == meant.identities.map(\.name))
        #expect(file.users.map(\.interactiveLogin) == meant.users.map(\.interactiveLogin))
        #expect(file.users.map(\.login?.kind) == meant.users.map(\.login?.kind))
        if case .oauth(let client) = file.identities.first?.kind {
            guard case .oauth(let flags) = meant.identities.first?.kind else {
                Issue.record("another kind")
                return
            }
            #expect(client.parameters == flags.parameters && client.scopes == flags.scopes)
            #expect(client.issuer == flags.issuer && client.clientID == flags.clientID)
        }
        if case .file(let store, let key) = file.store {
            #expect(store == folder.file("sessions") && key == .key(folder.file("secret")))
        } else {
            #expect(!login.wantsStore)
        }
    }

    @Test("paths of flags become absolute in a file of another folder")
    func otherFolder() {
        let draft = ConfigurationDraft(
            arguments: Self.client + ["--client-secret-file", "secret"], login: .refreshToken, refreshTokenFile: "/abs",
            asks: false)
        let text = draft.text(name: "x.yaml", folder: "/work", adding: .init())
        #expect(text.contains("client_secret_file: /work/secret\n") && text.contains("token_file: /abs\n"), "\(text)")
        let here = draft.text(name: "x.yaml", folder: nil, adding: .init())
        #expect(here.contains("client_secret_file: secret\n"), "\(here)")
    }

    @Test("the login follows from the flags; on a terminal only a complete command line is not asked about")
    func likely() {
        for (flags, refresh, silent, asked) in [
            (Self.client, nil, Login.device, Login.device),
            (Self.client + ["--client-secret-file", "s"], nil, .clientCredentials, .clientCredentials),
            (Self.client, "r", .refreshToken, .refreshToken), (["--token-file", "t"], nil, .staticToken, .staticToken),
            (["--app-id", "a"], nil, .appServices, .appServices), (["--issuer", "https://h"], nil, .device, nil),
            ([], nil, nil, nil),
        ] as [([String], String?, Login?, Login?)] {
            for (asks, wanted) in [(false, silent), (true, asked)] {
                let draft = ConfigurationDraft(
                    arguments: flags, login: nil, refreshTokenFile: refresh, asks: asks)
                #expect(draft.login == wanted, "\(flags) \(asks)")
            }
        }
    }

    @Test("a flag of another login, two values of one flag and --config are contradictions")
    func contradictions() {
        for (flags, login, message) in [
            (["--token-file", "t"], Login.device, "--token-file does not belong to the login device"),
            (["--app-id", "t"], .clientCredentials, "--app-id does not belong to the login client_credentials"),
            (["--issuer", "https://h"], .staticToken, "--issuer does not belong to the login static"),
            (["--scopes", "a"], .appServices, "--scopes does not belong to the login app_services"),
            (["--upstream", "http://h", "--upstream", "http://h"], .device, "--upstream is given twice"),
            (["--config", "x"], .device, "--config names a file to read"),
            (["--isuer", "x"], .device, "unknown flag \"--isuer\""),
        ] as [([String], Login, String)] {
            let draft = ConfigurationDraft(arguments: flags, login: login, refreshTokenFile: nil, asks: true)
            #expect(draft.diagnostics.map(\.message) == [message])
        }
        let refresh = ConfigurationDraft(arguments: [], login: .device, refreshTokenFile: "r", asks: true)
        #expect(refresh.diagnostics.map(\.message) == ["--refresh-token-file does not belong to the login device"])
    }

    @Test("what is missing is named, and asked for in turn; wrong replies change nothing")
    func questions() throws {
        for (login, flags) in [
            (Login.clientCredentials, ["--upstream", "--issuer", "--client-id", "--client-secret-file"]),
            (.device, ["--upstream", "--issuer", "--client-id"]),
            (.refreshToken, ["--upstream", "--issuer", "--client-id", "--refresh-token-file"]),
            (.staticToken, ["--upstream", "--token-file"]),
            (.appServices, ["--upstream", "--app-id", "--base-url", "--email", "--password-file"]),
        ] {
            let draft = ConfigurationDraft(arguments: [], login: login, refreshTokenFile: nil, asks: true)
            #expect(draft.missing.map(\.flag) == flags)
        }
        var draft = ConfigurationDraft(arguments: [], login: .device, refreshTokenFile: nil, asks: true)
        let first = try #require(draft.nextQuestion)
        #expect(throws: ConfigurationValue.ValueError.self) { try draft.reply("nowhere", to: first) }
        #expect(draft.nextQuestion == first)
        var asked: [String] = []
        while let question = draft.nextQuestion {
            asked.append(question.flag)
            let replies = ["--upstream": "http://127.0.0.1:1", "--issuer": "https://h", "--client-id": "c"]
            try draft.reply(replies[question.flag] ?? "", to: question)
        }
        #expect(
            asked == ["--upstream", "--issuer", "--client-id", "--client-secret-file", "--scopes", "--audience"])
        #expect(draft.missing == [] && draft.text("--scopes") == nil)
        #expect(
            draft.commandLine(output: "it's.yaml")
                == "lanyard init --output 'it'\\''s.yaml' --login device --upstream http://127.0.0.1:1 --issuer https://h "
                + "--client-id c")
    }
}
