import ArgumentParser
import LanyardConfiguration

/// Refuses a command that does not exist, and names the nearest one. The parser would call it an unexpected argument.
enum MistypedCommand {
    /// Follows the command line from `command` down to the first command without commands of its own.
    static func check(_ arguments: ArraySlice<String>, of command: any ParsableCommand.Type) throws {
        let known = command.configuration.subcommands
        guard !known.isEmpty, let word = arguments.first, !word.hasPrefix("-"), word != "help" else { return }
        if let next = known.first(where: { name(of: $0) == word }) {
            return try check(arguments.dropFirst(), of: next)
        }
        let path = name(of: command) == "lanyard" ? "lanyard" : "lanyard \(name(of: command))"
        let nearest = NearestName.of(word, among: known.map(name))
        throw CommandFailure.usage(
            "\(path) has no command \(ConfigurationText.quoted(word))",
            nearest.map { "did you mean \($0)?" } ?? "\(path) --help lists the commands")
    }

    private static func name(of command: any ParsableCommand.Type) -> String {
        command.configuration.commandName ?? ""
    }
}
