import Dispatch
import LanyardFoundations
import LanyardSettings

/// Replaces what the request path serves, while it serves (architecture-control.md 7.9).
extension RequestPath {
    /// Builds what new requests are to be served by, beside what is served now, and changes nothing. It takes the longer the more routes
    /// there are. From any thread.
    package func prepare(_ settings: Settings) -> PreparedRoutes {
        PreparedRoutes(settings, build(settings, after: served.withLock { $0 }))
    }

    private func build(_ settings: Settings, after former: [ShardRoutes]) -> PreparedRoutes.Built {
        PreparedRoutes.Built(settings, after: former, shards: shards, addresses, resolver)
    }

    /// Serves new requests by what was prepared. Requests in progress, tunnels included, continue as they began, and no connection
    /// of a client is closed.
    ///
    /// Connections to an upstream that some route still has, with the same settings, are kept. Those of other upstreams are closed when
    /// they become idle.
    ///
    /// Each shard takes all of it in one turn. Call it on the queue that publishes tokens and the active user: what is
    /// published before reaches each shard before, and what is published after reaches it after. It does not wait, and builds nothing
    /// unless something else was served since `prepare`.
    ///
    /// - Parameters:
    ///   - active: the active user of the new settings.
    ///   - capabilities: by listener, those of another file; nil: it asks for none, or its file cannot be used.
    ///   - listenerTLS: the new contexts by listener; listeners that keep their files are left out.
    ///   - upstreamTLS: the contexts by route whose files hold something else than what is in use. An upstream that stays
    ///     gets its own in the same turn.
    ///   - latestTLS: the contexts of all routes as their files were found last, in place of those of `prepare`. Empty: they are the same.
    ///   - accessLines: where the access log goes, one for each shard; nil: none is written.
    /// - Returns: the upstreams, one for each route.
    @discardableResult
    package func serve(
        _ prepared: PreparedRoutes, active: UserIndex?, capabilities: [Int: Secret?] = [:],
        listenerTLS: [Int: TLSServerContext] = [:], upstreamTLS: [Int: TLSClientContext] = [:],
        latestTLS: [TLSClientContext?] = [], accessLines: [AccessLines]? = nil
    ) -> [UpstreamTarget] {
        let (former, settings) = (served.withLock { $0 }, prepared.settings)
        let built = prepared.take(after: former) ?? build(settings, after: former)
        let targets = built.configuration.targets
        let unknown = built.users.bind(in: names) + built.configuration.bindGranters(in: names)
        for user in unknown { refuseUnknown(user) }
        context.setLimits(settings.limits)
        for routes in built.routes { routes.activate(active) }
        served.withLock { $0 = built.routes }
        for (index, tls) in listenerTLS { noteCertificate(of: tls, ofListener: index) }
        var replacedTLS = upstreamTLS
        for index in built.newTargets {
            targets[index].setLookupTimeout()
            let latest = index < latestTLS.count ? latestTLS[index] : nil
            replacedTLS[index] = latest === settings.tls(ofRoute: index) ? nil : latest
        }
        for (index, tls) in replacedTLS { targets[index].trust?.replace(tls) }
        // The shards share the sockets: one of them is enough.
        if let shard = shards.first, let first = acceptors.first {
            shard.loop.post { for acceptor in first { acceptor.applyKeepAlive() } }
        }
        for (shard, routes) in zip(shards, built.routes) {
            shard.loop.post { [replacedTLS] in
                for (index, capability) in capabilities { shard.clients.setCapability(capability, ofListener: index) }
                shard.serve(routes)
                for (index, tls) in listenerTLS { shard.clients.setTLS(tls, ofListener: index) }
                for (index, tls) in replacedTLS { routes.pools[index].replaceTLS(tls) }
                shard.core.setAccessLines(accessLines?[shard.index])
            }
        }
        return targets
    }

