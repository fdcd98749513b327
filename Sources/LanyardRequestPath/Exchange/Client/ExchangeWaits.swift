import LanyardFoundations

/// What the upload of a request waits for. Each has a time-out of its own.
enum UploadWait: Equatable {
    /// The next byte of the request's body comes.
    case body
    /// The upstream takes some of the request's queued bytes.
    case upstreamWrite
    /// The upstream responds to `Expect: 100-continue`. Otherwise Lanyard does.
    case continue100
}

/// What an exchange waits for from its client, or from the upstream that takes the request. It is set with its deadline.
enum InboundWait: Equatable {
    /// The exchange waits for nothing, or its connection waits.
    case none
    /// A step of the upload comes.
    case upload(UploadWait)
    /// The rest of the request's body comes while a response is held.
    case heldBody
    /// The body of a refused request comes.
    case refusedBody
    /// What the tunnel waits for.
    case tunnel
}

/// Which token a parked request waits for. A wait of its own, because the client may take interim responses at the same
/// time.
enum TokenWait: Equatable {
    /// The one that it is sent with.
    case first
    /// Another one, while a response that refused the first one is held.
    case other
    /// None: a call of gRPC waits for a connection, for its `grpc-timeout` at most.
    case connection
}

/// What an exchange waits for until its client has the response. It is set with its deadline.
enum OutboundWait: Equatable {
    case none
    /// The upstream sends the head of the final response.
    case responseHead
    /// The upstream sends the next byte of the response until an instant, and the client acknowledges some bytes.
    case responseBody(until: Instant)
    /// The client takes some queued bytes.
    case clientWrite
}

/// The deadlines of one exchange, and what each is for. The exchange acts when one is due.
struct ExchangeWaits: ~Copyable {
    private enum Purpose: UInt8, DeadlinePurpose { case inbound, outbound, token }

    /// The wait whose deadline is due.
    enum Due {
        case inbound(InboundWait)
        case outbound(OutboundWait)
        /// nil: the wait has ended before.
        case token(TokenWait?)
    }

    /// The write timeout of a client without a route's.
    static let standardWriteTimeout = Duration.seconds(60)

    // Counted by hand: stored references would be counted each time that a deadline is set, since that might replace them.

    /// For `inbound`. While that is `none`, an HTTP/1.1 connection waits by it: one of the two waits at a time.
    private let inboundDeadline = Unmanaged.passRetained(Deadline(for: Purpose.inbound.rawValue))
    /// For `outbound`.
    private let outboundDeadline = Unmanaged.passRetained(Deadline(for: Purpose.outbound.rawValue))
    private(set) var inbound = InboundWait.none
    private(set) var outbound = OutboundWait.none
    /// When the client must have acknowledged some of the response's bytes; `.never`: no byte was sent since the last
    /// check.
    private(set) var stallCheckAt = Instant.never
    /// nil: the request is not parked. Most requests never are, so a deadline is made for one that is.
    private var tokenWait: (wait: TokenWait, deadline: Deadline)?
    /// How long the client may take no byte. Behind the exchange: the end of a response keeps the timeout of its route.
    var writeTimeout = ExchangeWaits.standardWriteTimeout
    /// Reading from the client or the upstream is paused until memory is free.
    var isPaused = false

    deinit {
        inboundDeadline.release()
        outboundDeadline.release()
    }

    /// Before the first wait.
    func setOwner(_ owner: Watcher) {
        inboundDeadline.takeUnretainedValue().owner = owner
        outboundDeadline.takeUnretainedValue().owner = owner
    }

    /// The wait of a deadline that is due. It has ended.
    mutating func take(_ deadline: Deadline, on loop: EventLoop) -> Due {
        switch Purpose(of: deadline) {
        case .inbound:
            defer { inbound = .none }
            return .inbound(inbound)
        case .outbound:
            defer { outbound = .none }
            return .outbound(outbound)
        case .token:
            defer { endToken(on: loop) }
            return .token(tokenWait?.wait)
        }
    }

    mutating func begin(_ wait: InboundWait, until instant: Instant, on loop: EventLoop) {
        inbound = wait
        inboundDeadline._withUnsafeGuaranteedRef { loop.set($0, at: instant) }
    }

    mutating func begin(_ wait: OutboundWait, until instant: Instant, on loop: EventLoop) {
        outbound = wait
        outboundDeadline._withUnsafeGuaranteedRef { loop.set($0, at: instant) }
    }

    mutating func endInbound(on loop: EventLoop) { begin(InboundWait.none, until: .never, on: loop) }
    mutating func endOutbound(on loop: EventLoop) { begin(OutboundWait.none, until: .never, on: loop) }

    // MARK: A token

    var token: TokenWait? { tokenWait?.wait }

    /// - Parameter owner: is told at `instant`.
    mutating func begin(_ wait: TokenWait, until instant: Instant, owner: Watcher, on loop: EventLoop) {
        let deadline = tokenWait?.deadline ?? Deadline(of: owner, for: Purpose.token.rawValue)
        tokenWait = (wait, deadline)
        loop.set(deadline, at: instant)
    }

    mutating func endToken(on loop: EventLoop) {
        if let deadline = tokenWait?.deadline { loop.drop(deadline) }
        tokenWait = nil
    }

    // MARK: The response's body

    /// All bytes of the response so far are with the kernel: the upstream's next byte is due until `idleAt`, and the
    /// client's acknowledgement within half of the write timeout.
    mutating func beginResponseBody(idleAt: Instant, on loop: EventLoop) {
        if stallCheckAt == .never { stallCheckAt = loop.now + writeTimeout / 2 }
        begin(.responseBody(until: idleAt), until: min(idleAt, stallCheckAt), on: loop)
    }

    /// The client's acknowledgements were checked.
    ///
    /// - Parameter stallAt: of the next check; `.never`: none is needed.
    mutating func continueResponseBody(idleAt: Instant, stallAt: Instant, on loop: EventLoop) {
        stallCheckAt = stallAt
        begin(.responseBody(until: idleAt), until: min(idleAt, stallAt), on: loop)
    }

    /// The next byte belongs to another response.
    mutating func endResponse() { stallCheckAt = .never }

    /// For another client, behind `drop`.
    mutating func beginAnew() {
        (inbound, outbound) = (.none, .none)
        stallCheckAt = .never
        writeTimeout = Self.standardWriteTimeout
        isPaused = false
    }

    /// Before the exchange is released, or kept for another connection.
    mutating func drop(on loop: EventLoop) {
        endToken(on: loop)
        loop.drop(inboundDeadline.takeUnretainedValue())
        loop.drop(outboundDeadline.takeUnretainedValue())
    }
}
