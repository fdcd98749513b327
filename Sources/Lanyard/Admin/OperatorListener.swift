import Dispatch
import Glibc
import Logging

/// Accepts connections for health or for admin, within a budget of its own, whatever the shards are doing; what it serves is its handler's.
///
/// Everything belongs to the queue of `loop`, which health and admin share: nothing here waits.
final class OperatorListener: Watcher, @unchecked Sendable {
    /// In what the listeners differ.
    struct Manner {
        /// The first word of log events, and what cannot be watched.
        let name: String
        /// Who connects, for the log.
        let client: String
        let acceptsPerTurn: Int
        /// Descriptors kept back, so that it still accepts when all others are used up.
        let reserveCount: Int
    }

    /// Between two lines that every place is taken.
    private static let quiet = Duration.seconds(10)
    /// Answers that are held back at once.
    private static let delayedMax = 16
    /// After an accept that failed for want of descriptors or memory.
    private static let pause = Duration.milliseconds(100)

    let loop: EventLoop
    /// What was bound.
    let address: ListenerSettings.Address
    let isTCP: Bool
    let limits: any OperatorLimits
    private let manner: Manner
    private let log: Logger
    private var handler: (any OperatorHandler)?
    private var socket: ListeningSocket?
    private var watch: EventLoop.Watch?
    private lazy var deadline = Deadline(of: self)
    private var connections: [ObjectIdentifier: OperatorConnection] = [:]
    /// Connections so far.
    private var accepted = 0
    private var reserve: DescriptorReserve
    /// Until then no further line tells that every place is taken.
    private var quietUntil = Instant.past

    /// No thread and no event before `start`.
    ///
    /// - Parameter loop: started and stopped by somebody else.
    init(
        _ socket: ListeningSocket, loop: EventLoop, limits: any OperatorLimits, manner: Manner, log: Logger
    ) {
        self.socket = socket
        address = socket.address
        isTCP = socket.port != nil
        self.loop = loop
        self.limits = limits
        self.manner = manner
        self.log = log
        reserve = DescriptorReserve(countMax: manner.reserveCount)
        super.init()
    }

    /// Open ones. On the loop's queue.
    var connectionCount: Int { connections.count }

    /// Begins to accept for `handler`, which is held until `stop`. Once; on the loop's queue.
    func start(for handler: any OperatorHandler) {
        guard socket != nil else { return }
        self.handler = handler
        reserve.refill()
        listen()
    }

    /// Closes the listener and every connection. On the loop's queue.
    func stop() {
        unwatch()
        loop.drop(deadline)
        socket = nil
        for connection in connections.values { connection.close() }
        handler = nil
    }

    // MARK: Accepting

    private func listen() {
        guard let socket, watch == nil else { return }
        do throws(Fault) {
            watch = try loop.watch(socket.raw, for: .read, by: self)
        } catch {
            log.critical(
                "\(manner.name) cannot be watched", metadata: ["event": "\(manner.name).failed", "reason": "\(error)"])
        }
    }

    override func ready(_ readiness: Readiness, on watch: EventLoop.Watch) {
        for _ in 0..<manner.acceptsPerTurn where !acceptOne() { return }
    }

    override func due(_ deadline: Deadline) {
        reserve.refill()
        listen()
    }

    /// False when there is none, or none can be had.
    private func acceptOne() -> Bool {
        guard let socket else { return false }
        let raw = reserve.accept(on: socket.raw)
        if raw >= 0 {
            adopt(OwnedDescriptor(taking: raw))
            return true
        }
        switch errno {
        case EAGAIN: return false
        case EMFILE, ENFILE:
            // Looked at again after the pause.
            DescriptorShortage.shared.release()
            rest()
            return false
        case ENOBUFS, ENOMEM:
            rest()
            return false
        // The client gave up while it was queued: the next one, please.
        default: return true
        }
    }

    private func adopt(_ descriptor: consuming OwnedDescriptor) {
        guard let handler else { return }
        let refused = connections.values.count { $0.isRefused }
        let isFull = connections.count - refused >= limits.connectionsMax && !makeRoom()
        if isFull { noteFull() }
        guard !isFull || refused < limits.refusalsMax else { return }
        if isTCP { Socket.setNoDelay(descriptor.raw) }
        let peer = isTCP ? OperatorPeer() : OperatorPeer(of: descriptor.raw)
        do throws(Fault) {
            accepted += 1
            let connection = try OperatorConnection(
                taking: descriptor, number: accepted, from: peer, of: self, for: handler)
            connections[ObjectIdentifier(connection)] = connection
            if isFull { connection.refuse(.overloaded) }
        } catch {
            log.warning(
                "\(manner.client) cannot be watched",
                metadata: ["event": "\(manner.name).failed", "reason": "\(error)"])
        }
    }

    /// Idle connections and half-sent requests go first, then clients that do not read their answers. False if calls of all of them are
    /// being carried out.
    private func makeRoom() -> Bool {
        let longest = connections.values.filter { !$0.isWorking && !$0.isRefused }.min {
            ($0.isAnswering ? 1 : 0, $0.waitingSince, $0.number) < ($1.isAnswering ? 1 : 0, $1.waitingSince, $1.number)
        }
        longest?.close()
        return longest != nil
    }

    /// Of too many answers that are held back the oldest is given up, with its connection.
    func makeRoomForDelay() {
        let delayed = connections.values.filter(\.isDelaying)
        guard delayed.count >= Self.delayedMax else { return }
        delayed.min { ($0.waitingSince, $0.number) < ($1.waitingSince, $1.number) }?.close()
    }

    private func noteFull() {
        guard loop.now >= quietUntil else { return }
        quietUntil = loop.now + Self.quiet
        log.warning(
            "every connection has a call under way; further ones are refused until one ends",
            metadata: [
                "event": "\(manner.name).overloaded", "connections": .stringConvertible(limits.connectionsMax),
            ])
    }

    /// Lets go of a connection whose descriptor `release` closes: what the reserve has given up it takes back.
    func remove(_ connection: OperatorConnection, _ release: () -> Void) {
        connections.removeValue(forKey: ObjectIdentifier(connection))
        reserve.takeBack(release)
    }

    /// Not a spin: the listener is looked at again after a pause.
    private func rest() {
        unwatch()
        loop.set(deadline, at: loop.now + Self.pause)
    }

    private func unwatch() {
        if let watch { loop.unwatch(watch) }
        watch = nil
    }
}
