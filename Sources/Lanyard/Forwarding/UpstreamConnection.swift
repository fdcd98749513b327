import Glibc

/// What a connection tells the exchange that uses it. On the shard's queue.
package protocol UpstreamOwner: AnyObject {
    /// Bytes or an end can be read, or room to write has come.
    func upstreamReady(_ connection: UpstreamConnection)
}

/// One connection to an upstream: carries one request at a time, then waits in its shard's pool.
///
/// Belongs to the shard's queue. Reading and writing are the owner's business; the connection only remembers what epoll said.
package final class UpstreamConnection: Watcher, @unchecked Sendable {
    private let socket: OwnedDescriptor
    private let loop: EventLoop
    private unowned let pool: UpstreamPool
    private var watch: EventLoop.Watch?
    private let deadline = Deadline()

    /// The exchange at work; nil while the connection is idle.
    package var owner: (any UpstreamOwner)?
    /// Bytes that the upstream has not taken yet.
    package var outbound: ByteQueue
    package var canRead = false
    package var canWrite = true
    /// An end or an error was told: reading goes on until it is met.
    package private(set) var hasEnded = false
    /// A write failed: when nothing is left to read, it has ended, and not in good order.
    package var isBroken = false
    /// It carried a request before: one that ends without a byte may be tried again elsewhere (http-rules.md 16.5).
    package fileprivate(set) var isReused = false
    private(set) var isOpen = true
    /// Its end is to be a reset: an orderly one would say that all bytes have come.
    package var resetsOnClose = false
    /// Seconds that the upstream said it keeps an idle connection, or -1.
    package var keepAliveSeconds = -1

    /// Its places among idle connections, while it is one.
    var idleLinks = InlineArray<3, IdleList.Links>(repeating: IdleList.Links())
    private(set) var isIdle = false

    /// The target's `epoch` in which the connection's address was known to be one of the name's.
    var epoch = 0

    /// Whose requests it carries: a connection never serves two users (http-rules.md 16.1, threats.md T18).
    let user: UserIndex

    init(
        taking socket: consuming OwnedDescriptor, for user: UserIndex, loop: EventLoop, pool: UpstreamPool
    ) throws(SystemError) {
        self.user = user
        outbound = ByteQueue(budget: pool.buffers)
        self.socket = socket
        self.loop = loop
        self.pool = pool
        super.init()
        deadline.owner = self
        watch = try loop.watch(self.socket.raw, for: [.read, .write, .readHangUp, .edge], by: self)
    }

    /// The descriptor, lent.
    package var raw: CInt { socket.raw }

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        guard isOpen else { return }
        if !readiness.isDisjoint(with: [.readHangUp, .hangUp, .error]) { hasEnded = true }
        if hasEnded || readiness.contains(.read) { canRead = true }
        if !readiness.isDisjoint(with: [.write, .hangUp, .error]) { canWrite = true }
        if let owner {
            owner.upstreamReady(self)
        } else if canRead {
            // An idle connection has nothing to say: an end, a reset or a late byte (http-rules.md 16.2).
            pool.discard(self)
        }
    }

    package override func due(_ deadline: Deadline) { pool.discard(self) }

    /// Waits in the pool until `instant`.
    func becomeIdle(until instant: Instant) {
        owner = nil
        isReused = true
        outbound.release()
        isIdle = true
        loop.set(deadline, at: instant)
    }

    /// Carries another request of the same exchange; nothing may be left of the one before.
    package func reuse() { isReused = true }

    /// Is idle no more.
    func becomeActive() {
        isIdle = false
        loop.set(deadline, at: .never)
    }

    /// Ends it before its time; only while it is idle.
    func evict() { pool.discard(self) }

    /// Nothing to read and not ended.
    package var isQuiet: Bool { !canRead && Socket.isQuiet(socket.raw) }

    /// Ends it: the descriptor closes when the last reference goes, at the latest with the present batch.
    func close() {
        guard isOpen else { return }
        isOpen = false
        owner = nil
        outbound.release()
        loop.drop(deadline)
        if let watch { loop.unwatch(watch) }
        watch = nil
        if resetsOnClose { Socket.setResetOnClose(socket.raw) } else { shutdown(socket.raw, CInt(SHUT_RDWR)) }
    }
}
