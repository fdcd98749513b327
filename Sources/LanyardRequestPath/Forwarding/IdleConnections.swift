import LanyardFoundations
import Logging

/// The idle upstream connections of one shard, of all its pools together, and the number of its connections.
///
/// Clients, requests and identity calls may need the descriptors of idle connections more. So their number is bounded,
/// and a shortage closes all of them. Belongs to the shard's queue.
package final class IdleConnections: @unchecked Sendable {
    /// Why idle connections are closed early.
    package enum EvictionReason: String, CaseIterable, Sendable {
        /// The shard has as many upstream connections as leave descriptors for clients.
        case limit
        /// The process has no descriptor left.
        case shortage
    }

    /// Connections of the shard, in use or idle, beyond which idle ones are closed, the oldest first. The number of
    /// clients bounds those in use.
    private var openMax: Int
    /// Connections that are open or being opened.
    private var open = 0
    private var list = IdleList(.shard)
    /// The shard's; nil: a pool without a shard has its own.
    private let loop: EventLoop?
    private let log: EvictionLog?
    private let evictions = EvictionReason.allCases.map { _ in Counter() }

    /// - Parameters:
    ///   - loop: the shard's; nil: a pool without a shard has its own.
    ///   - log: of connections that the limit closes.
    package init(on loop: EventLoop? = nil, openMax: Int = .max, log: EvictionLog? = nil) {
        (self.loop, self.openMax, self.log) = (loop, openMax, log)
    }

    /// Sets another limit, from the next connection on. On the queue, or before the loop starts.
    func setMax(_ openMax: Int) { self.openMax = openMax }

    deinit {
        // On any queue: nothing else has this list any more.
        while let oldest = list.oldest { release(oldest) }
    }

    /// Connections closed for this reason so far. From any thread.
    package func evictionCount(_ reason: EvictionReason) -> Int { counter(reason).value }

    private func counter(_ reason: EvictionReason) -> Counter {
        evictions[EvictionReason.allCases.firstIndex(of: reason)!]
    }

    // MARK: Events from the pools

    /// A connection is being opened, and its slot is counted. Idle ones may be closed for it.
    func makeRoom() {
        loop?.assertIsCurrent()
        enforceLimit()
    }

    /// Only a slot calls this, when it begins and when it ends. Connections of a stopped shard end on any queue.
    fileprivate func count(_ change: Int) { open += change }

    /// Adds a connection that has become idle. An older one, or this one, may be closed.
    func add(_ connection: UpstreamConnection) {
        loop?.assertIsCurrent()
        _ = Unmanaged.passRetained(connection)
        list.append(connection)
        enforceLimit()
    }

    /// Removes a connection that was added.
    func remove(_ connection: UpstreamConnection) {
        loop?.assertIsCurrent()
        release(connection)
    }

    private func release(_ connection: UpstreamConnection) {
        list.remove(connection)
        Unmanaged.passUnretained(connection).release()
    }

    // MARK: Making room

    private func enforceLimit() {
        var hasEvicted = false
        while open > openMax, evictOldest(.limit) { hasEvicted = true }
        if hasEvicted { log?.record(closed: nil) }
    }

    /// Closes all. Returns their number.
    package func evictAll() -> Int {
        loop?.assertIsCurrent()
        var count = 0
        while evictOldest(.shortage) { count += 1 }
        return count
    }

    private func evictOldest(_ reason: EvictionReason) -> Bool {
        guard let oldest = list.oldest else { return false }
        counter(reason).add()
        oldest.evict()
        return true
    }
}

/// The log of idle connections that are closed early, of all shards together: a line in 10 s.
package final class EvictionLog: Sendable {
    private let log: Logger
    private let throttle = SharedLogThrottle(linesMax: 1, per: .seconds(10))

    package init(_ log: Logger) { self.log = log }

    /// - Parameter closed: idle connections that were closed because no descriptor was left; nil: the limit of a shard
    ///   closed some.
    func record(closed: Int?) {
        guard let leftOut = throttle.admitLine(at: .now) else { return }
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
}

/// The slot of one connection to an upstream, from the beginning of its opening to its close: one of the upstream's
/// `connections_max` and one of the shard's connections. The request that acquires the connection holds it, then the
/// connection does. Belongs to the shard's queue, which its holder checks.
struct UpstreamSlot: ~Copyable {
    private let permit: Permit
    private let shardConnections: IdleConnections

    init(_ permit: consuming Permit, in shardConnections: IdleConnections) {
        self.permit = permit
        self.shardConnections = shardConnections
        shardConnections.count(1)
    }

    deinit { shardConnections.count(-1) }
}

/// Idle connections in the order in which they became idle, as an intrusive list. Adding one and removing any one costs
/// the same whatever their number, and no memory. The list does not retain the connections: `IdleConnections` does.
struct IdleList {
    /// The lists that an idle connection is in at the same time.
    enum Scope: Int { case shard, pool, user }

    /// A connection in a list. References without counting: each change of a list would otherwise count six of them.
    typealias Reference = Unmanaged<UpstreamConnection>

    /// A connection's links in one list.
    struct Links {
        var older: Reference?
        var newer: Reference?
    }

    private let scope: Int
    private(set) var count = 0
    private var first: Reference?
    private var last: Reference?

    init(_ scope: Scope) { self.scope = scope.rawValue }

    var isEmpty: Bool { count == 0 }
    var oldest: UpstreamConnection? { first?.takeUnretainedValue() }
    var newest: UpstreamConnection? { last?.takeUnretainedValue() }

    mutating func append(_ connection: UpstreamConnection) {
        let reference = Reference.passUnretained(connection)
        connection.idlePlace.links[scope] = Links(older: last, newer: nil)
        if let last {
            last._withUnsafeGuaranteedRef { $0.idlePlace.links[scope].newer = reference }
        } else {
            first = reference
        }
        last = reference
        count += 1
    }

    /// - Parameter connection: one of the list.
    mutating func remove(_ connection: UpstreamConnection) {
        let links = connection.idlePlace.links[scope]
        if let older = links.older {
            older._withUnsafeGuaranteedRef { $0.idlePlace.links[scope].newer = links.newer }
        } else {
            first = links.newer
        }
        if let newer = links.newer {
            newer._withUnsafeGuaranteedRef { $0.idlePlace.links[scope].older = links.older }
        } else {
            last = links.older
        }
        connection.idlePlace.links[scope] = Links()
        count -= 1
    }

    /// The connection that became idle before this one.
    func next(before connection: UpstreamConnection) -> UpstreamConnection? {
        connection.idlePlace.links[scope].older?.takeUnretainedValue()
    }

    /// The connection that became idle after this one.
    func next(after connection: UpstreamConnection) -> UpstreamConnection? {
        connection.idlePlace.links[scope].newer?.takeUnretainedValue()
    }
}
