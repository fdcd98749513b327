import CLanyard.Linux
import Glibc

/// A connected socket on its way to the connection that owns it.
struct ConnectedSocket {
    fileprivate let raw: CInt

    /// Whoever calls this closes it.
    func take() -> OwnedDescriptor { OwnedDescriptor(taking: raw) }
}

/// One attempt to connect: addresses in order, the next one after 250 ms or a failure (RFC 8305), the first that answers wins.
///
/// Belongs to the shard's queue. Answers exactly once, unless it is cancelled.
package final class Dial: Watcher, @unchecked Sendable {
    typealias Answer = (Result<ConnectedSocket, UpstreamFailure>) -> Void

    private struct Attempt {
        let raw: CInt
        let watch: EventLoop.Watch
        let end: Instant
    }

    private static let stagger = Duration.milliseconds(250)

    private let loop: EventLoop
    private let settings: UpstreamSettings
    private var addresses: ArraySlice<SocketAddress>
    private var attempts: [Attempt] = []
    private var answer: Answer?
    private var failure = UpstreamFailure.nameNotFound
    private let end: Instant
    private var nextStart = Instant.never
    private lazy var deadline = Deadline(of: self)

    init(_ addresses: [SocketAddress], _ settings: UpstreamSettings, loop: EventLoop, answer: @escaping Answer) {
        self.addresses = addresses.filter { settings.prohibition(of: $0) == nil }[...]
        if self.addresses.isEmpty, let first = addresses.first { failure = settings.prohibition(of: first) ?? failure }
        self.settings = settings
        self.loop = loop
        self.answer = answer
        end = loop.now + settings.timeouts.connectAll
        super.init()
    }

    /// May answer before it returns.
    func start() { startNext() }

    func cancel() {
        answer = nil
        tearDown()
    }

    private func startNext() {
        nextStart = .never
        while answer != nil, let address = addresses.popFirst() {
            switch begin(address) {
            case .connected(let raw): return finish(.success(ConnectedSocket(raw: raw)))
            case .underWay:
                if !addresses.isEmpty { nextStart = loop.now + Self.stagger }
                return arm()
            case .failed(let failure): self.failure = failure
            }
        }
        if attempts.isEmpty { finish(.failure(failure)) } else { arm() }
    }

    private enum Beginning { case connected(CInt), underWay, failed(UpstreamFailure) }

    private func begin(_ address: SocketAddress) -> Beginning {
        let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let raw = DescriptorShortage.shared.open { socket(address.family, kind, 0) }
        guard raw >= 0 else { return .failed(.local(errno)) }
        if address.family != AF_UNIX {
            Socket.setNoDelay(raw)
            Socket.limitUnsent(raw)
        }
        if address.withPointer({ connect(raw, $0, $1) }) == 0 { return .connected(raw) }
        let code = errno
        guard code == EINPROGRESS else {
            close(raw)
            // A unix socket whose backlog is full says EAGAIN: it is there, but takes nobody now.
            return .failed(.refused(code))
        }
        do {
            let watch = try loop.watch(raw, for: [.write], by: self)
            attempts.append(Attempt(raw: raw, watch: watch, end: loop.now + settings.timeouts.connect))
            return .underWay
        } catch {
            close(raw)
            return .failed(.local(ENOMEM))
        }
    }

    package override func ready(_ readiness: Readiness, on watch: EventLoop.Watch) {
        guard let index = attempts.firstIndex(where: { $0.watch == watch }) else { return }
        let attempt = attempts.remove(at: index)
        loop.unwatch(attempt.watch)
        let code = Socket.pendingError(attempt.raw)
        if code == 0 { return finish(.success(ConnectedSocket(raw: attempt.raw))) }
        close(attempt.raw)
        failure = .refused(code)
        startNext()
    }

    package override func due(_ deadline: Deadline) {
        if loop.now >= end { return finish(.failure(.connectTimedOut)) }
        for attempt in attempts where attempt.end <= loop.now {
            loop.unwatch(attempt.watch)
            close(attempt.raw)
            failure = .connectTimedOut
        }
        attempts.removeAll { $0.end <= loop.now }
        if attempts.isEmpty || loop.now >= nextStart { startNext() } else { arm() }
    }

    private func arm() {
        loop.set(deadline, at: min(end, nextStart, attempts.map(\.end).min() ?? .never))
    }

    private func finish(_ result: Result<ConnectedSocket, UpstreamFailure>) {
        tearDown()
        let answer = self.answer
        self.answer = nil
        answer?(result)
    }

    private func tearDown() {
        loop.drop(deadline)
        for attempt in attempts {
            loop.unwatch(attempt.watch)
            close(attempt.raw)
        }
        attempts = []
    }
}
