import Glibc
import LanyardSettings

/// The configuration of one user that `lanyard init` writes. Its values come from flags, or from an operator who is asked.
package struct ConfigurationDraft {
    /// How the user of the draft gets a token. The words are those of the configuration's keys.
    package enum Login: String, CaseIterable, Sendable {
        case clientCredentials = "client_credentials"
        case device
        case authorizationCode = "authorization_code"
        case refreshToken = "refresh_token"
        case staticToken = "static"
        case appServices = "app_services"

        /// One line for the question.
        package var meaning: String {
            switch self {
            case .clientCredentials: "OAuth 2.0: a program with a client id and a secret"
            case .device: "OAuth 2.0: you confirm in a browser anywhere, with a code"
            case .authorizationCode: "OAuth 2.0: you log in with a browser on this machine"
            case .refreshToken: "OAuth 2.0: a refresh token that you have in a file"
            case .staticToken: "a token in a file that another program renews"
            case .appServices: "App Services: e-mail address and password"
            }
        }

        /// A user acts at a browser before there is a token.
        package var isInteractive: Bool { self == .device || self == .authorizationCode }

        /// The session has a refresh token, which a restart should not forget.
        package var wantsStore: Bool {
            switch self {
            case .device, .authorizationCode, .refreshToken, .appServices: true
            case .clientCredentials, .staticToken: false
            }
        }

        fileprivate var kind: ConfigurationShortForm.Kind {
            switch self {
            case .clientCredentials, .device, .authorizationCode, .refreshToken: .oauth
            case .staticToken: .staticToken
            case .appServices: .appServices
            }
        }
    }

    /// One value that the draft lacks.
    package struct Question: Equatable, Sendable {
        /// The flag that gives it.
        package let flag: String
        /// Without the colon.
        package let text: String
        /// What an empty line stands for; nil: a value is needed.
        package let suggestion: String?
    }

    /// The flag of `init` alone that names the file of a refresh token.
    package static let refreshTokenFlag = "--refresh-token-file"

    /// Values by flag, in the order in which they were given.
    private var values: [ConfigurationFlagValues.Value]
    /// Questions that have an empty line as their reply.
    private var skipped: Set<String> = []
    private var refreshTokenFile: String?
    /// nil: not known yet.
    package private(set) var login: Login?
    /// What is wrong with the command line: exit 64.
    package private(set) var diagnostics: [ConfigurationError]
    /// Questions are asked, so that optional values are asked for, too.
    private let asks: Bool

    /// - Parameters:
    ///   - arguments: configuration flags.
    ///   - login: nil: it follows from the flags.
    ///   - asks: an operator can be asked.
    package init(arguments: [String], login: Login?, refreshTokenFile: String?, asks: Bool) {
        let given = ConfigurationFlagValues(arguments: arguments)
        (values, diagnostics) = (given.values, given.diagnostics)
        self.refreshTokenFile = refreshTokenFile
        self.asks = asks
        self.login = login
        self.login = login ?? likelyLogin
        if given.value("--config") != nil {
            report("--config names a file to read", remedy: "--output names the file that is written")
        }
        reportForeignFlags()
    }

    private mutating func report(_ message: String, remedy: String) {
        diagnostics.append(ConfigurationError(.usage, at: .commandLine, message, remedy: remedy))
    }

    private func has(_ flag: String) -> Bool {
        flag == Self.refreshTokenFlag ? refreshTokenFile != nil : values.contains { $0.flag.name == flag }
    }

    /// The text of a flag; nil: it was not given.
    package func text(_ flag: String) -> String? {
        flag == Self.refreshTokenFlag ? refreshTokenFile : values.last { $0.flag.name == flag }?.text
    }

    // MARK: Login

    private static let appServicesFlags = ["--app-id", "--base-url", "--email", "--password-file"] + otherLogins
    /// Logins of App Services other than the password.
    private static let otherLogins = [
        "--api-key-file", "--function-payload-file", "--jwt-file", "--facebook-access-token-file",
        "--google-id-token-file", "--google-auth-code-file", "--apple-id-token-file", "--anonymous",
    ]

    private var likelyLogin: Login? {
        if refreshTokenFile != nil { return .refreshToken }
        if has("--token-file") { return .staticToken }
        if Self.appServicesFlags.contains(where: has) { return .appServices }
        if has("--client-secret-file") { return .clientCredentials }
        // On a terminal the operator chooses between the logins without a secret.
        let isNamed = has("--client-id") && (has("--issuer") || has("--token-endpoint"))
        return isNamed || !asks && ConfigurationShortForm.oauthFlags.contains(where: has) ? .device : nil
    }

    /// Sets the login that an operator has chosen.
    package mutating func choose(_ login: Login) {
        self.login = login
        reportForeignFlags()
    }

    /// A flag of another kind of login would be written nowhere.
    private mutating func reportForeignFlags() {
        guard let login else { return }
        var foreign: [String] = []
        if login.kind != .staticToken { foreign.append("--token-file") }
        if login.kind != .appServices { foreign += Self.appServicesFlags }
        if login.kind != .oauth { foreign += ConfigurationShortForm.oauthFlags }
        if login != .refreshToken { foreign.append(Self.refreshTokenFlag) }
        guard let flag = foreign.first(where: has) else { return }
        report(
            "\(flag) does not belong to the login \(login.rawValue)",
            remedy: "leave it out, or choose another --login")
    }

    // MARK: Questions

    /// The values that the file needs and that are not known.
    package var missing: [Question] { questions.filter { $0.suggestion != "" && !has($0.flag) } }

    /// The next value to ask for; nil: all are known. The login is asked for by the caller.
    package var nextQuestion: Question? { questions.first { !has($0.flag) && !skipped.contains($0.flag) } }

    /// All values of the login, also those that are known. An empty suggestion: the value may be left out.
    private var questions: [Question] {
        var questions = [Question(flag: "--upstream", text: "Where requests go (URL)", suggestion: nil)]
        func ask(_ flag: String, _ text: String, _ suggestion: String? = nil) {
            questions.append(Question(flag: flag, text: text, suggestion: suggestion))
        }
        switch login?.kind {
        case .oauth?:
            if !has("--token-endpoint") { ask("--issuer", "Issuer, as the server writes it (URL)") }
            ask("--client-id", "Client id")
            if login == .clientCredentials {
                ask("--client-secret-file", "File of the client's secret", "client.secret")
            } else {
                ask("--client-secret-file", "File of the client's secret (empty: a public client)", "")
            }
            if login == .refreshToken { ask(Self.refreshTokenFlag, "File of the refresh token", "refresh-token") }
            ask("--scopes", "Scopes, separated by blanks (empty: none)", "")
            ask("--audience", "Audience (empty: none)", "")
        case .staticToken?: ask("--token-file", "File of the token", "token")
        case .appServices?:
            ask("--app-id", "App id")
            ask("--base-url", "Base URL of the client API")
            if !Self.otherLogins.contains(where: has) {
                ask("--email", "E-mail address")
                ask("--password-file", "File of the password", "password")
            }
        case nil: break
        }
        return questions
    }

    /// Takes a reply.
    ///
    /// - Throws: it is not an allowed value. The draft is as before.
    package mutating func reply(
        _ text: String, to question: Question
    ) throws(ConfigurationValue.ValueError) {
        var text = text
        if text.isEmpty, let suggestion = question.suggestion {
            guard !suggestion.isEmpty else {
                skipped.insert(question.flag)
                return
            }
            text = suggestion
        }
        guard question.flag != Self.refreshTokenFlag else {
            try ConfigurationValue.file(.secret).check(text)
            refreshTokenFile = text
            return
        }
        guard let flag = ConfigurationFlag.all.first(where: { $0.name == question.flag }) else { return }
        try flag.value.check(text)
        values.append(ConfigurationFlagValues.Value(flag: flag, text: text, place: .flag(flag.name)))
    }

    // MARK: Result

    /// The configuration as `run` would read it from flags: its errors name them.
    package func loaded(environment: [String: String]) -> LoadedConfiguration {
        var loader = ConfigurationLoader(login: shortLogin)
        let arguments = values.flatMap { value in ["\(value.flag.name)=\(value.text)"] }
        return loader.load(arguments: arguments, environment: environment)
    }

    private var shortLogin: ConfigurationShortForm.OAuthLogin? {
        switch login {
        case .clientCredentials: .clientCredentials
        case .device: .device
        case .authorizationCode: .authorizationCode
        case .refreshToken: .refreshToken(file: refreshTokenFile ?? "")
        case .staticToken, .appServices, nil: nil
        }
    }

    /// What stands in the file besides the operator's values.
    package struct Addition: Equatable, Sendable {
        /// `store: {path, key_file}` where no flag is about the store.
        package var store: (path: String, keyFile: String)?
        /// `admin.address` where there is no default and no flag.
        package var adminAddress: String?

        package init(store: (path: String, keyFile: String)? = nil, adminAddress: String? = nil) {
            (self.store, self.adminAddress) = (store, adminAddress)
        }

        package static func == (left: Addition, right: Addition) -> Bool {
            left.store?.path == right.store?.path && left.store?.keyFile == right.store?.keyFile
                && left.adminAddress == right.adminAddress
        }
    }

    /// A flag is about the store, so that none is added.
    package var hasStoreFlag: Bool { values.contains { $0.flag.name.hasPrefix("--store-") } }

    /// A flag is about the admin API.
    package var hasAdminFlag: Bool { values.contains { $0.flag.name.hasPrefix("--admin-") } }

    /// The same draft as flags, for an operator who corrects one of them.
    package func commandLine(output: String) -> String {
        var words = ["lanyard", "init"]
        if output != "lanyard.yaml" { words += ["--output", output] }
        if let login { words += ["--login", login.rawValue] }
        if let refreshTokenFile { words += [Self.refreshTokenFlag, refreshTokenFile] }
        // A URL with user info may hold a password, and is never quoted.
        for value in values {
            let hidesURL = value.text.contains("://") && value.text.contains("@")
            words += [value.flag.name, hidesURL ? "URL" : value.text]
        }
        return words.map(ShellWord.text).joined(separator: " ")
    }

    /// The text of the file.
    ///
    /// - Parameters:
    ///   - name: the file's path in the comment.
    ///   - folder: the folder that relative paths of flags start from, if it is not that of the file; they become absolute then.
    package func text(name: String, folder: String?, adding addition: Addition) -> String {
        let placed = values.map { value in
            var value = value
            if case .file = value.flag.value { value.text = Self.path(value.text, from: folder) }
            return value
        }
        var login = shortLogin
        if case .refreshToken(let file) = login { login = .refreshToken(file: Self.path(file, from: folder)) }
        var short = ConfigurationShortForm(placed, login: login)
        var tree = short.tree()
        if tree["listeners"] == nil { tree.set(["listeners"], to: ConfigurationLoader.defaultListeners) }
        tree.overlay(ConfigurationLoader.tree(of: placed))
        if let store = addition.store {
            for (key, text) in [("path", store.path), ("key_file", store.keyFile)] {
                tree.set(["store", key], to: ConfigurationNode(.scalar(text), at: .commandLine))
            }
        }
        if let address = addition.adminAddress {
            tree.set(["admin", "address"], to: ConfigurationNode(.scalar(address), at: .commandLine))
        }
        return """
            # Written by lanyard init. All keys: docs/use/configuration.md (/usr/share/doc/lanyard of the package).
            # After a change: lanyard check --config \(name), then lanyard reload --config \(name)

            """ + ConfigurationPrinter.print(tree, comments: comments)
    }

    private static func path(_ path: String, from folder: String?) -> String {
        guard let folder, !path.hasPrefix("/") else { return path }
        return folder == "/" ? "/" + path : "\(folder)/\(path)"
    }

    private var comments: [String: [String]] {
        let oauth = "identities.*.oauth2"
        var comments = [
            "listeners": ["Where clients connect. Each of them acts as the user."],
            "routes": ["Where requests go. Further routes are chosen by match: {path: /orders}, hosts or methods."],
            "users": ["Who logs in. lanyard status shows the state."],
            "store": ["Sessions in this file, sealed with the key, outlive a restart. Keep the key: mode 0600."],
            "admin": ["Where lanyard login, status and the other commands find the running Lanyard."],
            "health": ["Health checks and metrics."],
            "\(oauth).issuer": ["As the server writes it. Its metadata names the endpoints."],
            "\(oauth).client_secret_file": ["The file holds the secret alone, mode 0600. It is read at each call."],
            "\(oauth).params": ["Further form fields of calls to the token endpoint."],
            "identities.*.app_services": ["The App Services application."],
            "identities.*.static": ["Another program renews this file. It is read again when it changes."],
        ]
        comments["identities"] = [
            login?.kind == .oauth ? "The OAuth 2.0 server and this client." : "What gives the token."
        ]
        comments["users.*.login"] =
            switch login {
            case .clientCredentials: ["The client itself (RFC 6749 4.4): no user, no browser."]
            case .device: ["lanyard login default shows an address and a code for any browser (RFC 8628)."]
            case .authorizationCode: ["lanyard login default shows an address for a browser on this machine."]
            case .refreshToken: ["The token in the file is taken once; its successors are in the store."]
            case .appServices: ["The file holds the secret alone, mode 0600. Lanyard logs in by itself."]
            case .staticToken, nil: nil
            }
        return comments
    }
}

/// A word as a shell takes it.
package enum ShellWord {
    /// The word itself, or in quotes.
    package static func text(_ word: String) -> String {
        let isPlain =
            !word.isEmpty
            && word.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                    || "._/:%-@+=,".utf8.contains(byte)
            }
        guard !isPlain else { return word }
        return "'" + word.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }
}
