import Foundation
import LanyardFoundations

/// Runs blocking work on a new thread and awaits it.
///
/// The cooperative pool has as many threads as the machine has CPUs. A test that blocks one of them starves other work on that pool in
/// the same process, above all an `Emulator` started as a library. Every blocking call of a test that shares its process with an emulator
/// uses this function. The work stays in its task, so its failures belong to its test.
package func offPool<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withTaskExecutorPreference(ThreadExecutor.shared) { try work() }
}

/// The same for work with suspension points. Each part between two of them runs on a new thread.
package func offPool(
    suspending work: nonisolated(nonsending) () async throws -> Void
) async throws {
    try await withTaskExecutorPreference(ThreadExecutor.shared) { try await work() }
}

/// The key in the thread dictionary of `offPool`'s threads.
private let offPoolKey = "off pool"

/// Whether this thread is one of `offPool`.
package func isOffPool() -> Bool { Thread.current.threadDictionary[offPoolKey] != nil }

/// Runs each job on a new thread.
private final class ThreadExecutor: TaskExecutor {
    static let shared = ThreadExecutor()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // Foundation's Thread says nothing if there is no thread, and the test would wait for ever.
        let code = DetachedThread.start {
            Thread.current.threadDictionary[offPoolKey] = true
            job.runSynchronously(on: self.asUnownedTaskExecutor())
        }
        precondition(code == 0, "no thread for a test's work: errno \(code)")
    }
}
