/// A flag of `run` and `check`, and the environment variable of the same meaning.
package struct ConfigurationFlag: Equatable, Sendable {
    package enum Target: Equatable, Sendable {
        /// The configuration file.
        case file
        /// A single key that is not in a list or below a chosen name, by path.
        case key(String)
        /// Part of the short form for one user.
        case short
    }

    /// With its dashes.
    package let name: String
    package let target: Target
    package let value: ConfigurationValue
    /// Words that may replace the value, such as `none`.
    package let keywords: [String]
    package let meaning: String

    /// `LANYARD_REFRESH_AT`.
    package var environment: String {
        "LANYARD_" + String(name.dropFirst(2).map { $0 == "-" ? "_" : $0 }).uppercased()
    }

    /// All of them: the file, the short form, and one for each single key.
    package static let all: [ConfigurationFlag] = [file] + short + keys

    private static let file = ConfigurationFlag(
        name: "--config", target: .file, value: .text, keywords: [], meaning: "The configuration file.")

    /// The short form for one user. Its user, identity and route are named `default`.
    package static let short: [ConfigurationFlag] = [
        short("--listen", .listenAddress, "Where clients connect (127.0.0.1:7400)."),
        short("--upstream", .upstream, "Where requests go."),
        short("--app-id", .text, "The App Services client app id."),
        short("--base-url", .baseURL, "Where its client API is."),
        short("--email", .text, "Log in with this address and --password-file."),
        short("--password-file", .file(.secret), "The file that holds the password."),
        short("--api-key-file", .file(.secret), "Log in with the API key in this file."),
        short("--anonymous", .boolean, "Log in as a new anonymous user."),
        short("--token-file", .file(.secret), "No identity service: this file's content is the token."),
    ]

    private static func short(_ name: String, _ value: ConfigurationValue, _ meaning: String) -> ConfigurationFlag {
        ConfigurationFlag(name: name, target: .short, value: value, keywords: [], meaning: meaning)
    }

    private static let keys: [ConfigurationFlag] = ConfigurationKeys.all.compactMap { key in
        guard let name = key.flag, case .value(let value) = key.kind else { return nil }
        return ConfigurationFlag(
            name: name, target: .key(key.path), value: value, keywords: key.keywords, meaning: key.meaning)
    }

    private init(name: String, target: Target, value: ConfigurationValue, keywords: [String], meaning: String) {
        (self.name, self.target, self.value, self.keywords, self.meaning) = (name, target, value, keywords, meaning)
    }
}
