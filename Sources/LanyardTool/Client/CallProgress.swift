import Dispatch
import Glibc
import LanyardClient
import LanyardFoundations

/// Shows on a terminal that a call lasts, and what Lanyard waits for.
enum CallProgress {
    private static let interval = Duration.seconds(1)

    /// Runs a call, and shows its progress once a second has passed.
    ///
    /// - Parameters:
    ///   - what: `login of alice`.
    ///   - client: asks for the user's call in progress.
    static func show<Value>(
        _ what: String, of user: String, by client: AdminClient, _ call: () throws -> Value
    ) rethrows -> Value {
        guard Terminal.isCapable(STDERR_FILENO) else { return try call() }
        let isEnded = Guarded(false)
        let end = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            let start = ContinuousClock.now
            while end.wait(timeout: .now() + .seconds(1)) == .timedOut {
                let report = try? client.limited(to: interval).status()
                let call = report?.users.first { $0.name == user }?.slowCall
                let seconds = (ContinuousClock.now - start).components.seconds
                // After the call has ended, the line would stand behind its result.
                isEnded.withLock { isEnded in
                    if !isEnded { Report.progress("\(what): \(call ?? "in progress") (\(seconds) s)") }
                }
            }
        }
        defer {
            isEnded.withLock { $0 = true }
            end.signal()
            Report.eraseProgress()
        }
        return try call()
    }
}
