import Glibc
import LanyardFoundations
import LanyardSettings

/// Connects to an upstream as the request path does, and closes the connection: for `lanyard check --online`. By ALPN it offers what a
/// request would.
///
/// Nothing is sent after the handshake, so no token leaves. Belongs to the queue of its loop.
package final class UpstreamProbe: Watcher, @unchecked Sendable {
    /// What was reached.
    package struct Connection: Equatable, Sendable {
        /// The address that the connection was made to.
        package let address: SocketAddress
        /// `TLSv1.2` or `TLSv1.3`; nil: without TLS.
        package let version: String?
        /// `h2` or `http/1.1`; nil: the upstream has chosen nothing by ALPN, or there is no TLS.
        package let agreedProtocol: String?
        /// When the upstream's certificate ends; nil: without TLS.
        package let certificateEnd: WallTime?
    }

    package typealias Reply = @Sendable (Result<Connection, UpstreamError>) -> Void

    /// For a server of TLS 1.3 to refuse a client certificate. One that accepts it sends session tickets at once, or says nothing.
    private static let verdictTimeout = Duration.seconds(1)
    /// Nothing is read but the handshake.
    private static let bufferBytesMax = 1 << 20

    private let target: UpstreamTarget
    private let loop: EventLoop
    private let resources: UpstreamPool.Resources
    private var reply: Reply?
    private var connector: Connector?
    private var connected: ConnectedStream?
    private lazy var deadline = Deadline(of: self)

    /// - Parameter reply: called once, on the loop's queue, at the latest after the time of a lookup, `timeouts.connectAll` and a second.
    package init(_ target: UpstreamTarget, on loop: EventLoop, reply: @escaping Reply) {
        self.target = target
        self.loop = loop
        self.reply = reply
        let buffers = BufferBudget(Self.bufferBytesMax)
        resources = UpstreamPool.Resources(
            buffers: buffers, tls: TLSWorkspace(buffersMax: 1), frames: FrameMemory(budget: buffers, on: loop),
            counters: HTTP2Counters(.upstream), responseLimits: .response,
            proxy: ShardProxy(target.proxyAuthorization))
        super.init()
    }

    /// Begins. From any thread.
    package func start() { loop.post { [self] in resolve() } }

    private func resolve() {
        let lookup = target.addresses(at: loop.now) { [self] result in loop.post { [self] in handleAddresses(result) } }
        switch lookup {
        case .known(let addresses): connect(addresses)
        case .pending(let waitMax): loop.set(deadline, at: loop.now + waitMax)
        }
    }

    private func handleAddresses(_ result: Result<[SocketAddress], UpstreamError>) {
        // The lookup may have been given up.
        guard reply != nil, connector == nil else { return }
        loop.drop(deadline)
        switch result {
        case .success(let addresses): connect(addresses)
        case .failure(let error): finish(.failure(error))
        }
    }

    private func connect(_ addresses: [SocketAddress]) {
        let deadlineAt = loop.now + target.settings.timeouts.connectAll
        let trust = target.trust.map { ShardTrust($0.context) }
        let connector = Connector(
            addresses, of: target, trust, resources, until: deadlineAt, isHTTP1: target.settings.httpVersion == .http1,
            loop: loop
        ) { [self] result in
            switch result {
            case .success(let connected): awaitVerdict(connected)
            case .failure(let error): finish(.failure(error))
            }
        }
        self.connector = connector
        connector.start()
    }

    private func awaitVerdict(_ connected: ConnectedStream) {
        self.connected = connected
        guard connected.stream.tlsSession?.awaitsVerdict == true else { return accept(connected) }
        do throws(SystemError) {
            try connected.watch(on: loop, by: self)
            loop.set(deadline, at: loop.now + Self.verdictTimeout)
        } catch {
            finish(.failure(.local(ENOMEM)))
        }
    }

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        loop.assertIsCurrent()
        guard let connected, !readiness.isDisjoint(with: [.read, .readHangUp, .hangUp, .error]) else { return }
        connected.stream.record(readiness)
        var byte: UInt8 = 0
        let received = withUnsafeMutableBytes(of: &byte) { connected.stream.receive(into: $0) }
        if let error = connected.stream.tlsFailure { return finish(.failure(.tls(error, at: connected.address))) }
        if case .end = received { return finish(.failure(.tls(.closedInHandshake, at: connected.address))) }
        accept(connected)
    }

    package override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        if let connected { accept(connected) } else { finish(.failure(.nameTimedOut)) }
    }

    private func accept(_ connected: ConnectedStream) {
        let session = connected.stream.tlsSession
        let selected = session.map { String(decoding: $0.selectedProtocol, as: UTF8.self) } ?? ""
        finish(
            .success(
                Connection(
                    address: connected.address, version: session?.version,
                    agreedProtocol: selected.isEmpty ? nil : selected, certificateEnd: session?.peerCertificateEnd)))
    }

    private func finish(_ result: Result<Connection, UpstreamError>) {
        loop.drop(deadline)
        connected?.stream.close(on: loop)
        (connector, connected) = (nil, nil)
        let reply = self.reply
        self.reply = nil
        reply?(result.mapError(target.reported))
    }
}
