import Synchronization

/// Where clients may still come from: shards that accept, and clients on their way from one shard to another.
///
/// A drain of the clients begins when there is neither, so that no shard gets a client after it has said that it is empty.
package final class ClientArrivals: Sendable {
    private let count: Atomic<Int>
    private let whenNone = Guarded<(@Sendable () -> Void)?>(nil)

    /// - Parameter shardCount: shards that accept; each calls `end` once when it has stopped.
    package init(shardCount: Int) { count = Atomic(shardCount) }

    /// A client is handed over. Only while something arrives: a shard that accepts, or one that hands on what was handed to it.
    func begin() { count.add(1, ordering: .relaxed) }

    /// A client was taken over or handed on, or a shard accepts no more.
    package func end() {
        guard count.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return }
        whenNone.withLock { $0 }?()
    }

    /// Has `work` called, on any thread, when nothing can arrive any more. To be set before the first shard stops.
    package func notifyWhenNone(_ work: @escaping @Sendable () -> Void) { whenNone.withLock { $0 = work } }
}
