import LanyardTelemetry

/// The operations of the admin API on the process itself.
package struct ProcessControl: Sendable {
    /// Starts the orderly shutdown, as SIGTERM does. Readiness is off when it returns.
    package var stop: @Sendable () -> Void
    /// Loads the configuration again, as SIGHUP does. The closure gets the outcome exactly once, on any queue.
    package var reload: @Sendable (_ reply: @escaping @Sendable (ReloadOutcome) -> Void) -> Void
    /// The level of the log.
    package var verbosity: LogVerbosity
    /// The latest lines of the log.
    package var log: LogTap

    package init(
        stop: @escaping @Sendable () -> Void,
        reload: @escaping @Sendable (_ reply: @escaping @Sendable (ReloadOutcome) -> Void) -> Void,
        verbosity: LogVerbosity, log: LogTap = LogTap()
    ) {
        self.stop = stop
        self.reload = reload
        self.verbosity = verbosity
        self.log = log
    }
}

/// The result of a reload (architecture-control.md 7.9).
package enum ReloadOutcome: Equatable, Sendable {
    /// The program runs with the new configuration. These keys have new values; none: nothing differs.
    case applied([String])
    /// These keys can change only at a start. Nothing was changed.
    case restartNeeded([String])
    /// The new configuration is wrong. Nothing was changed. The messages are those of `lanyard check`.
    case invalid([String])
}
