import Glibc
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSessionInterface
import LanyardSettings
import LanyardTelemetry
import LanyardVault
import Logging

/// The program as a value: load → open the store → bind → build → announce → serve → drain.
///
/// Start-up keeps the order of architecture-control.md 7.8: before the first queue, timer or thread everything is bound, and libcurl is
/// loaded for identities that make calls.
package enum Lanyard {
    /// Holds the program until the process ends. Its parts hold one another and are not taken apart at the end. This reference lets a
    /// leak checker report real leaks only.
    private static let running = Guarded<Program?>(nil)

    /// Serves until a signal ends it. Blocks the calling thread, which owns no queue.
    ///
    /// - Parameters:
    ///   - loaded: the result of loading, with the warnings and the places of addresses.
    ///   - reload: reads all sources of the configuration again.
    ///   - commit: the source of this build, for `lanyard_build_info`.
    /// - Returns: the exit status of architecture-control.md 7.5.
    package static func run(
        _ configuration: Configuration, of loaded: LoadedConfiguration,
        reload: @escaping @Sendable () -> LoadedConfiguration, commit: String
    ) -> Int32 {
        let addresses = loaded.addresses
        // Before anything is opened: a file of Lanyard's own must not get a number that the service manager names but has not passed.
        let activated = ActivatedSockets()
        let manager = ServiceManager()
        let activation = activated.rules
        let verbosity = LogVerbosity(configuration.log.level)
        let isTerminal = isatty(STDERR_FILENO) == 1
        let pipe = LogPipe(
            format: isTerminal ? .text : .json, hasPriorities: LogPriority.isJournal(STDERR_FILENO),
            terminal: isTerminal ? TerminalLines(usesColour: Self.usesColour) : nil)
        pipe.setFormat(configuration.log.format)
        LoggingSystem.bootstrap { _ in PipeLogHandler(pipe: pipe, verbosity: verbosity) }
        let log = Logger(label: "lanyard")
        if !Machine.forbidDumps() {
            log.warning("core dumps could not be forbidden", metadata: ["event": "start.dumpable"])
        }
        removeProxyVariables(configuration, log)
        for warning in loaded.warnings {
            log.warning("\(warning)", metadata: ["event": "configuration.warning", "place": "\(warning.place)"])
        }
        let store: OpenedStore
        do throws(StoreError) {
            store = try OpenedStore.open(configuration.store)
        } catch {
            log.critical("\(error.message)", metadata: ["event": "start.failed", "reason": "\(error.reason)"])
            return error.exitCode
        }
        store.announce(on: log)
        let files: ConfigurationFiles
        do throws(ConfiguredFileError) {
            files = try ConfigurationFiles(configuration, running: nil)
        } catch {
            log.critical(
                "\(loaded.line(of: error))",
                metadata: [
                    "event": "start.failed", "reason": "\(error.owner.reason)", "place": "\(loaded.place(of: error))",
                ])
            return 78
        }
        files.logWarnings(to: log)
        do throws(ConfigurationError) {
            try activation.check(configuration, addresses)
        } catch {
            log.critical("\(error)", metadata: ["event": "start.failed", "place": "\(error.place)"])
            return 78
        }
        let bindings: Bindings
        do throws(ConfigurationError) {
            bindings = try Bindings(configuration, activated: activated, addresses)
        } catch {
            log.critical("\(error)", metadata: ["event": "start.failed", "place": "\(error.place)"])
            return 69
        }
        if let error = bindings.adminError {
            log.warning("there is no admin API: \(error)", metadata: ["event": "admin.unavailable"])
        }
        activated.closeRest(log)
        do throws(ConfiguredFileError) {
            try IdentityLibrary.load(for: configuration.identities)
        } catch {
            log.critical(
                "\(loaded.line(of: error))",
                metadata: ["event": "start.failed", "reason": "libcurl", "place": "\(loaded.place(of: error))"])
            return 69
        }
        warnOfThreads(log)
        do throws(SystemError) {
            let program = try Program(
                NextConfiguration(configuration: configuration, files: files, keys: [], log: log), store: store,
                loading: Program.Loading(loaded: loaded, load: reload, activation: activation), bindings: bindings,
                signals: Signals.openDescriptor(), pipe: pipe, verbosity: verbosity, manager: manager, commit: commit)
            running.withLock { $0 = program }
            pipe.start()
            let status = program.serve()
            _ = pipe.flush(within: .seconds(1))
            return status
        } catch {
            log.critical("\(error)", metadata: ["event": "start.failed", "reason": "\(error.kindText)"])
            _ = pipe.flush(within: .seconds(1))
            return 1
        }
    }

    /// Whether the log is coloured on a terminal (no-color.org).
    private static var usesColour: Bool {
        let environment = ProcessEnvironment.all()
        let type = environment["TERM"] ?? ""
        return !type.isEmpty && type != "dumb" && (environment["NO_COLOR"] ?? "").isEmpty
    }

    /// Keeps proxy variables only if an identity or a route is configured to use them. Logs the names of removed variables, and no values,
    /// because values may hold passwords.
    private static func removeProxyVariables(_ configuration: Configuration, _ log: Logger) {
        if !configuration.readsProxyVariables { ProcessEnvironment.clear(.proxies) }
        let names = ProcessEnvironment.cleared
        guard !names.isEmpty else { return }
        log.notice(
            "variables that would change what libraries do were removed from the environment",
            metadata: ["event": "start.environment_cleared", "variables": .string(names.joined(separator: ", "))])
    }

    /// Warns if the process has more than one thread. A sandbox applies to the calling thread and the threads that it starts. A thread
    /// that already runs would stay outside.
    private static func warnOfThreads(_ log: Logger) {
        guard let count = Machine.threadCount else { return }
        log.debug("everything is bound", metadata: ["event": "start.bound", "threads": .stringConvertible(count)])
        if count != 1 {
            log.warning(
                "threads run before everything is bound: a sandbox would not apply to them",
                metadata: ["event": "start.threads", "threads": .stringConvertible(count)])
        }
    }
}

extension ConfiguredFileError.Owner {
    /// One word for the log's `reason` when files of TLS cannot be used.
    fileprivate var reason: String {
        switch self {
        case .listener, .broker: "listener_tls"
        case .caller: "caller"
        case .route: "upstream_tls"
        case .identity: "identity_tls"
        case .user: "user"
        }
    }
}
