import LanyardFoundations
import LanyardSettings
import Logging
import Synchronization

/// One route's upstream as all shards share it: its addresses, its number of connections, and its waiting requests.
package final class UpstreamTarget: Sendable {
    private struct State {
        var cache: DNSCache
        /// One of each shard. A weak reference would make each retain and release of a pool dearer.
        var pools: [UpstreamPool] = []
    }

    /// The addresses for an acquisition.
    enum Addresses {
        case known([SocketAddress])
        /// `reply` is called on another thread, possibly never. Continue without it after this time.
        case pending(waitMax: Duration)
    }

    /// How long a lookup is waited for if old addresses are known.
    private static let staleWaitMax = Duration.seconds(1)

    package let settings: UpstreamSettings
    /// Connections of all shards.
    let connections: SharedLimit
    /// Requests of all shards that wait for a connection of this upstream. Sequentially consistent, as `SlotScheduler`
    /// requires.
    let waiting = SharedLimit(.max)
    /// Grows when the name's addresses change: a connection with an older number must be checked. 0 if there is no
    /// name.
    let epoch = Atomic<Int>(0)
    /// The value of `Proxy-Authorization` as its file says now; nil: there is none, or it cannot be used.
    private let latestProxyAuthorization: Guarded<Secret?>
    /// nil: the upstream does not speak TLS.
    package let trust: UpstreamTrust?
    /// The upstream has asked for HTTP/1.1 (H4). It stays so until a reload makes another target.
    private let isPinned = Atomic<Bool>(false)
    private let endLog: HTTP2EndLog
    private let state: Guarded<State>
    private let resolver: Resolver
    /// Literal addresses, loopback names and unix paths, which need no resolver.
    private let fixed: [SocketAddress]?
    var hasName: Bool { fixed == nil }

    /// Where connections are made to, as an operator writes it.
    var name: String {
        switch settings.endpoint {
        case .tcp(_, _, let tls): "\(tls ? "https" : "http")://\(settings.authority)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// The upstream is a unix socket.
    var isUnix: Bool { if case .unix = settings.endpoint { true } else { false } }

    /// - Parameters:
    ///   - tls: how to connect by TLS; nil for an upstream without.
    ///   - proxyAuthorization: the value of `Proxy-Authorization`; nil: there is none, or its file cannot be used.
    ///   - log: gets the failures of TLS, and how connections of HTTP/2 end.
    package init(
        _ settings: UpstreamSettings, resolver: Resolver, tls: TLSClientContext? = nil,
        proxyAuthorization: Secret? = nil, log: Logger = Logger(label: "lanyard.upstream")
    ) {
        self.settings = settings
        latestProxyAuthorization = Guarded(proxyAuthorization)
        trust = tls.map { UpstreamTrust($0, of: settings.authority, log: log) }
        endLog = HTTP2EndLog(log, of: settings.authority)
        self.resolver = resolver
        connections = SharedLimit(settings.connectionsMax)
        state = Guarded(State(cache: DNSCache(refresh: settings.dns.refresh)))
        switch settings.dialled {
        case .unix(let path): fixed = SocketAddress(path: path).map { [$0] } ?? []
        // Its interface may come, and come back with another number: it is looked up for each connection.
        case .tcp where settings.zone != nil: fixed = []
        case .tcp(let host, let port, _):
            let addresses = SocketAddress.known(host: host, port: port)
            fixed = addresses.isEmpty ? nil : addresses
        }
    }

    /// The resolver's lookups may take as long as this upstream allows from now on. One that a reload builds does so when it is served.
    package func setLookupTimeout() { resolver.setTimeout(settings.dns.timeout) }

    /// Addresses to connect to, in order: at once if usable ones are known, else after a lookup.
    ///
    /// Old addresses are used while a lookup fails. `reply` may be called on another thread.
    func addresses(at now: Instant, reply: @escaping Resolver.Reply) -> Addresses {
        if let zone = settings.zone, case .tcp(let host, let port, _) = settings.endpoint {
            return .known(SocketAddress(host: "\(host)%\(zone)", port: port).map { [$0] } ?? [])
        }
        if let fixed { return .known(fixed) }
        guard case .tcp(_, let port, _) = settings.dialled else { return .known([]) }
        let (action, hasOld) = state.withLock { ($0.cache.requireAddresses(at: now), !$0.cache.addresses.isEmpty) }
        switch action {
        case .use(let addresses, let startsLookup):
            if startsLookup { startLookup(at: now) }
            return .known(addresses)
        case .wait(let startsLookup):
            // The resolver replies in this order, so the cache is updated first.
            if startsLookup { startLookup(at: now) }
            resolver.resolve(settings.lookupName) { [self] result in
                let old = state.withLock { $0.cache.addresses }
                if case .failure = result, !old.isEmpty { return reply(.success(old)) }
                reply(result.map { $0.map { $0.with(port: port) } })
            }
            return .pending(waitMax: hasOld ? Self.staleWaitMax : settings.dns.timeout)
        }
    }

    /// The lookup is late: returns the old addresses, if there are any.
    func staleAddresses(at now: Instant) -> [SocketAddress] { state.withLock { $0.cache.handleLookupTimeout(at: now) } }

    /// Connections to the name are open: starts a lookup if it is due. Returns when to call again.
    func refreshIfDue(at now: Instant) -> Instant {
        let (startsLookup, next) = state.withLock { state in
            let startsLookup = state.cache.beginRefreshIfDue(at: now)
            return (startsLookup, state.cache.refreshAt)
        }
        if startsLookup { startLookup(at: now) }
        return max(next, now + settings.dns.refresh / 8)
    }

    /// Whether the name still has this address.
    func hasAddress(_ address: SocketAddress) -> Bool { state.withLock { $0.cache.addresses.contains(address) } }

    private func startLookup(at now: Instant) {
        guard case .tcp(_, let port, _) = settings.dialled else { return }
        resolver.resolve(settings.lookupName) { [self] result in
            switch result {
            case .success(let addresses): updateAddresses(addresses.map { $0.with(port: port) }, startedAt: now)
            case .failure: state.withLock { $0.cache.handleLookupFailure(at: .now) }
            }
        }
    }

    /// Closes idle connections to addresses that the name no longer has. Connections in use are closed when their
    /// exchange has ended.
    private func updateAddresses(_ addresses: [SocketAddress], startedAt: Instant) {
        let pools = state.withLock { state -> [UpstreamPool] in
            guard state.cache.handleLookup(addresses, startedAt: startedAt) else { return [] }
            epoch.add(1, ordering: .relaxed)
            return state.pools
        }
        for pool in pools { pool.loop.post { pool.closeStaleConnections() } }
    }

    /// Changed files: new connections use this context, each shard's in its next turn, and idle ones of the previous one
    /// are closed.
    package func replaceTLS(_ context: TLSClientContext) {
        trust?.replace(context)
        for pool in state.withLock(\.pools) { pool.loop.post { pool.replaceTLS(context) } }
    }

    // MARK: Proxy

    /// The value of `Proxy-Authorization`. From any thread.
    var proxyAuthorization: Secret? { latestProxyAuthorization.withLock { $0 } }

    /// The credential for the proxy is another one: each shard uses it from its next turn on. From any thread.
    ///
    /// - Parameter value: of `Proxy-Authorization`; nil: its file cannot be used, and no connection is made.
    package func replaceProxyAuthorization(_ value: Secret?) {
        latestProxyAuthorization.withLock { $0 = value }
        for pool in state.withLock(\.pools) { pool.loop.post { pool.replaceProxyAuthorization(value) } }
    }

    /// Why no connection is made whatever the addresses are; nil: one may be.
    ///
    /// - Parameter authorization: of the shard.
    func obstacle(with authorization: Secret?) -> UpstreamError? {
        if settings.proxy?.credentialsFile != nil, authorization == nil { return .proxy(.credentialUnavailable) }
        return settings.prohibitionOfLiteral
    }

    /// The error for a request, which was found while connecting.
    func reported(_ error: UpstreamError) -> UpstreamError { settings.proxy == nil ? error : error.ofProxy }

    // MARK: HTTP/2

    /// Requests are sent by HTTP/1.1, whatever is configured. From any thread.
    var needsHTTP1: Bool { isPinned.load(ordering: .relaxed) }

    /// The upstream has refused a stream by HTTP_1_1_REQUIRED. From any thread.
    package func pinToHTTP1() {
        guard !isPinned.exchange(true, ordering: .relaxed) else { return }
        endLog.recordPin()
    }

    /// A connection of HTTP/2 has ended by an error. From any thread.
    ///
    /// - Parameter byUpstream: the upstream has ended it; else Lanyard has.
    func recordEnd(_ reason: String, byUpstream: Bool) { endLog.record(reason, byUpstream: byUpstream) }

    /// Ends of connections of HTTP/2 by an error so far, by reason. From any thread.
    package var endCounts: [String: Int] { endLog.counts }

    /// Retains a shard's pool, which retains its target, until `remove`.
    func add(_ pool: UpstreamPool) { state.withLock { $0.pools.append(pool) } }

    func remove(_ pool: UpstreamPool) { state.withLock { $0.pools.removeAll { $0 === pool } } }

    /// Calls the other shards' pools on their queues, because a connection slot is needed or free.
    ///
    /// - Parameter isAffected: which pools are called; evaluated here, not on their queues.
    func notifyOtherPools(
        than pool: UpstreamPool, where isAffected: (UpstreamPool) -> Bool = { _ in true },
        _ what: @escaping @Sendable (UpstreamPool) -> Void
    ) {
        let others = state.withLock(\.pools)
        for other in others where other !== pool && isAffected(other) { other.loop.post { what(other) } }
    }
}
