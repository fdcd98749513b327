import ArgumentParser
import Lanyard
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardVault

/// `lanyard check`: checks the configuration as `run` would. Exit 0 or 78; 64 for contradicting flags. With `--strict` a
/// warning is 78, too.
struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check the configuration and say all that is wrong with it.",
        usage: "lanyard check [--strict] [--print-config] --config PATH", discussion: ConfigurationHelp.text)

    @Flag(
        name: .customLong("print-config"),
        help: "Print what was given and the defaults of the rest; secrets only as paths.")
    var printsConfiguration = false

    @Flag(help: "Take each warning as an error, for pipelines: exit 78 instead of 0.")
    var strict = false

    @Argument(parsing: .allUnrecognized, help: ArgumentHelp("Configuration flags, listed above.", valueName: "flags"))
    var flags: [String] = []

    func run() throws {
        let loaded = Configuration.load(arguments: flags, environment: ProcessEnvironment.all())
        Report.diagnostics(of: loaded)
        if let code = loaded.exitCode { throw ExitCode(code) }
        try checkUpstreams(loaded.configuration)
        let tlsWarnings = try checkListeners(loaded.configuration)
        let hasStoreWarning = try checkStore(loaded.configuration)
        let warningCount = loaded.warnings.count + tlsWarnings + (hasStoreWarning ? 1 : 0)
        if strict, warningCount > 0 {
            Report.error(
                "error: --strict: \(warningCount == 1 ? "a warning counts" : "\(warningCount) warnings count") as an error"
            )
            throw ExitCode(78)
        }
        if printsConfiguration {
            Report.output(loaded.printed, terminator: "")
        } else {
            Report.output("The configuration is valid.")
        }
    }

    /// Checks the files of the upstreams' TLS as `run` would.
    private func checkUpstreams(_ configuration: Configuration?) throws {
        do throws(UpstreamTLSFiles.FileError) {
            if let configuration { _ = try UpstreamTLS(configuration) }
        } catch {
            Report.error("error: \(error.message)")
            throw ExitCode(78)
        }
    }

    /// Checks the files of the listeners' TLS as `run` would.
    ///
    /// - Returns: the number of warnings.
    private func checkListeners(_ configuration: Configuration?) throws -> Int {
        guard let configuration else { return 0 }
        do throws(TLSFileContents.FileError) {
            let tls = try ListenerTLS(configuration.listeners)
            for warning in tls.warnings { Report.error("warning: \(warning)") }
            return tls.warnings.count
        } catch {
            Report.error("error: \(error.message)")
            throw ExitCode(78)
        }
    }

    /// Checks the store as `run` would. `check` may run as another Unix user than `run`: an obstacle for this user alone is a warning.
    ///
    /// - Returns: whether there was a warning.
    private func checkStore(_ configuration: Configuration?) throws -> Bool {
        guard let configuration, let obstacle = OpenedStore.inspect(at: configuration.store) else { return false }
        switch obstacle {
        case .forThisUser(let error):
            Report.error("warning: \(error.message)")
            return true
        case .forEveryUser(let error):
            Report.error("error: \(error.message)")
            throw ExitCode(error.exitCode)
        }
    }
}
