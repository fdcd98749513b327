import LanyardFoundations
import LanyardRequestPath
import Testing

/// The tunnel's machine, without a socket.
@Suite struct TunnelTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)

    private static func tunnel(_ configure: (inout Tunnel.Limits) -> Void = { _ in }) -> Tunnel {
        var limits = Tunnel.Limits()
        configure(&limits)
        return Tunnel(limits, at: start)
    }

    private static func after(_ seconds: Double) -> Instant { start + .milliseconds(Int(seconds * 1000)) }

    @Test("each side is read until the other has bytes to take", arguments: Tunnel.Side.allCases)
    func backPressure(_ side: Tunnel.Side) {
        var tunnel = Self.tunnel()
        #expect(tunnel.wantsBytes(of: side))
        #expect(tunnel.handleWrite(to: side.other, waiting: 65536, at: Self.start) == .wait)
        #expect(!tunnel.wantsBytes(of: side))
        #expect(tunnel.wantsBytes(of: side.other))
        #expect(tunnel.handleWrite(to: side.other, waiting: 1, at: Self.start) == .wait)
        #expect(!tunnel.wantsBytes(of: side))
        #expect(tunnel.handleWrite(to: side.other, waiting: 0, at: Self.start) == .wait)
        #expect(tunnel.wantsBytes(of: side))
    }

    @Test("one side's end reaches the other at once if nothing waits; both ends close", arguments: Tunnel.Side.allCases)
    func ends(_ side: Tunnel.Side) {
        var tunnel = Self.tunnel()
        #expect(tunnel.handleEnd(of: side) == .shutDown(side.other))
        #expect(!tunnel.wantsBytes(of: side))
        #expect(tunnel.wantsBytes(of: side.other))
        #expect(tunnel.handleWrite(to: side, waiting: 0, at: Self.start) == .wait)
        #expect(tunnel.handleEnd(of: side.other) == .close(.ended))
        #expect(Tunnel.Side.allCases.allSatisfy { !tunnel.resets($0, by: .ended) })
    }

    @Test("an end stands behind the bytes that wait", arguments: Tunnel.Side.allCases)
    func endsLast(_ side: Tunnel.Side) {
        var tunnel = Self.tunnel()
        _ = tunnel.handleWrite(to: side.other, waiting: 10, at: Self.start)
        #expect(tunnel.handleEnd(of: side) == .wait)
        #expect(tunnel.handleWrite(to: side.other, waiting: 5, at: Self.start) == .wait)
        #expect(tunnel.handleWrite(to: side.other, waiting: 0, at: Self.start) == .shutDown(side.other))
        // The other way round, with bytes in both directions when the second end comes.
        _ = tunnel.handleWrite(to: side, waiting: 3, at: Self.start)
        #expect(tunnel.handleEnd(of: side.other) == .wait)
        #expect(tunnel.handleWrite(to: side, waiting: 0, at: Self.start) == .close(.ended))
    }

    @Test(
        "a reset closes both sides by resets, behind what the failed side said before", arguments: Tunnel.Side.allCases)
    func reset(_ side: Tunnel.Side) {
        var tunnel = Self.tunnel()
        #expect(tunnel.handleFailure(of: side) == .close(.reset))
        #expect(Tunnel.Side.allCases.allSatisfy { tunnel.resets($0, by: .reset) })
        tunnel = Self.tunnel()
        _ = tunnel.handleWrite(to: side.other, waiting: 10, at: Self.start)
        _ = tunnel.handleWrite(to: side, waiting: 7, at: Self.start)
        #expect(tunnel.handleFailure(of: side) == .wait)
        #expect(Tunnel.Side.allCases.allSatisfy { !tunnel.wantsBytes(of: $0) })
        #expect(tunnel.handleWrite(to: side.other, waiting: 0, at: Self.start) == .close(.reset))
    }

    @Test("a side that was told of the end in order is not reset afterwards", arguments: Tunnel.Side.allCases)
    func resetBehindEnd(_ side: Tunnel.Side) {
        var tunnel = Self.tunnel()
        _ = tunnel.handleEnd(of: side)
        #expect(tunnel.handleFailure(of: side) == .close(.reset))
        #expect(!tunnel.resets(side.other, by: .reset))
        #expect(tunnel.resets(side, by: .reset))
    }

    @Test(
        "after a failed write that side is still read, and its end is no orderly one", arguments: Tunnel.Side.allCases)
    func failedWrite(_ side: Tunnel.Side) {
        var tunnel = Self.tunnel()
        #expect(tunnel.handleWriteFailure(to: side) == .wait)
        #expect(tunnel.isBroken(side))
        #expect(tunnel.wantsBytes(of: side))
        #expect(!tunnel.wantsBytes(of: side.other))
        #expect(tunnel.handleWrite(to: side.other, waiting: 0, at: Self.start) == .wait)
        #expect(tunnel.handleEnd(of: side) == .close(.reset))
        tunnel = Self.tunnel()
        _ = tunnel.handleEnd(of: side)
        #expect(tunnel.handleWriteFailure(to: side) == .close(.reset))
    }

    @Test("idle: an hour without a byte in either direction; any byte moves it")
    func idle() {
        var tunnel = Self.tunnel()
        #expect(tunnel.deadline == Self.after(3600))
        #expect(tunnel.handleDeadline(at: Self.after(3599)) == .wait)
        #expect(tunnel.handleDeadline(at: Self.after(3600)) == .close(.idle))
        _ = tunnel.handleWrite(to: .client, waiting: 0, at: Self.after(3000))
        #expect(tunnel.handleDeadline(at: Self.after(6599)) == .wait)
        #expect(tunnel.deadline == Self.after(6600))
        #expect(!tunnel.resets(.client, by: .idle))
    }

    @Test("after one side's end the other may be silent for 30 s, or the idle limit if that is less")
    func halfClosed() {
        var tunnel = Self.tunnel()
        _ = tunnel.handleEnd(of: .client)
        #expect(tunnel.deadline == Self.after(30))
        _ = tunnel.handleWrite(to: .client, waiting: 0, at: Self.after(29))
        #expect(tunnel.deadline == Self.after(59))
        tunnel = Self.tunnel { $0.idleTimeout = .seconds(2) }
        _ = tunnel.handleEnd(of: .upstream)
        #expect(tunnel.handleDeadline(at: Self.after(2)) == .close(.idle))
    }

    @Test("a side that takes no byte for the write limit ends it by a reset; one that takes some does not")
    func stuck() {
        var tunnel = Self.tunnel()
        _ = tunnel.handleWrite(to: .client, waiting: 100, at: Self.start)
        #expect(tunnel.deadline == Self.after(60))
        _ = tunnel.handleWrite(to: .client, waiting: 99, at: Self.after(59))
        #expect(tunnel.handleDeadline(at: Self.after(60)) == .wait)
        #expect(tunnel.handleDeadline(at: Self.after(119)) == .close(.stuck))
        #expect(tunnel.resets(.client, by: .stuck))
        _ = tunnel.handleWrite(to: .client, waiting: 0, at: Self.after(100))
        #expect(tunnel.handleDeadline(at: Self.after(119)) == .wait)
    }

    @Test(
        "a side that takes only what the kernel held for it is not stuck, nor is the tunnel idle",
        arguments: Tunnel.Side.allCases)
    func kernelEmpties(_ side: Tunnel.Side) {
        var tunnel = Self.tunnel { $0.idleTimeout = .seconds(90) }
        _ = tunnel.handleWrite(to: side, waiting: 100, at: Self.start)
        tunnel.handleProgress(of: side, at: Self.after(60))
        #expect(tunnel.deadline == Self.after(120))
        #expect(tunnel.handleDeadline(at: Self.after(119)) == .wait)
        #expect(tunnel.handleDeadline(at: Self.after(120)) == .close(.stuck))
        // Where nothing of ours waits it only breaks the silence, also behind the end of the other side.
        tunnel = Self.tunnel()
        _ = tunnel.handleEnd(of: side.other)
        tunnel.handleProgress(of: side, at: Self.after(29))
        #expect(tunnel.deadline == Self.after(59))
        #expect(tunnel.handleDeadline(at: Self.after(59)) == .close(.idle))
    }

    @Test("the maximum age holds however much moves; a side with bytes on their way is reset")
    func age() {
        var tunnel = Self.tunnel { $0.maxAge = .seconds(10) }
        _ = tunnel.handleWrite(to: .upstream, waiting: 0, at: Self.after(9))
        #expect(tunnel.deadline == Self.after(10))
        #expect(tunnel.handleDeadline(at: Self.after(10)) == .close(.aged))
        #expect(!tunnel.resets(.upstream, by: .aged))
        _ = tunnel.handleWrite(to: .upstream, waiting: 1, at: Self.after(9))
        #expect(tunnel.resets(.upstream, by: .aged))
    }
}
