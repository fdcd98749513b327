/// The configuration of one user without a file: `--upstream`, an identity and a login. All names are `default`.
struct ConfigurationShortForm {
    /// By flag name. A flag has replaced the variable of the same name.
    private let given: [String: ConfigurationFlagValues.Value]
    /// The login at an OAuth 2.0 server; nil: it follows from the flags.
    private let oauthLogin: OAuthLogin?
    private(set) var diagnostics: [ConfigurationError] = []

    /// How the user logs in at an OAuth 2.0 server.
    enum OAuthLogin: Equatable {
        case clientCredentials
        case device
        case authorizationCode
        case refreshToken(file: String)
    }

    init(_ values: [ConfigurationFlagValues.Value], login: OAuthLogin? = nil) {
        oauthLogin = login
        given = Dictionary(values.filter { $0.flag.target == .short }.map { ($0.flag.name, $0) }) { $1 }
    }

    var isEmpty: Bool { given.isEmpty }

    /// The place of the short form, for an error about all of it.
    var place: ConfigurationPlace {
        ConfigurationFlag.short.compactMap { given[$0.name]?.place }.first ?? .commandLine
    }

    /// The tree of an equivalent file. Single values are not checked yet.
    mutating func tree() -> ConfigurationNode {
        var tree = ConfigurationNode(.mapping([]), at: place)
        reportContradictions()
        if let listener = self.listener() {
            tree.set(["listeners"], to: ConfigurationNode(.sequence([listener]), at: listener.place))
        }
        let (identity, login) = (self.identity(), self.login())
        if let upstream = required("--upstream") {
            var route = ConfigurationNode(.mapping([]), at: upstream.place)
            route.set(["name"], to: ConfigurationNode(.scalar("default"), at: upstream.place))
            route.set(["upstream"], to: node(upstream))
            for (flag, path) in Self.routeFlags {
                if let value = given[flag] { route.set(path, to: node(value)) }
            }
            tree.set(["routes"], to: ConfigurationNode(.sequence([route]), at: upstream.place))
        } else {
            tree.set(["routes"], to: ConfigurationNode(.invalid, at: place))
        }
        tree.set(["identities", "default"], to: identity)
        tree.set(["users", "default", "identity"], to: ConfigurationNode(.scalar("default"), at: identity.place))
        if let login { tree.set(["users", "default", "login"], to: login) }
        return tree
    }

    /// Flags of the one route, each with the path of its key below the route.
    private static let routeFlags: [(name: String, path: [String])] = [
        ("--unsafe-plain", ["unsafe_plain"]), ("--upstream-ca-file", ["tls", "ca_file"]),
        ("--upstream-server-name", ["tls", "server_name"]),
        ("--upstream-certificate-file", ["tls", "certificate_file"]), ("--upstream-key-file", ["tls", "key_file"]),
    ]

    /// Flags of the one listener, each with the path of its key below the listener, and whether it is a list.
    private static let listenerFlags: [(name: String, path: [String], isList: Bool)] = [
        ("--listen", ["address"], false), ("--allowed-hosts", ["allowed_hosts"], true),
        ("--tls-certificate-file", ["tls", "certificate_file"], false), ("--tls-key-file", ["tls", "key_file"], false),
        ("--client-ca-file", ["tls", "client_ca_file"], false),
        ("--capability-file", ["capability_file"], false), ("--required-header", ["required_header"], false),
        ("--peer-uids", ["peers", "uids"], true), ("--peer-gids", ["peers", "gids"], true),
        ("--socket-mode", ["socket_mode"], false), ("--unsafe", ["unsafe"], false),
    ]

    /// nil: no flag is about the listener, and the default one serves.
    private func listener() -> ConfigurationNode? {
        let flags = Self.listenerFlags.compactMap { flag in given[flag.name].map { (flag, $0) } }
        guard let first = flags.first else { return nil }
        var listener = ConfigurationNode(.mapping([]), at: first.1.place)
        if given["--listen"] == nil {
            listener.set(["address"], to: ConfigurationNode(.scalar("127.0.0.1:7400"), at: first.1.place))
        }
        for (flag, value) in flags { listener.set(flag.path, to: flag.isList ? value.list : node(value)) }
        return listener
    }

