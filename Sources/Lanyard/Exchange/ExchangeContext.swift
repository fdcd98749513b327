/// What all shards' exchanges have in common: made once at the start, never changed.
package final class ExchangeContext: Sendable {
    package let routes: RouteTable
    /// By `Route.index`.
    package let routeList: [Route]
    /// By `Route.index`.
    package let targets: [UpstreamTarget]
    /// The upstream's own `Host`, by `Route.index`.
    let authorities: [[UInt8]]
    package let limits: LimitSettings
    let headLimits: HeadLimits
    /// A request waits at most this long for a token.
    let tokenWaitMax: Duration
    let loginRequiredStatus: Int
    /// By `UserIndex`.
    let userNames: [String]
    /// `lanyard-` and eight hex digits: our member of `Via`.
    let viaName: [UInt8]
    /// Client connections of the process.
    package let connections: SharedLimit
    /// Requests that wait for a token or a connection.
    package let parked: SharedLimit

    package init(
        routes: [Route], targets: [UpstreamTarget], limits: LimitSettings, tokenWaitMax: Duration,
        loginRequiredStatus: Int,
        userNames: [String], instance: UInt32
    ) {
        self.routes = RouteTable(routes)
        routeList = routes
        self.targets = targets
        authorities = targets.map { Array($0.settings.authority.utf8) }
        self.limits = limits
        headLimits = HeadLimits(limits)
        self.tokenWaitMax = tokenWaitMax
        self.loginRequiredStatus = loginRequiredStatus
        self.userNames = userNames
        let digits = String(instance, radix: 16)
        viaName = Array("lanyard-\(String(repeating: "0", count: 8 - digits.count))\(digits)".utf8)
        connections = SharedLimit(limits.connectionsMax)
        parked = SharedLimit(limits.parkedRequestsMax)
    }

    func userName(_ user: UserIndex) -> String { userNames[user.number] }
}
