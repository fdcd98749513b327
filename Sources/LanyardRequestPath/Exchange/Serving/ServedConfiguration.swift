import LanyardFoundations
import LanyardSettings

/// The part of the configuration that requests are served by, and that a reload replaces as a whole (architecture-control.md 7.9).
///
/// All shards share it. It never changes: a reload makes another one. A request is served to its end by the one that it
/// began with.
package final class ServedConfiguration: Sendable {
    package let routes: RouteTable
    /// By `Route.index`.
    package let routeList: [Route]
    /// By `Route.index`.
    package let targets: [UpstreamTarget]
    /// The upstream's own `Host`, by `Route.index`.
    let authorities: [[UInt8]]
    /// By `Route.index`.
    package let breakers: [RouteBreaker]
    /// One for each listener.
    package let rules: [ListenerRules]
    /// One for each listener; nil: it forwards requests.
    let granters: [(any TokenGranter)?]
    package let limits: LimitSettings
    let headLimits: HeadLimits
    let responseLimits: HeadLimits
    /// A request waits at most this long for a token.
    let tokenWaitMax: Duration
    let loginRequiredStatus: Int
    /// How long an exchange may last whose client the listener would not admit any more.
    let drainMax: Duration

    /// - Parameters:
    ///   - targets: one for each of `routes`.
    ///   - breakers: one for each of `routes`; nil: all are new.
    ///   - rules: one for each listener.
    ///   - granters: one for each listener; empty: none is a broker's.
    package init(
        routes: [Route], targets: [UpstreamTarget], breakers: [RouteBreaker]? = nil, rules: [ListenerRules],
        granters: [(any TokenGranter)?] = [],
        limits: LimitSettings, tokenWaitMax: Duration, loginRequiredStatus: Int, drainMax: Duration = .seconds(30)
    ) {
        self.routes = RouteTable(routes)
        routeList = routes
        self.targets = targets
        authorities = targets.map { Array($0.settings.authority.utf8) }
        self.breakers = breakers ?? routes.map { _ in RouteBreaker() }
        self.rules = rules
        self.granters = granters.isEmpty ? rules.map { _ in nil } : granters
        self.limits = limits
        headLimits = HeadLimits(limits)
        responseLimits = HeadLimits(responses: limits)
        self.tokenWaitMax = tokenWaitMax
        self.loginRequiredStatus = loginRequiredStatus
        self.drainMax = drainMax
    }

    /// Of clients' connections of HTTP/2.
    var http2Limits: HTTP2Session.Limits { HTTP2Session.Limits(limits.http2, headLimits) }

    /// The users whose tokens brokers hand out.
    package var usersOfBrokers: [UserIndex] { granters.compactMap(\.self).flatMap(\.users) }

    /// The paths of the files of all routes' `set_headers`, each once.
    var fieldFiles: Set<String> { Set(routeList.flatMap { $0.settings.setHeaders.compactMap(\.file) }) }

    /// A route has `close_streams_on`.
    var closesStreams: Bool { routeList.contains(where: \.closesStreams) }
}

/// What one shard serves requests by: the configuration, with the shard's own connections and counters of each route.
///
/// A client's connection keeps the one that its current request began with. Pools and counters of a route that a reload
/// leaves alone are in both. Belongs to the shard's queue, which the shard checks. The counters can be read from
/// any thread.
package final class ShardRoutes: @unchecked Sendable {
    package let configuration: ServedConfiguration
    /// By `Route.index`. Routes with one upstream have one pool.
    package let pools: [UpstreamPool]
    /// Each once, with the first route that has it.
    let poolsByFirstRoute: [(route: Int, pool: UpstreamPool)]
    var distinctPools: [UpstreamPool] { poolsByFirstRoute.map(\.pool) }
    /// By `Route.index`.
    package let counters: [RouteCounters]
    /// By `Route.index`.
    let routes: [ShardRoute]
    /// The values of fields that files hold, by the paths of the files.
    let fieldValues: [String: FieldValue]
    /// The user that routes without a user of their own follow; nil: none. It changes while the shard serves this, and
    /// stays for the requests that began with it when a reload replaces it.
    package private(set) var active: UserIndex?

    /// - Parameter fieldValues: of each file that `set_headers` of a route names.
    init(
        _ configuration: ServedConfiguration, pools: [UpstreamPool], counters: [RouteCounters],
        fieldValues: [String: FieldValue] = [:]
    ) {
        self.fieldValues = fieldValues
        self.configuration = configuration
        self.pools = pools
        var known: Set<ObjectIdentifier> = []
        poolsByFirstRoute = pools.enumerated().filter { known.insert(ObjectIdentifier($0.element)).inserted }.map {
            ($0.offset, $0.element)
        }
        self.counters = counters
        routes = zip(pools, counters).enumerated().map { ShardRoute(configuration, $0, $1.0, $1.1, fieldValues) }
    }

    /// The active user is another one. On the shard's queue; before the shard has it, on that of who hands it over.
    func activate(_ user: UserIndex?) { active = user }
}

