import Synchronization

/// One route's upstream as all shards share it: where it is, how many connections it has, who waits for one.
package final class UpstreamTarget: Sendable {
    private struct Book {
        var addresses: [SocketAddress] = []
        var resolvedAt = Instant.past
        var asking = false
        var pools: [UpstreamPool] = []
    }

    package let settings: UpstreamSettings
    /// Connections of all shards.
    let connections: SharedLimit
    /// Requests of all shards that wait for a connection of this upstream.
    let waiting = Atomic<Int>(0)
    private let book = Guarded(Book())
    private let resolver: Resolver
    /// Literal addresses and unix paths need no resolver.
    private let fixed: [SocketAddress]?

    package init(_ settings: UpstreamSettings, resolver: Resolver) {
        self.settings = settings
        self.resolver = resolver
        connections = SharedLimit(settings.connectionsMax)
        switch settings.endpoint {
        case .unix(let path): fixed = SocketAddress(path: path).map { [$0] } ?? []
        case .tcp(let host, let port, _):
            fixed = host == "localhost" ? nil : SocketAddress(host: host, port: port).map { [$0] }
        }
    }

    /// Addresses to dial, in order: at once if they are known and fresh, else when the resolver answers.
    ///
    /// A stale answer serves while a new one cannot be had. `reply` may come on another thread.
    func addresses(at now: Instant, reply: @escaping Resolver.Reply) -> [SocketAddress]? {
        if let fixed { return fixed }
        guard case .tcp(let host, let port, _) = settings.endpoint else { return [] }
        let (known, ask) = book.withLock { book -> ([SocketAddress], Bool) in
            let fresh = book.resolvedAt + settings.dnsRefresh > now
            let ask = !fresh && !book.asking
            if ask { book.asking = true }
            return (book.addresses, ask)
        }
        if ask { resolver.resolve(host) { [self] answer in learn(answer, port: port, askedAt: now) } }
        if !known.isEmpty { return known }
        resolver.resolve(host) { answer in reply(answer.map { $0.map { $0.with(port: port) } }) }
        return nil
    }

    private func learn(_ answer: Result<[SocketAddress], UpstreamFailure>, port: UInt16, askedAt: Instant) {
        book.withLock { book in
            book.asking = false
            guard case .success(let addresses) = answer else { return }
            book.addresses = addresses.map { $0.with(port: port) }
            book.resolvedAt = askedAt
        }
    }

    func add(_ pool: UpstreamPool) { book.withLock { $0.pools.append(pool) } }

    /// Has the other shards' pools give up an idle connection, or serve who waits there: a connection slot is wanted or free.
    func tellOthers(than pool: UpstreamPool, _ what: @escaping @Sendable (UpstreamPool) -> Void) {
        let others = book.withLock { $0.pools }
        for other in others where other !== pool { other.loop.post { what(other) } }
    }
}
