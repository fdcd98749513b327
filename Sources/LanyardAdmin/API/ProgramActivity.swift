import LanyardFoundations
import LanyardRequestPath

/// What the process does now, beside its users: the members of `/v1/status` that are always there.
package struct ProgramActivity: Sendable {
    /// A route, or the requests that no route took.
    package struct Route: Sendable {
        package var report: RouteReport
        /// What was counted in the last `seconds`.
        package var recent: RouteCounts
        package var seconds: Int

        package init(report: RouteReport, recent: RouteCounts, seconds: Int) {
            self.report = report
            self.recent = recent
            self.seconds = seconds
        }
    }

    /// An identity service, as its latest calls have found it.
    package struct Identity: Sendable {
        package var name: String
        /// Where it is asked; nil: the configuration does not say it.
        package var url: String?
        /// It has responded to the latest call, with less than 500; nil: there was none.
        package var isReachable: Bool?
        /// Of the latest response with 2xx.
        package var succeededAt: WallTime?
        /// The latest call without a response, or with 5xx.
        package var failure: (at: WallTime, message: String)?

        package init(
            name: String, url: String?, isReachable: Bool?, succeededAt: WallTime?,
            failure: (at: WallTime, message: String)?
        ) {
            self.name = name
            self.url = url
            self.isReachable = isReachable
            self.succeededAt = succeededAt
            self.failure = failure
        }
    }

    /// Something of which there is a limited number.
    package struct Usage: Equatable, Sendable {
        package var count: Int
        package var max: Int

        package init(_ count: Int, of max: Int) {
            self.count = count
            self.max = max
        }
    }

    /// In the order of the configuration.
    package var routes: [Route] = []
    /// Requests that no route took.
    package var withoutRoute = Route(report: RouteReport(), recent: RouteCounts(), seconds: 0)
    /// Requests that wait for a token or an upstream connection.
    package var parked = Usage(0, of: 0)
    package var clientConnections = Usage(0, of: 0)
    /// Of clients and upstreams that speak it.
    package var http2 = HTTP2Report()
    package var identities: [Identity] = []
    /// Descriptors of the process; nil: they cannot be counted.
    package var descriptors: Usage?
    /// When one was missing last; nil: never.
    package var descriptorShortageAt: WallTime?
    /// nil: there is no store.
    package var storePath: String?
    /// The latest reload that succeeded, or the start.
    package var reloadedAt = WallTime.now

    package init() {}
}

extension AdminResponses {
    /// The members of `/v1/status` about readiness and activity.
    static func write(
        _ activity: ProgramActivity, _ page: AdminPage, _ readiness: HealthReport, now: Instant, wallNow: WallTime,
        into body: inout JSONWriter
    ) {
        body.key("readiness")
        body.beginObject()
        readiness.writeReady(into: &body)
        body.endObject()
        body.key("requests")
        body.beginObject()
        write(activity.parked, "parked", into: &body)
        write(activity.clientConnections, "client_connections", into: &body)
        body.key("without_route")
        body.beginObject()
        writeCounts(of: activity.withoutRoute, now: now, wallNow: wallNow, into: &body)
        body.endObject()
        body.endObject()
        body.key("routes")
        body.beginArray()
        let routes = page.routes(of: activity.routes)
        for route in routes.shown { write(route, now: now, wallNow: wallNow, into: &body) }
        body.endArray()
        writeEnd(of: routes, "routes", into: &body)
        write(activity.http2, into: &body)
        body.key("identities")
        body.beginArray()
        for identity in activity.identities { write(identity, into: &body) }
        body.endArray()
        writeProcess(activity, readiness.facts, into: &body)
    }

    private static func writeProcess(
        _ activity: ProgramActivity, _ facts: HealthSnapshot, into body: inout JSONWriter
    ) {
        body.key("store")
        body.beginObject()
        body.key("state")
        body.string(facts.store.rawValue)
        body.key("path")
        write(activity.storePath, into: &body)
        body.endObject()
        body.key("clock")
        body.beginObject()
        body.key("skew_seconds")
        if let skew = facts.clockSkew { body.number((skew.inSeconds * 10).rounded() / 10) } else { body.null() }
        body.key("in_step")
        body.bool(!facts.isClockOff)
        body.endObject()
        body.key("descriptors")
        body.beginObject()
        body.key("open")
        if let usage = activity.descriptors { body.number(usage.count) } else { body.null() }
        body.key("open_max")
        if let usage = activity.descriptors { body.number(usage.max) } else { body.null() }
        body.key("last_shortage_at")
        write(activity.descriptorShortageAt, into: &body)
        body.endObject()
        body.key("last_reload_at")
        body.time(activity.reloadedAt)
    }

