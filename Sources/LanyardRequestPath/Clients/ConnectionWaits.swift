import LanyardFoundations

/// What a connection waits for from its client while no exchange does.
enum ConnectionWait: Equatable {
    case none
    /// The client completes its TLS handshake.
    case handshake
    /// The rest of a request head comes.
    case head
    /// The first byte of a request comes.
    case idle
    /// The client takes some queued bytes of the last response.
    case clientWrite
    /// The client takes the end of the last response, which the kernel still holds.
    case kernelFlush
    /// The client ends its direction in a lingering close.
    case linger
}

/// What one client's connection waits for. The deadline is its exchange's, which needs none as long.
struct ConnectionWaits: ~Copyable {
    /// What is known of the end of the client's direction.
    private enum End {
        case unknown
        case known
        /// The client is examined by then: its process may be gone.
        case examined(Deadline)
    }

    var wait = ConnectionWait.none
    private var end = End.unknown
    /// Limits of what is left to do behind a response.
    var closing = ClosingLimits()

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
        let deadline = Deadline(of: owner)
        end = .examined(deadline)
        loop.set(deadline, at: instant)
    }

    /// The client is examined again.
    func examineAgain(at instant: Instant, on loop: EventLoop) {
        if case .examined(let deadline) = end { loop.set(deadline, at: instant) }
    }

    /// Before the connection is released.
    func drop(on loop: EventLoop) {
        if case .examined(let deadline) = end { loop.drop(deadline) }
    }
}