    /// Waits until all shards have done what was posted to them, at most 5 s: a shard that is that slow does it later. Blocks
    /// the calling thread, which owns no queue.
    package func waitForShards() {
        let done = DispatchGroup()
        for shard in shards {
            done.enter()
            shard.loop.post { done.leave() }
        }
        _ = done.wait(timeout: .now() + 5)
    }

    /// The upstreams that requests are sent to now, one for each route.
    package var targets: [UpstreamTarget] { served.withLock { $0.first }?.configuration.targets ?? [] }

    /// Which users the present routes send requests for, and brokers hand out tokens of. From any thread.
    package var usersOfRoutes: (followsActive: Bool, pinned: [String]) {
        guard let configuration = served.withLock({ $0.first })?.configuration else { return (false, []) }
        let (routes, brokers) = (configuration.routeList, configuration.granters.compactMap(\.self))
        return (
            routes.contains { $0.settings.user == nil } || brokers.contains(where: \.followsActive),
            routes.compactMap(\.settings.user) + brokers.flatMap(\.userNames)
        )
    }

    /// The responses of upstreams to requests of the present routes that carry this user's token. From any thread.
    package func uses(of user: UserIndex) -> TokenUses? {
        let served = served.withLock { $0 }
        guard let routes = served.first?.configuration.routeList else { return nil }
        let places = routes.filter { $0.user == user }.map(\.index)
        let counters = served.flatMap { routes in places.map { routes.counters[$0] } }
        return TokenUses(
            responses: counters.reduce(0) { $0 + $1.responseCount },
            successes: counters.reduce(0) { $0 + $1.successCount })
    }
}

extension ServedConfiguration {
    /// Gives the brokers the indexes of their users. Before a shard gets the configuration.
    ///
    /// - Returns: the users whose names were unknown until now.
    func bindGranters(in names: UserNames) -> [UserIndex] { granters.flatMap { $0?.bind(in: names) ?? [] } }

    /// The routes have no users yet: `PinnedUsers`.
    ///
    /// - Parameters:
    ///   - former: its upstreams keep their connections; of its routes, those that keep name and upstream keep their circuit breaker.
    ///   - addresses: of the listeners, as bound.
    convenience init(
        _ settings: RequestPath.Settings, keeping former: ServedConfiguration?,
        _ addresses: [(text: String, port: UInt16?)], _ resolver: Resolver
    ) {
        let routes = settings.routes.enumerated().map { index, pair in
            Route(pair.route, index: index, user: nil, upstream: pair.upstream)
        }
        let formerPlaces = Dictionary((former?.routeList ?? []).map { ($0.settings.name, $0.index) }) { first, _ in
            first
        }
        // The places of those that keep name and upstream.
        let kept = settings.routes.map { pair -> Int? in
            guard let former, let place = formerPlaces[pair.route.name] else { return nil }
            return former.targets[place].settings == pair.upstream ? place : nil
        }
        // Routes with one upstream, settings and TLS included, have its connections in common.
        var byUpstream = Dictionary((former?.targets ?? []).map { ($0.settings, $0) }) { first, _ in first }
        let targets = settings.routes.enumerated().map { index, pair in
            if let target = byUpstream[pair.upstream] { return target }
            let target = UpstreamTarget(
                pair.upstream, resolver: resolver, tls: settings.tls(ofRoute: index),
                proxyAuthorization: pair.upstream.proxy?.credentialsFile.flatMap { settings.proxyAuthorizations[$0] })
            byUpstream[pair.upstream] = target
            return target
        }
        let breakers = kept.map { place in place.flatMap { former?.breakers[$0] } ?? RouteBreaker() }
        let rules = zip(settings.listeners, addresses).enumerated().map { index, pair in
            ListenerRules(of: pair.0, at: pair.1, index: index)
        }
        self.init(
            routes: routes, targets: targets, breakers: breakers, rules: rules, granters: settings.granters,
            limits: settings.limits,
            tokenWaitMax: settings.tokenWaitMax, loginRequiredStatus: settings.loginRequiredStatus,
            drainMax: settings.drainMax)
    }
}
