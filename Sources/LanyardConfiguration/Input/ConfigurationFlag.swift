/// A flag of `run` and `check`, and the environment variable of the same meaning.
package struct ConfigurationFlag: Equatable, Sendable {
    /// What the flag sets.
    package enum Target: Equatable, Sendable {
        /// The configuration file.
        case file
        /// A single key that is not in a list or below a chosen name, by path.
        case key(String)
        /// The same of a list of values, which commas separate.
        case list(String)
        /// Part of the short form for one user.
        case short
    }

    /// With its dashes.
    package let name: String
    /// What the flag sets.
    package let target: Target
    /// The allowed values.
    package let value: ConfigurationValue
    /// Words that may replace the value, such as `none`.
    package let keywords: [String]
    /// One sentence for the help text.
    package let meaning: String
    private let defaultDescription: String?

    /// What holds without the flag, in words of the help text; nil: there is no default.
    package var defaultText: String? { defaultDescription?.filter { $0 != "`" } }

    /// `LANYARD_REFRESH_AT`.
    package var environment: String { Self.environment(of: name) }

    /// The environment variable of a flag.
    static func environment(of name: String) -> String {
        let capitals = name.utf8.dropFirst(2).map { byte in
            switch byte {
            case UInt8(ascii: "-"): UInt8(ascii: "_")
            case UInt8(ascii: "a")...UInt8(ascii: "z"): byte & ~0x20
            default: byte
            }
        }
        return "LANYARD_" + String(decoding: capitals, as: UTF8.self)
    }

    /// The allowed values and the default, for the help text: `json | text; default: json`.
    package var valueHelp: String {
        var allowed =
            choices.isEmpty ? ([value.wanted] + keywords).joined(separator: ", or ") : choices.joined(separator: " | ")
        if case .list = target { allowed += ", separated by commas" }
        return "\(allowed); \(defaultText.map { "default: \($0)" } ?? "no default")"
    }

    /// What the flag is about, as a heading of the help text.
    package var group: String {
        switch target {
        case .file: return "Configuration file"
        case .short: return "One user, without a file"
        case .key(let path), .list(let path):
            return switch path.prefix(while: { $0 != "." }) {
            case "health", "admin": "Health and admin"
            case "store": "Store"
            case "active_user", "refresh", "login", "on_active_logout", "login_required_status": "Sessions"
            case "http2", "limits", "upstream_dns": "Limits"
            default: "Process"
            }
        }
    }

    /// All allowed values, where they are a fixed set of words; otherwise empty.
    package var choices: [String] {
        if case .choice(let words) = value { words + keywords } else { [] }
    }

    /// All of them: the file, the short form, and one for each single key.
    package static let all: [ConfigurationFlag] = [file] + short + keys

    private static let file = ConfigurationFlag(
        name: "--config", target: .file, value: .file(.needed), keywords: [], meaning: "The configuration file.",
        defaultDescription: nil)

    /// The short form for one user. Its user, identity and route are named `default`.
    package static let short: [ConfigurationFlag] = [
        short("--listen", .listenAddress, default: "127.0.0.1:7400", "Where clients connect."),
        short(
            "--allowed-hosts", .text, default: "the bound address and localhost, each with the port",
            "Hosts that requests may name, separated by commas."),
        short(
            "--capability-file", .file(.secret), "Requests must carry the secret in this file as Lanyard-Capability."),
        short("--tls-certificate-file", .file(.needed), "Clients speak TLS; this certificate chain is shown to them."),
        short("--tls-key-file", .file(.needed), "Its key."),
        short("--client-ca-file", .file(.needed), "Clients must have a certificate of an authority in this file."),
        short("--required-header", .requiredField, "Requests must carry this field, with any value."),
        short("--peer-uids", .text, "User ids that may connect to a unix socket, separated by commas."),
        short("--peer-gids", .text, "The same for group ids."),
        short("--socket-mode", .mode, default: "0600", "Permissions of a unix socket."),
        short(
            "--unsafe", .boolean, default: "false",
            "Listen where other machines can connect, without a check of callers."),
        short("--upstream", .upstream, "Where requests go."),
        short(
            "--unsafe-plain", .boolean, default: "false",
            "Send tokens and passwords over plain http to an address that is not loopback."),
        short(
            "--upstream-ca-file", .file(.needed), default: "the system's authorities",
            "Trust the authorities in this file, not the system's."),
        short(
            "--upstream-server-name", .hostName, default: "the upstream's host",
            "The name that the upstream's certificate must have."),
        short("--upstream-certificate-file", .file(.needed), "The client certificate to show to the upstream."),
        short("--upstream-key-file", .file(.needed), "Its key."),
        short("--issuer", .url, "The OAuth 2.0 server, as it writes itself; its metadata names the endpoints."),
        short("--client-id", .text, "The OAuth 2.0 client."),
        short(
            "--client-secret-file", .file(.secret),
            "Log in as the client itself, with the secret in this file; without it a user confirms a device login."),
        short("--scopes", .text, "Scopes that the login asks for, separated by commas or spaces."),
        short("--audience", .text, "The field audience of calls to the token endpoint."),
        short(
            "--token-endpoint", .endpoint, default: "the metadata's", "The token endpoint, in place of the metadata's."),
        short("--app-id", .text, "The App Services client app id."),
        short("--base-url", .baseURL, "Where its client API is."),
        short("--email", .text, "Log in with this address and --password-file."),
        short("--password-file", .file(.secret), "The file that holds the password."),
        short("--api-key-file", .file(.secret), "Log in with the API key in this file."),
        short("--function-payload-file", .file(.secret), "Log in by a custom function with the JSON in this file."),
        short("--jwt-file", .file(.secret), "Log in with the custom JWT in this file."),
        short("--facebook-access-token-file", .file(.secret), "Log in with the Facebook access token in this file."),
        short("--google-id-token-file", .file(.secret), "Log in with the Google ID token in this file."),
        short(
            "--google-auth-code-file", .file(.secret), "Log in once with the Google authorization code in this file."),
        short("--apple-id-token-file", .file(.secret), "Log in with the Apple ID token in this file."),
        short("--anonymous", .boolean, default: "false", "Log in as a new anonymous user."),
        short("--token-file", .file(.secret), "No identity service: this file's content is the token."),
    ]

    private static func short(
        _ name: String, _ value: ConfigurationValue, default defaultDescription: String? = nil, _ meaning: String
    ) -> ConfigurationFlag {
        ConfigurationFlag(
            name: name, target: .short, value: value, keywords: [], meaning: meaning,
            defaultDescription: defaultDescription)
    }

    private static let keys: [ConfigurationFlag] = ConfigurationKeys.all.compactMap { key in
        guard let name = key.flag else { return nil }
        let (target, value): (Target, ConfigurationValue)
        switch key.kind {
        case .value(let wanted): (target, value) = (.key(key.path), wanted)
        case .values(let wanted), .oneOrMore(let wanted): (target, value) = (.list(key.path), wanted)
        default: return nil
        }
        return ConfigurationFlag(
            name: name, target: target, value: value, keywords: key.keywords, meaning: key.meaning,
            defaultDescription: key.defaultValue ?? key.defaultDescription)
    }

    private init(
        name: String, target: Target, value: ConfigurationValue, keywords: [String], meaning: String,
        defaultDescription: String?
    ) {
        (self.name, self.target, self.value, self.keywords) = (name, target, value, keywords)
        (self.meaning, self.defaultDescription) = (meaning, defaultDescription)
    }
}

