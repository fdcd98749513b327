import ArgumentParser
import CBuildCommit
import Lanyard
import LanyardClient
import LanyardFoundations

/// `lanyard`. The root command is synchronous, because an asynchronous one has four threads before its first line. A sandbox applies
/// only to the calling thread and the threads that it starts.
struct LanyardCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lanyard",
        abstract: "A local proxy that turns plain HTTP requests into authenticated ones.",
        version: VersionCommand.text,
        groupedSubcommands: [
            CommandGroup(
                name: "Proxy",
                subcommands: [
                    RunCommand.self, InitCommand.self, CheckCommand.self, RouteCommand.self, StoreCommand.self,
                    VersionCommand.self,
                ]),
            CommandGroup(
                name: "Status",
                subcommands: [
                    StatusCommand.self, TopCommand.self, HealthCommand.self, WaitCommand.self, LogCommand.self,
                    ReloadCommand.self, ShutdownCommand.self,
                ]),
            CommandGroup(
                name: "User",
                subcommands: [
                    UsersCommand.self, LoginCommand.self, LogoutCommand.self, UseCommand.self, RefreshCommand.self,
                    RemoveCommand.self, TokenCommand.self,
                ]),
            CommandGroup(
                name: "Account",
                subcommands: [
                    LinkCommand.self, ProfileCommand.self, CustomDataCommand.self, CallCommand.self,
                    APIKeysCommand.self, AccountCommand.self,
                ]),
        ])

    /// Parses the command line, runs the command and ends the process.
    ///
    /// Replaces the parser's `main()`, which ignores failed output and ends by exit(3).
    static func runToExit() -> Never {
        let arguments = ProcessArguments.all
        do {
            if let flags = RunCommand.plainFlags(arguments) { Report.exit(try RunCommand.serve(flags)) }
            try MistypedCommand.check(arguments[...], of: Self.self)
            var command = try parseAsRoot(RouteCommand.prepared(arguments))
            try command.run()
            Report.exit(0)
        } catch {
            let (message, status) = (fullMessage(for: error), exitCode(for: error).rawValue)
            if !message.isEmpty {
                // Requested help is output, not an error.
                if status == 0 {
                    Report.output(OperatorText(page: CompletionScript.completed(message, arguments)))
                } else {
                    Report.error(OperatorText(page: ParserMessage.text(message)))
                }
            }
            Report.exit(status)
        }
    }
}

/// `lanyard version`.
struct VersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version", abstract: "Print the version, and what it was built from.")

    static let text = "lanyard \(BuildVersion.number) (commit \(BuildCommit.text))"

    @Flag(help: "Print one JSON document, for programs.")
    var json = false

    func run() {
        guard json else { return Report.output(OperatorText(line: Self.text)) }
        JSONDocument.print { document in
            document.member("version", BuildVersion.number)
            document.member("commit", BuildCommit.text)
        }
    }
}

/// The source that this program was built from.
enum BuildCommit {
    /// Twelve hex digits, followed by `-dirty` if files were changed; `unknown` if the build did not get a commit.
    static let text = String(cString: lanyard_build_commit())
}
