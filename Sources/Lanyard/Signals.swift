import CLinux
import Glibc
import LanyardFoundations

/// Handles signals from the start of the process, in two steps. No signal is lost, and no signal ends the process that must not
/// (architecture-control.md 7.6: SIGHUP and SIGUSR2 never do).
package enum Signals {
    /// Ignores signals that must not end the process. SIGTERM and SIGINT end it at once, with the exit status of a drain.
    ///
    /// They need a handler, because the kernel drops signals with default action for process 1 of a container. `lanyard run` calls this
    /// first: a signal may come at any time, and reading the configuration takes as long as its file system needs.
    package static func prepare() {
        for number in [SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ] { signal(number, SIG_IGN) }
        for number in [SIGTERM, SIGINT] { signal(number) { _exit(128 &+ $0) } }
    }

    /// Blocks the signals and returns a signalfd that reports them. Called before the first thread starts, because threads inherit the
    /// blocked set.
    static func openDescriptor() throws(SystemError) -> OwnedDescriptor {
        let numbers = [SIGTERM, SIGINT, SIGHUP, SIGUSR1]
        let raw = lanyard_hold_signals(numbers, CInt(numbers.count))
        guard raw >= 0 else { throw SystemError(.machine, .system(errno), "creating a signalfd") }
        return OwnedDescriptor(taking: raw)
    }

    /// The next pending signal; nil: none.
    static func next(from descriptor: borrowing OwnedDescriptor) -> CInt? {
        let number = lanyard_next_signal(descriptor.raw)
        return number == 0 ? nil : number
    }
}
