import CLinux
import Glibc
import LanyardFoundations
import LanyardSettings

/// Establishes one connection: tries the addresses in order, IPv6 and IPv4 in turn, the next one after 250 ms or a failure (RFC 8305
/// §4 and §5). The first connection is used. With TLS it counts when its handshake is complete and the upstream is verified.
///
/// Belongs to the shard's queue. Completes exactly once, unless it is cancelled.
package final class Connector: Watcher, @unchecked Sendable {
    typealias Completion = (Result<ConnectedStream, UpstreamError>) -> Void

    private static let attemptDelay = Duration.milliseconds(250)

    private let loop: EventLoop
    private let settings: UpstreamSettings
    /// nil: without TLS.
    private let trust: ShardTrust?
    /// Counts what TLS has prevented.
    private let failures: UpstreamTrust?
    private let resources: UpstreamPool.Resources
    private var addresses: ArraySlice<SocketAddress>
    private var attempts: [ConnectedStream] = []
    private var completion: Completion?
    private var failure = UpstreamError.nameNotFound
    /// An address has failed.
    private var hasFailure = false
    private let overallDeadline: Instant
    /// HTTP/2 is not offered.
    private let isHTTP1: Bool
    private var nextAttemptAt = Instant.never
    private lazy var deadline = Deadline(of: self)

    /// - Parameters:
    ///   - trust: of the shard; nil: without TLS.
    ///   - resources: of the shard.
    ///   - overallDeadline: the end of `timeouts.connect_all`.
    ///   - isHTTP1: HTTP/2 is not offered.
    init(
        _ addresses: [SocketAddress], of target: UpstreamTarget, _ trust: ShardTrust?,
        _ resources: UpstreamPool.Resources, until overallDeadline: Instant, isHTTP1: Bool = true, loop: EventLoop,
        completion: @escaping Completion
    ) {
        settings = target.settings
        self.trust = trust
        failures = target.trust
        self.resources = resources
        let settings = target.settings
        let obstacle = target.obstacle(with: resources.proxy.authorization)
        let allowed = obstacle == nil ? addresses.filter { settings.prohibition(of: $0) == nil } : []
        self.addresses = Self.alternating(allowed)[...]
        if self.addresses.isEmpty, let first = addresses.first { failure = settings.prohibition(of: first) ?? failure }
        // The interface of a link-local address does not exist, so that there is no address to connect to.
        if addresses.isEmpty, settings.zone != nil { failure = .refused(ENODEV) }
        if let obstacle { failure = obstacle }
        self.loop = loop
        self.completion = completion
        self.overallDeadline = overallDeadline
        self.isHTTP1 = isHTTP1
        super.init()
    }

    /// The two families in turn, each in its given order. The first address stays the first one. Otherwise several addresses of one
    /// family that do not respond would delay the other family by 250 ms each.
    static func alternating(_ addresses: [SocketAddress]) -> [SocketAddress] {
        guard addresses.count > 2, let family = addresses.first?.family else { return addresses }
        var others = addresses.filter { $0.family != family }[...]
        var result: [SocketAddress] = []
        for address in addresses where address.family == family {
            result.append(address)
            if let other = others.popFirst() { result.append(other) }
        }
        return result + others
    }

    /// May complete before it returns.
    func start() {
        loop.assertIsCurrent()
        startNextAttempt()
    }

    func cancel() {
        loop.assertIsCurrent()
        completion = nil
        closeAttempts()
    }

    /// What TLS offers by ALPN.
    private var offer: TLSClientContext.Offer {
        if isHTTP1 { return .http1 }
        return settings.httpVersion == .http2 ? .http2 : .either
    }

    private func startNextAttempt() {
        nextAttemptAt = .never
        while completion != nil, let address = addresses.popFirst() {
            switch startAttempt(address) {
            case .connected(let attempt): return finish(.success(attempt))
            case .connecting:
                if !addresses.isEmpty { nextAttemptAt = loop.now + Self.attemptDelay }
                return armDeadline()
            case .failed(let failure): note(failure)
            }
        }
        if attempts.isEmpty { finish(.failure(failure)) } else { armDeadline() }
    }

    /// A failure of TLS, or a proxy's refusal, says more than that of another address, which may not even respond. That of an address for
    /// which the machine has no address of its own says least.
    private func note(_ failure: UpstreamError) {
        if self.failure.isOfPeer { return }
        if hasFailure, failure.isMissingFamily { return }
        hasFailure = true
        self.failure = failure
    }

    private enum AttemptStart { case connected(ConnectedStream), connecting, failed(UpstreamError) }

    private func startAttempt(_ address: SocketAddress) -> AttemptStart {
        let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let raw = DescriptorShortage.shared.open { socket(address.family, kind, 0) }
        guard raw >= 0 else {
            return .failed(errno == EAFNOSUPPORT ? .refused(errno, at: address) : .local(errno))
        }
        let attempt = ConnectedStream(
            taking: OwnedDescriptor(taking: raw), to: address,
            through: trust == nil ? nil : settings.tunnel(with: resources.proxy.authorization),
            budget: resources.buffers, deadlineAt: loop.now + settings.timeouts.connect)
        if address.family != AF_UNIX {
            Socket.setNoDelay(raw)
            Socket.limitUnsent(raw)
            resources.keepAlive.apply(to: raw)
        }
        if address.withPointer({ connect(raw, $0, $1) }) == 0 {
            attempt.isConnected = true
            if trust == nil { return .connected(attempt) }
        } else if errno != EINPROGRESS {
            // A unix socket with a full backlog returns EAGAIN: the server exists but accepts no connection now.
            return .failed(.refused(errno, at: address))
        }
        do {
            try attempt.stream.watch(on: loop, by: self)
        } catch {
            return .failed(.local(ENOMEM))
        }
        attempts.append(attempt)
        // The first report of epoll begins the handshake.
        return .connecting
    }

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        loop.assertIsCurrent()
        guard let attempt = attempts.first(where: { $0.stream.isWatched(as: watch) }) else { return }
        attempt.stream.record(readiness)
        if !attempt.isConnected {
            let code = attempt.stream.pendingError
            guard code == 0 else { return fail(attempt, .refused(code, at: attempt.address)) }
            attempt.isConnected = true
            // Another address is tried if this one fails.
            nextAttemptAt = .never
        }
        switch attempt.continueTunnel() {
        case .open: break
        case .incomplete: return armDeadline()
        case .failed(let error): return fail(attempt, .proxy(error, at: attempt.address))
        }
        do throws(TLSError) {
            if let trust, !attempt.stream.isSecured {
                attempt.trustEpoch = trust.epoch
                try attempt.stream.secure(to: trust.context, workspace: resources.tls, offering: offer)
                // Something may stand behind the response of a proxy, of which nothing is reported again.
                if settings.proxy != nil { attempt.stream.expectInput() }
            }
        } catch {
            return fail(attempt, .tls(error, at: attempt.address))
        }
        switch attempt.stream.continueHandshake() {
        case .done:
            attempts.removeAll { $0 === attempt }
            finish(.success(attempt))
        case .wouldBlock: armDeadline()
        case .failed(let error):
            let certificate = attempt.stream.tlsSession?.refusedCertificate
            fail(attempt, .tls(error, at: attempt.address, certificate: certificate))
        }
    }

    private func fail(_ attempt: ConnectedStream, _ failure: UpstreamError) {
        attempts.removeAll { $0 === attempt }
        attempt.stream.close(on: loop)
        note(failure)
        startNextAttempt()
    }

    package override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        let now = loop.now
        for attempt in attempts where attempt.deadlineAt <= now || overallDeadline <= now {
            attempt.stream.close(on: loop)
            note(attempt.timeout)
        }
        attempts.removeAll { $0.deadlineAt <= now || overallDeadline <= now }
        if now >= overallDeadline { return finish(.failure(failure)) }
        if attempts.isEmpty || now >= nextAttemptAt { startNextAttempt() } else { armDeadline() }
    }

    private func armDeadline() {
        loop.set(deadline, at: min(overallDeadline, nextAttemptAt, attempts.map(\.deadlineAt).min() ?? .never))
    }

    private func finish(_ result: Result<ConnectedStream, UpstreamError>) {
        closeAttempts()
        switch result {
        case .failure(.tls(let error, _, let certificate)): failures?.record(error, certificate)
        case .success(let connected):
            failures?.recordPeerCertificate(endingAt: connected.stream.tlsSession?.peerCertificateEnd)
        case .failure: break
        }
        let completion = self.completion
        self.completion = nil
        completion?(result)
    }

    private func closeAttempts() {
        loop.drop(deadline)
        for attempt in attempts { attempt.stream.close(on: loop) }
        attempts = []
    }
}
