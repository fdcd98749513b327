import CLinux
import Glibc

/// Threads for calls that may block as long as they like. Nothing waits for their end.
package enum DetachedThread {
    /// Boxes the body for the C callback.
    private final class Body: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Runs `body` on a new thread.
    ///
    /// - Returns: 0, or the `errno` value if there is no thread. `body` then never runs.
    package static func start(_ body: @escaping @Sendable () -> Void) -> CInt {
        var thread = pthread_t()
        let context = Unmanaged.passRetained(Body(body))
        let code = pthread_create(
            &thread, nil,
            { raw in
                Unmanaged<Body>.fromOpaque(raw!).takeRetainedValue().run()
                return nil
            }, context.toOpaque())
        if code == 0 { pthread_detach(thread) } else { context.release() }
        return code
    }
}
