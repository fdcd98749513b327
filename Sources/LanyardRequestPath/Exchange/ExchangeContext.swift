import LanyardFoundations
import LanyardSettings
import Synchronization

/// What the exchanges of all shards share. Created once at the start; only the register of user names grows.
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
    private let names: UserNames
    /// `lanyard-` and eight hex digits: Lanyard's member of `Via`.
    let viaName: [UInt8]
    /// By `Route.index`.
    package let breakers: [RouteBreaker]
    /// Client connections of the process.
    package let connections: SharedLimit
    /// Client connections by peer address; nil without a limit.
    let peers: PeerConnectionLimit?
    /// Clients over the limit that get a 503 and a lingering close. A flood must not hold more descriptors by being
    /// refused than by being served. Beyond this limit the 503 is written and the connection closed at once.
    let rejectionSlots = SharedLimit(64)
    /// The sources of new clients.
    package let arrivals: ClientArrivals
    /// Upstream connections of one shard, in use or idle, beyond which idle ones are closed.
    let upstreamConnectionsOfShardMax: Int
    /// Requests that wait for a token or a connection.
    package let parked: SharedLimit
    /// Which problem responses are logged.
    let refusals = RefusalLogLimit()
    /// Which failed TLS handshakes of clients are logged.
    let handshakeLog = RefusalLogLimit(of: HandshakeResult.allCases.map(\.rawValue))
    /// Memory of all buffers: `limits.buffer_bytes_max`.
    package let buffers: BufferBudget

    package init(
        routes: [Route], targets: [UpstreamTarget], limits: LimitSettings, tokenWaitMax: Duration,
        loginRequiredStatus: Int, names: UserNames, instance: UInt32, shardCount: Int
    ) {
        self.routes = RouteTable(routes)
        routeList = routes
        self.targets = targets
        authorities = targets.map { Array($0.settings.authority.utf8) }
        self.limits = limits
        headLimits = HeadLimits(limits)
        self.tokenWaitMax = tokenWaitMax
        self.loginRequiredStatus = loginRequiredStatus
        self.names = names
        let digits = String(instance, radix: 16)
        viaName = Array("lanyard-\(String(repeating: "0", count: 8 - digits.count))\(digits)".utf8)
        breakers = routes.map { _ in RouteBreaker() }
        connections = SharedLimit(limits.connectionsMax)
        peers = limits.connectionsPerPeerMax.map(PeerConnectionLimit.init)
        arrivals = ClientArrivals(shardCount: shardCount)
        upstreamConnectionsOfShardMax = max(limits.upstreamConnectionsMax / shardCount, 1)
        parked = SharedLimit(limits.parkedRequestsMax)
        buffers = BufferBudget(limits.bufferBytesMax)
    }

    /// The user's name for a problem. Takes a lock, so not for every request.
    func userName(_ user: UserIndex) -> String { names[user] }
}

/// Counts the client connections of each peer address, for `limits.connections_per_peer_max`. Used by any shard when a
/// connection begins or ends.
final class PeerConnectionLimit: Sendable {
    private let connectionsMax: Int
    private let counts = Guarded<[String: Int]>([:])

    init(_ connectionsMax: Int) { self.connectionsMax = connectionsMax }

    /// Counts a connection of the peer. False if the peer is at its limit.
    func acquire(_ host: String) -> Bool {
        counts.withLock { counts in
            guard counts[host, default: 0] < connectionsMax else { return false }
            counts[host, default: 0] += 1
            return true
        }
    }

    func release(_ host: String) {
        counts.withLock { counts in
            let left = counts[host, default: 1] - 1
            counts[host] = left > 0 ? left : nil
        }
    }
}

/// Counts the sources of new clients: shards that accept, and clients that are handed from one shard to another.
///
/// A drain of the clients begins when the count is 0. No shard gets a client after it has reported that it is empty.
package final class ClientArrivals: Sendable {
    private let count: Atomic<Int>
    private let whenNone = Guarded<(@Sendable () -> Void)?>(nil)

    /// - Parameter shardCount: shards that accept; each calls `end` once when it has stopped.
    package init(shardCount: Int) { count = Atomic(shardCount) }

    /// A client is handed over. Call it only while the count is not 0: on a shard that accepts, or that hands on a
    /// client that was handed to it.
    func begin() { count.add(1, ordering: .relaxed) }

    /// A client was adopted or handed on, or a shard has stopped accepting.
    package func end() {
        guard count.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return }
        whenNone.withLock { $0 }?()
    }

    /// Sets what is called, on any thread, when the count becomes 0. Call it before the first shard stops.
    package func notifyWhenNone(_ work: @escaping @Sendable () -> Void) { whenNone.withLock { $0 = work } }
}
