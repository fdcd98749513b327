import LanyardFoundations
import LanyardSettings
import Logging

/// What the exchanges of one shard share: what they are served by, the tokens, memory, and where heads and lines of the log are written.
///
/// Belongs to the shard's queue.
package final class ShardCore: @unchecked Sendable {
    package let loop: EventLoop
    package let context: ExchangeContext
    package let tokens: TokenCache
    let memory: ShardMemory
    let heads: HeadContext
    let log: RequestLog
    /// What new requests are served by. `Shard` replaces it.
    package var served: ShardRoutes
    /// nil: the configuration has none.
    private(set) var accessLog: AccessLog?
    /// Each response closes its connection.
    package var isDraining = false
    /// Exchanges that have become tunnels.
    var tunnels: [ObjectIdentifier: ClientExchange] = [:]
    private var requestNumber = UInt64.random(in: .min ... .max)

    /// - Parameter accessLines: where one line for each request goes; nil: none is written.
    init(
        loop: EventLoop, context: ExchangeContext, configuration: ServedConfiguration, source: any TokenSource,
        counters: ShardCounters, accessLines: AccessLines?, log: Logger
    ) {
        self.loop = loop
        self.context = context
        tokens = TokenCache(source: source, on: loop)
        memory = ShardMemory(budget: context.buffers, configuration, on: loop)
        heads = HeadContext(viaName: context.viaName, counters: counters)
        self.log = RequestLog(log, context.throttles, on: loop)
        served = ShardRoutes(configuration, pools: [], counters: [])
        accessLog = accessLines.map(AccessLog.init)
    }

    @inline(__always) var limits: LimitSettings { served.configuration.limits }
    @inline(__always) var headLimits: HeadLimits { served.configuration.headLimits }
    @inline(__always) var counters: ShardCounters { heads.counters }

    /// Writes the lines of the access log there, in that format, from the next request on; nil: writes none.
    func setAccessLines(_ lines: AccessLines?) {
        loop.assertIsCurrent()
        // The rings stay the same: only on, off and the format can differ.
        if lines?.format != accessLog?.format { accessLog = lines.map(AccessLog.init) }
    }

    /// The id of the next request.
    func nextRequestID() -> RequestID {
        loop.assertIsCurrent()
        requestNumber &+= 0x9e37_79b9_7f4a_7c15
        var mixed = requestNumber
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return RequestID(mixed ^ mixed >> 31)
    }

    // MARK: Sessions that have ended

    /// Why a tunnel must end; nil: it may continue.
    ///
    /// A new generation of the same session and an unreachable identity service are no reasons. Another account of the
    /// same user counts as a logout and as a switch. The session of the first account has then ended, and the route has
    /// another account.
    ///
    /// - Parameter account: of the token that the request for it was sent with.
    func endOfTunnel(_ active: ActiveExchange, _ account: AccountNumber) -> Tunnel.End? {
        loop.assertIsCurrent()
        let route = active.route
        switch change(of: active, account, onLogout: route.closesOnLogout, onSwitch: route.closesOnSwitch) {
        case .logout: return .logout
        case .switch: return .switched
        case nil: return nil
        }
    }

    /// Why a response in progress must be cut; nil: it may continue. The reasons are those of tunnels.
    func endOfResponse(_ active: ActiveExchange, _ account: AccountNumber) -> ResponseCut? {
        loop.assertIsCurrent()
        let route = active.route
        switch change(
            of: active, account, onLogout: route.closesStreamsOnLogout, onSwitch: route.closesStreamsOnSwitch)
        {
        case .logout: return .logout
        case .switch: return .switched
        case nil: return nil
        }
    }

    /// What has happened to the session that a request was sent with.
    ///
    /// - Parameter account: of the request's token.
    private func change(
        of active: ActiveExchange, _ account: AccountNumber, onLogout: Bool, onSwitch: Bool
    ) -> RouteSettings.TunnelCloser? {
        let (user, route) = (active.user, active.route)
        let isAnother = account != tokens.account(of: user)
        if onLogout, isAnother || tokens.isSessionOver(user) { return .logout }
        guard onSwitch else { return nil }
        if isAnother { return .switch }
        if route.user == nil, let active = served.active, active != user { return .switch }
        return nil
    }
}

/// A request that is forwarded. Its values stay the same until its end.
///
/// Small, as it is handed on with every step: the head, which is large, stays in `RequestInput`. Nothing of it is counted: what the
/// request is served by, which its exchange holds, has the route.
struct ActiveExchange {
    let reference: Unmanaged<ShardRoute>
    /// The user whose token the request gets.
    let user: UserIndex

    /// - Parameter shardRoute: one of those by which the exchange is served.
    init(_ shardRoute: Unmanaged<ShardRoute>, user: UserIndex) {
        reference = shardRoute
        self.user = user
    }

    /// The route and what heads are written with, without counting them: the exchange's shard and what it is served by hold them.
    @inline(__always)
    func withRoute<Result>(_ heads: HeadContext, _ work: (ShardRoute, HeadContext) -> Result) -> Result {
        Unmanaged.passUnretained(heads)._withUnsafeGuaranteedRef { heads in
            reference._withUnsafeGuaranteedRef { work($0, heads) }
        }
    }

    @inline(__always) var shardRoute: ShardRoute { reference._withUnsafeGuaranteedRef { $0 } }
    /// Whose connections the request may use: its user's, or those of all (`connections: shared`).
    @inline(__always) var connectionUser: UserIndex {
        reference._withUnsafeGuaranteedRef { $0.sharesConnections ? UserIndex(0) : user }
    }
    /// The same for the account.
    @inline(__always) func connectionAccount(_ token: AccessToken) -> AccountNumber {
        reference._withUnsafeGuaranteedRef { $0.sharesConnections ? .unknown : token.account }
    }
    /// A file of the route's `set_headers` cannot be used now, so that the request cannot be sent.
    @inline(__always) var lacksFieldValue: Bool { reference._withUnsafeGuaranteedRef { $0.lacksFieldValue } }
    @inline(__always) var route: Route { reference._withUnsafeGuaranteedRef { $0.route } }
    @inline(__always) var pool: UpstreamPool { reference._withUnsafeGuaranteedRef { $0.pool } }
    @inline(__always) var timeouts: UpstreamSettings.Timeouts { reference._withUnsafeGuaranteedRef { $0.timeouts } }
}
