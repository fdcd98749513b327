import LanyardFoundations
import LanyardSettings

/// The routes for the status. From any thread.
extension RequestPath {
    /// All routes in their order, then the requests that no route took. From any thread.
    package var routeReports: [RouteReport] {
        let served = served.withLock { $0 }
        let routes = served.first?.configuration.routeList ?? []
        return routes.map { route in Self.report(of: route, served) } + [withoutRoute]
    }

    /// Requests that wait for a token or an upstream connection, and how many may.
    package var parkedRequests: (count: Int, max: Int) { (context.parked.count, context.parked.limit) }

    /// Connections of clients, and how many may be open.
    package var clientConnections: (count: Int, max: Int) { (clientConnectionCount, context.connections.limit) }

    private var withoutRoute: RouteReport {
        var report = RouteReport()
        for shard in shards { report.add(shard.counters.withoutRoute) }
        return report
    }

    private static func report(of route: Route, _ served: [ShardRoutes]) -> RouteReport {
        var report = RouteReport(name: route.settings.name)
        report.user = route.settings.user
        for routes in served {
            report.add(routes.counters[route.index])
            let pool = routes.pools[route.index]
            report.inFlight += max(pool.open.value - pool.idleCount, 0)
        }
        guard let configuration = served.first?.configuration else { return report }
        let target = configuration.targets[route.index]
        report.upstream = target.name
        report.waiting = target.waiting.count
        let breaker = configuration.breakers[route.index]
        report.breakerOpenedAt = breaker.latestOpening
        report.isBreakerOpen = breaker.isOpen(at: .now)
        return report
    }
}

extension RouteReport {
    /// Adds what one shard has counted.
    fileprivate mutating func add(_ counters: RouteCounters) {
        counts = counts + counters.counts
        let respondedAt = counters.latestResponseAt
        if respondedAt > latestResponseAt ?? .past { latestResponseAt = respondedAt }
        let latest = counters.failures.latest
        upstreamFailure = later(upstreamFailure, latest.upstream)
        overload = later(overload, latest.overload)
        missingToken = later(missingToken, latest.token)
    }

    private func later(_ left: RouteFailure?, _ right: RouteFailure?) -> RouteFailure? {
        guard let left, let right else { return left ?? right }
        return left.at < right.at ? right : left
    }
}