    private mutating func identity() -> ConfigurationNode {
        // Contradictions have been reported.
        guard kinds.count < 2 else { return ConfigurationNode(.invalid, at: place) }
        switch kinds.first?.kind {
        case .staticToken?:
            var identity = ConfigurationNode(.mapping([]), at: place)
            if let token = required("--token-file") { identity.set(["static", "token_file"], to: node(token)) }
            return identity
        case .oauth?: return oauthIdentity()
        case .appServices?:
            guard let appID = required("--app-id"), let base = required("--base-url") else { break }
            var identity = ConfigurationNode(.mapping([]), at: place)
            identity.set(["app_services", "app_id"], to: node(appID))
            identity.set(["app_services", "base_url"], to: node(base))
            if let plain = given["--unsafe-plain"] { identity.set(["unsafe_plain"], to: node(plain)) }
            return identity
        case nil:
            reportError(
                "no identity",
                remedy: "add --issuer and --client-id; or --app-id, --base-url and a login; or --token-file")
        }
        return ConfigurationNode(.invalid, at: place)
    }

    private mutating func oauthIdentity() -> ConfigurationNode {
        let endpoint = given["--token-endpoint"]
        let issuer = endpoint == nil ? required("--issuer", or: "--token-endpoint") : given["--issuer"]
        guard let client = required("--client-id"), issuer ?? endpoint != nil else {
            return ConfigurationNode(.invalid, at: place)
        }
        var identity = ConfigurationNode(.mapping([]), at: place)
        if let issuer { identity.set(["oauth2", "issuer"], to: node(issuer)) }
        if let endpoint { identity.set(["oauth2", "endpoints", "token"], to: node(endpoint)) }
        identity.set(["oauth2", "client_id"], to: node(client))
        if let secret = given["--client-secret-file"] {
            identity.set(["oauth2", "client_secret_file"], to: node(secret))
        }
        if let scopes = given["--scopes"] {
            let words = scopes.text.split { $0 == "," || $0 == " " }
            if words.isEmpty {
                diagnostics.append(
                    ConfigurationError(
                        .usage, at: scopes.place, "no scope in \(ConfigurationText.quoted(scopes.text))",
                        remedy: "write such as read,write, or leave it out"))
            }
            let nodes = words.map { ConfigurationNode(.scalar(String($0)), at: scopes.place) }
            identity.set(["oauth2", "scopes"], to: ConfigurationNode(.sequence(nodes), at: scopes.place))
        }
        if let audience = given["--audience"] {
            identity.set(["oauth2", "params", "audience"], to: node(audience))
        }
        if let plain = given["--unsafe-plain"] { identity.set(["unsafe_plain"], to: node(plain)) }
        return identity
    }

    private mutating func login() -> ConfigurationNode? {
        // Contradictions have been reported. A missing part of one of the kinds is not reported as well.
        guard kinds.count < 2, loginFlags.count < 2 else { return ConfigurationNode(.invalid, at: place) }
        switch kinds.first?.kind {
        case nil, .staticToken?: return nil
        case .oauth?: return oauthLoginNode()
        case .appServices?: return appServicesLogin()
        }
    }

    private func oauthLoginNode() -> ConfigurationNode {
        let secret = given["--client-secret-file"]
        let place = (secret ?? given["--issuer"] ?? given["--client-id"])?.place ?? place
        let name: String
        switch oauthLogin ?? (secret == nil ? .device : .clientCredentials) {
        case .clientCredentials: name = "client_credentials"
        case .device: name = "device"
        case .authorizationCode: name = "authorization_code"
        case .refreshToken(let file):
            var login = ConfigurationNode(.mapping([]), at: place)
            login.set(["refresh_token", "token_file"], to: ConfigurationNode(.scalar(file), at: place))
            return login
        }
        var login = ConfigurationNode(.mapping([]), at: place)
        login.set([name], to: ConfigurationNode(.mapping([]), at: place))
        return login
    }