    private static func write(_ usage: ProgramActivity.Usage, _ name: String, into body: inout JSONWriter) {
        body.key(name)
        body.number(usage.count)
        body.key("\(name)_max")
        body.number(usage.max)
    }

    private static func write(_ http2: HTTP2Report, into body: inout JSONWriter) {
        body.key("http2")
        body.beginObject()
        body.key("clients")
        body.beginObject()
        writeMembers(of: http2.clients, into: &body)
        body.endObject()
        body.key("upstreams")
        body.beginObject()
        writeMembers(of: http2.upstreams, into: &body)
        write(http2.upstreamEnds, "ends", into: &body)
        body.key("downgraded")
        body.beginArray()
        for route in http2.downgradedRoutes { body.string(route) }
        body.endArray()
        body.endObject()
        body.endObject()
    }

    private static func writeMembers(of side: HTTP2Report.Side, into body: inout JSONWriter) {
        body.key("connections")
        body.number(side.connections)
        body.key("open_streams")
        body.number(side.openStreams)
        body.key("streams")
        body.number(side.streams)
        body.key("resets")
        body.beginObject()
        body.key("peer")
        body.number(side.peerResets)
        body.key("refused")
        body.number(side.refusals)
        body.endObject()
        write(side.limitsPassed, "limits_passed", into: &body)
    }

    /// An object with a number for each reason.
    private static func write(_ counts: [String: Int], _ name: String, into body: inout JSONWriter) {
        body.key(name)
        body.beginObject()
        for (reason, count) in counts.sorted(by: { $0.key < $1.key }) {
            body.key(reason)
            body.number(count)
        }
        body.endObject()
    }

    private static func write(
        _ route: ProgramActivity.Route, now: Instant, wallNow: WallTime, into body: inout JSONWriter
    ) {
        func wall(_ instant: Instant?) -> WallTime? { instant.map { wallNow + ($0 - now) } }
        let report = route.report
        body.beginObject()
        body.key("route")
        write(report.name, into: &body)
        body.key("upstream")
        body.string(report.upstream)
        body.key("user")
        write(report.user, into: &body)
        writeCounts(of: route, now: now, wallNow: wallNow, into: &body)
        body.key("last_response_at")
        write(wall(report.latestResponseAt), into: &body)
        body.key("last_upstream_error")
        write(report.upstreamFailure, now, wallNow, into: &body)
        body.key("last_token_missing")
        write(report.missingToken, now, wallNow, into: &body)
        body.key("breaker_open")
        body.bool(report.isBreakerOpen)
        body.key("breaker_opened_at")
        write(wall(report.breakerOpenedAt), into: &body)
        body.key("in_flight")
        body.number(report.inFlight)
        body.key("waiting")
        body.number(report.waiting)
        body.endObject()
    }

    private static func writeCounts(
        of route: ProgramActivity.Route, now: Instant, wallNow: WallTime, into body: inout JSONWriter
    ) {
        body.key("recent")
        body.beginObject()
        body.key("seconds")
        body.number(route.seconds)
        body.key("requests")
        body.number(route.recent.requests)
        body.key("server_errors")
        body.number(route.recent.serverErrors)
        body.key("refused")
        body.number(route.recent.refusals)
        body.key("token_refused")
        body.number(route.recent.unauthorized)
        body.key("token_missing")
        body.number(route.recent.withoutToken)
        body.endObject()
        body.key("last_overload")
        write(route.report.overload, now, wallNow, into: &body)
    }

    private static func write(
        _ failure: RouteFailure?, _ now: Instant, _ wallNow: WallTime, into body: inout JSONWriter
    ) {
        guard let failure else { return body.null() }
        writeError(wallNow + (failure.at - now), failure.message, into: &body)
    }

    private static func writeError(_ time: WallTime, _ message: String, into body: inout JSONWriter) {
        body.beginObject()
        body.key("at")
        body.time(time)
        body.key("error")
        body.string(message)
        body.endObject()
    }

    private static func write(_ identity: ProgramActivity.Identity, into body: inout JSONWriter) {
        body.beginObject()
        body.key("identity")
        body.string(identity.name)
        body.key("url")
        write(identity.url, into: &body)
        body.key("reachable")
        if let isReachable = identity.isReachable { body.bool(isReachable) } else { body.null() }
        body.key("last_success_at")
        write(identity.succeededAt, into: &body)
        body.key("last_error")
        if let failure = identity.failure {
            writeError(failure.at, failure.message, into: &body)
        } else {
            body.null()
        }
        body.endObject()
    }
}
