import LanyardFoundations

/// One shard's numbers of HTTP/2, of its clients or its upstreams. Connections write, on the shard's queue, which they check. Read from any
/// thread.
package final class HTTP2Counters: Sendable {
    enum Side: String { case client, upstream }

    private let side: Side
    /// Open ones.
    let connections = Counter()
    /// So far.
    let streams = Counter()
    /// Streams that the peer has reset, or whose reset it has provoked.
    let resets = Counter()
    /// Streams that were refused because the peer has too many, or for want of memory; of upstreams those that they have not processed.
    let refused = Counter()
    private let ends = HTTP2End.allCases.map { _ in Counter() }

    init(_ side: Side) { self.side = side }

    /// A connection has ended because its peer has passed a limit (H42).
    func count(_ end: HTTP2End) { ends[HTTP2End.allCases.firstIndex(of: end)!].add() }

    var samples: [MetricSample] {
        let side = MetricSample.Label("side", side.rawValue)
        var samples = [
            MetricSample("lanyard_http2_connections", labels: [side], value: Double(connections.value)),
            MetricSample("lanyard_http2_streams", suffix: "_total", labels: [side], value: Double(streams.value)),
        ]
        for (reason, counter) in [("peer", resets), ("refused", refused)] {
            samples.append(
                MetricSample(
                    "lanyard_http2_resets", suffix: "_total", labels: [side, .init("reason", reason)],
                    value: Double(counter.value)))
        }
        for (end, counter) in zip(HTTP2End.allCases, ends) {
            samples.append(
                MetricSample(
                    "lanyard_http2_limits_passed", suffix: "_total", labels: [side, .init("reason", end.rawValue)],
                    value: Double(counter.value)))
        }
        return samples
    }
}
