import CLanyard.Linux
import Dispatch
import Glibc
import Logging

/// Answers probes and scrapers on an event loop of its own, with a connection budget of its own: whatever the shards are doing.
///
/// It waits for nobody: its answers come from snapshots and relaxed counters. Everything belongs to `loop`'s queue.
package final class HealthListener: Watcher, @unchecked Sendable {
    private static let acceptsPerTurn = 16
    /// After an accept that failed for want of descriptors or memory.
    private static let pause = Duration.milliseconds(100)
    /// Descriptors kept back: clients of the request path may use up all others, and health still answers.
    private static let reserveCount = 4

    package let loop: EventLoop
    /// What was bound.
    package let address: ListenerSettings.Address
    let limits: HealthLimits
    private let hosts: AllowedHosts
    private let pages: HealthPages
    private let log: Logger
    private var socket: ListeningSocket?
    private var watch: EventLoop.Watch?
    private lazy var deadline = Deadline(of: self)
    private var connections: [ObjectIdentifier: HealthConnection] = [:]
    private var reserve: [CInt] = []

    /// No thread and no event before `start`.
    package init(
        _ socket: ListeningSocket, loop: EventLoop, pages: HealthPages, limits: HealthLimits = HealthLimits(),
        log: Logger
    ) {
        self.socket = socket
        address = socket.address
        self.loop = loop
        self.pages = pages
        self.limits = limits
        self.log = log
        let names = socket.port.map { ["\(socket.address)", "localhost:\($0)"] }
        hosts = AllowedHosts(names, allowsLiterals: true)
        super.init()
    }

    deinit { for descriptor in reserve { close(descriptor) } }

    /// Starts the loop and begins to accept. Once.
    package func start() {
        loop.start()
        loop.post { [self] in
            refillReserve()
            pages.watch(on: loop)
            listen()
        }
    }

    /// Closes the listener and every connection, and ends the loop: the last act of a drain. Waits for it, from elsewhere than
    /// the loop, so that a unix socket's path is gone before the process is.
    package func stop() {
        loop.queue.sync { [self] in
            unwatch()
            loop.drop(deadline)
            socket = nil
            for connection in connections.values { connection.close() }
            pages.unwatch()
        }
        loop.stop()
    }

    // MARK: Accepting

    private func listen() {
        guard let socket, watch == nil else { return }
        do throws(Fault) {
            watch = try loop.watch(socket.raw, for: .read, by: self)
        } catch {
            log.critical("health cannot be watched", metadata: ["event": "health.failed", "reason": "\(error)"])
        }
    }

    package override func ready(_ readiness: Readiness, on watch: EventLoop.Watch) {
        for _ in 0..<Self.acceptsPerTurn where !acceptOne() { return }
    }

    package override func due(_ deadline: Deadline) { listen() }

    /// False when there is none, or none can be had.
    private func acceptOne() -> Bool {
        guard let socket else { return false }
        var raw = lanyard_accept(socket.raw, nil, nil)
        while raw < 0, errno == EMFILE || errno == ENFILE, let spare = reserve.popLast() {
            close(spare)
            raw = lanyard_accept(socket.raw, nil, nil)
        }
        if raw >= 0 {
            adopt(OwnedDescriptor(taking: raw))
            return true
        }
        switch errno {
        case EAGAIN: return false
        case EMFILE, ENFILE, ENOBUFS, ENOMEM:
            rest()
            return false
        // The client gave up while it was queued: the next one, please.
        default: return true
        }
    }

    private func adopt(_ descriptor: consuming OwnedDescriptor) {
        if connections.count >= limits.connectionsMax { makeRoom() }
        Socket.setNoDelay(descriptor.raw)
        do throws(Fault) {
            let connection = try HealthConnection(taking: descriptor, of: self)
            connections[ObjectIdentifier(connection)] = connection
        } catch {
            log.warning("a probe cannot be watched", metadata: ["event": "health.failed", "reason": "\(error)"])
        }
    }

    /// Idle connections and half-sent heads go first, then clients that do not read their answers.
    private func makeRoom() {
        let longest = connections.values.min {
            ($0.isAnswering ? 1 : 0, $0.waitingSince) < ($1.isAnswering ? 1 : 0, $1.waitingSince)
        }
        longest?.close()
    }

    func remove(_ connection: HealthConnection) {
        guard connections.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
        refillReserve()
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

    private func refillReserve() {
        while reserve.count < Self.reserveCount {
            let spare = eventfd(0, CInt(EFD_CLOEXEC))
            guard spare >= 0 else { return }
            reserve.append(spare)
        }
    }

    // MARK: Answering

    /// Host, method and target of a whole head, in this order; then the page.
    func answer(to head: RequestHead, in bytes: Bytes, _ table: FieldTable) -> HealthAnswer {
        guard let (authority, path) = Self.split(bytes[run: head.target]) else {
            return .malformed(.malformed("a target that is neither a path nor an http URL"))
        }
        let host = authority ?? (head.host >= 0 ? table.value(head.host, in: bytes) : nil)
        // HTTP/1.0 needs no Host; no browser speaks it.
        switch host.map(hosts.judge) ?? .allowed {
        case .allowed: break
        case .unknown: return .hostNotAllowed
        case .malformed: return .malformed(.malformed("a Host that is not host[:port]"))
        }
        guard head.kind == .get || head.kind == .head else { return .methodNotAllowed() }
        var question = HealthQuestion(path: String(decoding: path, as: UTF8.self))
        for index in 0..<table.count where table.name(index, in: bytes).equals(lowered: "accept") {
            question.accept.append(String(decoding: table.value(index, in: bytes), as: UTF8.self))
        }
        return pages.answer(to: question, connections: connections.count)
    }

    /// The authority of an absolute target and the path without query (RFC 9112 §3.2.1, §3.2.2).
    private static func split(_ target: Bytes) -> (authority: Bytes?, path: Bytes)? {
        var authority: Bytes?
        var start = 0
        if target.hasPrefix(lowered: "http://") {
            let end = target[7...].firstIndex(of: UInt8(ascii: "/")) ?? target.count
            guard end > 7 else { return nil }
            authority = target[run: 7..<end]
            start = end
        } else if target[0] != UInt8(ascii: "/") {
            return nil
        }
        let end = target[start...].firstIndex(of: UInt8(ascii: "?")) ?? target.count
        return (authority, target[run: start..<end])
    }
}
