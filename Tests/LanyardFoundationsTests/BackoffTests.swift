import Testing

@testable import LanyardFoundations

@Suite struct BackoffTests {
    /// 0, 1 and random values between; 1 never comes, but it shows the upper limit.
    private static let chances: [Double] = (0...1000).map { Double($0) / 1000 } + [0.123_456_789, 0.999_999_999]

    /// Whether both give the same delay for each number of failures and chance, to the nanosecond that instants have.
    private static func isEqual(
        _ backoff: Backoff, to formula: (_ failures: Int, _ chance: Double) -> Duration
    ) -> Bool {
        (1...70).allSatisfy { failures in
            chances.allSatisfy { chance in
                let delay = backoff.delay(after: failures, chance: chance)
                return delay.nanoseconds == formula(failures, chance).nanoseconds
            }
        }
    }

    @Test("full jitter: between nothing and the doubled delay, at least the minimum", arguments: [30, 60, 300])
    func fullJitter(_ delayMax: Int) {
        let backoff = Backoff(first: .seconds(1), max: .seconds(delayMax), min: .milliseconds(250))
        #expect(
            Self.isEqual(backoff) { failures, chance in
                let doubled = Duration.seconds(1) * (1 << min(failures - 1, 16))
                return max(min(doubled, .seconds(delayMax)) * chance, .milliseconds(250))
            })
        #expect((1...10).map { backoff.delay(after: $0, chance: 0) } == Array(repeating: .milliseconds(250), count: 10))
    }

    @Test("half jitter: the upper half of the doubled delay", arguments: [(1, 30, 5), (1, 300, 16), (30, 300, 4)])
    func halfJitter(_ first: Int, _ delayMax: Int, _ doublings: Int) {
        let backoff = Backoff(first: .seconds(first), max: .seconds(delayMax), fixedShare: 0.5)
        #expect(
            Self.isEqual(backoff) { failures, chance in
                let doubled = Duration.seconds(first) * (1 << min(failures - 1, doublings))
                return min(doubled, .seconds(delayMax)) * (0.5 + 0.5 * chance)
            })
    }

    @Test("half jitter of a revocation: never under its minimum of 1 s")
    func halfJitterWithMinimum() {
        let backoff = Backoff(first: .seconds(1), max: .seconds(300), min: .seconds(1), fixedShare: 0.5)
        #expect(
            Self.isEqual(backoff) { failures, chance in
                max(min(.seconds(1) * (1 << min(failures - 1, 16)), .seconds(300)) * (0.5 + 0.5 * chance), .seconds(1))
            })
    }

    @Test("no jitter: chance changes nothing")
    func noJitter() {
        let backoff = Backoff(first: .seconds(1), max: .seconds(30), fixedShare: 1)
        #expect(Self.isEqual(backoff) { failures, _ in .seconds(min(30, 1 << min(failures - 1, 5))) })
    }

    @Test("a count of no failures is taken as one")
    func noFailures() {
        let backoff = Backoff(first: .seconds(4), max: .seconds(60), fixedShare: 1)
        #expect(backoff.delay(after: 0, chance: 0) == .seconds(4))
    }
}
