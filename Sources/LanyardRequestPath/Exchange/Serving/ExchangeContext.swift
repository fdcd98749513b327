import LanyardFoundations
import LanyardSettings
import Synchronization

/// What the exchanges of all shards share from the start to the end of the process, whatever a reload replaces.
package final class ExchangeContext: Sendable {
    /// Only grows.
    let names: UserNames
    /// `lanyard-` and eight hex digits: Lanyard's member of `Via`.
    let viaName: [UInt8]
    /// Client connections of the process.
    package let connections: SharedLimit
    /// Client connections by peer address.
    let peers: PeerConnectionLimit
    /// Clients over the limit that get a 503 and a lingering close. A flood must not hold more descriptors by being
    /// refused than by being served. Beyond this limit the 503 is written and the connection closed at once.
    let rejectionSlots = SharedLimit(64)
    let shardCount: Int
    /// The sources of new clients.
    package let arrivals: ClientArrivals
    /// Requests that wait for a token or a connection.
    package let parked: SharedLimit
    /// How many lines the log gets.
    let throttles = RequestThrottles(problems: Problem.names)
    /// Memory of all buffers: `limits.buffer_bytes_max`.
    package let buffers: BufferBudget
    /// Probes of connections without traffic.
    let keepAlive: KeepAlivePolicy

    package init(limits: LimitSettings, names: UserNames, instance: UInt32, shardCount: Int) {
        self.names = names
        let digits = String(instance, radix: 16)
        viaName = Array("lanyard-\(String(repeating: "0", count: 8 - digits.count))\(digits)".utf8)
        connections = SharedLimit(limits.connectionsMax)
        peers = PeerConnectionLimit(limits.connectionsPerPeerMax)
        self.shardCount = shardCount
        arrivals = ClientArrivals(shardCount: shardCount)
        parked = SharedLimit(limits.parkedRequestsMax)
        buffers = BufferBudget(limits.bufferBytesMax)
        keepAlive = KeepAlivePolicy(limits.keepAlive)
    }

    /// Sets other limits. What is taken stays taken: a lower limit ends nothing, and admits nothing until it is undercut.
    func setLimits(_ limits: LimitSettings) {
        connections.setMax(limits.connectionsMax)
        peers.setMax(limits.connectionsPerPeerMax)
        parked.setMax(limits.parkedRequestsMax)
        buffers.setMax(limits.bufferBytesMax)
        keepAlive.set(limits.keepAlive)
    }

    /// The user's name for a problem. Takes a lock, so not for every request.
    func userName(_ user: UserIndex) -> String { names[user] }
}

/// Counts the client connections of each peer address, for `limits.connections_per_peer_max`. Used by any shard when a
/// connection begins or ends.
final class PeerConnectionLimit: Sendable {
    private let connectionsMax: Atomic<Int>
    private let counts = Guarded<[String: Int]>([:])

    /// - Parameter connectionsMax: nil: there is no limit, and nothing is counted.
    init(_ connectionsMax: Int?) { self.connectionsMax = Atomic(connectionsMax ?? .max) }

    /// Sets another limit. Connections that were not counted stay uncounted.
    func setMax(_ connectionsMax: Int?) { self.connectionsMax.store(connectionsMax ?? .max, ordering: .relaxed) }

    var isLimited: Bool { connectionsMax.load(ordering: .relaxed) != .max }

    /// Counts a connection of the peer. nil: the peer is at its limit.
    func acquire(_ host: String) -> PeerPermit? {
        let connectionsMax = connectionsMax.load(ordering: .relaxed)
        let isCounted = counts.withLock { counts in
            guard counts[host, default: 0] < connectionsMax else { return false }
            counts[host, default: 0] += 1
            return true
        }
        return isCounted ? PeerPermit(host, of: self) : nil
    }

    /// Only a permit gives back, when it goes.
    fileprivate func release(_ host: String) {
        counts.withLock { counts in
            let left = counts[host, default: 1] - 1
            counts[host] = left > 0 ? left : nil
        }
    }
}

/// One connection of a peer, held by that connection. It is given back when the permit goes.
struct PeerPermit: ~Copyable, Sendable {
    private let host: String
    private let limit: PeerConnectionLimit

    /// The connection is counted already.
    fileprivate init(_ host: String, of limit: PeerConnectionLimit) { (self.host, self.limit) = (host, limit) }

    deinit { limit.release(host) }
}

/// The limit that a client's connection counts against.
enum ConnectionSlot: ~Copyable {
    /// `connections_max`, and `connections_per_peer_max` of the peer if it is set.
    case client(Permit, PeerPermit?)
    /// The connection is refused with a response and a lingering close; these are limited in number.
    case rejection(Permit)
    /// The connection is refused and closed at once.
    case none
}

/// Counts the sources of new clients: shards that accept, and clients that are handed from one shard to another.
///
/// A drain of the clients begins when the count is 0. No shard gets a client after it has reported that it is empty.
package final class ClientArrivals: Sendable {
    private let count: Atomic<Int>
    /// nil: no drain has begun. It is set late because only the caller of the drain knows what follows the last arrival.
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
