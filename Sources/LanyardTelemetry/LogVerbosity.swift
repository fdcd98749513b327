import LanyardSettings
import Logging
import Synchronization

/// The level from which lines are written. Every logger of the program shares it, and it may change at run time.
package final class LogVerbosity: Sendable {
    private static let levels: [Logger.Level] = [.trace, .debug, .info, .notice, .warning, .error, .critical]

    private let configuredIndex: Atomic<Int>
    private let current: Atomic<Int>

    package init(_ level: LogSettings.Level) {
        configuredIndex = Atomic(Self.index(of: level))
        current = Atomic(Self.index(of: level))
    }

    /// The present level. From any thread.
    package var level: Logger.Level { Self.levels[current.load(ordering: .relaxed)] }

    /// The level of the configuration. From any thread.
    package var configured: Logger.Level { Self.levels[configuredIndex.load(ordering: .relaxed)] }

    /// The effect of SIGUSR1: debug lines on; a second one: back to the configured level.
    ///
    /// - Returns: the level from now on.
    @discardableResult
    package func toggleDebug() -> Logger.Level {
        let configured = configuredIndex.load(ordering: .relaxed)
        let debug = min(1, configured)
        let isOn = current.load(ordering: .relaxed) == debug && debug != configured
        current.store(isOn ? configured : debug, ordering: .relaxed)
        return level
    }

    /// Sets the present level and keeps the configured one. From any thread.
    package func set(_ level: LogSettings.Level) {
        current.store(Self.index(of: level), ordering: .relaxed)
    }

    /// A new configuration has this level: it applies at once. From any thread.
    package func configure(_ level: LogSettings.Level) {
        configuredIndex.store(Self.index(of: level), ordering: .relaxed)
        set(level)
    }

    private static func index(of level: LogSettings.Level) -> Int {
        LogSettings.Level.allCases.firstIndex(of: level) ?? 0
    }
}

extension Logger {
    /// The same logger for audit lines: it writes notices and worse, whatever the level of the program is.
    ///
    /// A call can set the program's level. Without a level of its own, the audit line of that call would be lost.
    package var forAudit: Logger {
        var logger = self
        logger.logLevel = .notice
        return logger
    }
}
