import ArgumentParser
import LanyardConfiguration

/// Refuses a command that does not exist, and names the nearest one. The parser would call it an unexpected argument. Refuses a group of
/// commands without one of them, too: the parser would print help and exit with 0.
enum MistypedCommand {
    /// What other programs call these commands.
    private static let meant = [
        "start": "run", "serve": "run", "stop": "shutdown", "quit": "shutdown", "setup": "init", "configure": "init",
    ]

    /// Follows the command line from `command` down to the first command without commands of its own.
    ///
    /// - Parameter isHelp: whether the arguments follow the word `help`, which needs no whole command.
    static func check(
        _ arguments: ArraySlice<String>, of command: any ParsableCommand.Type, isHelp: Bool = false
    ) throws {
        let known = command.configuration.subcommands
        guard !known.isEmpty else { return }
        let isRoot = name(of: command) == "lanyard"
        let path = isRoot ? "lanyard" : "lanyard \(name(of: command))"
        let names = known.map(name)
        guard let word = arguments.first else {
            // `lanyard` alone asks for nothing, and gets help.
            if isRoot || isHelp { return }
            throw CommandFailure.usage(
                "\(path) needs one of its commands: \(names.joined(separator: ", "))", "\(path) --help explains them")
        }
        guard !word.hasPrefix("-") else { return }
        if word == "help", isRoot { return try check(arguments.dropFirst(), of: command, isHelp: true) }
        if let next = known.first(where: { name(of: $0) == word }) {
            return try check(arguments.dropFirst(), of: next, isHelp: isHelp)
        }
        let nearest = meant[word].flatMap { names.contains($0) ? $0 : nil } ?? NearestName.of(word, among: names)
        throw CommandFailure.usage(
            "\(path) has no command \(ConfigurationText.quoted(word))",
            nearest.map { "did you mean \($0)?" } ?? "\(path) --help lists the commands")
    }

    private static func name(of command: any ParsableCommand.Type) -> String {
        command.configuration.commandName ?? ""
    }
}
