import Dispatch

/// Reports each file for which the first thread of a command waits too long.
///
/// A second thread looks, because a call for a file on a dead network file system cannot be interrupted. So this is not for `run`, which
/// has one thread until its listeners are bound.
package enum FileWaitReport {
    /// How long calls for one file may take.
    package static let limit = FileWatch.readTimeout

    /// The calls of the first thread. It lives as long as the process, which has begun once.
    private static let progress = FileProgress()

    /// Begins, for the calling thread and the rest of the process. Without a second thread nothing is reported.
    ///
    /// - Parameter report: called on the second thread with the path of the file, once for each wait.
    package static func begin(report: @escaping @Sendable (_ path: String) -> Void) {
        guard DetachedThread.start({ watch(report) }) == 0 else { return }
        progress.attach()
    }

    private static func watch(_ report: (_ path: String) -> Void) {
        let never = DispatchSemaphore(value: 0)
        var reported: Instant?
        while true {
            var wait = limit
            if let (path, since) = progress.current, since != reported {
                wait = since + limit - .now
                if wait <= .zero {
                    reported = since
                    report(path)
                    wait = limit
                }
            }
            _ = never.wait(timeout: .now() + .nanoseconds(Int(wait.nanoseconds)))
        }
    }
}
