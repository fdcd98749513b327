import LanyardFoundations

/// The client's side of one exchange: a connection, and the stream of it that the exchange has. Without one: HTTP/1.1, where the exchange
/// has the whole connection.
///
/// What an exchange has decided the connection performs in its protocol: HTTP/1.1 ends a response that was cut off by closing. The
/// connection owns the exchange.
struct ClientSink {
    /// Not counted: nearly each step of a request uses it.
    private let connection: Unmanaged<ClientConnection>
    /// nil: HTTP/1.1.
    private let stream: Unmanaged<ClientStream>?

    /// The connection, held: what is done with it may close it, and nothing else may hold it then.
    private var held: ClientConnection { connection.takeUnretainedValue() }

    init(_ connection: ClientConnection, stream: ClientStream? = nil) {
        self.connection = .passUnretained(connection)
        self.stream = stream.map { .passUnretained($0) }
    }

    /// The client speaks HTTP/2: heads are lists of fields.
    @inline(__always) var isStream: Bool { stream != nil }
    private var heldStream: ClientStream? { stream?.takeUnretainedValue() }

    // MARK: What is known of the client

    /// The client has sent its end, and no byte of it is left.
    var hasEnded: Bool { !isStream && connection._withUnsafeGuaranteedRef { $0.stream.hasEnded } }
    /// The client's certificate has one of the listener's `client_names`, or the listener has none.
    var isNamedClient: Bool { connection._withUnsafeGuaranteedRef { $0.membership.isNamedClient } }
    /// The listener would not admit the client any more.
    var isAdmissionEnding: Bool { connection._withUnsafeGuaranteedRef { $0.membership.isAdmissionEnding } }
    var peerAddress: SocketAddress? { connection._withUnsafeGuaranteedRef { $0.stream.peerAddress } }
    /// The capability of each listener.
    var capabilities: [Secret?] { connection._withUnsafeGuaranteedRef { $0.clients.capabilities } }

    /// Calls `work` with what a broker may know of the client.
    func withGrantClient<Result>(_ work: (GrantClient) -> Result) -> Result {
        connection._withUnsafeGuaranteedRef { connection in
            let uid = connection.stream.peerUID
            return connection.stream.withPeerCertificate { certificate in
                work(
                    GrantClient(
                        uid: uid, certificate: certificate,
                        capabilities: connection.clients.capabilities))
            }
        }
    }

    // MARK: Sending

    /// The client takes further bytes: none is queued for it.
    @inline(__always) var canTake: Bool {
        if let stream { return stream._withUnsafeGuaranteedRef { $0.canTake } }
        return connection._withUnsafeGuaranteedRef { $0.stream.isFlushed }
    }
    /// Bytes that the client has not taken.
    @inline(__always) var queuedBytes: Int {
        if let stream { return stream._withUnsafeGuaranteedRef { $0.queuedBytes } }
        return connection._withUnsafeGuaranteedRef { $0.stream.queuedBytes }
    }

    /// Sends `head`, `body` and `tail`, or queues them.
    ///
    /// - Parameter isLast: the connection ends behind them.
    @inline(__always)
    func send(
        _ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        _ tail: StaticString = "", isLast: Bool = false
    ) -> ClientSend {
        connection._withUnsafeGuaranteedRef { $0.stream.send(head, body, tail, isLast: isLast) == 0 ? .sent : .failed }
    }

    /// The same on a stream: the head that was written, if there is one, and body bytes.
    ///
    /// - Parameter ends: the response ends with them.
    func send(_ fields: inout HTTP2FieldWriter, _ body: UnsafeRawBufferPointer, ends: Bool) -> ClientSend {
        heldStream?.send(&fields, body, ends: ends) ?? .failed
    }

    /// To write the trailers of a stream's response into.
    func makeTrailers() -> StreamTrailers { heldStream?.makeTrailers() ?? StreamTrailers() }

