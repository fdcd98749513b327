import LanyardAdmin
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings
import LanyardTelemetry
import Logging

/// A configuration with what its files hold. Nothing of it is in use yet.
struct NextConfiguration: Sendable {
    let configuration: Configuration
    let files: ConfigurationFiles
    /// The live keys that differ from the running configuration; empty at the start.
    let keys: [String]
    /// Gets what limits of the machine change.
    let log: Logger
}

/// Why a part of the program cannot take a configuration, with the remedy. A type of its own, because a reload reports it like an error of
/// the configuration.
struct ReloadError: Error, Equatable {
    let message: String
}

/// A part of the running program that takes a new configuration (architecture-control.md 7.9).
///
/// `ReloadCoordinator` has a list of the parts. First all of them prepare, and nothing has changed if one cannot. Then each commits in the
/// turn in which the users change, and each finishes after that turn, both in the order of the list.
protocol Reloadable: Sendable {
    associatedtype Prepared: Sendable

    /// Makes what the part needs of the configuration, and changes nothing. On the queue of the reloads.
    ///
    /// - Throws: why the part cannot take it, with the remedy. The operator corrects the configuration or one of its files.
    func prepare(_ next: NextConfiguration) throws(ReloadError) -> Prepared

    /// Uses it. On the queue of the sessions, so it does not wait. Does nothing unless the part says otherwise.
    ///
    /// - Parameter active: the active user from this turn on.
    func commit(_ prepared: Prepared, active: UserIndex?)

    /// The users have changed, and those who wait for the reload are told next. On the queue of the reloads; it may wait. Does nothing
    /// unless the part says otherwise.
    func finish(_ prepared: Prepared)
}

/// A part that needs nothing of the running program to prepare. The start makes it, or what it changes, of what it prepares for the first
/// configuration: nothing runs then that could be changed in a turn. So a reload and a start read a configuration by one function.
protocol StartedPart: Reloadable {
    static func prepare(_ next: NextConfiguration) -> Prepared
}

extension StartedPart {
    func prepare(_ next: NextConfiguration) -> Prepared { Self.prepare(next) }
}

extension Reloadable {
    func commit(_ prepared: Prepared, active: UserIndex?) {}
    func finish(_ prepared: Prepared) {}

    /// The part with what it has prepared.
    func prepared(for next: NextConfiguration) throws(ReloadError) -> PreparedPart {
        let prepared = try prepare(next)
        return PreparedPart(commit: { commit(prepared, active: $0) }, finish: { finish(prepared) })
    }
}

/// A part of the program that has prepared for a configuration.
struct PreparedPart: Sendable {
    let commit: @Sendable (_ active: UserIndex?) -> Void
    let finish: @Sendable () -> Void
}

/// The users and identities of the program. Their turn decides whether a reload changes anything, and when.
protocol ReloadableUsers: Sendable {
    associatedtype Prepared: Sendable

    /// As `Reloadable.prepare`.
    ///
    /// - Throws: as `Reloadable.prepare` does.
    func prepare(_ next: NextConfiguration) throws(ReloadError) -> Prepared

    /// Takes the configuration, or nothing of it. Returns at once.
    ///
    /// - Parameters:
    ///   - begins: asked in the turn in which the users would change. False: nothing is changed.
    ///   - serve: called in that turn, with the active user. Not called if nothing is changed.
    ///   - reply: called once, with why nothing was changed and the remedy. Empty: the users have changed. nil: `begins` was false.
    func commit(
        _ prepared: Prepared, begins: @escaping @Sendable () -> Bool, serve: @escaping @Sendable (UserIndex?) -> Void,
        reply: @escaping @Sendable ([String]?) -> Void)

    /// As `Reloadable.finish`, before that of the parts.
    func finish(_ prepared: Prepared)
}

// MARK: Parts with one value

extension LogPipe: StartedPart {
    static func prepare(_ next: NextConfiguration) -> LogSettings.Format? { next.configuration.log.format }

    func commit(_ prepared: LogSettings.Format?, active: UserIndex?) { setFormat(prepared) }
}

extension LogVerbosity: StartedPart {
    /// nil: a level that was set at run time stays, because the configured one is the same.
    static func prepare(_ next: NextConfiguration) -> LogSettings.Level? {
        next.keys.contains("log.level") ? next.configuration.log.level : nil
    }

    func finish(_ prepared: LogSettings.Level?) { if let prepared { configure(prepared) } }
}

extension ShutdownCoordinator: StartedPart {
    static func prepare(_ next: NextConfiguration) -> ShutdownSettings { next.configuration.shutdown }

    func finish(_ prepared: ShutdownSettings) { apply(prepared) }
}

extension HealthListener: StartedPart {
    static func prepare(_ next: NextConfiguration) -> [String] { next.configuration.health?.allowedHosts ?? [] }

    func finish(_ prepared: [String]) { allow(prepared) }
}

/// What the admin API shows of a configuration: the routes whose upstreams are not verified, and a limit before it is fitted to the
/// machine. A change of its own keys needs a restart.
final class AdminReload: StartedPart {
    struct Shown: Sendable {
        var unverifiedRoutes: [String]
        /// `limits.connections_max` as it is configured.
        var connectionsMax: Int
    }

    private let shown: Guarded<Shown>

    init(_ prepared: Shown) { shown = Guarded(prepared) }

    /// From any thread.
    var unverifiedRoutes: [String] { shown.withLock { $0.unverifiedRoutes } }
    /// From any thread.
    var connectionsMax: Int { shown.withLock { $0.connectionsMax } }

    static func prepare(_ next: NextConfiguration) -> Shown {
        Shown(
            unverifiedRoutes: next.configuration.unverifiedRoutes,
            connectionsMax: next.configuration.limits.connectionsMax)
    }

    func finish(_ prepared: Shown) { shown.withLock { $0 = prepared } }
}
