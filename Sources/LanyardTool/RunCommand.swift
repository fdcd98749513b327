import ArgumentParser
import Lanyard

/// `lanyard run`: the proxy itself.
struct RunCommand: ParsableCommand {
    static let name = "run"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Serve until a signal ends it.",
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
        guard let configuration = loaded.configuration else {
            Report.diagnostics(of: loaded)
            throw ExitCode(loaded.exitCode ?? 78)
        }
        throw ExitCode(
            Lanyard.run(
                configuration, warnings: loaded.warnings, addresses: loaded.addresses, commit: BuildCommit.text))
    }
}
