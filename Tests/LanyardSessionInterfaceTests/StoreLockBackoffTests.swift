import LanyardFoundations
import LanyardSessionInterface
import Testing

@Suite struct StoreLockBackoffTests {
    @Test("a lock of the store is tried again after 20 to 200 ms, however often it was busy", arguments: [1, 2, 70])
    func delay(_ failures: Int) {
        for chance in (0...1000).map({ Double($0) / 1000 }) {
            let delay = Backoff.storeLock.delay(after: failures, chance: chance)
            let expected = Duration.milliseconds(20) + .milliseconds(180) * chance
            // The sum of two durations and their product with one factor are rounded differently, far below 1 ns.
            #expect(abs(delay.nanoseconds - expected.nanoseconds) <= 1)
        }
    }
}