    private mutating func appServicesLogin() -> ConfigurationNode {
        var login = ConfigurationNode(.mapping([]), at: place)
        switch loginFlags.first {
        case "--anonymous":
            let place = given["--anonymous"]?.place ?? place
            login.set(["anonymous"], to: ConfigurationNode(.mapping([]), at: place))
        case let flag? where Self.loginFiles[flag] != nil:
            guard let path = Self.loginFiles[flag], let file = given[flag] else { break }
            login.set(path, to: node(file))
        case .some:
            guard let email = required("--email"), let password = required("--password-file") else {
                return ConfigurationNode(.invalid, at: place)
            }
            login.set(["email_password", "email"], to: node(email))
            login.set(["email_password", "password_file"], to: node(password))
        case nil:
            let files = Self.loginFiles.keys.sorted().joined(separator: ", ")
            reportError("no login", remedy: "add --email with --password-file, --anonymous, or one of \(files)")
            return ConfigurationNode(.invalid, at: place)
        }
        return login
    }

    /// Flags that are a login by themselves, each with the path of its key below the login.
    private static let loginFiles: [String: [String]] = [
        "--api-key-file": ["api_key", "key_file"], "--function-payload-file": ["function", "payload_file"],
        "--jwt-file": ["jwt", "token_file"], "--facebook-access-token-file": ["facebook", "access_token_file"],
        "--google-id-token-file": ["google", "id_token_file"], "--google-auth-code-file": ["google", "auth_code_file"],
        "--apple-id-token-file": ["apple", "id_token_file"],
    ]

    /// The given login kinds, each as one flag.
    private var loginFlags: [String] {
        let mail = ["--email", "--password-file"].first { given[$0] != nil }
        let files = Self.loginFiles.keys.sorted().filter { given[$0] != nil }
        let anonymous = given["--anonymous"].flatMap { $0.text == "false" ? nil : "--anonymous" }
        return [mail].compactMap(\.self) + files + [anonymous].compactMap(\.self)
    }

    /// What gives the user its token.
    enum Kind: Equatable { case staticToken, oauth, appServices }

    /// Flags that only an OAuth 2.0 server has.
    static let oauthFlags = [
        "--issuer", "--client-id", "--client-secret-file", "--scopes", "--audience", "--token-endpoint",
    ]

    /// The kinds of identity that flags are given of, each with the first such flag.
    private var kinds: [(kind: Kind, flag: String)] {
        let service = ["--app-id", "--base-url"].first { given[$0] != nil } ?? loginFlags.first
        let found: [(Kind, String?)] = [
            (.staticToken, given["--token-file"] == nil ? nil : "--token-file"), (.appServices, service),
            (.oauth, Self.oauthFlags.first { given[$0] != nil }),
        ]
        return found.compactMap { kind, flag in flag.map { (kind: kind, flag: $0) } }
    }

    private mutating func reportContradictions() {
        let (logins, kinds) = (loginFlags, kinds)
        if logins.count > 1 {
            usage("\(shown(logins[0])) and \(shown(logins[1])) are two ways to log in")
        }
        if kinds.count > 1 {
            usage("\(shown(kinds[0].flag)) and \(shown(kinds[1].flag)) are two kinds of identity")
        }
    }

    /// The flag, or the variable that gave its value.
    private func shown(_ flag: String) -> String { given[flag]?.place.description ?? flag }

    private func node(_ value: ConfigurationFlagValues.Value) -> ConfigurationNode {
        ConfigurationNode(.scalar(value.text), at: value.place)
    }

    /// - Parameter other: a flag that would do as well.
    private mutating func required(_ flag: String, or other: String? = nil) -> ConfigurationFlagValues.Value? {
        if given[flag] == nil {
            let instead = other.map { ", or \($0)" } ?? ""
            reportError("missing flag \(flag)", remedy: "add it\(instead), or name a file with --config")
        }
        return given[flag]
    }

    private mutating func reportError(_ message: String, remedy: String) {
        diagnostics.append(ConfigurationError(at: .commandLine, message, remedy: remedy))
    }

    private mutating func usage(_ message: String) {
        diagnostics.append(ConfigurationError(.usage, at: .commandLine, message, remedy: "keep one of them"))
    }
}
