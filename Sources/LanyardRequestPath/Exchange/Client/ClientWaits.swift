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

/// What a connection waits for from its client, or from the upstream that takes the request. It is set with its deadline.
enum InboundWait: Equatable {
    case none
    /// The client completes its TLS handshake.
    case handshake
    /// The rest of a request head comes.
    case head
    /// The first byte of a request comes.
    case idle
    /// The client takes the end of the last response, which the kernel still holds.
    case kernelFlush
    /// A step of the upload comes.
    case upload(UploadWait)
    /// The rest of the request's body comes while a response is held.
    case heldBody
    /// The body of a refused request comes.
    case refusedBody
    /// What the tunnel waits for.
    case tunnel
    /// The client ends its direction in a lingering close.
    case linger
}

/// Which token a parked request waits for. A wait of its own, because the client may take interim responses at the same
/// time.
enum TokenWait: Equatable {
    /// The one that it is sent with.
    case first
    /// Another one, while a response that refused the first one is held.
    case other
}

/// What a connection waits for until its client has the response. It is set with its deadline.
enum OutboundWait: Equatable {
    case none
    /// The upstream sends the head of the final response.
    case responseHead
    /// The upstream sends the next byte of the response until an instant, and the client acknowledges some bytes.
    case responseBody(until: Instant)
    /// The client takes some queued bytes.
    case clientWrite
}

/// The wait whose deadline is due.
enum DueWait {
    case inbound(InboundWait)
    case outbound(OutboundWait)
    /// nil: the wait has ended before.
    case token(TokenWait?)
    /// The client, which has ended its direction, is examined.
    case examination
}

/// The deadlines of one client's connection, and what each is for. The connection acts when one is due.
struct ClientWaits: ~Copyable {
    private enum Purpose: UInt8, DeadlinePurpose { case inbound, outbound, token, examination }

    /// What is known of the end of the client's direction.
    private enum End {
        case unknown
        case known
        /// The client is examined by then: its process may be gone.
        case examined(Deadline)
    }

    // Counted by hand: stored references would be counted each time that a deadline is set, since that might replace them.

    /// For `inbound`.
    private let inboundDeadline = Unmanaged.passRetained(Deadline(for: Purpose.inbound.rawValue))
    /// For `outbound`.
    private let outboundDeadline = Unmanaged.passRetained(Deadline(for: Purpose.outbound.rawValue))
    private(set) var inbound = InboundWait.none
    private(set) var outbound = OutboundWait.none
    /// When the client must have acknowledged some of the response's bytes; `.never`: no byte was sent since the last
    /// check.
    private(set) var stallCheckAt = Instant.never
    /// nil: the request is not parked. Most requests never are, so a deadline is made for one that is.
    private var token: (wait: TokenWait, deadline: Deadline)?
    private var end = End.unknown
    /// Limits of what is left to do behind a response.
    var closing = ClosingLimits()

    deinit {
        inboundDeadline.release()
        outboundDeadline.release()
    }

    /// Before the first wait.
    func setOwner(_ owner: Watcher) {
        inboundDeadline.takeUnretainedValue().owner = owner
        outboundDeadline.takeUnretainedValue().owner = owner
    }

    /// The wait of a deadline that is due. It has ended, unless it is the examination.
    mutating func take(_ deadline: Deadline, on loop: EventLoop) -> DueWait {
        switch Purpose(of: deadline) {
        case .inbound:
            defer { inbound = .none }
            return .inbound(inbound)
        case .outbound:
            defer { outbound = .none }
            return .outbound(outbound)
        case .token:
            defer { endToken(on: loop) }
            return .token(token?.wait)
        case .examination: return .examination
        }
    }

    mutating func begin(_ wait: InboundWait, until instant: Instant, on loop: EventLoop) {
        inbound = wait
        inboundDeadline._withUnsafeGuaranteedRef { loop.set($0, at: instant) }
    }

    /// The next wait has the deadline of the one before.
    mutating func follow(with wait: InboundWait) { inbound = wait }

    mutating func begin(_ wait: OutboundWait, until instant: Instant, on loop: EventLoop) {
        outbound = wait
        outboundDeadline._withUnsafeGuaranteedRef { loop.set($0, at: instant) }
    }

    mutating func endInbound(on loop: EventLoop) { begin(InboundWait.none, until: .never, on: loop) }
    mutating func endOutbound(on loop: EventLoop) { begin(OutboundWait.none, until: .never, on: loop) }

    // MARK: A token

    /// - Parameter owner: is told at `instant`.
    mutating func begin(_ wait: TokenWait, until instant: Instant, owner: Watcher, on loop: EventLoop) {
        let deadline = token?.deadline ?? Deadline(of: owner, for: Purpose.token.rawValue)
        token = (wait, deadline)
        loop.set(deadline, at: instant)
    }

    mutating func endToken(on loop: EventLoop) {
        if let deadline = token?.deadline { loop.drop(deadline) }
        token = nil
    }

    // MARK: The response's body

    /// All bytes of the response so far are with the kernel: the upstream's next byte is due until `idleAt`, and the
    /// client's acknowledgement within `stallInterval`.
    mutating func beginResponseBody(idleAt: Instant, stallInterval: Duration, on loop: EventLoop) {
        if stallCheckAt == .never { stallCheckAt = loop.now + stallInterval }
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

    // MARK: The end of the client's direction

    /// The client has ended its direction, and that is known.
    var isEndKnown: Bool {
        switch end {
        case .unknown: false
        case .known, .examined: true
        }
    }

    /// - Parameters:
    ///   - owner: is examined at `instant`; nil: is not.
    mutating func noteEnd(examining owner: Watcher?, at instant: Instant, on loop: EventLoop) {
        guard let owner else { return end = .known }
        let deadline = Deadline(of: owner, for: Purpose.examination.rawValue)
        end = .examined(deadline)
        loop.set(deadline, at: instant)
    }

    /// The client is examined again.
    func examineAgain(at instant: Instant, on loop: EventLoop) {
        if case .examined(let deadline) = end { loop.set(deadline, at: instant) }
    }

    /// Before the connection is released.
    mutating func drop(on loop: EventLoop) {
        endToken(on: loop)
        loop.drop(inboundDeadline.takeUnretainedValue())
        loop.drop(outboundDeadline.takeUnretainedValue())
        if case .examined(let deadline) = end { loop.drop(deadline) }
    }
}
