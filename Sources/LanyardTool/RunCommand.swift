import ArgumentParser
import Lanyard

/// `lanyard run`: the proxy itself.
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Serve until a signal ends it.",
        usage: """
            lanyard run --config PATH
            lanyard run --upstream URL --app-id ID --base-url URL (--email ADDRESS --password-file PATH | --api-key-file PATH | --anonymous)
            lanyard run --upstream URL --token-file PATH
            """,
        discussion: ConfigurationHelp.text)

    @Argument(parsing: .allUnrecognized, help: ArgumentHelp("Configuration flags, listed above.", valueName: "flags"))
    var flags: [String] = []

    func run() throws {
        let loaded = Configuration.load(arguments: flags, environment: ProcessEnvironment.all())
        Report.faults(of: loaded)
        guard loaded.configuration != nil else { throw ExitCode(loaded.exitCode ?? 78) }
        Report.error("error: this build cannot serve yet")
        throw ExitCode.failure
    }
}
