import ArgumentParser
import Lanyard
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSettings
import LanyardVault

/// `lanyard check`: checks the configuration as `run` would. Exit 0 or 78; 64 for contradicting flags. With `--strict` a
/// warning is 78, too. With `--online` it connects to identities and upstreams as well: 69 if one is not reached.
struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check the configuration and say all that is wrong with it.",
        usage: """
            lanyard check [--strict] [--online [--login]] [--json] --config PATH
            lanyard check --print-config --config PATH
            lanyard check --print-store-path --config PATH
            """,
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
            With --online: also log each configured user in, once, and end its session again. Logins that work once, make an account \
            or need a browser are not tried.
            """)
    var login = false

    @Flag(help: "Print one JSON document: whether it is valid, all findings, and what was reached.")
    var json = false

    @Argument(parsing: .allUnrecognized, help: ArgumentHelp("Configuration flags, listed above.", valueName: "flags"))
    var flags: [String] = []

    func validate() throws {
        if printsStorePath, strict || online || printsConfiguration || json {
            throw ValidationError("--print-store-path checks nothing else: leave out the other flags of check")
        }
        if login, !online {
            throw ValidationError("--login is a part of the online check: add --online")
        }
        if printsConfiguration, online || json {
            throw ValidationError(
                "--print-config prints a configuration file, and nothing beside it: leave out --online and --json")
        }
    }

    func run() throws {
        if printsStorePath { return try printStorePath() }
        let loaded = Configuration.load(
            arguments: flags, environment: ProcessEnvironment.all(), readsSecrets: true)
        var findings = loaded.diagnostics.map { CheckFinding($0) }
        let files = loaded.exitCode == nil ? CheckedFiles(loaded, &findings) : nil
        if !json { for finding in findings { Report.error(finding.line) } }
        let warningCount = findings.count(where: \.isWarning)
        let code = loaded.exitCode ?? (warningCount < findings.count || (strict && warningCount > 0) ? 78 : nil)
        if let code {
            if json { printDocument(isValid: false, findings, []) }
            if !json, warningCount == findings.count {
                let counted = warningCount == 1 ? "a warning counts" : "\(warningCount) warnings count"
                Report.error("error: --strict: \(counted) as an error")
            }
            throw ExitCode(code)
        }
        if printsConfiguration { return Report.output(OperatorText(page: loaded.printed)) }
        if !json { Report.output("The configuration is valid.") }
        guard online, let configuration = loaded.configuration, let tls = files?.upstreamTLS,
            let identityTLS = files?.identityTLS
        else {
            if json { printDocument(isValid: true, findings, []) }
            return
        }
        try connect(
            OnlineCheck(configuration, upstreamTLS: tls, identityTLS: identityTLS, logsIn: login), findings)
    }

    private func printDocument(
        isValid: Bool, _ findings: [CheckFinding], _ connections: [OnlineCheck.Finding]
    ) {
        JSONDocument.print { document in
            document.member("valid", isValid)
            document.key("findings")
            document.beginArray()
            for finding in findings { finding.write(into: &document) }
            document.endArray()
            document.key("online")
            document.beginArray()
            for connection in connections {
                document.beginObject()
                document.member("result", connection.outcome.rawValue)
                document.member("text", ConfigurationText.line(connection.text))
                document.endObject()
            }
            document.endArray()
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
    private func connect(_ check: OnlineCheck, _ findings: [CheckFinding]) throws {
        let connections: [OnlineCheck.Finding]
        do throws(SystemError) {
            connections = try check.findings()
        } catch {
            Report.error("error: no connection can be tried: \(error)")
            throw ExitCode.failure
        }
        let missing = connections.count { $0.outcome == .failed }
        if json {
            printDocument(isValid: true, findings, connections)
        } else {
            for connection in connections {
                let word = connection.outcome == .failed ? "FAILED" : connection.outcome.rawValue
                Report.output("\(word) \(connection.text)")
            }
        }
        guard missing > 0 else { return }
        if !json {
            let what = login ? "identities, logins" : "identities"
            Report.error("error: \(missing) of \(connections.count) \(what) and upstreams cannot be used")
        }
        throw ExitCode(69)
    }
}

/// What is outside of the configuration, as `run` would find it: addresses, TLS files, keys, the store and libnghttp2.
struct CheckedFiles {
    let upstreamTLS: UpstreamTLS?
    let identityTLS: IdentityTLS?

    /// Adds what is wrong to the findings.
    init(_ loaded: LoadedConfiguration, _ findings: inout [CheckFinding]) {
        findings += BindingCheck.findings(loaded).map { CheckFinding($0) }
        if let warning = HTTP2Library.warning { findings.append(CheckFinding(.warning, at: .commandLine, warning)) }
        guard let configuration = loaded.configuration else {
            (upstreamTLS, identityTLS) = (nil, nil)
            return
        }
        var found: [CheckFinding] = []
        func read<Files>(_ body: () throws(ConfiguredFileError) -> Files) -> Files? {
            do throws(ConfiguredFileError) {
                return try body()
            } catch {
                let (place, text) = loaded.finding(of: error)
                found.append(CheckFinding(.error, at: place, text))
                return nil
            }
        }
        let upstreamTLS = read { () throws(ConfiguredFileError) in try UpstreamTLS(configuration) }
        let listenerTLS = read { () throws(ConfiguredFileError) in try ListenerTLS(configuration.listeners) }
        let identityTLS = read { () throws(ConfiguredFileError) in try IdentityTLS(configuration.identities) }
        (self.upstreamTLS, self.identityTLS) = (upstreamTLS, identityTLS)
        _ = read { () throws(ConfiguredFileError) in try IdentityLibrary.load(for: configuration.identities) }
        let warnings =
            (upstreamTLS?.warnings ?? []) + (listenerTLS?.warnings ?? []) + (identityTLS?.warnings ?? [])
            + CertificateCheck.warnings(configuration) + SecretFileCheck.warnings(configuration)
            + FileChangeCheck.warnings(configuration)
        for warning in warnings {
            let (place, text) = loaded.finding(of: warning)
            found.append(CheckFinding(.warning, at: place, text))
        }
        for (index, route) in configuration.routes.enumerated() {
            guard let zone = route.upstream.zone, NetworkZone.index(of: zone) == nil else { continue }
            // `run` serves without it: each request is refused until the interface is there.
            let (place, text) = loaded.finding(
                ofUpstream: index,
                "this machine has no network interface \(zone); write one that it has, as ip link lists them")
            found.append(CheckFinding(.warning, at: place, text))
        }
        if let obstacle = OpenedStore.inspect(at: configuration.store) {
            let (place, text) = loaded.finding(
                ofStore: obstacle.error.message, isAboutSecret: obstacle.isAboutSecret)
            // `check` may run as another Unix user than `run`.
            found.append(CheckFinding(obstacle.isForEveryUser ? .error : .warning, at: place, text))
        }
        findings += found
    }
}
