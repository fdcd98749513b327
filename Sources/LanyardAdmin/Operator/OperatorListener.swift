import Dispatch
import Glibc
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import LanyardTelemetry
import Logging

/// Accepts connections for health or admin, within its own connection limit and independently of the shards. Its handler decides on
/// requests.
///
/// All state belongs to the queue of `loop`. Health and admin share that queue, so nothing here blocks.
final class OperatorListener: Watcher, @unchecked Sendable {
    /// The differences between the two listeners.
    struct Profile {
        /// The first part of log event names, and the subject of log messages.
        let name: String
        /// The kind of client, for the log.
        let client: String
        let acceptsPerTurn: Int
        /// Descriptors in reserve, so that it accepts when no other descriptor is left.
        let reserveCount: Int
    }

    /// Delayed responses at once.
    private static let delayedMax = 16
    /// After an accept that failed for want of a descriptor. Short, because a probe waits, and a response has to come within 100 ms. A loop
    /// that lingers comes up to 10 ms later.
    private static let shortageDelay = Duration.milliseconds(10)
    /// A connection counts as new for this long.
    private static let freshTime = Duration.milliseconds(100)
    /// After any other accept that failed and would fail again.
    private static let failureDelay = Duration.milliseconds(100)

    let loop: EventLoop
    /// The bound address.
    let address: ListenerSettings.Address
    let isTCP: Bool
    let limits: OperatorLimits
    private let profile: Profile
    private let log: Logger
    private var handler: (any OperatorHandler)?
    private var socket: ListeningSocket?
    private var watch: EventLoop.Watch?
    private lazy var deadline = Deadline(of: self)
    private var connections: [ObjectIdentifier: OperatorConnection] = [:]
    /// Connections accepted so far.
    private var acceptedCount = 0
    private var reserve: DescriptorReserve
    private var failures = AcceptFailureCounter(backlog: ListeningSocket.backlog)
    /// Limits log lines about errors of the listening socket.
    private var pauseLog = LogThrottle(linesMax: 1, per: .seconds(10))
    /// Limits log lines about the connection limit.
    private var overloadLog = LogThrottle(linesMax: 1, per: .seconds(10))

