import Testing

@testable import LanyardFoundations

@Suite struct LogThrottleTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    @Test("so many lines are admitted in an interval, and the first line of the next one has the count of the others")
    func flood() {
        var throttle = LogThrottle(linesMax: 2, per: .seconds(10))
        #expect((0..<5).map { _ in throttle.admitLine(at: start) } == [0, 0, nil, nil, nil])
        #expect(throttle.end == start + .seconds(10))
        #expect(throttle.admitLine(at: start + .milliseconds(9999)) == nil)
        #expect(throttle.admitLine(at: throttle.end) == 4)
        #expect(throttle.admitLine(at: throttle.end - .seconds(1)) == 0)
    }

    @Test("a count that was taken is not reported again")
    func taken() {
        var throttle = LogThrottle(linesMax: 1, per: .seconds(10))
        #expect((0..<4).map { _ in throttle.admitLine(at: start) } == [0, nil, nil, nil])
        #expect(throttle.hasSuppressedLines)
        #expect(throttle.takeSuppressedCount() == 3)
        #expect(!throttle.hasSuppressedLines)
        #expect(throttle.admitLine(at: throttle.end) == 0)
    }

    @Test("a shared throttle admits the same lines")
    func shared() {
        let throttle = SharedLogThrottle(linesMax: 2, per: .seconds(10))
        #expect((0..<5).map { _ in throttle.admitLine(at: start) } == [0, 0, nil, nil, nil])
        #expect(throttle.end == start + .seconds(10))
        #expect(throttle.admitLine(at: start + .milliseconds(9999)) == nil)
        #expect(throttle.admitLine(at: throttle.end) == 4)
        #expect((0..<3).map { _ in throttle.admitLine(at: start + .seconds(11)) } == [0, nil, nil])
        #expect(throttle.takeSuppressedCount() == 2)
        #expect(throttle.admitLine(at: start + .seconds(30)) == 0)
    }

    @Test("many threads get no more lines from a shared throttle than one, and no line is lost from the count")
    func threads() async {
        let throttle = SharedLogThrottle(linesMax: 7, per: .seconds(10))
        let reported = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<8 {
                group.addTask { [start] in
                    (0..<1000).reduce(0) { sum, _ in sum + (throttle.admitLine(at: start).map { $0 + 1 } ?? 0) }
                }
            }
            return await group.reduce(0, +)
        }
        #expect(reported + throttle.takeSuppressedCount() == 8000)
        #expect(throttle.admitLine(at: start) == nil)
        var single = LogThrottle(linesMax: 7, per: .seconds(10))
        #expect((0..<8).count { _ in single.admitLine(at: start) != nil } == 7)
    }

    @Test("a flood under one name leaves the lines of the others")
    func names() {
        let throttles = LogThrottles(of: ["one", "two"], linesMax: 1, per: .seconds(1))
        #expect((0..<3).map { _ in throttles["one"].admitLine(at: start) } == [0, nil, nil])
        #expect(throttles["two"].admitLine(at: start) == 0)
        #expect(["three", "four"].map { throttles[$0].admitLine(at: start) } == [0, nil])
    }
}
