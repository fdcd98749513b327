import Logging

/// The program as a value: load → build → bind → announce → serve → drain.
///
/// Start-up keeps the order of design §7: everything is bound before the first queue, timer, thread or libcurl call.
package enum Lanyard {
    /// Holds the rooms to the end of the process. They hold one another, too, and nobody takes them apart at the end: held from
    /// here, a leak checker sees what was really lost.
    private static let running = Guarded<Program?>(nil)

    /// Serves until a signal ends it. Blocks the calling thread, which owns no queue.
    ///
    /// - Parameter warnings: what loading the configuration had to say; they go to the log.
    /// - Returns: the exit status of conventions.md.
    package static func run(_ configuration: Configuration, warnings: [ConfigurationFault] = []) -> Int32 {
        Stop.prepareSignals()
        let verbosity = LogVerbosity(configuration.log.level)
        let pipe = LogPipe()
        LoggingSystem.bootstrap { _ in JSONLogHandler(pipe: pipe, verbosity: verbosity) }
        let log = Logger(label: "lanyard")
        if !Machine.forbidDumps() {
            log.warning("core dumps could not be forbidden", metadata: ["event": "start.dumpable"])
        }
        for warning in warnings {
            log.warning("\(warning)", metadata: ["event": "configuration.warning", "place": "\(warning.place)"])
        }
        do throws(Fault) {
            let program = try Program(fitted(configuration, log), pipe: pipe, verbosity: verbosity, log: log)
            running.withLock { $0 = program }
            pipe.start()
            let status = program.serve()
            _ = pipe.flush(within: .seconds(1))
            return status
        } catch {
            log.critical("\(error)", metadata: ["event": "start.failed", "reason": "\(error.kindInWords)"])
            _ = pipe.flush(within: .seconds(1))
            return error.side == .configuration ? 69 : 1
        }
    }

    /// Two descriptors for each connection; health's connections, loops and identity calls have theirs apart.
    private static func fitted(_ configuration: Configuration, _ log: Logger) -> Configuration {
        var configuration = configuration
        let descriptors = Machine.raiseDescriptorLimit()
        let most = max((descriptors - 160) / 2, 16)
        if configuration.limits.connectionsMax > most {
            log.warning(
                "limits.connections_max is lowered: two descriptors for each connection are more than ulimit -n allows",
                metadata: [
                    "event": "limits.lowered", "connections_max": "\(most)", "descriptors": "\(descriptors)",
                ])
            configuration.limits.connectionsMax = most
        }
        return configuration
    }
}
