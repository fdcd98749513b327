import ArgumentParser
import LanyardConfiguration

/// Refuses a command that does not exist, and names the nearest one. The parser would call it an unexpected argument.
enum MistypedCommand {
    /// What other programs call these commands.
    private static let meant = ["start": "run", "serve": "run", "stop": "shutdown", "quit": "shutdown"]

    /// Follows the command line from `command` down to the first command without commands of its own.
    static func check(_ arguments: ArraySlice<String>, of command: any ParsableCommand.Type) throws {
        let known = command.configuration.subcommands
        guard !known.isEmpty, let word = arguments.first, !word.hasPrefix("-") else { return }
        if word == "help", name(of: command) == "lanyard" { return try check(arguments.dropFirst(), of: command) }
        if let next = known.first(where: { name(of: $0) == word }) {
            return try check(arguments.dropFirst(), of: next)
        }
        let path = name(of: command) == "lanyard" ? "lanyard" : "lanyard \(name(of: command))"
        let names = known.map(name)
        let nearest = meant[word].flatMap { names.contains($0) ? $0 : nil } ?? NearestName.of(word, among: names)
        throw CommandFailure.usage(
            "\(path) has no command \(ConfigurationText.quoted(word))",
            nearest.map { "did you mean \($0)?" } ?? "\(path) --help lists the commands")
    }

    private static func name(of command: any ParsableCommand.Type) -> String {
        command.configuration.commandName ?? ""
    }
}
