import CLinux
import Glibc

/// Threads for calls that may block as long as they like. Nothing waits for their end.
package enum DetachedThread {
    /// Boxes the body for the C callback.
    private final class Body: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Runs `body` on a new thread, which takes no signal: one of those that a thread before it waits for would be lost on it, such as
    /// SIGINT at a password prompt.
    ///
    /// - Returns: 0, or the `errno` value if there is no thread. `body` then never runs.
    package static func start(_ body: @escaping @Sendable () -> Void) -> CInt {
        var thread = pthread_t()
        let context = Unmanaged.passRetained(Body(body))
        var (all, former) = (sigset_t(), sigset_t())
        sigfillset(&all)
        // What the thread itself does wrong still ends the process with a report.
        for signal in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT] { sigdelset(&all, signal) }
        // A new thread begins with the mask of the thread that makes it.
        pthread_sigmask(SIG_SETMASK, &all, &former)
        let code = pthread_create(
            &thread, nil,
            { raw in
                Unmanaged<Body>.fromOpaque(raw!).takeRetainedValue().run()
                return nil
            }, context.toOpaque())
        pthread_sigmask(SIG_SETMASK, &former, nil)
        if code == 0 { pthread_detach(thread) } else { context.release() }
        return code
    }
}
