import CLinux
import Glibc
import LanyardFoundations
import LanyardSettings

/// A connected socket on its way to the connection that will own it.
struct ConnectedSocket {
    fileprivate let raw: CInt

    /// The caller becomes the owner and closes it.
    func release() -> OwnedDescriptor { OwnedDescriptor(taking: raw) }
}

/// Establishes one connection: tries the addresses in order, the next one after 250 ms or a failure (RFC 8305). The
/// first connection is used.
///
/// Belongs to the shard's queue. Completes exactly once, unless it is cancelled.
package final class Connector: Watcher, @unchecked Sendable {
    typealias Completion = (Result<ConnectedSocket, UpstreamError>) -> Void

    private struct Attempt {
        let raw: CInt
        let address: SocketAddress
        let watch: EventLoop.Watch
        let deadlineAt: Instant
    }

    private static let attemptDelay = Duration.milliseconds(250)

    private let loop: EventLoop
    private let settings: UpstreamSettings
    private var addresses: ArraySlice<SocketAddress>
    private var attempts: [Attempt] = []
    private var completion: Completion?
    private var failure = UpstreamError.nameNotFound
    private let overallDeadline: Instant
    private var nextAttemptAt = Instant.never
    private lazy var deadline = Deadline(of: self)

    init(_ addresses: [SocketAddress], _ settings: UpstreamSettings, loop: EventLoop, completion: @escaping Completion)
    {
        self.addresses = addresses.filter { settings.prohibition(of: $0) == nil }[...]
        if self.addresses.isEmpty, let first = addresses.first { failure = settings.prohibition(of: first) ?? failure }
        self.settings = settings
        self.loop = loop
        self.completion = completion
        overallDeadline = loop.now + settings.timeouts.connectAll
        super.init()
    }

    /// May complete before it returns.
    func start() { startNextAttempt() }

    func cancel() {
        completion = nil
        closeAttempts()
    }

    private func startNextAttempt() {
        nextAttemptAt = .never
        while completion != nil, let address = addresses.popFirst() {
            switch startAttempt(address) {
            case .connected(let raw): return finish(.success(ConnectedSocket(raw: raw)))
            case .underWay:
                if !addresses.isEmpty { nextAttemptAt = loop.now + Self.attemptDelay }
                return armDeadline()
            case .failed(let failure): self.failure = failure
            }
        }
        if attempts.isEmpty { finish(.failure(failure)) } else { armDeadline() }
    }

    private enum AttemptStart { case connected(CInt), underWay, failed(UpstreamError) }

    private func startAttempt(_ address: SocketAddress) -> AttemptStart {
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
            // A unix socket with a full backlog returns EAGAIN: the server exists but accepts no connection now.
            return .failed(.refused(code, at: address))
        }
        do {
            let watch = try loop.watch(raw, for: [.write], by: self)
            attempts.append(
                Attempt(
                    raw: raw, address: address, watch: watch, deadlineAt: loop.now + settings.timeouts.connect))
            return .underWay
        } catch {
            close(raw)
            return .failed(.local(ENOMEM))
        }
    }

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        guard let index = attempts.firstIndex(where: { $0.watch == watch }) else { return }
        let attempt = attempts.remove(at: index)
        loop.unwatch(attempt.watch)
        let code = Socket.pendingError(attempt.raw)
        if code == 0 { return finish(.success(ConnectedSocket(raw: attempt.raw))) }
        close(attempt.raw)
        failure = .refused(code, at: attempt.address)
        startNextAttempt()
    }

    package override func due(_ deadline: Deadline) {
        if loop.now >= overallDeadline { return finish(.failure(.connectTimedOut(at: attempts.last?.address))) }
        for attempt in attempts where attempt.deadlineAt <= loop.now {
            loop.unwatch(attempt.watch)
            close(attempt.raw)
            failure = .connectTimedOut(at: attempt.address)
        }
        attempts.removeAll { $0.deadlineAt <= loop.now }
        if attempts.isEmpty || loop.now >= nextAttemptAt { startNextAttempt() } else { armDeadline() }
    }

    private func armDeadline() {
        loop.set(deadline, at: min(overallDeadline, nextAttemptAt, attempts.map(\.deadlineAt).min() ?? .never))
    }

    private func finish(_ result: Result<ConnectedSocket, UpstreamError>) {
        closeAttempts()
        let completion = self.completion
        self.completion = nil
        completion?(result)
    }

    private func closeAttempts() {
        loop.drop(deadline)
        for attempt in attempts {
            loop.unwatch(attempt.watch)
            close(attempt.raw)
        }
        attempts = []
    }
}
