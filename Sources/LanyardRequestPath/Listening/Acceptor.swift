import CLinux
import Glibc
import LanyardFoundations
import Logging

/// Accepts connections for one shard on a listening socket that all shards share.
///
/// It accepts one connection per turn, and hands it to another shard that has clearly fewer: the kernel distributes
/// connections over nested epolls unevenly. Belongs to the shard's queue.
package final class Acceptor: Watcher, @unchecked Sendable {
    /// The pause after a lasting error, such as no descriptors (http-connections.md 20.4).
    private static let pauseDelay = Duration.milliseconds(100)

    private let shard: ShardCore
    private let clients: Clients
    private let listener: Int
    private let log: Logger
    private let isTCP: Bool
    /// Of all shards, this one included.
    private let all: [Clients]
    /// Of all shards except this one.
    private let others: ArraySlice<Clients>
    private var socket: ListeningSocket?
    private var watch: EventLoop.Watch?
    private lazy var deadline = Deadline(of: self)
    private var pauseLog = LogThrottle(linesMax: 1, per: .seconds(10))
    private var failures = AcceptFailureCounter(backlog: ListeningSocket.backlog)

    /// - Parameter listener: its index.
    package init(_ socket: ListeningSocket, shard: Shard, shards: [Shard], listener: Int, log: Logger) {
        self.socket = socket
        self.shard = shard.core
        clients = shard.clients
        all = shards.map(\.clients)
        others = all.filter { $0 !== shard.clients }[...]
        self.listener = listener
        self.log = log
        isTCP = socket.port != nil
        super.init()
    }

    /// Has the clients of the socket that are accepted from now on probed as the configuration says.
    package func applyKeepAlive() {
        shard.loop.assertIsCurrent()
        if isTCP, let socket { shard.context.keepAlive.apply(to: socket.raw) }
    }

    /// Begins to accept.
    package func start() {
        shard.loop.assertIsCurrent()
        guard let socket, watch == nil else { return }
        shard.loop.set(deadline, at: .never)
        do {
            watch = try shard.loop.watch(socket.raw, for: [.read, .exclusive], by: self)
        } catch {
            log.critical("a listener cannot be watched", metadata: ["event": "listener.failed", "reason": "\(error)"])
        }
    }

    /// Accepts all queued connections, then releases the socket, which closes with its last acceptor
    /// (http-connections.md 20.1).
    package func stop() {
        shard.loop.assertIsCurrent()
        while acceptOne() {}
        unwatch()
        shard.loop.drop(deadline)
        socket = nil
    }

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        shard.loop.assertIsCurrent()
        _ = acceptOne()
    }

    package override func due(_ deadline: Deadline) {
        shard.loop.assertIsCurrent()
        start()
    }

    /// Accepts one connection. False if the queue is empty or accepting pauses.
    private func acceptOne() -> Bool {
        guard let socket else { return false }
        let raw = DescriptorShortage.shared.open { lanyard_accept(socket.raw, nil, nil) }
        if raw >= 0 {
            failures.reset()
            assign(OwnedDescriptor(taking: raw))
            return true
        }
        let code = errno
        switch failures.judge(code) {
        case .queueEmpty: break
        case .clientGone: return true
        case .noDescriptor:
            pause()
            releaseDescriptors(code)
        case .lasting:
            pause()
            logPause(code)
        }
        return false
    }

    /// Closes idle upstream connections for the client that waits. If there were none, the pause lasts.
    private func releaseDescriptors(_ code: CInt) {
        DescriptorShortage.shared.release { [self] count in
            shard.loop.post { [self] in
                if count > 0 { start() } else { logPause(code) }
            }
        }
    }

    private func assign(_ descriptor: consuming OwnedDescriptor) {
        let least = all.min { $0.expectedLoad < $1.expectedLoad } ?? clients
        let own = clients.expectedLoad
        guard least !== clients, own > least.expectedLoad + 1 + own / 8 else {
            return clients.adopt(descriptor, listener: listener, isTCP: isTCP, others: others)
        }
        least.handOver(descriptor, listener: listener, isTCP: isTCP, others: all[...])
    }

    /// A level-triggered listener that cannot accept would spin, so it is not watched for a while.
    private func pause() {
        unwatch()
        shard.loop.set(deadline, at: shard.loop.now + Self.pauseDelay)
    }

    private func logPause(_ code: CInt) {
        guard let leftOut = pauseLog.admitLine(at: shard.loop.now) else { return }
        let remedy = DescriptorShortage.isCause(of: code) ? ": raise the limit of descriptors (ulimit -n)" : ""
        var metadata: Logger.Metadata = ["event": "listener.paused", "reason": "\(Errno.text(of: code))"]
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.error("accepting pauses\(remedy)", metadata: metadata)
    }

    private func unwatch() {
        if let watch { shard.loop.unwatch(watch) }
        watch = nil
    }
}
