import LanyardFoundations
import Testing

@Suite struct AllowedRateTests {
    private static let limit = AllowedRate.Limit(burst: 4, interval: .milliseconds(100))
    private static let start = Instant(nanoseconds: 1_000_000_000)

    /// What becomes of events, one after the other.
    private static func admit(_ counts: [Int], to rate: inout AllowedRate, after time: Duration = .zero) -> [Bool] {
        counts.map { rate.admit($0, by: limit, at: start + time) }
    }

    @Test("some events pass at once, then one in each interval; unused ones are kept up to that number")
    func time() {
        var rate = AllowedRate()
        #expect(rate.isUnused)
        #expect(Self.admit([1, 1, 1, 1, 1], to: &rate) == [true, true, true, true, false])
        #expect(!rate.isUnused)
        #expect(Self.admit([1], to: &rate, after: .milliseconds(99)) == [false])
        #expect(Self.admit([1, 1], to: &rate, after: .milliseconds(100)) == [true, false])
        #expect(Self.admit([4, 1], to: &rate, after: .seconds(3600)) == [true, false])
    }

    @Test("events that were paid for come on top, at any time, and each once")
    func paid() {
        var rate = AllowedRate()
        rate.pay(upTo: 3)
        #expect(rate.isUnused)
        #expect(Self.admit([7, 1], to: &rate) == [true, false])
        rate.pay(upTo: 3)
        rate.pay(upTo: 2)
        #expect(Self.admit([1], to: &rate) == [false])
        rate.pay(upTo: 4)
        // The time's events are used first.
        #expect(Self.admit([2, 1], to: &rate, after: .milliseconds(100)) == [true, false])
    }
}
