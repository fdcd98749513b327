import LanyardFoundations

/// The idle upstream connections on which this connection's client has authenticated itself (http-connections.md 16.9): no
/// other client's request ever goes over them. They end with the client's connection.
///
/// Each is idle in its pool as well, which may close it at any time. Belongs to the client's connection, which checks the
/// queue.
struct BoundUpstreams: ~Copyable {
    /// At most one of each route.
    private var connections: [UpstreamConnection] = []

    var isEmpty: Bool { connections.isEmpty }

    /// Keeps a connection whose exchange has ended.
    mutating func keep(_ lease: consuming UpstreamLease) {
        removeClosed()
        if let connection = lease.giveBackBound() { connections.append(connection) }
    }

    /// The connection of this pool that a request of the route has bound; nil: there is none that the user's next request may use.
    @inline(never)
    mutating func take(
        from pool: UpstreamPool, on route: Route, for user: UserIndex, _ account: AccountNumber
    ) -> UpstreamLease? {
        removeClosed()
        guard let place = connections.firstIndex(where: { $0.pool === pool && $0.isBound(on: route) }) else {
            return nil
        }
        return pool.takeBound(connections.remove(at: place), for: user, account)
    }

    /// The client sends no further request.
    mutating func closeAll() {
        let closing = connections
        connections = []
        for connection in closing where connection.isOpen { connection.evict() }
    }

    /// Its pool may have closed one since, which still holds the pool.
    mutating func removeClosed() { connections.removeAll { !$0.isOpen } }
}
