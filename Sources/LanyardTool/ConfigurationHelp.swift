import Lanyard

/// The flags of `run` and `check` as their help shows them: made from the table of keys, so that none is forgotten.
enum ConfigurationHelp {
    static let text: String = {
        let width = ConfigurationFlag.all.map(\.name.utf8.count).max() ?? 0
        let lines = ConfigurationFlag.all.map { flag in
            "  \(flag.name)\(String(repeating: " ", count: width - flag.name.utf8.count))  \(flag.meaning)"
        }
        return """
            Everything can stand in one YAML file (--config PATH or LANYARD_CONFIG; docs/configuration.md has all keys). Single \
            keys are flags, too, and variables: --refresh-at is LANYARD_REFRESH_AT. A flag wins over a variable, a variable \
            over the file.

            Configuration flags:
            \(lines.joined(separator: "\n"))
            """
    }()
}
