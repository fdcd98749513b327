import LanyardFoundations
import Testing

@testable import LanyardRequestPath

/// When a silent upstream is asked whether it is there (http2-rules.md H31, H32).
@Suite struct PingScheduleTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)
    private static func at(_ seconds: Int) -> Instant { start + .seconds(seconds) }

    @Test("H31 a PING after the silence, the end without a reply, none of it with one")
    func silence() {
        var pings = PingSchedule(PingSchedule.Limits(), at: Self.start)
        pings.recordRequest(isFirst: true, at: Self.at(100))
        #expect(pings.check(at: Self.at(100)) == .wait(until: Self.at(115)))
        #expect(pings.check(at: Self.at(115)) == .ping)
        #expect(pings.check(at: Self.at(115)) == .wait(until: Self.at(125)))
        #expect(pings.check(at: Self.at(125)) == .close)
        pings.recordFrames(hasMessages: false, at: Self.at(124))
        #expect(pings.check(at: Self.at(125)) != .close)
    }

    @Test("H32 one PING in a silence of 15 minutes but for one in five; a message begins another silence")
    func pause() {
        var pings = PingSchedule(PingSchedule.Limits(), at: Self.start)
        pings.recordRequest(isFirst: true, at: Self.start)
        var sent: [Int] = []
        for second in 0..<900 {
            if pings.check(at: Self.at(second)) == .ping {
                sent.append(second)
                pings.recordFrames(hasMessages: false, at: Self.at(second))
            }
        }
        #expect(sent == [15, 315, 615])
        pings.recordFrames(hasMessages: true, at: Self.at(900))
        #expect(pings.check(at: Self.at(914)) == .wait(until: Self.at(915)))
        #expect(pings.check(at: Self.at(915)) == .ping)
    }

    @Test("H31 requests that go out beside an open stream do not hide a silence")
    func requests() {
        var pings = PingSchedule(PingSchedule.Limits(), at: Self.start)
        pings.recordRequest(isFirst: true, at: Self.start)
        for second in 1..<15 { pings.recordRequest(isFirst: false, at: Self.at(second)) }
        #expect(pings.check(at: Self.at(15)) == .ping)
    }
}
