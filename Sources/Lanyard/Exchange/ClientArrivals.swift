import Synchronization

/// Counts the sources of new clients: shards that accept, and clients that are handed from one shard to another.
///
/// A drain of the clients begins when the count is 0. No shard gets a client after it has reported that it is empty.
package final class ClientArrivals: Sendable {
    private let count: Atomic<Int>
    private let whenNone = Guarded<(@Sendable () -> Void)?>(nil)

    /// - Parameter shardCount: shards that accept; each calls `end` once when it has stopped.
    package init(shardCount: Int) { count = Atomic(shardCount) }

    /// A client is handed over. Call it only while the count is not 0: on a shard that accepts, or that hands on a
    /// client that was handed to it.
    func begin() { count.add(1, ordering: .relaxed) }

    /// A client was adopted or handed on, or a shard has stopped accepting.
    package func end() {
        guard count.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return }
        whenNone.withLock { $0 }?()
    }

    /// Sets what is called, on any thread, when the count becomes 0. Call it before the first shard stops.
    package func notifyWhenNone(_ work: @escaping @Sendable () -> Void) { whenNone.withLock { $0 = work } }
}
