import Dispatch
import LanyardFoundations
import LanyardSettings

/// Replaces what the request path serves, while it serves (architecture-control.md 7.9).
extension RequestPath {
    /// Serves new requests by another settings. Requests in progress, tunnels included, continue as they began, and no connection
    /// of a client is closed.
    ///
    /// A route that keeps its name and its upstream keeps the connections to it. Those of other upstreams are closed when
    /// they become idle.
    ///
    /// Each shard takes all of it in one turn. Call it on the queue that publishes tokens and the active user: what is
    /// published before reaches each shard before, and what is published after reaches it after. It does not wait.
    ///
    /// - Parameters:
    ///   - active: the active user of the new settings.
    ///   - capabilities: by listener, those of another file; nil: it asks for none, or its file cannot be used.
    ///   - listenerTLS: the new contexts by listener; listeners that keep their files are left out.
    ///   - upstreamTLS: the contexts by route whose files hold something else than what is in use. An upstream that stays
    ///     gets its own in the same turn.
    ///   - accessLines: where the access log goes, one for each shard; nil: none is written.
    /// - Returns: the upstreams, one for each route.
    @discardableResult
    package func serve(
        _ settings: Settings, active: UserIndex?, capabilities: [Int: Secret?] = [:],
        listenerTLS: [Int: TLSServerContext] = [:], upstreamTLS: [Int: TLSClientContext] = [:],
        accessLines: [AccessLines]? = nil
    ) -> [UpstreamTarget] {
        let former = served.withLock { $0 }
        var unknown: [UserIndex] = []
        let configuration = ServedConfiguration(settings, keeping: former.first?.configuration, addresses, resolver) {
            let (user, isNew) = names.add($0)
            if isNew { unknown.append(user) }
            return $1 == .plain ? user : names.index(of: $0, variant: $1.key)
        }
        for user in unknown { refuseUnknown(user) }
        context.setLimits(settings.limits)
        let made = zip(shards, former).map { $0.makeRoutes(configuration, keeping: $1, active: active) }
        served.withLock { $0 = made }
        for (index, tls) in listenerTLS { noteCertificate(of: tls, ofListener: index) }
        let formerTargets = former.first?.configuration.targets ?? []
        let replacedTLS = upstreamTLS.filter { index, _ in
            formerTargets.contains { $0 === configuration.targets[index] }
        }
        for (index, tls) in replacedTLS { configuration.targets[index].trust?.replace(tls) }
        // The shards share the sockets: one of them is enough.
        if let shard = shards.first, let first = acceptors.first {
            shard.loop.post { for acceptor in first { acceptor.applyKeepAlive() } }
        }
        for (shard, routes) in zip(shards, made) {
            shard.loop.post {
                for (index, capability) in capabilities { shard.clients.setCapability(capability, ofListener: index) }
                shard.serve(routes)
                for (index, tls) in listenerTLS { shard.clients.setTLS(tls, ofListener: index) }
                for (index, tls) in replacedTLS { routes.pools[index].replaceTLS(tls) }
                shard.core.setAccessLines(accessLines?[shard.index])
            }
        }
        return configuration.targets
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

    /// Which users the present routes send requests for. From any thread.
    package var usersOfRoutes: (followsActive: Bool, pinned: [String]) {
        let routes = served.withLock { $0.first }?.configuration.routeList ?? []
        return (routes.contains { $0.settings.user == nil }, routes.compactMap(\.settings.user))
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
    /// - Parameters:
    ///   - former: of its routes, those that keep name and upstream keep connections and circuit breaker.
    ///   - addresses: of the listeners, as bound.
    ///   - user: the index of the user that a route names, for the token that it names.
    convenience init(
        _ settings: RequestPath.Settings, keeping former: ServedConfiguration?,
        _ addresses: [(text: String, port: UInt16?)], _ resolver: Resolver, user: (String, TokenVariant) -> UserIndex
    ) {
        let routes = settings.routes.enumerated().map { index, pair in
            Route(
                pair.route, index: index, user: pair.route.user.map { user($0, pair.route.token) },
                upstream: pair.upstream)
        }
        // The places of those that keep name and upstream.
        let kept = settings.routes.map { pair -> Int? in
            guard let former, let place = former.route(named: pair.route.name)?.index else { return nil }
            return former.targets[place].settings == pair.upstream ? place : nil
        }
        let targets = kept.enumerated().map { index, place in
            place.flatMap { former?.targets[$0] }
                ?? UpstreamTarget(
                    settings.routes[index].upstream, resolver: resolver, tls: settings.tls(ofRoute: index))
        }
        let breakers = kept.map { place in place.flatMap { former?.breakers[$0] } ?? RouteBreaker() }
        let rules = zip(settings.listeners, addresses).enumerated().map { index, pair in
            ListenerRules(of: pair.0, at: pair.1, index: index)
        }
        self.init(
            routes: routes, targets: targets, breakers: breakers, rules: rules, limits: settings.limits,
            tokenWaitMax: settings.tokenWaitMax, loginRequiredStatus: settings.loginRequiredStatus,
            drainMax: settings.drainMax)
    }
}
