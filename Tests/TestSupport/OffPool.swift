import Foundation

/// Runs blocking work on a thread of its own and awaits it.
///
/// The cooperative pool has as many threads as the machine has CPUs. A test that blocks one of them starves whatever lives on
/// that pool in the same process: above all an `Emulator` started as a library. Every blocking call of a test that shares its
/// process with an emulator goes through here.
package func offPool<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result { try work() }) }
    }
}
