/// The limits of one lingering close: how long a connection that sends nothing more reads and discards input. Does no I/O.
///
/// A close with unread input resets the connection, and a reset can destroy the response before the client has read it (RFC 9112 §9.6).
/// The connection first ends writing (`Socket.endWriting`).
package struct LingeringClose: Sendable {
    private let endsAt: Instant
    private let idleTimeout: Duration
    private var bytesLeft: Int

    /// - Parameters:
    ///   - timeout: from now to the close.
    ///   - idleTimeout: without a byte; nil: `timeout` alone counts.
    ///   - bytesMax: discarded bytes.
    package init(at now: Instant, timeout: Duration, idleTimeout: Duration? = nil, bytesMax: Int = .max) {
        endsAt = now + timeout
        self.idleTimeout = idleTimeout ?? timeout
        bytesLeft = bytesMax
    }

    /// When the connection closes if no byte arrives after `now`.
    package func deadline(at now: Instant) -> Instant { min(now + idleTimeout, endsAt) }

    /// Counts discarded bytes. Returns the next deadline; nil: they are too many, and the connection closes now.
    package mutating func recordDiscarded(_ count: Int, at now: Instant) -> Instant? {
        bytesLeft -= count
        return bytesLeft < 0 ? nil : deadline(at: now)
    }
}
