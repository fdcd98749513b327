/// A flag of `run` and `check`, and its twin in the environment.
package struct ConfigurationFlag: Equatable, Sendable {
    package enum Target: Equatable, Sendable {
        /// The file.
        case file
        /// A single key outside lists and chosen names, by path.
        case key(String)
        /// Part of the one-user short form.
        case short
    }

    /// With its dashes.
    package let name: String
    package let target: Target
    package let value: ConfigurationValue
    /// Words that may stand in place of the value.
    package let words: [String]
    package let meaning: String

    /// `LANYARD_REFRESH_AT`.
    package var environment: String {
        "LANYARD_" + String(name.dropFirst(2).map { $0 == "-" ? "_" : $0 }).uppercased()
    }

    /// All of them: the file, the short form, and one for each single key.
    package static let all: [ConfigurationFlag] = [file] + short + keys

    private static let file = ConfigurationFlag(
        name: "--config", target: .file, value: .text, words: [], meaning: "The configuration file.")

    /// The one-user short form; its user, identity and route are called `default`.
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
        ConfigurationFlag(name: name, target: .short, value: value, words: [], meaning: meaning)
    }

    private static let keys: [ConfigurationFlag] = ConfigurationKeys.all.compactMap { key in
        guard let name = key.flag, case .value(let value) = key.kind else { return nil }
        return ConfigurationFlag(
            name: name, target: .key(key.path), value: value, words: key.words, meaning: key.meaning)
    }

    private init(name: String, target: Target, value: ConfigurationValue, words: [String], meaning: String) {
        (self.name, self.target, self.value, self.words, self.meaning) = (name, target, value, words, meaning)
    }
}
