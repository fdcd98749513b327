import Dispatch
import Glibc
import Logging

/// Accepts connections for health or for admin, within a budget of its own, whatever the shards are doing; what it serves is its handler's.
///
/// Everything belongs to the queue of `loop`, which health and admin share: nothing here waits.
final class OperatorListener: Watcher, @unchecked Sendable {
    /// In what the listeners differ.
    struct Profile {
        /// The first word of log events, and what cannot be watched.
        let name: String
        /// Who connects, for the log.
        let client: String
        let acceptsPerTurn: Int
        /// Descriptors kept back, so that it still accepts when all others are used up.
        let reserveCount: Int
    }

    /// Between two lines that every place is taken.
    private static let overloadLogInterval = Duration.seconds(10)
    /// Answers that are held back at once.
    private static let delayedMax = 16
    /// After an accept that failed for want of descriptors or memory.
    private static let acceptRetryDelay = Duration.milliseconds(100)

    let loop: EventLoop
    /// What was bound.
    let address: ListenerSettings.Address
    let isTCP: Bool
    let limits: any OperatorLimits
    private let profile: Profile
    private let log: Logger
    private var handler: (any OperatorHandler)?
    private var socket: ListeningSocket?
    private var watch: EventLoop.Watch?
    private lazy var deadline = Deadline(of: self)
    private var connections: [ObjectIdentifier: OperatorConnection] = [:]
    /// Connections so far.
    private var acceptedCount = 0
    private var reserve: DescriptorReserve
    /// Until then no further line tells that every place is taken.
    private var nextOverloadLogAt = Instant.past

    /// No thread and no event before `start`.
    ///
    /// - Parameter loop: started and stopped by somebody else.
    init(
        _ socket: ListeningSocket, loop: EventLoop, limits: any OperatorLimits, profile: Profile, log: Logger
    ) {
        self.socket = socket
        address = socket.address
        isTCP = socket.port != nil
        self.loop = loop
        self.limits = limits
        self.profile = profile
        self.log = log
        reserve = DescriptorReserve(countMax: profile.reserveCount)
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
        do throws(SystemError) {
            watch = try loop.watch(socket.raw, for: .read, by: self)
        } catch {
            log.critical(
                "\(profile.name) cannot be watched",
                metadata: ["event": "\(profile.name).failed", "reason": "\(error)"])
        }
    }

    override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        for _ in 0..<profile.acceptsPerTurn where !acceptOne() { return }
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
            addConnection(OwnedDescriptor(taking: raw))
            return true
        }
        switch errno {
        case EAGAIN: return false
        case EMFILE, ENFILE:
            // Looked at again after the pause.
            DescriptorShortage.shared.release()
            pauseAccepting()
            return false
        case ENOBUFS, ENOMEM:
            pauseAccepting()
            return false
        // The client gave up while it was queued: the next one, please.
        default: return true
        }
    }

    private func addConnection(_ descriptor: consuming OwnedDescriptor) {
        guard let handler else { return }
        let refused = connections.values.count { $0.isRejected }
        let isFull = connections.count - refused >= limits.connectionsMax && !closeLongestWaiting()
        if isFull { logOverload() }
        guard !isFull || refused < limits.rejectionsMax else { return }
        if isTCP { Socket.setNoDelay(descriptor.raw) }
        let peer = isTCP ? PeerCredentials() : PeerCredentials(of: descriptor.raw)
        do throws(SystemError) {
            acceptedCount += 1
            let connection = try OperatorConnection(
                taking: descriptor, number: acceptedCount, from: peer, of: self, for: handler)
            connections[ObjectIdentifier(connection)] = connection
            if isFull { connection.reject(.overloaded) }
        } catch {
            log.warning(
                "\(profile.client) cannot be watched",
                metadata: ["event": "\(profile.name).failed", "reason": "\(error)"])
        }
    }

    /// Idle connections and half-sent requests go first, then clients that do not read their answers. False if calls of all of them are
    /// being carried out.
    private func closeLongestWaiting() -> Bool {
        let longest = connections.values.filter { !$0.isPerforming && !$0.isRejected }.min {
            ($0.isWriting ? 1 : 0, $0.waitingSince, $0.number) < ($1.isWriting ? 1 : 0, $1.waitingSince, $1.number)
        }
        longest?.close()
        return longest != nil
    }

    /// Of too many answers that are held back the oldest is given up, with its connection.
    func closeOldestDelayed() {
        let delayed = connections.values.filter(\.isDelaying)
        guard delayed.count >= Self.delayedMax else { return }
        delayed.min { ($0.waitingSince, $0.number) < ($1.waitingSince, $1.number) }?.close()
    }

    private func logOverload() {
        guard loop.now >= nextOverloadLogAt else { return }
        nextOverloadLogAt = loop.now + Self.overloadLogInterval
        log.warning(
            "every connection has a call under way; further ones are refused until one ends",
            metadata: [
                "event": "\(profile.name).overloaded", "connections": .stringConvertible(limits.connectionsMax),
            ])
    }

    /// Lets go of a connection whose descriptor `release` closes: what the reserve has given up it takes back.
    func remove(_ connection: OperatorConnection, _ release: () -> Void) {
        connections.removeValue(forKey: ObjectIdentifier(connection))
        reserve.takeBack(release)
    }

    /// Not a spin: the listener is looked at again after a pause.
    private func pauseAccepting() {
        unwatch()
        loop.set(deadline, at: loop.now + Self.acceptRetryDelay)
    }

    private func unwatch() {
        if let watch { loop.unwatch(watch) }
        watch = nil
    }
}
