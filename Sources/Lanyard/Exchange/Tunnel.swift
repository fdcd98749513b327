/// Two directions of raw bytes between a client and an upstream, as decisions: an event goes in, a step comes out, `TunnelRelay`
/// performs it (http-rules.md 15.5).
///
/// It does no I/O and sees no bytes. What it guards: each side's end reaches the other only behind its last byte, one direction may go on
/// after the other has ended, a reset ends both, and what was cut does not look ended.
package struct Tunnel: Equatable, Sendable {
    package enum Side: Equatable, Sendable, CaseIterable {
        case client, upstream

        package var other: Side { self == .client ? .upstream : .client }
    }

    /// Why a tunnel is over.
    package enum End: String, Equatable, Sendable {
        /// Both sides have ended, each told of the other's end.
        case ended
        /// A side was reset, or gone when bytes for it came.
        case reset
        /// No byte for too long.
        case idle
        /// A side took no byte of ours for too long.
        case stuck
        /// `upgraded_max_age` is over.
        case aged
        /// `close_upgraded_on: [logout]`.
        case logout
        /// `close_upgraded_on: [switch]`.
        case switched = "switch"
        /// Lanyard stops.
        case aborted
    }

    package enum Action: Equatable, Sendable {
        case wait
        /// The other side's last byte has gone to this one: shut down writing.
        case shutDown(Side)
        /// Close both sides.
        case close(End)
    }

    package struct Limits: Equatable, Sendable {
        /// Without a byte in either direction.
        package var idle = Duration.seconds(3600)
        /// The same once one side has ended.
        package var halfClosedIdle = Duration.seconds(30)
        /// A side that takes no byte of ours.
        package var write = Duration.seconds(60)
        /// From the 101 on; nil is no limit.
        package var maxAge: Duration?

        package init() {}
    }

    /// What goes to one side.
    private struct Direction: Equatable {
        /// Bytes that the sink has not taken yet.
        var waiting = 0
        /// When the sink must have taken one.
        var stuckAt = Instant.never
        /// The source sends no more.
        var sourceHasEnded = false
        /// The sink was told so.
        var isShut = false
        /// The sink takes nothing any more.
        var isBroken = false
    }

    private let limits: Limits
    private var toClient = Direction()
    private var toUpstream = Direction()
    private var lastByte: Instant
    private let agedAt: Instant
    /// A side failed: what it said before goes out, then all ends.
    private var hasFailed = false

    /// - Parameter now: the time of the 101.
    package init(_ limits: Limits, at now: Instant) {
        self.limits = limits
        lastByte = now
        agedAt = limits.maxAge.map { now + $0 } ?? .never
    }

    private subscript(to side: Side) -> Direction {
        get { side == .client ? toClient : toUpstream }
        set { if side == .client { toClient = newValue } else { toUpstream = newValue } }
    }

    /// Bytes of this side are welcome: it has not ended, and the other has taken what came before.
    package func wantsBytes(of side: Side) -> Bool {
        let direction = self[to: side.other]
        return !hasFailed && !direction.sourceHasEnded && !direction.isBroken && direction.waiting == 0
    }

    /// Nothing can be sent to this side any more; what it has sent is still read.
    package func isBroken(_ side: Side) -> Bool { self[to: side].isBroken }

    /// When `due` is to be called at the latest.
    package var deadline: Instant { min(min(toClient.stuckAt, toUpstream.stuckAt), min(idleAt, agedAt)) }

    private var idleAt: Instant {
        let isHalf = toClient.sourceHasEnded || toUpstream.sourceHasEnded
        return lastByte + (isHalf ? min(limits.idle, limits.halfClosedIdle) : limits.idle)
    }

    /// This side was handed bytes, or took some that waited; so many wait now.
    package mutating func wrote(to side: Side, waiting: Int, at now: Instant) -> Action {
        lastByte = now
        self[to: side].waiting = waiting
        self[to: side].stuckAt = waiting == 0 ? .never : now + limits.write
        return advance(side)
    }

    /// This side has ended its direction in order.
    package mutating func ended(_ side: Side) -> Action {
        // After a failed write nobody can tell an end from a reset whose news that write has used up.
        if isBroken(side) { return failed(side) }
        self[to: side.other].sourceHasEnded = true
        return advance(side.other)
    }

    /// Writing to this side failed. That is not the end yet: what it has said before is read first (http-rules.md 9.7).
    package mutating func writeFailed(to side: Side) -> Action {
        self[to: side].isBroken = true
        self[to: side].waiting = 0
        self[to: side].stuckAt = .never
        return self[to: side.other].sourceHasEnded ? failed(side) : .wait
    }

    /// This side was reset, or has nothing left to say after a failed write.
    package mutating func failed(_ side: Side) -> Action {
        hasFailed = true
        self[to: side].waiting = 0
        self[to: side].stuckAt = .never
        return self[to: side.other].waiting == 0 ? .close(.reset) : .wait
    }

    /// This side took none of the bytes that wait here, but some that its kernel's buffer held: it is slow, and has not stopped
    /// (http-rules.md 8.2).
    package mutating func madeProgress(_ side: Side, at now: Instant) {
        lastByte = now
        if self[to: side].waiting > 0 { self[to: side].stuckAt = now + limits.write }
    }

    /// Until now neither side was read, for want of memory: that no byte came is not their silence.
    package mutating func paused(until now: Instant) { lastByte = now }

    /// The deadline has passed.
    package func due(at now: Instant) -> Action {
        if now >= agedAt { return .close(.aged) }
        if now >= min(toClient.stuckAt, toUpstream.stuckAt) { return .close(.stuck) }
        return now >= idleAt ? .close(.idle) : .wait
    }

    /// Whether this side's connection is to end in a reset: an orderly end would say that all bytes have come.
    package func resets(_ side: Side, by end: End) -> Bool {
        let direction = self[to: side]
        guard !direction.isShut else { return false }
        switch end {
        case .reset, .stuck, .aborted: return true
        case .ended, .idle, .aged, .logout, .switched: return direction.waiting > 0
        }
    }

    /// What follows once nothing waits for this side.
    private mutating func advance(_ side: Side) -> Action {
        guard self[to: side].waiting == 0 else { return .wait }
        if hasFailed { return .close(.reset) }
        guard self[to: side].sourceHasEnded, !self[to: side].isShut else { return .wait }
        self[to: side].isShut = true
        return self[to: side.other].isShut ? .close(.ended) : .shutDown(side)
    }
}
