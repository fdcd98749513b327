import LanyardSettings
import Logging
import Synchronization

/// The level from which lines are written. Every logger of the program shares it, and it may change at run time.
package final class LogVerbosity: Sendable {
    private static let levels: [Logger.Level] = [.trace, .debug, .info, .notice, .warning, .error, .critical]

    private let configured: Int
    private let current: Atomic<Int>

    package init(_ level: LogSettings.Level) {
        let level = LogSettings.Level.allCases.firstIndex(of: level) ?? 0
        configured = level
        current = Atomic(level)
    }

    /// The present level. From any thread.
    package var level: Logger.Level { Self.levels[current.load(ordering: .relaxed)] }

    /// The effect of SIGUSR1: debug lines on; a second one: back to the configured level.
    ///
    /// - Returns: the level from now on.
    @discardableResult
    package func toggleDebug() -> Logger.Level {
        let debug = min(1, configured)
        let isOn = current.load(ordering: .relaxed) == debug && debug != configured
        current.store(isOn ? configured : debug, ordering: .relaxed)
        return level
    }
}
