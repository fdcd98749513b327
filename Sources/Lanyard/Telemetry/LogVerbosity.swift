import Logging
import Synchronization

/// The level from which lines are written, shared by every logger of the program, and changed while it runs.
package final class LogVerbosity: Sendable {
    private static let levels: [Logger.Level] = [.trace, .debug, .info, .notice, .warning, .error, .critical]

    private let configured: Int
    private let current: Atomic<Int>

    package init(_ level: LogSettings.Level) {
        let level = LogSettings.Level.allCases.firstIndex(of: level) ?? 0
        configured = level
        current = Atomic(level)
    }

    /// What is written now. From anywhere.
    package var level: Logger.Level { Self.levels[current.load(ordering: .relaxed)] }

    /// What SIGUSR1 does: debug lines on; again: back to the configured level.
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
