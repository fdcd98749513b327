import LanyardFoundations

/// What one shard counts of the connections to one route's upstream. Its pool writes, on the shard's queue, which
/// it checks. Read from any thread.
package final class UpstreamCounters: Sendable {
    /// How long it took to establish each connection, without the lookup of the name.
    let connectDuration = Histogram()
    /// Requests that waited for a connection at `connections_max`.
    let waits = Counter()

    package init() {}

    /// Adds those of another pool. For sums, which one thread makes.
    func add(_ other: UpstreamCounters) {
        connectDuration.add(other.connectDuration)
        waits.add(other.waits.value)
    }

    /// For `/metrics`. The histogram is left out before the first connection.
    func samples(_ labels: [MetricSample.Label]) -> [MetricSample] {
        var samples = [
            MetricSample("lanyard_upstream_waits", suffix: "_total", labels: labels, value: Double(waits.value))
        ]
        if connectDuration.isUsed {
            samples += connectDuration.samples("lanyard_upstream_connect_seconds", labels: labels)
        }
        return samples
    }
}