    /// No thread and no event before `start`.
    ///
    /// - Parameter loop: the caller starts and stops it.
    init(
        _ socket: ListeningSocket, loop: EventLoop, limits: OperatorLimits, profile: Profile, log: Logger
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

    /// Open connections.
    var connectionCount: Int {
        loop.assertIsCurrent()
        return connections.count
    }

    /// Starts to accept connections. Holds `handler` until `stop`. Once.
    func start(for handler: any OperatorHandler) {
        loop.assertIsCurrent()
        guard socket != nil else { return }
        self.handler = handler
        reserve.refill()
        listen()
    }

    /// Closes the listener and every connection.
    func stop() {
        loop.assertIsCurrent()
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
        loop.assertIsCurrent()
        for _ in 0..<profile.acceptsPerTurn where !acceptOne() { return }
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        resumeAccepting()
    }

    /// Accepts one connection. False if none waits or none can be accepted now.
    private func acceptOne() -> Bool {
        guard let socket else { return false }
        let raw = reserve.accept(on: socket.raw)
        if raw >= 0 {
            failures.reset()
            addConnection(OwnedDescriptor(taking: raw))
            return true
        }
        let code = errno
        switch failures.judge(code) {
        case .queueEmpty: break
        case .clientGone: return true
        case .noDescriptor:
            pauseAccepting(for: Self.shortageDelay)
            releaseDescriptors()
        case .lasting:
            pauseAccepting(for: Self.failureDelay)
            logPause(code)
        }
        return false
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

    /// Closes one connection: first one that is idle, that waits for a page or that has an incomplete request, then one with a client that
    /// does not read its response, at last one that was accepted a moment ago. False if calls of all connections are running.
    private func closeLongestWaiting() -> Bool {
        let longest = connections.values.filter { !$0.isPerforming && !$0.isRejected }.min {
            (rank($0), $0.waitingSince, $0.number) < (rank($1), $1.waitingSince, $1.number)
        }
        longest?.close()
        return longest != nil
    }

    /// A new connection may be a probe whose request has not been read yet. Clients that do not read must not cost it its response.
    private func rank(_ connection: OperatorConnection) -> Int {
        if loop.now - connection.acceptedAt < Self.freshTime { return 2 }
        return connection.isWriting ? 1 : 0
    }

    /// Closes the connection with the oldest delayed response if there are too many of them.
    func closeOldestDelayed() {
        loop.assertIsCurrent()
        let delayed = connections.values.filter(\.isDelaying)
        guard delayed.count >= Self.delayedMax else { return }
        delayed.min { ($0.waitingSince, $0.number) < ($1.waitingSince, $1.number) }?.close()
    }

    private func logOverload() {
        guard let leftOut = overloadLog.admitLine(at: loop.now) else { return }
        var metadata: Logger.Metadata = [
            "event": "\(profile.name).overloaded", "connections": .stringConvertible(limits.connectionsMax),
        ]
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.warning(
            "every connection has a running call; further connections are refused until one ends", metadata: metadata)
    }

    /// Forgets a connection. `release` closes its descriptor, and the reserve takes the descriptor if it is not full.
    func remove(_ connection: OperatorConnection, _ release: () -> Void) {
        loop.assertIsCurrent()
        connections.removeValue(forKey: ObjectIdentifier(connection))
        reserve.refill(after: release)
    }

    /// Stops watching the listener for a pause, because it would stay readable and the loop would spin.
    private func pauseAccepting(for delay: Duration) {
        unwatch()
        loop.set(deadline, at: loop.now + delay)
    }

    private func resumeAccepting() {
        loop.set(deadline, at: .never)
        reserve.refill()
        listen()
    }

    /// Has all owners close the descriptors that they can spare. If there were any, the pause ends.
    private func releaseDescriptors() {
        DescriptorShortage.shared.release { [weak self, loop] count in
            guard count > 0 else { return }
            loop.post { [weak self] in self?.resumeAccepting() }
        }
    }

    private func logPause(_ code: CInt) {
        guard let leftOut = pauseLog.admitLine(at: loop.now) else { return }
        var metadata: Logger.Metadata = [
            "event": "listener.paused", "listener": .string(profile.name), "reason": "\(Errno.text(of: code))",
        ]
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.error("accepting pauses", metadata: metadata)
    }

    private func unwatch() {
        if let watch { loop.unwatch(watch) }
        watch = nil
    }
}

/// What an operator listener serves: the health pages or the admin API. It decides on heads and does no I/O.
protocol OperatorHandler: AnyObject, Sendable {
    /// Decides what to do with a valid request, from its head. On the listener's loop; must not wait.
    ///
    /// - Parameters:
    ///   - target: the target of `head`.
    ///   - bytes: the bytes that `head` and `table` point into; valid during this call only.
    func decide(
        _ head: RequestHead, _ target: OperatorTarget, in bytes: Bytes, _ table: FieldTable, peer: PeerCredentials
    ) -> OperatorDecision
}

/// What the listener does with a request after its head has been read.
enum OperatorDecision {
    /// Responds at once. A body is not read; the connection then closes.
    case response(OperatorResponse)
    /// Responds after a delay. Nothing is read from this connection until then.
    case delayed(OperatorResponse, Duration)
    /// Responds when the page has been made. Nothing is read from this connection until then. A body is not read.
    case page(MetricsPages, MetricsFormat)
    /// Reads the body, then performs the call.
    case call(OperatorCall)
}

/// An operation that runs when the request's body is complete.
struct OperatorCall {
    /// Bytes of the body; 413 beyond.
    let bodyBytesMax: Int
    /// From the end of the head to the end of the body.
    let bodyTimeout: Duration
    /// Starts the operation, on the loop's queue. The body is valid during this call only.
    ///
    /// `reply` takes the response. It is called exactly once, on any queue.
    let perform: (_ body: UnsafeRawBufferPointer, _ reply: @escaping @Sendable (OperatorResponse) -> Void) -> Void
}
