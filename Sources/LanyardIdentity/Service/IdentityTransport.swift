import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// What every identity service that is called over HTTP owns: the loop of its calls, libcurl on it, and the watch of calls that are no
/// session's own.
///
/// Before the first call neither libcurl nor the network is used. It ends with its identity.
final class IdentityTransport: Sendable {
    let loop: EventLoop
    private let ownsLoop: Bool
    let http: CurlMulti
    /// The configured ones.
    private let limits: CurlLimits
    /// Of revocations and calls about accounts.
    let watch: CallWatch

    /// - Parameters:
    ///   - loop: of its calls. libcurl works on it, as fast as the service sends.
    ///   - ownsLoop: the loop is of this identity alone: `start` starts it, and it ends with the identity.
    ///   - limits: time limits; shorter ones are for tests.
    init(
        of identity: IdentitySettings, tls: IdentityTLSContents, on loop: EventLoop, ownsLoop: Bool,
        limits: CurlLimits, logger: Logger
    ) {
        self.loop = loop
        self.ownsLoop = ownsLoop
        self.limits = limits
        watch = CallWatch(of: identity.name, on: loop, logger: logger)
        http = CurlMulti(
            on: loop,
            trust: CurlTrust(
                tls: tls, proxy: identity.proxy,
                // Also if the service itself names another place, or a name leads elsewhere.
                restrictsPlainHTTPToLoopback: !identity.allowsPlain),
            limits: limits)
    }

    deinit {
        let (http, watch) = (http, watch)
        loop.post {
            http.stop()
            watch.stop()
        }
        if ownsLoop { loop.stop() }
    }

    /// The end of a call that begins now.
    var newDeadline: Instant { loop.now + http.limits.totalTimeout }
    /// Of a first step that the call can do without. Time for the call itself is left.
    var shortDeadline: Instant { loop.now + http.limits.totalTimeout / 3 }

    /// The end of a session's call that begins now. The time of its attempts holds for all calls of the identity from then on.
    func deadline(of progress: CallProgress) -> Instant {
        switch progress.limit {
        case .of(let timeout): http.limits.totalTimeout = timeout ?? limits.totalTimeout
        case .until(let instant): return min(instant, newDeadline)
        }
        return newDeadline
    }

    func start() {
        if ownsLoop { loop.start() }
    }

    func stop() {
        loop.post { [http] in http.stop() }
    }

    func replaceTLS(_ tls: IdentityTLSContents) {
        loop.post { [http] in http.replaceTLS(tls) }
    }

    /// Connects with the TLS and the proxy of all calls, and closes the connection. Sends no request.
    func connect(to url: String, reply: @escaping @Sendable (Result<IdentityConnection, CurlError>) -> Void) {
        loop.post { [self] in
            let request = CurlRequest(method: .get, url: url, onlyConnects: true, deadline: newDeadline)
            http.send(request) { result in
                reply(result.map { $0.connection ?? IdentityConnection(address: "", certificateEnd: nil) })
            }
        }
    }
}

/// An identity service with a transport. The life of its connections is the transport's.
protocol TransportedIdentity: IdentityClient {
    var transport: IdentityTransport { get }
}

extension TransportedIdentity {
    package var slowCalls: [CallProgress] { transport.watch.slowCalls }
    package var contact: ServiceContact { transport.http.contact }
    package func start() { transport.start() }
    package func stop() { transport.stop() }
    package func replaceTLS(_ tls: IdentityTLSContents) { transport.replaceTLS(tls) }
}
