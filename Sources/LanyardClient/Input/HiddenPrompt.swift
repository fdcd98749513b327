import CLinux
import Glibc
import LanyardFoundations

/// Asks at the terminal for a secret, without echo.
///
/// The echo comes back whatever happens: at the end of the line, at an end of input, and before a signal ends or stops the process. Only
/// for a process with one thread, because it blocks signals.
package enum HiddenPrompt {
    /// Signals that end or stop the process at a prompt.
    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP]
    /// How often a pending signal is looked for, in milliseconds.
    private static let signalInterval: CInt = 100
    /// The kernel gives no longer line at once (termios(3), canonical mode). A longer one would be cut without a word.
    private static let bytesMax = 4095

    /// One line from standard input, which must be a terminal, without its end.
    ///
    /// - Throws: `usage`: the terminal cannot be used, its input has ended, or the line is too long. The operator gives a file instead.
    package static func read(_ prompt: String) throws(InputError) -> Secret {
        var shown = termios()
        guard tcgetattr(STDIN_FILENO, &shown) == 0 else {
            throw InputError(
                .usage, "the terminal cannot be used (\(Errno.text(of: errno)))", remedy: "give a file with the secret")
        }
        let previous = blocked()
        defer { unblock(previous) }
        // Swift's runtime has a handler that would ask at this terminal what to print of the process.
        signal(SIGQUIT, SIG_DFL)
        begin(prompt, shown)
        defer { restore(shown) }
        let line = try Secret(capacity: bytesMax + 1) { room throws(InputError) in
            try readLine(into: room) {
                // The signal is delivered here. It ends the process, or stops it until SIGCONT.
                restore(shown)
                write("\n")
                unblock(previous)
                _ = blocked()
                begin(prompt, shown)
            }
        }
        guard line.count <= bytesMax else {
            throw InputError(
                .usage, "a prompt takes \(bytesMax - 1) bytes at most", remedy: "give a file with the secret")
        }
        return SecretText.withoutLineEnd(line)
    }

    /// - Parameter deliver: lets a pending signal act; returns if the process continues.
    private static func readLine(
        into room: UnsafeMutableRawBufferPointer, deliver: () -> Void
    ) throws(InputError) -> Int {
        while true {
            var entry = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
            let isReady = poll(&entry, 1, signalInterval) > 0
            if isSignalPending {
                deliver()
            } else if isReady {
                let count = Glibc.read(STDIN_FILENO, room.baseAddress, room.count)
                if count > 0 { return count }
                if count < 0, errno == EINTR || errno == EAGAIN { continue }
                write("\n")
                throw InputError(
                    .usage, "the terminal gave no line: nothing was sent",
                    remedy: "repeat the command and type the secret, or give it in a file")
            }
        }
    }

    private static func begin(_ prompt: String, _ shown: termios) {
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO)
        // The end of the line is shown, so that what follows begins on a line of its own.
        hidden.c_lflag |= tcflag_t(ECHONL | ICANON | ISIG)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden)
        write(prompt)
    }

    private static func restore(_ shown: termios) {
        var shown = shown
        tcsetattr(STDIN_FILENO, TCSANOW, &shown)
    }

    /// To standard error if it is a terminal, else to the terminal of standard input.
    private static func write(_ text: String) {
        let descriptor = isatty(STDERR_FILENO) == 1 ? STDERR_FILENO : STDIN_FILENO
        var text = text
        text.withUTF8 { _ = Glibc.write(descriptor, $0.baseAddress, $0.count) }
    }

    // MARK: Signals

    private static var isSignalPending: Bool {
        var pending = sigset_t()
        sigpending(&pending)
        return signals.contains { sigismember(&pending, $0) == 1 }
    }

    /// Blocks the signals; the former mask.
    private static func blocked() -> sigset_t {
        var set = sigset_t()
        var previous = sigset_t()
        sigemptyset(&set)
        for signal in signals { sigaddset(&set, signal) }
        sigprocmask(SIG_BLOCK, &set, &previous)
        return previous
    }

    private static func unblock(_ previous: sigset_t) {
        var previous = previous
        sigprocmask(SIG_SETMASK, &previous, nil)
    }
}
