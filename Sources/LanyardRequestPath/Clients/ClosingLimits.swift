import LanyardFoundations

/// Limits of what is left to do behind a response: the kernel sends its end, the connection lingers. Does no I/O.
struct ClosingLimits {
    private static let lingerTimeout = Duration.seconds(10)
    private static let lingerIdleTimeout = Duration.seconds(2)

    /// Between two requests: when the client must have taken some bytes of the kernel's buffer.
    private(set) var kernelFlushDeadline = Instant.never
    /// When the connection closes whatever its client still sends.
    private var lingerEndsAt = Instant.never

    /// The kernel holds the end of a response, and the client has taken some bytes of it by now.
    mutating func awaitKernelFlush(until instant: Instant) { kernelFlushDeadline = instant }

    /// Begins the lingering close (http-connections.md 9.8).
    ///
    /// - Returns: its deadline.
    mutating func beginLinger(at now: Instant) -> Instant {
        lingerEndsAt = now + Self.lingerTimeout
        return lingerDeadline(at: now)
    }

    /// When the connection closes if no byte arrives after `now`.
    func lingerDeadline(at now: Instant) -> Instant { min(now + Self.lingerIdleTimeout, lingerEndsAt) }
}
