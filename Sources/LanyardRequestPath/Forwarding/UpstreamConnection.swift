import LanyardFoundations
import LanyardSettings
import Synchronization

/// The exchange that uses a connection. Called on the shard's queue.
package protocol UpstreamOwner: AnyObject {
    /// Bytes or an end can be read, or bytes can be written.
    func handleUpstreamReadiness(_ connection: UpstreamConnection)
    /// Something has come on the stream, or it takes bytes again.
    func handleStream(_ stream: UpstreamStream)
}

extension UpstreamOwner {
    /// Of one that uses connections of HTTP/1.1 alone.
    package func handleStream(_ stream: UpstreamStream) {}
}

/// One connection to an upstream. It carries one request at a time, or with HTTP/2 a request on each stream, then it is idle in its shard's
/// pool. While it is in use, an `UpstreamLease` of each request holds it.
///
/// Belongs to the shard's queue. Its owner reads and writes its stream; of HTTP/2 its multiplexer does.
package final class UpstreamConnection: Watcher, PausableReader, @unchecked Sendable {
    /// What it counts as while it is open.
    private struct Holding: ~Copyable {
        /// May serve another connection afterwards.
        var slot: UpstreamSlot
        /// Among the pool's open connections.
        let presence: Presence
    }

    /// What the next request on it depends on.
    struct NextUse {
        /// It has carried a request before.
        fileprivate(set) var isReused = false
        /// A client has authenticated itself on it, or has begun to: whose requests alone it carries from then on, also where users share
        /// connections. It stays so to its end.
        fileprivate(set) var boundTo: (user: UserIndex, account: AccountNumber, route: String)?
        /// Seconds for which the upstream keeps an idle connection, or -1.
        var keepAliveSeconds = -1
    }

    /// Its place among the idle connections.
    struct IdlePlace {
        /// Links in the lists of idle connections.
        var links = InlineArray<3, IdleList.Links>(repeating: IdleList.Links())
        fileprivate(set) var isIdle = false
        /// `EventLoop.waits` before the wait whose report tells of it.
        fileprivate var since = 0
    }

    /// For which state of the target it was last known to lead to the right upstream.
    struct Epochs {
        /// The target's `epoch` at which the connection's address belonged to the name.
        var address = 0
        /// `ShardTrust.epoch` at which the upstream was verified; 0 without TLS.
        let trust: Int
    }

    /// What its owner reads and writes.
    package var stream: ByteStream
    private let loop: EventLoop
    /// Held: who ends the connection tells its pool. An idle one is closed when its pool ends.
    let pool: UpstreamPool
    private let isUnix: Bool
    private let deadline = Deadline()

    /// Who uses it; nil while the connection is idle, and of HTTP/2. Its lease sets it.
    var owner: (any UpstreamOwner)?
    /// nil: HTTP/1.1.
    private(set) var multiplexer: UpstreamMultiplexer?
    /// nil: the connection is closed.
    private var holding: Holding?
    var nextUse = NextUse()
    var idlePlace = IdlePlace()
    var epochs: Epochs

    /// The user and the account of the requests that it carries, or stand-ins for all (`connections: shared`). Else a connection never
    /// serves two users, nor two accounts of one user (http-connections.md 16.1, security.md T18).
    var user: UserIndex { holder.user }
    var account: AccountNumber { holder.account }
    private let holder: (user: UserIndex, account: AccountNumber)

    init(
        taking stream: consuming ByteStream, slot: consuming UpstreamSlot, trustEpoch: Int, for user: UserIndex,
        _ account: AccountNumber, loop: EventLoop, pool: UpstreamPool
    ) throws(SystemError) {
        holding = Holding(slot: slot, presence: Presence(in: pool.open))
        holder = (user, account)
        self.stream = stream
        epochs = Epochs(trust: trustEpoch)
        self.loop = loop
        self.pool = pool
        isUnix = pool.target.isUnix
        super.init()
        deadline.owner = self
        try self.stream.watch(on: loop, by: self)
    }

    /// The upstream speaks HTTP/2. Before the first byte.
    ///
    /// - Returns: false: there is no memory.
    func beginStreams(_ settings: HTTP2Settings, _ resources: UpstreamPool.Resources) -> Bool {
        loop.assertIsCurrent()
        multiplexer = UpstreamMultiplexer(of: self, settings, resources, at: loop.now)
        return multiplexer != nil
    }

    /// A lease of a free place.
    func lease() -> UpstreamLease {
        loop.assertIsCurrent()
        return UpstreamLease(self, multiplexer?.open())
    }

    /// Reading its frames is paused until memory is free.
    var isPaused: Bool {
        get { multiplexer?.isPaused ?? false }
        set { multiplexer?.isPaused = newValue }
    }

    var isOpen: Bool { holding != nil }

    /// No exchange has its one place.
    var hasFreePlace: Bool { isOpen && idlePlace.isIdle }

    /// It has carried a request before: a request that ends without a byte may be retried on another connection
    /// (http-connections.md 16.5).
    package var isReused: Bool { nextUse.isReused }

    /// It carries requests of one client's connection only, and is never among the pool's idle ones of its user
    /// (http-connections.md 16.9).
    var isBound: Bool { nextUse.boundTo != nil }

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        loop.assertIsCurrent()
        guard isOpen else { return }
        stream.record(readiness)
        if let multiplexer {
            multiplexer.handleReadiness()
        } else if let owner {
            owner.handleUpstreamReadiness(self)
        } else if stream.canRead, stream.hasPendingInput() || stream.hasLargeSession {
            // Data that can be read on an idle connection are an end, a reset or a late byte (http-connections.md 16.2).
            pool.discard(self)
        }
    }

    package override func resume() {
        loop.assertIsCurrent()
        if isOpen { multiplexer?.resume() }
    }

    package override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        if let multiplexer, !multiplexer.isIdle { return checkSilence() }
        pool.discard(self)
    }

    /// A silent upstream with open streams is asked whether it is there, and given up if it does not reply (H31).
    func checkSilence() {
        loop.assertIsCurrent()
        switch multiplexer?.checkSilence(at: loop.now) {
        case nil: break
        case .wait(let instant): loop.set(deadline, at: instant)
        case .ping: checkSilence()
        case .close:
            pool.target.recordEnd("ping_timeout", byUpstream: false)
            pool.discard(self)
        }
    }

    /// The upstream must have replied to a PING then.
    func awaitProbe(until instant: Instant) {
        loop.assertIsCurrent()
        loop.set(deadline, at: instant)
    }

    /// Becomes idle in the pool until `instant`.
    func becomeIdle(until instant: Instant) {
        loop.assertIsCurrent()
        owner = nil
        multiplexer?.session.forgetToken()
        nextUse.isReused = true
        idlePlace.isIdle = true
        // A read has emptied it later than the latest wait has reported. So it may be used again in the turn in which it becomes idle.
        idlePlace.since = stream.wasEmptied ? loop.waits &- 1 : loop.waits
        loop.set(deadline, at: instant)
    }

    /// Carries another request of the same exchange. No byte of the one before may be left.
    package func reuse() {
        loop.assertIsCurrent()
        nextUse.isReused = true
    }

    /// The connection belongs to the client that uses it now, for requests of this user and account on the route.
    func bind(to user: UserIndex, _ account: AccountNumber, on route: Route) {
        loop.assertIsCurrent()
        nextUse.boundTo = (user, account, route.settings.name)
    }

    /// Whether it was bound by a request of this route. Routes with one upstream have one pool.
    func isBound(on route: Route) -> Bool {
        loop.assertIsCurrent()
        return nextUse.boundTo?.route == route.settings.name
    }

    /// Whether the client's next request may use it, if it is of this user and account.
    func isBound(to user: UserIndex, _ account: AccountNumber) -> Bool {
        loop.assertIsCurrent()
        return nextUse.boundTo.map { $0.user == user && $0.account == account } == true
    }

    /// The connection is no longer idle.
    func becomeActive() {
        loop.assertIsCurrent()
        idlePlace.isIdle = false
        loop.set(deadline, at: .never)
    }

    /// Closes it early. Only while it is idle.
    func evict() {
        loop.assertIsCurrent()
        pool.discard(self)
    }

    /// Whether it can carry another request: nothing can be read, and it has not ended. Called while it is idle, or between
    /// two requests of one exchange.
    package func isUsable() -> Bool {
        loop.assertIsCurrent()
        if let multiplexer {
            return !stream.hasEnded && !stream.isBroken && !pool.target.needsHTTP1 && multiplexer.hasPlace(at: loop.now)
        }
        if idlePlace.isIdle, !isUnix, !stream.mayHavePendingInput(on: loop, since: idlePlace.since) { return true }
        return !stream.hasPendingInput() && !stream.hasLargeSession
    }

    /// Closes it. Later calls do nothing.
    ///
    /// - Returns: the slot, which may serve another connection; nil: it was closed before.
    func close() -> UpstreamSlot? {
        loop.assertIsCurrent()
        guard let held = holding.take() else { return nil }
        owner = nil
        multiplexer?.close()
        loop.drop(deadline)
        stream.close(on: loop)
        return held.slot
    }
}