/// The values of flags from the command line and the environment, each with its place.
struct ConfigurationFlagValues {
    struct Value: Equatable {
        var flag: ConfigurationFlag
        var text: String
        var place: ConfigurationPlace

        /// The text as a list: commas separate its elements.
        var list: ConfigurationNode {
            let elements = text.split(separator: ",", omittingEmptySubsequences: false)
            let nodes = elements.map { ConfigurationNode(.scalar(String($0.drop { $0 == " " })), at: place) }
            return ConfigurationNode(.sequence(nodes), at: place)
        }
    }

    private(set) var values: [Value] = []
    private(set) var diagnostics: [ConfigurationError] = []

    /// The last value of a flag.
    func value(_ name: String) -> Value? { values.last { $0.flag.name == name } }

    // MARK: - Command line

    /// Reads `--name value`, `--name=value`, and `--name` alone for a boolean.
    init(arguments: [String]) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            guard argument.hasPrefix("--"), argument.utf8.count > 2 else {
                usage(
                    argument, "unexpected argument \(ConfigurationText.quoted(argument))",
                    remedy: "flags begin with --; the configuration's file is named by --config PATH")
                continue
            }
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            guard let flag = ConfigurationFlag.all.first(where: { $0.name == name }) else {
                reportUnknown(name)
                // Its value, if there is one, is skipped, so that it is not reported as a second error.
                if parts.count == 1, let next = rest.first, !next.hasPrefix("--") { rest.removeFirst() }
                continue
            }
            let inline = parts.count == 2 ? String(parts[1]) : nil
            guard let text = inline ?? Self.following(flag, &rest) else {
                usage(name, "\(name) has no value", remedy: "write \(name) and \(flag.value.wanted)")
                continue
            }
            add(flag, text)
        }
    }

    /// The argument after a flag, if it is the flag's value.
    private static func following(_ flag: ConfigurationFlag, _ rest: inout ArraySlice<String>) -> String? {
        if flag.value == .boolean {
            guard let next = rest.first, ConfigurationText.boolean(next) != nil else { return "true" }
            return rest.removeFirst()
        }
        guard let next = rest.first, !next.hasPrefix("--") else { return nil }
        return rest.removeFirst()
    }

    private mutating func add(_ flag: ConfigurationFlag, _ text: String) {
        if value(flag.name) != nil {
            return usage(flag.name, "\(flag.name) is given twice", remedy: "keep one of them")
        }
        if text.isEmpty { return usage(flag.name, "\(flag.name) has no value", remedy: "write \(flag.value.wanted)") }
        values.append(Value(flag: flag, text: text, place: .flag(flag.name)))
    }

    /// What a flag would be called that had a secret as its value.
    private static let secretNames = [
        "--password", "--api-key", "--token", "--passphrase", "--jwt", "--function-payload", "--facebook-access-token",
        "--google-id-token", "--google-auth-code", "--apple-id-token", "--client-secret",
    ]

    /// Flags of other programs, each with the one that means the same here, where the nearest spelling is none or means something else.
    private static let meant = [
        "--token-url": "--token-endpoint", "--token-uri": "--token-endpoint", "--issuer-url": "--issuer",
        "--issuer-uri": "--issuer", "--oidc-issuer-url": "--issuer", "--discovery-url": "--issuer",
        "--authority": "--issuer", "--url": "--upstream", "--target": "--upstream", "--backend": "--upstream",
        "--bind": "--listen", "--port": "--listen",
    ]

    private mutating func reportUnknown(_ name: String) {
        let meant = Self.meant[name] ?? NearestName.of(name, among: ConfigurationFlag.all.map(\.name))
        let remedy = meant.map { "did you mean \($0)?" } ?? "lanyard run --help lists the flags"
        let secret = Self.secretNames.contains(name)
        usage(
            name, "unknown flag \(ConfigurationText.quoted(name))",
            remedy: secret ? "secrets are never flags: use \(name)-file" : remedy)
    }

    private mutating func usage(_ name: String, _ message: String, remedy: String) {
        diagnostics.append(ConfigurationError(.usage, at: .commandLine, message, remedy: remedy))
    }

    // MARK: - Environment

    /// Reads the `LANYARD_…` variables. Empty ones count as absent.
    ///
    /// `LANYARD_PORT…` and `LANYARD_SERVICE_…` are skipped, because Kubernetes sets them.
    init(environment: [String: String]) {
        for (name, text) in environment.sorted(by: { $0.key < $1.key }) {
            guard name.hasPrefix("LANYARD_"), !text.isEmpty, !name.hasPrefix("LANYARD_PORT"),
                !name.hasPrefix("LANYARD_SERVICE_")
            else { continue }
            guard let flag = ConfigurationFlag.all.first(where: { $0.environment == name }) else {
                let meant = Self.meant.first { ConfigurationFlag.environment(of: $0.key) == name }
                let nearest =
                    meant.map { ConfigurationFlag.environment(of: $0.value) }
                    ?? NearestName.of(name, among: ConfigurationFlag.all.map(\.environment))
                diagnostics.append(
                    ConfigurationError(
                        .warning, at: .environment(name), "an unknown variable, which is ignored",
                        remedy: nearest.map { "did you mean \($0)?" } ?? "remove it"))
                continue
            }
            values.append(Value(flag: flag, text: text, place: .environment(name)))
        }
    }
}
