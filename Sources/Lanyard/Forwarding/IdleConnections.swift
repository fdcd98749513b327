/// The idle upstream connections of one shard, of all its pools together, and how many connections the shard has in all.
///
/// Each idle connection holds a descriptor that clients, requests and identity calls may need more. So there is a bound, and a shortage makes
/// all of them go. Belongs to the shard's queue.
package final class IdleConnections: @unchecked Sendable {
    /// Why idle connections are closed before their time.
    package enum EvictionReason: String, CaseIterable, Sendable {
        /// The shard has as many upstream connections open as leave room for clients.
        case limit
        /// The process has no descriptor left.
        case shortage
    }

    /// Connections of the shard, in use or idle, beyond which idle ones are closed, the oldest first. Those in use are bounded by their clients.
    private let openMax: Int
    /// Open or being opened.
    private var open = 0
    private var list = IdleList(.shard)
    private let evictions = EvictionReason.allCases.map { _ in Counter() }
    /// Called when the bound has closed a connection.
    package var onLimit: () -> Void = {}

    package init(openMax: Int = .max) { self.openMax = openMax }

    deinit {
        while let oldest = list.oldest { remove(oldest) }
    }

    /// Connections closed for this reason so far; from anywhere.
    package func evictionCount(_ reason: EvictionReason) -> Int { counter(reason).value }

    private func counter(_ reason: EvictionReason) -> Counter {
        evictions[EvictionReason.allCases.firstIndex(of: reason)!]
    }

    // MARK: What pools tell

    /// A connection is being opened; idle ones may have to go for it.
    func opening() {
        open += 1
        keepBound()
    }

    /// A connection was closed, or came to nothing.
    func closed() { open -= 1 }

    /// Holds a connection that came to rest; an older one, or this one, may have to go.
    func add(_ connection: UpstreamConnection) {
        _ = Unmanaged.passRetained(connection)
        list.append(connection)
        keepBound()
    }

    /// Lets go of a connection that was added.
    func remove(_ connection: UpstreamConnection) {
        list.remove(connection)
        Unmanaged.passUnretained(connection).release()
    }

    // MARK: Making room

    private func keepBound() {
        var hasEvicted = false
        while open > openMax, evictOldest(.limit) { hasEvicted = true }
        if hasEvicted { onLimit() }
    }

    /// Closes all. Returns how many there were.
    package func evictAll() -> Int {
        var count = 0
        while evictOldest(.shortage) { count += 1 }
        return count
    }

    private func evictOldest(_ reason: EvictionReason) -> Bool {
        guard let oldest = list.oldest else { return false }
        counter(reason).add()
        oldest.evict()
        return true
    }
}
