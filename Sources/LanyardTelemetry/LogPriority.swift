import Glibc
import LanyardFoundations
import Logging

/// The priority that a line begins with where systemd's journal reads it: `<N>` of sd-daemon(3), which the journal takes off.
///
/// Without it every line of a service has the priority of its unit, and `journalctl -p warning` finds nothing.
package enum LogPriority {
    /// Whether a descriptor leads to the journal: then `JOURNAL_STREAM` has its device and inode (systemd.exec(5)).
    ///
    /// The variable alone is not enough: a process inherits it and may have its standard error elsewhere.
    package static func isJournal(_ descriptor: CInt) -> Bool {
        var status = stat()
        guard let stream = ProcessEnvironment.all()["JOURNAL_STREAM"], fstat(descriptor, &status) == 0 else {
            return false
        }
        return stream == "\(status.st_dev):\(status.st_ino)"
    }

    /// The levels of syslog(3). It has none for `trace`.
    static func prefix(of level: Logger.Level) -> String {
        switch level {
        case .trace, .debug: "<7>"
        case .info: "<6>"
        case .notice: "<5>"
        case .warning: "<4>"
        case .error: "<3>"
        case .critical: "<2>"
        }
    }
}