    /// Sends the last body bytes on a stream, and trailers.
    func send(
        _ fields: inout HTTP2FieldWriter, _ body: UnsafeRawBufferPointer, behind trailers: StreamTrailers
    ) -> ClientSend { heldStream?.send(&fields, body, behind: trailers) ?? .failed }

    /// Sends an interim response on a stream.
    func sendInterim(_ fields: inout HTTP2FieldWriter) -> ClientSend { heldStream?.sendInterim(&fields) ?? .failed }

    /// The response is complete, and what was sent of it is all.
    ///
    /// - Parameter closes: the connection of HTTP/1.1 ends behind it.
    func end(closes: Bool) { if let heldStream { heldStream.end() } else { held.endExchange(closes: closes) } }

    /// The response ends before its end, or there is none: the client must be able to see that (http-forwarding.md 13.5).
    ///
    /// - Parameter looksComplete: an orderly close would make what was sent look whole.
    func reset(looksComplete: Bool) {
        if let heldStream { return heldStream.reset(.internalError) }
        let connection = held
        if looksComplete { connection.stream.resetOnClose() }
        connection.close()
    }

    // MARK: Progress of the client

    /// The client must take some bytes from now on.
    func restartProgress() {
        if let heldStream { return heldStream.restartProgress() }
        connection._withUnsafeGuaranteedRef { $0.stream.restartProgress() }
    }
    /// The client has taken some bytes since the last check; on a stream, as many as one must take in that time.
    func hasProgress() -> Bool {
        if let heldStream { return heldStream.keepsPace() }
        return connection._withUnsafeGuaranteedRef { $0.stream.checkProgress().isProgress }
    }
    /// The client has acknowledged nothing in the last checks.
    func hasStalled() -> Bool { !isStream && connection._withUnsafeGuaranteedRef { $0.stream.hasStalled() } }
    /// Some bytes that were sent are not acknowledged.
    var awaitsAcknowledgement: Bool {
        !isStream && connection._withUnsafeGuaranteedRef { $0.stream.awaitsAcknowledgement }
    }

    // MARK: Reading

    /// Reads from the client, as far as the exchange wants its bytes.
    func read() { if let heldStream { heldStream.deliver() } else { held.pump() } }
    /// The same, unless the read that has brought the head is in progress, which continues by itself.
    func readUnlessReading() {
        if let heldStream { return heldStream.deliver() }
        let connection = held
        if !connection.isParsing { connection.pump() }
    }
    /// No wait of the exchange for its client is set: the connection's is due.
    func handleConnectionDeadline() { if let heldStream { heldStream.handleDeadline() } else { held.handleWait() } }

    // MARK: Upstream connections of this client alone (http-connections.md 16.9)

    var hasBoundUpstreams: Bool { !isStream && connection._withUnsafeGuaranteedRef { !$0.bound.isEmpty } }

    /// The connection of this pool; nil: there is none that the user's next request may use.
    func takeBound(
        from pool: UpstreamPool, on route: Route, for user: UserIndex, _ account: AccountNumber
    ) -> UpstreamLease? {
        held.bound.take(from: pool, on: route, for: user, account)
    }

    /// Keeps a connection whose exchange has ended. Of a client of HTTP/2 it closes: its streams may be those of several users.
    func keepBound(_ lease: consuming UpstreamLease) { if !isStream { held.bound.keep(lease) } }

    // MARK: Tunnel

    func withStream<Result>(_ work: (inout ByteStream) -> Result) -> Result {
        connection._withUnsafeGuaranteedRef { work(&$0.stream) }
    }
    /// nil: the tunnel has the whole connection.
    var tunnelStream: ClientStream? { heldStream }

    /// The tunnel has ended.
    ///
    /// - Parameter resets: an orderly close would state that all bytes have come.
    func endTunnel(_ end: Tunnel.End, resets: Bool) {
        if let heldStream { heldStream.endTunnel(end, resets: resets) } else { reset(looksComplete: resets) }
    }
}

/// The result of sending bytes to the client.
enum ClientSend {
    case sent
    /// The client is gone. The caller ends the exchange, or the connection.
    case failed
}
