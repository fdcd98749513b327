import Synchronization

/// A number that one queue increments and any thread may read: plain loads and stores, no locked instruction.
///
/// Only its own queue calls `add`; a second writer would lose counts.
package final class Counter: Sendable {
    private let number = Atomic<Int>(0)

    package init() {}

    /// Counts one on the counter's queue.
    package func add() { add(1) }

    /// Counts on the counter's queue. Negative amounts make it a gauge.
    package func add(_ amount: Int) { number.store(number.load(ordering: .relaxed) &+ amount, ordering: .relaxed) }

    /// The value, from anywhere.
    package var value: Int { number.load(ordering: .relaxed) }
}

/// Several counters in one block.
package final class CounterRow: Sendable {
    package let count: Int
    private nonisolated(unsafe) let numbers: UnsafeMutablePointer<Atomic<Int>>

    package init(count: Int) {
        self.count = count
        numbers = .allocate(capacity: count)
        for index in 0..<count { (numbers + index).initialize(to: Atomic(0)) }
    }

    deinit {
        numbers.deinitialize(count: count)
        numbers.deallocate()
    }

    /// Counts one on the counters' queue, as `Counter.add`.
    package func add(at index: Int) {
        precondition(index >= 0 && index < count)
        numbers[index].store(numbers[index].load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    }

    /// Adds another row of the same length, which any queue counts; on the counters' queue.
    package func add(_ other: CounterRow) {
        for index in 0..<count {
            numbers[index].store(numbers[index].load(ordering: .relaxed) &+ other[index], ordering: .relaxed)
        }
    }

    /// The value, from anywhere.
    package subscript(index: Int) -> Int {
        precondition(index >= 0 && index < count)
        return numbers[index].load(ordering: .relaxed)
    }
}

/// Counts one in a gauge for as long as it lives. Belongs to the counter's queue, which its holder checks.
package struct Presence: ~Copyable {
    private let counter: Counter

    package init(in counter: Counter) {
        self.counter = counter
        counter.add()
    }

    deinit { counter.add(-1) }
}

/// Durations in buckets: one queue observes, any thread reads.
package final class Histogram: Sendable {
    /// In seconds: for calls and requests between a millisecond and half a minute.
    package static let durations: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    ]

    /// Upper bounds in seconds, rising. Longer durations count in the last bucket, which has no bound.
    private let bounds: [Double]
    /// The same in nanoseconds.
    private let limits: [Int64]
    /// One for each bucket, and the sum in nanoseconds, in one block; nil before the first duration: there may be thousands of routes
    /// without a request.
    private nonisolated(unsafe) let words = Atomic<UnsafeMutablePointer<Atomic<Int>>?>(nil)

    private static let durationLimits = limits(of: durations)
    private static func limits(of bounds: [Double]) -> [Int64] { bounds.map { Int64($0 * 1e9) } }

    package init(bounds: [Double] = Histogram.durations) {
        self.bounds = bounds
        limits = bounds == Self.durations ? Self.durationLimits : Self.limits(of: bounds)
    }

    deinit {
        guard let words = words.load(ordering: .acquiring) else { return }
        words.deinitialize(count: bounds.count + 2)
        words.deallocate()
    }

    /// On the histogram's queue.
    @inline(never)
    private func makeWords() -> UnsafeMutablePointer<Atomic<Int>> {
        let made = UnsafeMutablePointer<Atomic<Int>>.allocate(capacity: bounds.count + 2)
        for index in 0..<(bounds.count + 2) { (made + index).initialize(to: Atomic(0)) }
        words.store(made, ordering: .releasing)
        return made
    }

    /// Counts one duration, on the histogram's queue.
    package func observe(_ duration: Duration) {
        observe(from: Instant(nanoseconds: 0), to: .init(nanoseconds: duration.nanoseconds))
    }

    /// Counts the time from one instant to a later one, on the histogram's queue; no time if it never began.
    ///
    /// For the request path: `Duration` has 128 bits, and a difference of instants as one costs two divisions.
    package func observe(from start: Instant, to end: Instant) {
        let nanoseconds = start == .never ? 0 : end.nanoseconds - start.nanoseconds
        var bucket = 0
        while bucket < limits.count, nanoseconds > limits[bucket] { bucket += 1 }
        let words = words.load(ordering: .relaxed) ?? makeWords()
        Self.add(1, to: words + bucket)
        Self.add(Int(nanoseconds), to: words + (limits.count + 1))
    }

    /// Adds what another histogram of the same bounds has observed, on any queue; on the histogram's queue.
    package func add(_ other: Histogram) {
        guard let added = other.words.load(ordering: .acquiring) else { return }
        let words = words.load(ordering: .relaxed) ?? makeWords()
        for word in 0..<(limits.count + 2) { Self.add(added[word].load(ordering: .relaxed), to: words + word) }
    }

    /// Plain loads and stores, as `Counter.add`.
    @inline(__always)
    private static func add(_ amount: Int, to word: UnsafeMutablePointer<Atomic<Int>>) {
        word.pointee.store(word.pointee.load(ordering: .relaxed) &+ amount, ordering: .relaxed)
    }

    private func value(_ word: Int) -> Int { words.load(ordering: .acquiring)?[word].load(ordering: .relaxed) ?? 0 }

    /// Something was observed. From anywhere.
    package var isUsed: Bool { (0...bounds.count).contains { value($0) > 0 } }

    /// For `/metrics`: cumulative buckets, sum and count. From anywhere.
    package func samples(_ name: String, labels: [MetricSample.Label] = []) -> [MetricSample] {
        var samples: [MetricSample] = []
        var total = 0
        for index in 0...bounds.count {
            total += value(index)
            let bound = index < bounds.count ? bounds[index].description : "+Inf"
            samples.append(
                MetricSample(name, suffix: "_bucket", labels: labels + [.init("le", bound)], value: Double(total)))
        }
        let sum = Double(value(bounds.count + 1)) / 1e9
        samples.append(MetricSample(name, suffix: "_sum", labels: labels, value: sum))
        samples.append(MetricSample(name, suffix: "_count", labels: labels, value: Double(total)))
        return samples
    }
}
