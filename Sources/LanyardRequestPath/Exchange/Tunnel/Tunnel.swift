import LanyardFoundations

/// Two directions of raw bytes between a client and an upstream, as a state machine (http-forwarding.md 15.5). An event goes
/// in, an action comes out, and `TunnelRelay` performs it.
///
/// It does no I/O and sees no bytes. It guarantees:
/// - The end of one side reaches the other only behind its last byte.
/// - One direction may continue after the other has ended.
/// - A reset ends both directions.
/// - A stream that was cut off does not look complete.
package struct Tunnel: Equatable, Sendable {
    package enum Side: Equatable, Sendable, CaseIterable {
        case client, upstream

        package var other: Side { self == .client ? .upstream : .client }
    }

    /// Why a tunnel has ended.
    package enum End: String, Equatable, Sendable {
        /// Both sides have ended, and each was told of the other's end.
        case ended
        /// A side was reset, or bytes could not be sent to it.
        case reset
        /// No byte came for too long.
        case idle
        /// A side took no byte for too long.
        case stuck
        /// `upgraded_max_age` has passed.
        case aged
        /// `close_upgraded_on: [logout]`.
        case logout
        /// `close_upgraded_on: [switch]`.
        case switched = "switch"
        /// The authority that the client was admitted by was removed.
        case distrusted
        /// Lanyard stops.
        case aborted

        /// Bytes that a side may still have sent are lost.
        var isFailure: Bool {
            switch self {
            case .reset, .stuck, .distrusted, .aborted: true
            case .ended, .idle, .aged, .logout, .switched: false
            }
        }

        /// What a stream is reset with (RFC 9113 §8.5).
        var code: HTTP2Session.Code {
            switch self {
            case .reset, .stuck: .connectError
            case .ended, .idle, .aged, .logout, .switched, .distrusted, .aborted: .cancel
            }
        }
    }

    package enum Action: Equatable, Sendable {
        case wait
        /// The other side's last byte was sent to this one: shut down writing.
        case shutDown(Side)
        /// Close both sides.
        case close(End)
    }

    package struct Limits: Equatable, Sendable {
        /// Time without a byte in either direction.
        package var idleTimeout = Duration.seconds(3600)
        /// The same after one side has ended.
        package var halfClosedTimeout = Duration.seconds(30)
        /// Time in which a side takes no byte.
        package var writeTimeout = Duration.seconds(60)
        /// From the 101 on; nil is no limit.
        package var maxAge: Duration?

        package init() {}
    }

    /// The bytes for one side.
    private struct Direction: Equatable {
        /// Bytes that the side has not taken yet.
        var waiting = 0
        /// When the side must have taken one of them.
        var stuckAt = Instant.never
        /// The other side sends no more.
        var sourceHasEnded = false
        /// This side was told so.
        var isShut = false
        /// This side takes no more bytes.
        var isBroken = false
    }

    private let limits: Limits
    private var toClient = Direction()
    private var toUpstream = Direction()
    private var lastByteAt: Instant
    private let agedAt: Instant
    /// A side failed: the bytes that it sent before are delivered, then the tunnel ends.
    private var hasFailed = false

    /// - Parameter now: the time of the 101.
    package init(_ limits: Limits, at now: Instant) {
        self.limits = limits
        lastByteAt = now
        agedAt = limits.maxAge.map { now + $0 } ?? .never
    }

    private subscript(to side: Side) -> Direction {
        get { side == .client ? toClient : toUpstream }
        set { if side == .client { toClient = newValue } else { toUpstream = newValue } }
    }

    /// Whether this side should be read: it has not ended, and the other side has taken all earlier bytes.
    package func wantsBytes(of side: Side) -> Bool {
        let direction = self[to: side.other]
        return !hasFailed && !direction.sourceHasEnded && !direction.isBroken && direction.waiting == 0
    }

    /// Whether no more bytes can be sent to this side. Its own bytes are still read.
    package func isBroken(_ side: Side) -> Bool { self[to: side].isBroken }

    /// When `handleDeadline` must be called at the latest.
    package var deadline: Instant { min(min(toClient.stuckAt, toUpstream.stuckAt), min(idleAt, agedAt)) }

    private var idleAt: Instant {
        let isHalf = toClient.sourceHasEnded || toUpstream.sourceHasEnded
        return lastByteAt + (isHalf ? min(limits.idleTimeout, limits.halfClosedTimeout) : limits.idleTimeout)
    }

    /// Bytes were sent to this side or queued for it.
    ///
    /// - Parameter waiting: bytes that are queued now.
    package mutating func handleWrite(to side: Side, waiting: Int, at now: Instant) -> Action {
        lastByteAt = now
        self[to: side].waiting = waiting
        self[to: side].stuckAt = waiting == 0 ? .never : now + limits.writeTimeout
        return advance(side)
    }

    /// This side has shut down writing.
    package mutating func handleEnd(of side: Side) -> Action {
        // After a failed write an end cannot be told from a reset, because the write has consumed the error.
        if isBroken(side) { return handleFailure(of: side) }
        self[to: side.other].sourceHasEnded = true
        return advance(side.other)
    }

    /// Writing to this side failed. The tunnel continues: the bytes that the side has sent are read first
    /// (http-connections.md 9.7).
    package mutating func handleWriteFailure(to side: Side) -> Action {
        self[to: side].isBroken = true
        self[to: side].waiting = 0
        self[to: side].stuckAt = .never
        return self[to: side.other].sourceHasEnded ? handleFailure(of: side) : .wait
    }

    /// This side was reset, or all its bytes were read after a failed write.
    package mutating func handleFailure(of side: Side) -> Action {
        hasFailed = true
        self[to: side].waiting = 0
        self[to: side].stuckAt = .never
        return self[to: side.other].waiting == 0 ? .close(.reset) : .wait
    }

    /// This side took some bytes of its kernel buffer, but none of those queued here: it is slow and has not stopped
    /// (http-connections.md 8.2).
    package mutating func handleProgress(of side: Side, at now: Instant) {
        lastByteAt = now
        if self[to: side].waiting > 0 { self[to: side].stuckAt = now + limits.writeTimeout }
    }

    /// Until now neither side was read, because memory was short: the pause does not count against them.
    package mutating func handlePause(until now: Instant) { lastByteAt = now }

    /// The deadline has passed.
    package func handleDeadline(at now: Instant) -> Action {
        if now >= agedAt { return .close(.aged) }
        if now >= min(toClient.stuckAt, toUpstream.stuckAt) { return .close(.stuck) }
        return now >= idleAt ? .close(.idle) : .wait
    }

    /// Whether this side's connection must end in a reset: an orderly close would state that all bytes have come.
    package func resets(_ side: Side, by end: End) -> Bool {
        let direction = self[to: side]
        return !direction.isShut && (end.isFailure || direction.waiting > 0)
    }

    /// Bytes that this side has not taken yet.
    package func waiting(for side: Side) -> Int { self[to: side].waiting }

    /// The action when no more bytes are queued for this side.
    private mutating func advance(_ side: Side) -> Action {
        guard self[to: side].waiting == 0 else { return .wait }
        if hasFailed { return .close(.reset) }
        guard self[to: side].sourceHasEnded, !self[to: side].isShut else { return .wait }
        self[to: side].isShut = true
        return self[to: side.other].isShut ? .close(.ended) : .shutDown(side)
    }
}

extension AccessEntry.UnusualEnd {
    /// nil: both sides have ended the tunnel.
    init?(_ end: Tunnel.End) {
        let side: AccessEntry.Side?
        switch end {
        case .ended: return nil
        case .reset, .stuck: side = nil
        case .idle, .aged, .logout, .switched, .distrusted, .aborted: side = .lanyard
        }
        self.init(side, "tunnel-\(end.rawValue)")
    }
}
