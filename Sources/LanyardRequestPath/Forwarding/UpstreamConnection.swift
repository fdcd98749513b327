import Glibc
import LanyardFoundations

/// The exchange that uses a connection. Called on the shard's queue.
package protocol UpstreamOwner: AnyObject {
    /// Bytes or an end can be read, or bytes can be written.
    func upstreamReady(_ connection: UpstreamConnection)
}

/// One connection to an upstream. It carries one request at a time, then it is idle in its shard's pool.
///
/// Belongs to the shard's queue. Its owner reads and writes; the connection only stores what epoll reported.
package final class UpstreamConnection: Watcher, @unchecked Sendable {
    private let socket: OwnedDescriptor
    private let loop: EventLoop
    private unowned let pool: UpstreamPool
    private var watch: EventLoop.Watch?
    private let deadline = Deadline()

    /// The exchange that uses it; nil while the connection is idle.
    package var owner: (any UpstreamOwner)?
    /// Bytes that the upstream has not taken yet.
    package var outbound: ByteQueue
    package var canRead = false
    package var canWrite = true
    /// epoll reported an end or an error. Reading goes on until it is read.
    package private(set) var hasEnded = false
    /// A write failed: after the last byte is read, the connection has ended, and not in an orderly way.
    package var isBroken = false
    /// It has carried a request before: a request that ends without a byte may be retried on another connection
    /// (http-rules.md 16.5).
    package fileprivate(set) var isReused = false
    private(set) var isOpen = true
    /// The close must be a reset: an orderly close would state that all bytes have come.
    package var resetsOnClose = false
    /// Seconds for which the upstream keeps an idle connection, or -1.
    package var keepAliveSeconds = -1

    /// Links in the lists of idle connections.
    var idleLinks = InlineArray<3, IdleList.Links>(repeating: IdleList.Links())
    private(set) var isIdle = false

    /// The target's `epoch` at which the connection's address was last known to belong to the name.
    var epoch = 0

    /// The user and the account of the requests that it carries. A connection never serves two users, nor two accounts
    /// of one user (http-rules.md 16.1, threats.md T18).
    let user: UserIndex
    let account: AccountNumber

    init(
        taking socket: consuming OwnedDescriptor, for user: UserIndex, _ account: AccountNumber, loop: EventLoop,
        pool: UpstreamPool
    ) throws(SystemError) {
        self.user = user
        self.account = account
        outbound = ByteQueue(budget: pool.buffers)
        self.socket = socket
        self.loop = loop
        self.pool = pool
        super.init()
        deadline.owner = self
        watch = try loop.watch(self.socket.raw, for: [.read, .write, .readHangUp, .edge], by: self)
    }

    /// The descriptor, borrowed.
    package var raw: CInt { socket.raw }

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        guard isOpen else { return }
        if !readiness.isDisjoint(with: [.readHangUp, .hangUp, .error]) { hasEnded = true }
        if hasEnded || readiness.contains(.read) { canRead = true }
        if !readiness.isDisjoint(with: [.write, .hangUp, .error]) { canWrite = true }
        if let owner {
            owner.upstreamReady(self)
        } else if canRead {
            // Anything that can be read on an idle connection is an end, a reset or a late byte (http-rules.md 16.2).
            pool.discard(self)
        }
    }

    package override func due(_ deadline: Deadline) { pool.discard(self) }

    /// Becomes idle in the pool until `instant`.
    func becomeIdle(until instant: Instant) {
        owner = nil
        isReused = true
        outbound.release()
        isIdle = true
        loop.set(deadline, at: instant)
    }

    /// Carries another request of the same exchange. No byte of the one before may be left.
    package func reuse() { isReused = true }

    /// The connection is no longer idle.
    func becomeActive() {
        isIdle = false
        loop.set(deadline, at: .never)
    }

    /// Closes it early. Only while it is idle.
    func evict() { pool.discard(self) }

    /// Nothing can be read, and it has not ended.
    package var isQuiet: Bool { !canRead && Socket.isQuiet(socket.raw) }

    /// Closes it. The descriptor is closed with the last reference, at the latest with the present batch.
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
