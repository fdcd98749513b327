import ArgumentParser
import LanyardClient
import LanyardFoundations
import LanyardSettings

/// `lanyard reload`: lets a running Lanyard load its configuration again, as SIGHUP does.
struct ReloadCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload", abstract: "Let a running Lanyard load its configuration again.",
        discussion: """
            All of the new configuration is checked first, then it is applied at once. Nothing is changed if there is an error \
            or if a changed key needs a restart; the command then says which, with exit code 1.
            """)

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func run() throws {
        try admin.session(for: output, readsChangedFile: true).show("POST", "/v1/reload", as: output) { json in
            let keys = (json["applied"]?.elements ?? []).compactMap(\.string)
            return keys.isEmpty
                ? "The configuration is valid; nothing differs." : "Applied: \(keys.joined(separator: ", "))."
        }
    }
}

extension LogSettings.Level: ExpressibleByArgument {}

/// `lanyard log`: the log of a running Lanyard.
struct LogCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log", abstract: "Show or change what a running Lanyard logs.", subcommands: [LogLevelCommand.self]
    )
}

/// `lanyard log level`: shows or sets the log level, until the next start or a reload with another `log.level`.
struct LogLevelCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "level", abstract: "Show or set the log level of a running Lanyard.",
        discussion:
            "A level that is set lasts until the end of the process, SIGUSR1, or a reload with another log.level.")

    @Argument(help: "The level from now on. (default: only show it)")
    var level: LogSettings.Level?

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func run() throws {
        let session = try admin.session(for: output)
        var body: Secret?
        if let level {
            var object = RequestBody()
            object.add("level", level.rawValue)
            body = object.seal()
        }
        try session.show(level == nil ? "GET" : "POST", "/v1/log-level", body: body, as: output) { json in
            let (level, configured) = (json["level"]?.string ?? "", json["configured"]?.string ?? "")
            return level == configured ? OperatorText(line: level) : "\(level) (configured: \(configured))"
        }
    }
}
