import CLinux
import Glibc
import LanyardClient
import LanyardFoundations

/// The terminal of standard input and output, taken over: another screen, without echo, keys one by one.
///
/// `restore` gives it back, and so does a signal that ends or stops the process. For the thread of a command.
final class FullScreen {
    /// Signals that end the process.
    private static let signals = [SIGINT, SIGTERM, SIGHUP]
    private static let enter = "\u{1b}[?1049h\u{1b}[?25l"
    private static let leave = "\u{1b}[?25h\u{1b}[?1049l"
    private static let defaultSize = TopScreen.Size(columns: 80, rows: 24)
    private static let keysMax = 256

    private var original: termios
    private let previousMask: sigset_t

    /// nil: standard input is no terminal.
    init?() {
        var settings = termios()
        guard tcgetattr(STDIN_FILENO, &settings) == 0 else { return nil }
        original = settings
        var (set, previous) = (sigset_t(), sigset_t())
        sigemptyset(&set)
        for signal in Self.signals { sigaddset(&set, signal) }
        // Before other threads: they inherit it. A signal is looked for with the keys.
        pthread_sigmask(SIG_BLOCK, &set, &previous)
        previousMask = previous
        // ^Z would leave the shell on the other screen.
        settings.c_lflag &= ~tcflag_t(ECHO | ICANON)
        settings.c_cc.10 = 0
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings)
        Report.control(Self.enter)
    }

    /// Gives the terminal back. A signal that has come ends the process then.
    func restore() {
        Report.control(Self.leave)
        tcsetattr(STDIN_FILENO, TCSANOW, &original)
        var mask = previousMask
        pthread_sigmask(SIG_SETMASK, &mask, nil)
    }

    /// As the terminal says; one that does not say it has 80 columns and 24 rows.
    var size: TopScreen.Size {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 else { return Self.defaultSize }
        return TopScreen.Size(
            columns: size.ws_col > 0 ? Int(size.ws_col) : Self.defaultSize.columns,
            rows: size.ws_row > 0 ? Int(size.ws_row) : Self.defaultSize.rows)
    }

    /// Shows lines in place of the former ones, without a blank screen in between.
    func show(_ lines: [String]) {
        Report.control("\u{1b}[H" + lines.map { $0 + "\u{1b}[K" }.joined(separator: "\r\n") + "\u{1b}[J")
    }

    /// The bytes of keys that were pressed within this time. A signal ends the process here, or the end of the terminal.
    func keys(within limit: Duration) -> [UInt8] {
        var entry = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        let isReady = poll(&entry, 1, CInt(limit.nanoseconds / 1_000_000)) > 0
        var pending = sigset_t()
        sigpending(&pending)
        if Self.signals.contains(where: { sigismember(&pending, $0) == 1 }) { restore() }
        guard isReady else { return [] }
        var bytes = [UInt8](repeating: 0, count: Self.keysMax)
        let count = read(STDIN_FILENO, &bytes, bytes.count)
        if count == 0 {
            restore()
            Report.exit(0)
        }
        return Array(bytes.prefix(max(count, 0)))
    }
}
