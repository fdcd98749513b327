import LanyardFoundations
import LanyardSettings
import Logging

/// One serial queue's share of the request path: its clients, pools, tokens and shared buffers.
///
/// All state belongs to `loop`'s queue.
package final class Shard: @unchecked Sendable {
    package let index: Int
    let core: ShardCore
    let clients: Clients
    /// Of all pools together.
    package let idleConnections: IdleConnections
    private let retired: RetiredRoutes

    /// - Parameters:
    ///   - configuration: served from the first request on.
    ///   - capabilities: one for each listener.
    ///   - listenerTLS: one for each listener.
    ///   - fieldSecrets: as the files of routes' `set_headers` were read, by path; one that cannot be used is left out.
    ///   - accessLines: where one line for each request goes; nil: none is written.
    package init(
        index: Int, loop: EventLoop, context: ExchangeContext, configuration: ServedConfiguration,
        source: any TokenSource, capabilities: [Secret?] = [],
        listenerTLS: [TLSServerContext?] = [], fieldSecrets: [String: Secret] = [:], accessLines: AccessLines? = nil,
        evictionLog: EvictionLog, log: Logger
    ) {
        self.index = index
        core = ShardCore(
            loop: loop, context: context, configuration: configuration, source: source,
            counters: ShardCounters(countsHandshakes: listenerTLS.contains { $0 != nil }),
            accessLines: accessLines, log: log)
        clients = Clients(core, configuration, capabilities: capabilities, listenerTLS: listenerTLS)
        idleConnections = IdleConnections(on: loop, log: evictionLog)
        retired = RetiredRoutes(loop: loop)
        core.served = makeRoutes(configuration, fieldSecrets, keeping: nil)
        idleConnections.setMax(idleConnectionsMax)
    }

    package var loop: EventLoop { core.loop }
    package var tokens: TokenCache { core.tokens }
    package var counters: ShardCounters { core.counters }
    /// What new requests are served by.
    package var served: ShardRoutes { core.served }
    /// Clients of this shard.
    package var load: Counter { clients.load }

    // MARK: Ends

    /// From now on each response closes its connection, as `Clients.drain`.
    package func drain(then whenEmpty: @escaping @Sendable () -> Void) {
        loop.assertIsCurrent()
        clients.drain(then: whenEmpty)
    }

    /// Closes all connections. The loop is then stopped.
    package func abortAll() {
        loop.assertIsCurrent()
        clients.abortAll()
        for pool in served.distinctPools {
            pool.closeIdle()
            pool.finish()
        }
        retired.end()
        core.log.suppressed.stop()
    }

    // MARK: Reload (architecture-control.md 7.9)

    /// A configuration with this shard's pools and counters. Those of routes that stay are kept. From any thread.
    ///
    /// A route keeps its pool if it keeps its upstream, and its counters if it keeps its name. A file of `set_headers` keeps its value.
    ///
    /// - Parameter fieldSecrets: as the other files of `set_headers` were read.
    func makeRoutes(
        _ configuration: ServedConfiguration, _ fieldSecrets: [String: Secret], keeping former: ShardRoutes?
    ) -> ShardRoutes {
        let context = core.context
        let formerCounters = Dictionary((former?.counters ?? []).map { ($0.name, $0) }) { first, _ in first }
        var knownPools = Dictionary((former?.distinctPools ?? []).map { (ObjectIdentifier($0.target), $0) }) {
            first, _ in
            first
        }
        let counters = configuration.routeList.map { route in
            formerCounters[route.settings.name] ?? RouteCounters(route.settings.name)
        }
        var pools: [UpstreamPool] = []
        for (target, counters) in zip(configuration.targets, counters) {
            let known = knownPools[ObjectIdentifier(target)]
            let pool =
                known
                ?? UpstreamPool(
                    target: target, loop: loop, parked: context.parked, buffers: context.buffers, tls: core.memory.tls,
                    frames: core.memory.upstreamFrames, http2: core.counters.http2.upstreams,
                    responseLimits: configuration.responseLimits,
                    idle: idleConnections, counters: counters.connections, keepAlive: context.keepAlive)
            if known == nil { knownPools[ObjectIdentifier(target)] = pool }
            pools.append(pool)
        }
        let fieldValues = configuration.fieldFiles.map { path in
            (path, former?.fieldValues[path] ?? FieldValue(fieldSecrets[path]))
        }
        return ShardRoutes(
            configuration, pools: pools, counters: counters,
            fieldValues: Dictionary(uniqueKeysWithValues: fieldValues))
    }

    private var idleConnectionsMax: Int {
        max(core.limits.upstreamConnectionsMax / core.context.shardCount, 1)
    }

    /// Serves new requests by another configuration: its routes with its users and its active one, in this turn.
    /// Requests in progress end with theirs. Those that wait for a token of a user that is replaced are refused.
    func serve(_ routes: ShardRoutes) {
        loop.assertIsCurrent()
        let kept = Set(routes.distinctPools.map { ObjectIdentifier($0) })
        for pool in served.distinctPools where !kept.contains(ObjectIdentifier(pool)) { pool.retire() }
        retired.add(served)
        core.served = routes
        clients.adopt(routes.configuration)
        idleConnections.setMax(idleConnectionsMax)
        core.memory.adopt(routes.configuration)
        for case let user? in routes.configuration.routeList.map(\.user) + [routes.active] { tokens.add(user) }
        for user in routes.configuration.usersOfBrokers { tokens.add(user) }
        clients.endSessions()
    }

    /// A file of `set_headers` holds this from now on. From the next request on; one that waits is sent with it, too.
    ///
    /// - Parameter secret: nil: the file cannot be used.
    func setFieldValue(_ secret: Secret?, ofFile path: String) {
        loop.assertIsCurrent()
        served.fieldValues[path]?.replace(secret)
    }

    // MARK: Publications of the session path

    /// A publication for one user. It is applied to the tokens of new requests, to open tunnels (`close_upgraded_on`) and to responses in
    /// progress (`close_streams_on`).
    package func receive(_ availability: AccessToken.Availability, for user: UserIndex, heard: HeardRefusals) {
        loop.assertIsCurrent()
        tokens.receive(availability, for: user, heard: heard)
        clients.endSessions()
    }

    /// The account of one user.
    package func receive(_ account: AccountNumber, for user: UserIndex) {
        loop.assertIsCurrent()
        tokens.receive(account, for: user)
        clients.endSessions()
    }

    /// Sets the active user.
    package func activate(_ user: UserIndex?) {
        loop.assertIsCurrent()
        served.activate(user)
        if let user { tokens.add(user) }
        clients.endSessions()
    }

    // MARK: Memory

    /// Optional memory is freed: releases spare buffers and replay copies (http-connections.md 8: replay copies go first).
    func releaseSpareMemory() {
        loop.assertIsCurrent()
        core.memory.releaseSpare()
        clients.releaseReplayCopies()
    }
}
