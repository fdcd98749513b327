import ArgumentParser
import CLinux
import Dispatch

/// The program's entry point. It is synchronous, because an asynchronous one has threads and descriptors before its first line.
@main
enum EmulatorProgram {
    static func main() {
        // Otherwise the next file or socket could take the number of a closed standard descriptor.
        guard lanyard_open_standard_descriptors() == 0 else { CommandOutput.exit(1) }
        Task { await run() }
        dispatchMain()
    }

    /// Replaces the parser's `main()`, which ignores failed output and ends by exit(3).
    private static func run() async -> Never {
        do {
            let arguments = arguments
            try refuseUnknownCommand(arguments)
            var command = try EmulatorCommand.parseAsRoot(arguments)
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            CommandOutput.exit(0)
        } catch {
            let (message, status) = (
                EmulatorCommand.fullMessage(for: error), EmulatorCommand.exitCode(for: error).rawValue
            )
            if !message.isEmpty {
                // Requested help is output, not an error.
                if status == 0 { CommandOutput.print(message) } else { CommandOutput.log(lowercased(message)) }
            }
            CommandOutput.exit(status)
        }
    }

    /// The parser's message in the form of all other errors.
    private static func lowercased(_ message: String) -> String {
        message.hasPrefix("Error: ") ? "error: " + message.dropFirst("Error: ".count) : message
    }

    /// The arguments after the program's name. `CommandLine` has none where /proc is not mounted.
    private static var arguments: [String] {
        stride(from: 1, to: lanyard_argument_count(), by: 1).map { String(cString: lanyard_argument($0)) }
    }

    /// Refuses a first word that is no command. The parser would give it to `serve`, and call it an unexpected argument.
    private static func refuseUnknownCommand(_ arguments: [String]) throws {
        let names = EmulatorCommand.configuration.subcommands.compactMap { $0.configuration.commandName } + ["help"]
        guard let word = arguments.first, !word.hasPrefix("-"), !names.contains(word) else {
            return
        }
        throw ValidationError(
            "There is no command '\(word)'. The commands are \(names.joined(separator: ", ")).")
    }
}
