import Synchronization

/// One route's upstream as all shards share it: where it is, how many connections it has, who waits for one.
package final class UpstreamTarget: Sendable {
    /// Pools hold their target; it does not hold them.
    private struct PoolReference {
        weak var pool: UpstreamPool?
    }

    private struct Book {
        var name: NameBook
        var pools: [PoolReference] = []
    }

    /// How an acquisition goes on.
    enum Whereabouts {
        case known([SocketAddress])
        /// The reply comes, on another thread, perhaps never: go on without it after this time.
        case asked(atMost: Duration)
    }

    /// Who has an old answer to fall back on does not wait long for a new one.
    private static let patienceWithOldAnswer = Duration.seconds(1)

    package let settings: UpstreamSettings
    /// Connections of all shards.
    let connections: SharedLimit
    /// Requests of all shards that wait for a connection of this upstream. Sequentially consistent throughout, as `SlotScheduler` demands.
    let waiting = Atomic<Int>(0)
    /// Grows when the name's addresses change: a connection that has seen an older number must be looked at. 0 where there is no name.
    let epoch = Atomic<Int>(0)
    private let book: Guarded<Book>
    private let resolver: Resolver
    /// Literal addresses and unix paths need no resolver.
    private let fixed: [SocketAddress]?
    var hasName: Bool { fixed == nil }

    package init(_ settings: UpstreamSettings, resolver: Resolver) {
        self.settings = settings
        self.resolver = resolver
        connections = SharedLimit(settings.connectionsMax)
        book = Guarded(Book(name: NameBook(refresh: settings.dnsRefresh)))
        switch settings.endpoint {
        case .unix(let path): fixed = SocketAddress(path: path).map { [$0] } ?? []
        case .tcp(let host, let port, _):
            fixed = host == "localhost" ? nil : SocketAddress(host: host, port: port).map { [$0] }
        }
    }

    /// Addresses to dial, in order: at once if there is an answer that serves, else when the resolver has one.
    ///
    /// An old answer serves while a new one cannot be had. `reply` may come on another thread.
    func whereabouts(at now: Instant, reply: @escaping Resolver.Reply) -> Whereabouts {
        if let fixed { return .known(fixed) }
        guard case .tcp(let host, let port, _) = settings.endpoint else { return .known([]) }
        let (step, hasOld) = book.withLock { ($0.name.wanted(at: now), !$0.name.addresses.isEmpty) }
        switch step {
        case .use(let addresses, let asks):
            if asks { ask(at: now) }
            return .known(addresses)
        case .wait(let asks):
            // The resolver answers in this order, so that the book knows first.
            if asks { ask(at: now) }
            resolver.resolve(host) { [self] answer in
                let old = book.withLock { $0.name.addresses }
                if case .failure = answer, !old.isEmpty { return reply(.success(old)) }
                reply(answer.map { $0.map { $0.with(port: port) } })
            }
            return .asked(atMost: hasOld ? Self.patienceWithOldAnswer : Resolver.patience)
        }
    }

    /// The reply has not come in time: the old answer, if there is one.
    func oldAddresses(at now: Instant) -> [SocketAddress] { book.withLock { $0.name.late(at: now) } }

    /// Connections to the name are open: asks anew when it is time to. Returns when to call again.
    func keepFresh(at now: Instant) -> Instant {
        let (asks, next) = book.withLock { book in
            let asks = book.name.inUse(at: now)
            return (asks, book.name.askAt)
        }
        if asks { ask(at: now) }
        return max(next, now + settings.dnsRefresh / 8)
    }

    /// Whether the name still has this address.
    func has(_ address: SocketAddress) -> Bool { book.withLock { $0.name.addresses.contains(address) } }

    private func ask(at now: Instant) {
        guard case .tcp(let host, let port, _) = settings.endpoint else { return }
        resolver.resolve(host) { [self] answer in
            switch answer {
            case .success(let addresses): learn(addresses.map { $0.with(port: port) }, askedAt: now)
            case .failure: book.withLock { $0.name.failed(at: .now) }
            }
        }
    }

    /// Idle connections to an address that the name no longer has are given up; those in use, when their exchange has ended.
    private func learn(_ addresses: [SocketAddress], askedAt: Instant) {
        let pools = book.withLock { book -> [UpstreamPool] in
            guard book.name.answered(addresses, askedAt: askedAt) else { return [] }
            epoch.add(1, ordering: .relaxed)
            return book.pools.compactMap(\.pool)
        }
        for pool in pools { pool.loop.post { pool.closeMoved() } }
    }

    func add(_ pool: UpstreamPool) { book.withLock { $0.pools.append(PoolReference(pool: pool)) } }

    /// Has the other shards' pools give up an idle connection, or serve who waits there: a connection slot is wanted or free.
    ///
    /// - Parameter isMeant: which of them; asked here, not on their queues.
    func tellOthers(
        than pool: UpstreamPool, where isMeant: (UpstreamPool) -> Bool = { _ in true },
        _ what: @escaping @Sendable (UpstreamPool) -> Void
    ) {
        let others = book.withLock { $0.pools.compactMap(\.pool) }
        for other in others where other !== pool && isMeant(other) { other.loop.post { what(other) } }
    }
}
