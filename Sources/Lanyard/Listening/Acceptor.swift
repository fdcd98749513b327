import CLanyard.Linux
import Glibc
import Logging

/// One shard's ear on a listening socket that all shards share.
///
/// It accepts one connection per turn, and hands it on where another shard holds clearly fewer: the kernel's spread over nested epolls
/// is lopsided. Belongs to the shard's queue.
package final class Acceptor: Watcher, @unchecked Sendable {
    /// Out of descriptors: nothing is accepted for so long (http-requirements 20.4).
    private static let pause = Duration.milliseconds(100)
    private static let complaintInterval = Duration.seconds(10)

    private let shard: Shard
    private let rules: ListenerRules
    private let log: Logger
    private let isTCP: Bool
    /// All shards, this one included.
    private let shards: [Shard]
    private var socket: ListeningSocket?
    private var watch: EventLoop.Watch?
    private lazy var deadline = Deadline(of: self)
    private var complainedAt = Instant.past

    package init(_ socket: ListeningSocket, shard: Shard, shards: [Shard], rules: ListenerRules, log: Logger) {
        self.socket = socket
        self.shard = shard
        self.shards = shards
        self.rules = rules
        self.log = log
        isTCP = socket.port != nil
        super.init()
    }

    /// Begins to accept.
    package func start() {
        guard let socket, watch == nil else { return }
        do {
            watch = try shard.loop.watch(socket.raw, for: [.read, .exclusive], by: self)
        } catch {
            log.critical("a listener cannot be watched", metadata: ["event": "listener.failed", "reason": "\(error)"])
        }
    }

    /// Accepts what is queued, then lets go of the socket: it closes with its last acceptor (http-requirements 20.1).
    package func stop() {
        while acceptOne() {}
        unwatch()
        shard.loop.drop(deadline)
        socket = nil
    }

    package override func ready(_ readiness: Readiness, on watch: EventLoop.Watch) { _ = acceptOne() }

    package override func due(_ deadline: Deadline) { start() }

    /// Takes one connection from the queue. False if there is none to take.
    private func acceptOne() -> Bool {
        guard let socket else { return false }
        let raw = lanyard_accept(socket.raw, nil, nil)
        if raw >= 0 {
            place(OwnedDescriptor(taking: raw))
            return true
        }
        switch errno {
        case EAGAIN: return false
        case EMFILE, ENFILE, ENOBUFS, ENOMEM:
            rest(errno)
            return false
        // The client gave up while it was queued, or the network had an error for it: the next one, please.
        default: return true
        }
    }

    private func place(_ descriptor: consuming OwnedDescriptor) {
        let least = shards.min { $0.expectedLoad < $1.expectedLoad } ?? shard
        let own = shard.expectedLoad
        guard least !== shard, own > least.expectedLoad + 1 + own / 8 else {
            return shard.adopt(descriptor, rules: rules, isTCP: isTCP)
        }
        least.hand(descriptor, rules: rules, isTCP: isTCP)
    }

    /// Without descriptors a level-triggered listener would spin: it is left alone for a moment.
    private func rest(_ code: CInt) {
        unwatch()
        shard.loop.set(deadline, at: shard.loop.now + Self.pause)
        guard complainedAt + Self.complaintInterval < shard.loop.now else { return }
        complainedAt = shard.loop.now
        log.error(
            "accepting pauses: raise the limit of descriptors (ulimit -n)",
            metadata: ["event": "listener.paused", "reason": "\(SystemError.text(of: code))"])
    }

    private func unwatch() {
        if let watch { shard.loop.unwatch(watch) }
        watch = nil
    }
}
