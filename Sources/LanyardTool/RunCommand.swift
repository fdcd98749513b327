import ArgumentParser
import Lanyard
import LanyardConfiguration
import LanyardFoundations

/// `lanyard run`: the proxy itself.
struct RunCommand: ParsableCommand {
    static let name = "run"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Serve until a signal ends it.",
        usage: """
            lanyard run --config PATH
            lanyard run --upstream URL --issuer URL --client-id ID [--client-secret-file PATH]
            lanyard run --upstream URL --app-id ID --base-url URL (--email ADDRESS --password-file PATH | another login)
            lanyard run --upstream URL --token-file PATH
            """,
        discussion: ConfigurationHelp.text)

    @Argument(parsing: .allUnrecognized, help: ArgumentHelp("Configuration flags, listed above.", valueName: "flags"))
    var flags: [String] = []

    func run() throws { throw ExitCode(try Self.serve(flags)) }

    /// The flags of a command line of `run`; nil: it is another command, or has an argument that the parser knows or refuses.
    ///
    /// The parser would make the tables of all commands and the texts of their help, which is half the work of a start.
    static func plainFlags(_ arguments: [String]) -> [String]? {
        guard arguments.first == name else { return nil }
        let isPlain = arguments.dropFirst().allSatisfy { word in
            !word.hasPrefix("-") || ConfigurationFlag.all.contains { word == $0.name || word.hasPrefix($0.name + "=") }
        }
        return isPlain ? Array(arguments.dropFirst()) : nil
    }

    /// Serves until the end.
    ///
    /// - Returns: the exit status.
    static func serve(_ flags: [String]) throws -> Int32 {
        let environment = ProcessEnvironment.all()
        let (configuration, loaded) = try Report.usable(flags, environment)
        let load: @Sendable () -> LoadedConfiguration = {
            Configuration.load(arguments: flags, environment: environment, isReload: true)
        }
        return Lanyard.run(configuration, of: loaded, reload: load, commit: BuildCommit.text)
    }
}

/// The help text for the flags of `run` and `check`. It is made from the table of keys, so it is complete.
enum ConfigurationHelp {
    static let text: String = {
        var groups: [(name: String, lines: [String])] = []
        for flag in ConfigurationFlag.all {
            let lines =
                ["  \(flag.name)"]
                + wrapped("\(flag.meaning) (\(flag.valueHelp))", width: 72).map { "      \($0)" }
            if let place = groups.firstIndex(where: { $0.name == flag.group }) {
                groups[place].lines += lines
            } else {
                groups.append((flag.group, lines))
            }
        }
        let flags = groups.map { (["\($0.name):"] + $0.lines).joined(separator: "\n") }.joined(separator: "\n\n")
        return """
            Everything can stand in one YAML file (--config PATH or LANYARD_CONFIG; docs/use/configuration.md leads to all keys). Single \
            keys are flags, too, and variables: --refresh-at is LANYARD_REFRESH_AT. A flag wins over a variable, a variable \
            over the file.

            Examples:
              lanyard run --config lanyard.yaml
              lanyard run --config lanyard.yaml --log-level debug --shutdown-drain-max 10s
              lanyard run --upstream URL --issuer URL --client-id ID
              lanyard run --upstream https://api.example.com --token-file token
              lanyard check --strict --online --config lanyard.yaml

            \(flags)
            """
    }()

    /// Splits text into lines of whole words. The parser's own wrapping would lose the indentation.
    private static func wrapped(_ text: String, width: Int) -> [String] {
        text.split(separator: " ").reduce(into: [String]()) { lines, word in
            if let last = lines.last, last.utf8.count + 1 + word.utf8.count <= width {
                lines[lines.count - 1] += " \(word)"
            } else {
                lines.append(String(word))
            }
        }
    }
}
