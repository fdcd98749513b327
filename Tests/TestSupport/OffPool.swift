import Foundation

/// Runs blocking work on a thread of its own and awaits it.
///
/// The cooperative pool has as many threads as the machine has CPUs. A test that blocks one of them starves whatever lives on
/// that pool in the same process: above all an `Emulator` started as a library. Every blocking call of a test that shares its
/// process with an emulator goes through here. It stays within its task: what fails in it is known to be of that test.
package func offPool<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withTaskExecutorPreference(ThreadExecutor.shared) { try work() }
}

/// The same for work with suspension points: each of its runs between two of them has a thread of its own.
package func offPool(
    suspending work: nonisolated(nonsending) () async throws -> Void
) async throws {
    try await withTaskExecutorPreference(ThreadExecutor.shared) { try await work() }
}

/// Marks the threads of `offPool`.
private let offPoolKey = "off pool"

/// Whether this thread is one of `offPool`.
package func isOffPool() -> Bool { Thread.current.threadDictionary[offPoolKey] != nil }

/// A thread for each piece of work.
private final class ThreadExecutor: TaskExecutor {
    static let shared = ThreadExecutor()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        Thread.detachNewThread {
            Thread.current.threadDictionary[offPoolKey] = true
            job.runSynchronously(on: self.asUnownedTaskExecutor())
        }
    }
}
