import LanyardFoundations
import LanyardSessionInterface

/// The store without a file (`store.memory: true`): its contents end with the process. Replies within the call.
package final class MemoryStore: SessionStore {
    private let contents: Guarded<StoreContents>

    package init(fingerprintKey: Secret) { contents = Guarded(StoreContents(fingerprintKey: fingerprintKey)) }

    package var isMemoryOnly: Bool { true }

    package func read(_ user: String, reply: @escaping @Sendable (Result<StoredUser?, StoreError>) -> Void) {
        reply(.success(contents.withLock { $0[user] }))
    }

    package func commit(
        _ change: StoreChange, reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void
    ) {
        reply(.success(contents.withLock { $0.apply(change, now: .now) }))
    }

    /// No other process shares this store.
    package func lock(_ user: String, reply: @escaping @Sendable (StoreLock) -> Void) { reply(.taken) }

    package func unlock(_ user: String) {}
}
