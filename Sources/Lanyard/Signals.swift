import CLanyard.Linux
import Glibc

/// Signals from the first moment on, in two steps, so that none is lost and none ends the process that must not
/// (architecture.md 7.6: SIGHUP and SIGUSR2 never do).
package enum Signals {
    /// Until there is something to drain, SIGTERM and SIGINT end the process at once, with the status of a drain. By a handler: the
    /// kernel drops a signal that process 1 of a container has left at its default.
    ///
    /// The first act of `lanyard run`: a signal may come at once, and reading the configuration may take as long as its file system likes.
    package static func prepare() {
        for number in [SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ] { signal(number, SIG_IGN) }
        for number in [SIGTERM, SIGINT] { signal(number) { _exit(128 &+ $0) } }
    }

    /// From here on they wait to be read from the descriptor: before the first thread, since threads inherit what is blocked.
    static func openDescriptor() throws(SystemError) -> OwnedDescriptor {
        let numbers = [SIGTERM, SIGINT, SIGHUP, SIGUSR1]
        let raw = lanyard_hold_signals(numbers, CInt(numbers.count))
        guard raw >= 0 else { throw SystemError(.local, .system(errno), "creating a signalfd") }
        return OwnedDescriptor(taking: raw)
    }

    /// The next one that waits.
    static func next(from descriptor: borrowing OwnedDescriptor) -> CInt? {
        let number = lanyard_next_signal(descriptor.raw)
        return number == 0 ? nil : number
    }
}
