import ArgumentParser
import Lanyard
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardVault

/// `lanyard check`: checks the configuration as `run` would. Exit 0 or 78; 64 for contradicting flags. With `--strict` a
/// warning is 78, too. With `--online` it connects to identities and upstreams as well: 69 if one is not reached.
struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check the configuration and say all that is wrong with it.",
        usage: "lanyard check [--strict] [--online [--login] | --print-config | --print-store-path] --config PATH",
        discussion: ConfigurationHelp.text)

    @Flag(
        name: .customLong("print-config"),
        help: "Print what was given and the defaults of the rest; secrets only as paths.")
    var printsConfiguration = false

    @Flag(
        name: .customLong("print-store-path"),
        help: """
            Only print the path of the store, or nothing if the configuration names none. Errors elsewhere in it do not matter: \
            exit 78 only if it may name a store that cannot be read.
            """)
    var printsStorePath = false

    @Flag(help: "Take each warning as an error, for pipelines: exit 78 instead of 0.")
    var strict = false

    @Flag(
        help: """
            Connect to each identity service and upstream as well, ask each service whether it knows the app, without a \
            credential, and say what came of it: exit 69 if one cannot be used.
            """)
    var online = false

    @Flag(
        help: """
            With --online: also get a token for each configured user whose login is that of a machine, such as client_credentials, \
            and throw it away.
            """)
    var login = false

    @Argument(parsing: .allUnrecognized, help: ArgumentHelp("Configuration flags, listed above.", valueName: "flags"))
    var flags: [String] = []

    func validate() throws {
        if printsStorePath, strict || online || printsConfiguration {
            throw ValidationError("--print-store-path checks nothing else: leave out the other flags of check")
        }
        if login, !online {
            throw ValidationError("--login is a part of the online check: add --online")
        }
        if online, printsConfiguration {
            throw ValidationError(
                "--print-config prints a configuration file, and nothing beside it: leave out --online")
        }
    }

    func run() throws {
        if printsStorePath { return try printStorePath() }
        let loaded = Configuration.load(
            arguments: flags, environment: ProcessEnvironment.all(), readsSecrets: true)
        Report.diagnostics(of: loaded)
        if let code = loaded.exitCode { throw ExitCode(code) }
        let findings = BindingCheck.findings(loaded)
        Report.diagnostics(findings)
        let upstreamTLS = check(loaded) { configuration throws(ConfiguredFileError) in
            try UpstreamTLS(configuration)
        }
        let listenerTLS = check(loaded) { configuration throws(ConfiguredFileError) in
            try ListenerTLS(configuration.listeners)
        }
        let identityTLS = check(loaded) { configuration throws(ConfiguredFileError) in
            try IdentityTLS(configuration.identities)
        }
        let tlsWarnings =
            (upstreamTLS?.warnings ?? []) + (listenerTLS?.warnings ?? []) + (identityTLS?.warnings ?? [])
        let fileWarnings = tlsWarnings + (loaded.configuration.map { SigningKeyCheck.warnings($0) } ?? [])
        for warning in fileWarnings { Report.error("warning: \(loaded.line(of: warning))") }
        let hasStoreWarning = try checkStore(loaded.configuration)
        guard let upstreamTLS, listenerTLS != nil, let identityTLS, !findings.contains(where: { $0.severity == .error })
        else { throw ExitCode(78) }
        let warningCount =
            loaded.warnings.count + findings.count + fileWarnings.count + (hasStoreWarning ? 1 : 0)
        if strict, warningCount > 0 {
            Report.error(
                "error: --strict: \(warningCount == 1 ? "a warning counts" : "\(warningCount) warnings count") as an error"
            )
            throw ExitCode(78)
        }
        if printsConfiguration {
            Report.output(OperatorText(page: loaded.printed))
        } else {
            Report.output("The configuration is valid.")
        }
        if online, let configuration = loaded.configuration {
            try connect(
                OnlineCheck(
                    configuration, upstreamTLS: upstreamTLS, identityTLS: identityTLS, logsIn: login))
        }
    }

    /// For the scripts of the package, which must not take the key of a store away.
    private func printStorePath() throws {
        switch Configuration.storePlace(arguments: flags, environment: ProcessEnvironment.all()) {
        case .none: break
        case .path(let path): Report.output("\(path)")
        case .unknown(let errors):
            Report.diagnostics(errors)
            throw ExitCode(78)
        }
    }

    /// Connects to every identity and upstream, and writes a line for each.
    private func connect(_ check: OnlineCheck) throws {
        let findings: [OnlineCheck.Finding]
        do throws(SystemError) {
            findings = try check.findings()
        } catch {
            Report.error("error: no connection can be tried: \(error)")
            throw ExitCode.failure
        }
        for finding in findings { Report.output("\(finding.isReached ? "ok" : "FAILED") \(finding.text)") }
        let missing = findings.count { !$0.isReached }
        guard missing > 0 else { return }
        Report.error(
            "error: \(missing) of \(findings.count) \(login ? "identities, logins" : "identities") and upstreams cannot be used"
        )
        throw ExitCode(69)
    }

    /// Checks files as `run` would.
    ///
    /// - Returns: nil if they cannot be used, which is written.
    private func check<Files>(
        _ loaded: LoadedConfiguration, read: (Configuration) throws(ConfiguredFileError) -> Files
    ) -> Files? {
        guard let configuration = loaded.configuration else { return nil }
        do throws(ConfiguredFileError) {
            return try read(configuration)
        } catch {
            Report.error("error: \(loaded.line(of: error))")
            return nil
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
