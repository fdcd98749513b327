import Dispatch
import LanyardFoundations
import LanyardSettings
import Logging
import Synchronization

/// The request path as one value: listening sockets, shards, upstreams (architecture.md 2.1). The program makes one.
///
/// Order of use: bind the sockets, create it, `start`, publish tokens, `drain` or `abort`.
package final class RequestPath: TokenPublisher, DescriptorHolder {
    package let shards: [Shard]
    private let sockets: Guarded<[ListeningSocket]>
    private let acceptors: [[Acceptor]]
    private let context: ExchangeContext
    private let draining = Atomic<Bool>(false)
    private let log: Logger
    private let shortageLogThrottle = LogThrottle(.seconds(10))
    private let listenerAddresses: [String]
    /// When the certificate of each listener ends; nil: it has none.
    private let certificateEnds: Guarded<[WallTime?]>
    /// Users that routes name and that are not configured. The admin API may add them.
    private let unconfiguredUsers: [UserIndex]

    /// - Parameters:
    ///   - sockets: bound, one for each of `listeners`.
    ///   - capabilities: one for each of `listeners`; nil: it asks for none, or its file cannot be used. Empty: no listener asks for one.
    ///   - upstreamTLS: one for each of `routes`; nil: its upstream does not speak TLS. Empty: none does.
    ///   - listenerTLS: one for each of `listeners`; nil: its clients speak plain HTTP. Empty: those of all listeners do.
    ///   - accessLines: makes the place of one shard's lines, one for each request; nil: none is written.
    ///   - names: of the configured users. Users that routes name are added: their requests are refused with "login
    ///     required" until a token is published for them.
    package init(
        listeners: [ListenerSettings], sockets: [ListeningSocket], capabilities: [Secret?] = [],
        listenerTLS: [TLSServerContext?] = [],
        routes: [(route: RouteSettings, upstream: UpstreamSettings)], upstreamTLS: [TLSClientContext?] = [],
        names: UserNames, limits: LimitSettings, tokenWaitMax: Duration, loginRequiredStatus: Int, shardCount: Int,
        source: any TokenSource, accessLines: (() -> AccessLines)? = nil, log: Logger
    ) throws(SystemError) {
        let resolver = Resolver()
        let known = names.count
        let compiled = routes.enumerated().map { index, pair in
            Route(pair.route, index: index, user: pair.route.user.map(names.index(of:)))
        }
        unconfiguredUsers = (known..<names.count).map(UserIndex.init)
        let context = ExchangeContext(
            routes: compiled,
            targets: routes.enumerated().map { index, pair in
                UpstreamTarget(
                    pair.upstream, resolver: resolver, tls: index < upstreamTLS.count ? upstreamTLS[index] : nil)
            }, limits: limits,
            tokenWaitMax: tokenWaitMax, loginRequiredStatus: loginRequiredStatus, names: names,
            instance: .random(in: .min ... .max), shardCount: shardCount)
        var shards: [Shard] = []
        for index in 0..<shardCount {
            let loop = try EventLoop(label: "lanyard.shard.\(index)")
            shards.append(
                Shard(
                    index: index, loop: loop, context: context, source: source, capabilities: capabilities,
                    listenerTLS: listenerTLS, accessLines: accessLines?(), log: log))
        }
        for shard in shards {
            context.buffers.whenTight { [weak shard] in
                guard let shard else { return }
                shard.loop.post { [weak shard] in shard?.releaseSpareMemory() }
            }
            context.buffers.whenCrowded { [weak shard] in
                guard let shard else { return }
                shard.loop.post { [weak shard] in shard?.giveUpPartialHeads() }
            }
        }
        let rules = zip(listeners, sockets).enumerated().map { index, pair in
            ListenerRules(of: pair.0, at: ("\(pair.1.address)", pair.1.port), index: index)
        }
        acceptors = shards.map { shard in
            zip(sockets, rules).map { Acceptor($0, shard: shard, shards: shards, rules: $1, log: log) }
        }
        self.context = context
        self.shards = shards
        listenerAddresses = sockets.map { "\($0.address)" }
        certificateEnds = Guarded(listenerTLS.map { $0?.expiresAt })
        self.sockets = Guarded(sockets)
        self.log = log
        for shard in shards {
            shard.idleConnections.onLimit = { [weak self] in self?.logShortage(closed: nil) }
        }
        DescriptorShortage.shared.add(self)
    }

    /// Starts the first queues and threads. Requires that all sockets are bound and privileges are dropped.
    ///
    /// - Parameter active: the active user from the first request on.
    package func start(active: UserIndex? = nil) {
        for (shard, shardAcceptors) in zip(shards, acceptors) {
            shard.loop.start()
            shard.loop.post {
                shard.tokens.activate(active)
                for acceptor in shardAcceptors { acceptor.start() }
            }
        }
        for user in unconfiguredUsers { publish(.none(.userUnknown(wasRemoved: false)), for: user) }
        sockets.withLock { $0 = [] }
    }

    // MARK: TokenPublisher

    package func publish(_ availability: AccessToken.Availability, for user: UserIndex) {
        for shard in shards { shard.loop.post { shard.receive(availability, for: user) } }
    }

    package func activate(_ user: UserIndex?) {
        for shard in shards { shard.loop.post { shard.activate(user) } }
    }

    // MARK: Callers

    /// Replaces the capability of a listener.
    ///
    /// - Parameter capability: nil: it cannot be used, and every request of the listener is refused.
    package func setCapability(_ capability: Secret?, ofListener index: Int) {
        for shard in shards { shard.loop.post { shard.setCapability(capability, ofListener: index) } }
    }

    // MARK: TLS

    /// Has new connections to a route's upstream use this context. From any thread.
    package func setTLS(_ tls: TLSClientContext, ofRoute index: Int) { context.targets[index].replaceTLS(tls) }
    // MARK: TLS of listeners

    /// Has new connections to a listener use this context. From any thread.
    package func setTLS(_ tls: TLSServerContext, ofListener index: Int) {
        certificateEnds.withLock { $0[index] = tls.expiresAt }
        for shard in shards { shard.loop.post { shard.setTLS(tls, ofListener: index) } }
    }

    /// When the certificate of each listener with TLS ends.
    private var certificateSamples: [MetricSample] {
        certificateEnds.withLock { $0 }.enumerated().compactMap { index, end in
            end.map {
                MetricSample(
                    "lanyard_tls_certificate_expiry_timestamp_seconds",
                    labels: [.init("listener", listenerAddresses[index])], value: Double($0.seconds))
            }
        }
    }

    // MARK: Drain and abort

    package var isDraining: Bool { draining.load(ordering: .relaxed) }

    /// Accepts the queued connections, closes the listeners, ends kept connections, and calls `finished` when the last
    /// client has disconnected.
    package func drain(finished: @escaping @Sendable () -> Void) {
        draining.store(true, ordering: .relaxed)
        // All listeners stop before the clients are drained: a shard may hand its last clients to another shard, which
        // may hand them on.
        let arrivals = context.arrivals
        arrivals.notifyWhenNone { [shards] in
            let serving = self.countdown(then: finished)
            for shard in shards { shard.loop.post { shard.drain(then: serving) } }
        }
        for (shard, shardAcceptors) in zip(shards, acceptors) {
            shard.loop.post {
                for acceptor in shardAcceptors { acceptor.stop() }
                arrivals.end()
            }
        }
    }

    /// Returns a function that runs `last` when it was called once for each shard.
    private func countdown(then last: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let left = SharedLimit(.max)
        for _ in shards { _ = left.acquire() }
        return { if left.release() == 0 { last() } }
    }

    /// Closes all connections and stops the loops.
    ///
    /// Waits up to 1 s, so call it from another thread than a shard's. If the process ended sooner, the kernel would
    /// close responses that were cut off in an orderly way.
    package func abort() {
        let done = DispatchGroup()
        for shard in shards {
            done.enter()
            shard.loop.post {
                shard.abortAll()
                shard.loop.stop()
                done.leave()
            }
        }
        _ = done.wait(timeout: .now() + 1)
    }

    // MARK: Descriptors

    package func releaseDescriptors(then done: @escaping @Sendable (Int) -> Void) {
        let closed = Guarded(0)
        let ended = countdown { [self] in
            let count = closed.withLock { $0 }
            logShortage(closed: count)
            done(count)
        }
        for shard in shards {
            shard.loop.post {
                let count = shard.idleConnections.evictAll()
                closed.withLock { $0 += count }
                ended()
            }
        }
    }

    /// - Parameter closed: idle connections that were closed because no descriptor was left; nil: the limit of a shard
    ///   closed some.
    private func logShortage(closed: Int?) {
        guard let leftOut = shortageLogThrottle.take(at: .now) else { return }
        var metadata: Logger.Metadata = ["event": "upstream.descriptors_short"]
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        guard let closed else {
            return log.notice(
                "idle upstream connections are closed early, to leave descriptors for clients: raise the limit of descriptors (ulimit -n)",
                metadata: metadata)
        }
        metadata["closed"] = .stringConvertible(closed)
        let remedy = "raise the limit of descriptors (ulimit -n)"
        log.error(
            closed > 0
                ? "no descriptor was left, and all idle upstream connections were closed: \(remedy)"
                : "no descriptor was left, and no idle upstream connection could be closed: \(remedy)",
            metadata: metadata)
    }

    // MARK: Metrics

    /// The memory of all buffers.
    package var buffers: BufferBudget { context.buffers }

    private func connectSamples(of shard: Shard) -> [MetricSample] {
        context.routeList.flatMap { route -> [MetricSample] in
            let histogram = shard.pools[route.index].connectDuration
            guard histogram.isUsed else { return [] }
            return histogram.samples(
                "lanyard_upstream_connect_seconds", labels: [.init("route", route.settings.name)])
        }
    }

    /// The counters of all shards. From any thread.
    package var samples: [MetricSample] {
        var sums: [MetricSample] = []
        var places: [String: Int] = [:]
        for sample in shards.flatMap({ $0.counters.samples + connectSamples(of: $0) }) {
            // With the suffix: buckets, sum and count of a histogram are separate samples.
            let key = sample.name + sample.suffix + sample.labels.map { "|\($0.name)=\($0.value)" }.joined()
            if let place = places[key] {
                sums[place].value += sample.value
            } else {
                places[key] = sums.count
                sums.append(sample)
            }
        }
        let clients = shards.reduce(0) { $0 + $1.load.value }
        sums += certificateSamples
        sums.append(MetricSample("lanyard_client_connections", value: Double(clients)))
        sums.append(MetricSample("lanyard_buffer_bytes", value: Double(context.buffers.count)))
        sums.append(MetricSample("lanyard_parked_requests", value: Double(context.parked.count)))
        for reason in IdleConnections.EvictionReason.allCases {
            let count = shards.reduce(0) { $0 + $1.idleConnections.evictionCount(reason) }
            sums.append(
                MetricSample(
                    "lanyard_upstream_idle_evictions", suffix: "_total", labels: [.init("reason", reason.rawValue)],
                    value: Double(count)))
        }
        for route in context.routeList {
            sums.append(
                MetricSample(
                    "lanyard_route_breaker_open", labels: [.init("route", route.settings.name)],
                    value: context.breakers[route.index].isOpen(at: .now) ? 1 : 0))
            for (reason, count) in context.targets[route.index].trust?.failureCounts ?? [:] {
                sums.append(
                    MetricSample(
                        "lanyard_upstream_tls_failures", suffix: "_total",
                        labels: [.init("route", route.settings.name), .init("reason", reason)], value: Double(count)))
            }
            let pools = shards.map { $0.pools[route.index] }
            let idle = pools.reduce(0) { $0 + $1.idleCount }
            let open = pools.reduce(0) { $0 + $1.open.value }
            for (state, value) in [("open", open), ("idle", idle)] {
                sums.append(
                    MetricSample(
                        "lanyard_upstream_connections",
                        labels: [.init("route", route.settings.name), .init("state", state)], value: Double(value)))
            }
        }
        return sums
    }
}
