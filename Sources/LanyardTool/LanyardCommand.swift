import ArgumentParser

/// `lanyard`. Synchronous on purpose: an asynchronous root has four threads before its first line, and a sandbox binds only
/// the thread that asks for it and what that thread starts.
struct LanyardCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lanyard",
        abstract: "A local proxy that turns plain HTTP requests into authenticated ones.",
        subcommands: [RunCommand.self, CheckCommand.self, HealthCommand.self, StoreCommand.self, VersionCommand.self])

    /// Parses the command line, runs the command and ends the process.
    ///
    /// In place of the parser's `main()`, which ignores output that fails and ends by exit(3).
    static func runToExit() -> Never {
        do {
            var command = try parseAsRoot()
            try command.run()
            Report.exit(0)
        } catch {
            let (message, status) = (fullMessage(for: error), exitCode(for: error).rawValue)
            if !message.isEmpty {
                // Help that was asked for is output.
                if status == 0 { Report.output(message) } else { Report.error(message) }
            }
            Report.exit(status)
        }
    }
}
