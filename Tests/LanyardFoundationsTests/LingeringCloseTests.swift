import LanyardFoundations
import Testing

/// The limits of a lingering close.
@Suite struct LingeringCloseTests {
    private let start = Instant.past + .seconds(1000)

    @Test("each byte extends the time, up to the timeout of the whole close")
    func idle() {
        var lingering = LingeringClose(at: start, timeout: .seconds(10), idleTimeout: .seconds(2))
        #expect(lingering.deadline(at: start) == start + .seconds(2))
        #expect(lingering.recordDiscarded(1, at: start + .seconds(1)) == start + .seconds(3))
        #expect(lingering.recordDiscarded(1 << 40, at: start + .seconds(9)) == start + .seconds(10))
    }

    @Test("without an idle timeout bytes extend nothing; bytes beyond the limit end it")
    func bytes() {
        var lingering = LingeringClose(at: start, timeout: .seconds(2), bytesMax: 10)
        #expect(lingering.deadline(at: start) == start + .seconds(2))
        #expect(lingering.recordDiscarded(10, at: start + .seconds(1)) == start + .seconds(2))
        #expect(lingering.recordDiscarded(1, at: start + .seconds(1)) == nil)
    }
}
