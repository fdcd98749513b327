import LanyardFoundations

/// The client's side of one exchange: a connection, and the stream of it that the exchange has. 0: HTTP/1.1, where the exchange has the
/// whole connection.
///
/// What an exchange has decided the connection performs in its protocol: HTTP/1.1 ends a response that was cut off by closing. The
/// connection owns the exchange.
struct ClientSink {
    /// Not counted: nearly each step of a request uses it.
    private let connection: Unmanaged<ClientConnection>
    let stream: UInt32

    /// The connection, held: what is done with it may close it, and nothing else may hold it then.
    private var held: ClientConnection { connection.takeUnretainedValue() }

    init(_ connection: ClientConnection, stream: UInt32 = 0) {
        self.connection = .passUnretained(connection)
        self.stream = stream
    }

    // MARK: What is known of the client

    /// The client has sent its end, and no byte of it is left.
    var hasEnded: Bool { connection._withUnsafeGuaranteedRef { $0.stream.hasEnded } }
    /// The client's certificate has one of the listener's `client_names`, or the listener has none.
    var isNamedClient: Bool { connection._withUnsafeGuaranteedRef { $0.membership.isNamedClient } }
    /// The listener would not admit the client any more.
    var isAdmissionEnding: Bool { connection._withUnsafeGuaranteedRef { $0.membership.isAdmissionEnding } }
    var peerAddress: SocketAddress? { connection._withUnsafeGuaranteedRef { $0.stream.peerAddress } }
    /// The capability of each listener.
    var capabilities: [Secret?] { connection._withUnsafeGuaranteedRef { $0.clients.capabilities } }

    // MARK: Sending

    /// The client takes further bytes: none is queued for it.
    @inline(__always) var canTake: Bool { connection._withUnsafeGuaranteedRef { $0.stream.isFlushed } }
    /// Bytes that the client has not taken.
    @inline(__always) var queuedBytes: Int { connection._withUnsafeGuaranteedRef { $0.stream.queuedBytes } }

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

    /// The response is complete, and what was sent of it is all.
    ///
    /// - Parameter closes: the connection ends behind it.
    func end(closes: Bool) { held.endExchange(closes: closes) }

    /// The response ends before its end, or there is none: the client must be able to see that (http-forwarding.md 13.5).
    ///
    /// - Parameter looksComplete: an orderly close would make what was sent look whole.
    func reset(looksComplete: Bool) {
        let connection = held
        if looksComplete { connection.stream.resetOnClose() }
        connection.close()
    }

    // MARK: Progress of the client

    /// The client must take some bytes from now on.
    func restartProgress() { connection._withUnsafeGuaranteedRef { $0.stream.restartProgress() } }
    /// The client has taken some bytes since the last check.
    func hasProgress() -> Bool { connection._withUnsafeGuaranteedRef { $0.stream.checkProgress().isProgress } }
    /// The client has acknowledged nothing in the last checks.
    func hasStalled() -> Bool { connection._withUnsafeGuaranteedRef { $0.stream.hasStalled() } }
    /// Some bytes that were sent are not acknowledged.
    var awaitsAcknowledgement: Bool { connection._withUnsafeGuaranteedRef { $0.stream.awaitsAcknowledgement } }

    // MARK: Reading

    /// Reads from the client, as far as the exchange wants its bytes.
    func read() { held.pump() }
    /// The same, unless the read that has brought the head is in progress, which continues by itself.
    func readUnlessReading() {
        let connection = held
        if !connection.isParsing { connection.pump() }
    }
    /// No wait of the exchange for its client is set: the connection's is due.
    func handleConnectionDeadline() { held.handleWait() }

    // MARK: Upstream connections of this client alone (http-connections.md 16.9)

    var hasBoundUpstreams: Bool { connection._withUnsafeGuaranteedRef { !$0.bound.isEmpty } }

    /// The connection of this pool; nil: there is none that the user's next request may use.
    func takeBound(from pool: UpstreamPool, for user: UserIndex, _ account: AccountNumber) -> UpstreamLease? {
        held.bound.take(from: pool, for: user, account)
    }

    /// Keeps a connection whose exchange has ended.
    func keepBound(_ lease: consuming UpstreamLease) { held.bound.keep(lease) }

    // MARK: Tunnel

    func withStream<Result>(_ work: (inout ByteStream) -> Result) -> Result {
        connection._withUnsafeGuaranteedRef { work(&$0.stream) }
    }
}

/// The result of sending bytes to the client.
enum ClientSend {
    case sent
    /// The client is gone. The caller ends the exchange, or the connection.
    case failed
}
