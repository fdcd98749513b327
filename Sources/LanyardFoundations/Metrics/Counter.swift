import Synchronization

/// A number that one queue increments and any thread may read: plain loads and stores, no locked instruction.
///
/// Only its own queue calls `add`; a second writer would lose counts.
package final class Counter: Sendable {
    private let number = Atomic<Int>(0)

    package init() {}

    /// Counts on the counter's queue. Negative amounts make it a gauge.
    package func add(_ amount: Int = 1) {
        number.store(number.load(ordering: .relaxed) &+ amount, ordering: .relaxed)
    }

    /// The value, from anywhere.
    package var value: Int { number.load(ordering: .relaxed) }
}

/// Durations in buckets: one queue observes, any thread reads.
package final class Histogram: Sendable {
    /// In seconds: for calls and requests between a millisecond and half a minute.
    package static let durations: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    ]

    /// Upper bounds in seconds, rising. Longer durations count in the last bucket, which has no bound.
    private let bounds: [Double]
    private let counts: [Counter]
    private let nanoseconds = Counter()

    package init(bounds: [Double] = Histogram.durations) {
        self.bounds = bounds
        counts = (0...bounds.count).map { _ in Counter() }
    }

    /// Counts one duration, on the histogram's queue.
    package func observe(_ duration: Duration) {
        let seconds = duration.inSeconds
        counts[bounds.firstIndex { seconds <= $0 } ?? bounds.count].add()
        nanoseconds.add(Int(duration.nanoseconds))
    }

    /// For `/metrics`: cumulative buckets, sum and count. From anywhere.
    package func samples(_ name: String, labels: [MetricSample.Label] = []) -> [MetricSample] {
        var samples: [MetricSample] = []
        var total = 0
        for (index, count) in counts.enumerated() {
            total += count.value
            let bound = index < bounds.count ? bounds[index].description : "+Inf"
            samples.append(
                MetricSample(name, suffix: "_bucket", labels: labels + [.init("le", bound)], value: Double(total)))
        }
        samples.append(MetricSample(name, suffix: "_sum", labels: labels, value: Double(nanoseconds.value) / 1e9))
        samples.append(MetricSample(name, suffix: "_count", labels: labels, value: Double(total)))
        return samples
    }
}