/// One route as a shard serves it: all that a request needs of it. It never changes.
///
/// A request holds it from its admission to its end. So nothing of it is looked up, and counted as a reference, again.
final class ShardRoute {
    let route: Route
    let pool: UpstreamPool
    let counters: RouteCounters
    let breaker: RouteBreaker
    let timeouts: UpstreamSettings.Timeouts
    /// The upstream's own `Host`.
    let authority: [UInt8]
    /// `connections: shared`.
    let sharesConnections: Bool
    /// The upstream is reached by TLS.
    let isTLS: Bool
    /// Of the fields whose values files hold, in their order. Most routes have none.
    let fieldValues: [FieldValue]
    /// Requests go to a proxy that forwards them; nil: they go to the upstream, perhaps through a tunnel.
    let forwardingProxy: ShardProxy?

    init(
        _ configuration: ServedConfiguration, _ index: Int, _ pool: UpstreamPool, _ counters: RouteCounters,
        _ fieldValues: [String: FieldValue]
    ) {
        route = configuration.routeList[index]
        self.fieldValues = route.settings.setHeaders.compactMap(\.file).map { fieldValues[$0] ?? FieldValue(nil) }
        self.pool = pool
        self.counters = counters
        breaker = configuration.breakers[index]
        timeouts = configuration.targets[index].settings.timeouts
        authority = configuration.authorities[index]
        // A scheme of connections makes them those of one user, whatever is configured.
        let authenticates = ConnectionAuthentication.isUsed(byPrefix: route.settings.injectPrefix)
        sharesConnections = configuration.targets[index].settings.sharesConnections && !authenticates
        isTLS = configuration.targets[index].trust != nil
        forwardingProxy = pool.target.settings.forwardingProxy == nil ? nil : pool.resources.proxy
    }

    /// A file of `set_headers` cannot be used, so that no request can be sent.
    @inline(__always) var lacksFieldValue: Bool { !fieldValues.isEmpty && missingPlace() != nil }

    /// The response to a request then.
    func missingFieldValue() -> Problem {
        let fields = route.settings.setHeaders.filter { $0.file != nil }
        return .missingFieldValue(fields[missingPlace() ?? 0].name, route: route.settings.name)
    }

    @inline(never)
    private func missingPlace() -> Int? { fieldValues.firstIndex { $0.secret == nil } }

    /// As `RouteCounters.countRequest`. Not inlined: what is a constant of `self` is not counted as a reference here.
    @inline(never)
    func countRequest(status: Int?, origin: RouteCounters.Origin, from start: Instant, to end: Instant) {
        counters.countRequest(status: status, origin: origin, from: start, to: end)
    }
}

/// What a shard served before a reload, for the requests that began with it. Belongs to the shard's queue.
///
/// It is released when no client uses it any more and no connection of a replaced upstream is open. It is looked at in the
/// next turn, and then each second.
final class RetiredRoutes: Watcher, @unchecked Sendable {
    private static let interval = Duration.seconds(1)

    private let loop: EventLoop
    private var list: [ShardRoutes] = []
    private lazy var deadline = Deadline(of: self)

    init(loop: EventLoop) { self.loop = loop }

    /// - Parameter routes: the pools that stay in use are not retired.
    func add(_ routes: ShardRoutes) {
        loop.assertIsCurrent()
        list.append(routes)
        // Others still refer to it in this turn.
        loop.post { [self] in release() }
        if deadline.instant == .never { loop.set(deadline, at: loop.now + Self.interval) }
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        release()
        loop.set(deadline, at: list.isEmpty ? .never : loop.now + Self.interval)
    }

    private func release() {
        var left: [UpstreamPool] = []
        for index in list.indices.reversed() where isKnownUniquelyReferenced(&list[index]) {
            let pools = list[index].distinctPools.filter(\.isRetired)
            guard pools.allSatisfy(\.isUnused) else { continue }
            left += pools
            list.remove(at: index)
        }
        finish(left)
    }

    /// Ends pools of released configurations. One that another configuration has, too, stays in use: a client of that one may still use it.
    private func finish(_ pools: [UpstreamPool]) {
        guard !pools.isEmpty else { return }
        let kept = Set(list.lazy.flatMap(\.distinctPools).map { ObjectIdentifier($0) })
        for pool in pools where !kept.contains(ObjectIdentifier(pool)) { pool.finish() }
    }

    /// The shard has ended.
    func end() {
        loop.assertIsCurrent()
        for pool in list.flatMap(\.distinctPools) { pool.finish() }
        list = []
        loop.drop(deadline)
    }
}
