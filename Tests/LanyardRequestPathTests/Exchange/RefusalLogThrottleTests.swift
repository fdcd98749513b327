import Testing

@testable import LanyardFoundations
@testable import LanyardRequestPath

@Suite struct RefusalLogThrottleTests {
    @Test("a flood leaves so many lines a second, and the first of the next second tells how many were left out")
    func flood() {
        var sample = RefusalLogThrottle()
        let start = Instant(nanoseconds: 1_000_000_000)
        let logged = (0..<1000).compactMap { _ in sample.admitLine(at: start) }
        #expect(logged == Array(repeating: 0, count: RefusalLogThrottle.linesPerSecondMax))
        #expect(sample.admitLine(at: start + .milliseconds(999)) == nil)
        #expect(sample.admitLine(at: start + .seconds(1)) == 1001 - RefusalLogThrottle.linesPerSecondMax)
        #expect(sample.admitLine(at: start + .seconds(1)) == 0)
    }

    @Test("a sample of few lines in a long interval, and what is left out is told of once")
    func few() {
        var sample = RefusalLogThrottle(linesMax: 2, interval: .seconds(10))
        let start = Instant(nanoseconds: 1_000_000_000)
        #expect((0..<5).map { _ in sample.admitLine(at: start) } == [0, 0, nil, nil, nil])
        #expect(sample.end == start + .seconds(10))
        #expect(sample.takeSuppressedCount() == 3)
        #expect(sample.takeSuppressedCount() == 0)
        #expect(sample.admitLine(at: sample.end) == 0)
    }
}
