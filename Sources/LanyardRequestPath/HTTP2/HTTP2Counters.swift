import LanyardFoundations

/// One shard's numbers of HTTP/2, of its clients or its upstreams. Connections write, on the shard's queue, which they check. Read from any
/// thread.
package final class HTTP2Counters: Sendable {
    enum Side: String { case client, upstream }

    private let side: Side
    /// Open ones.
    let connections = Counter()
    /// So far.
    private let streams = Counter()
    private let openStreams = Counter()
    /// Streams that the peer has reset, or whose reset it has provoked.
    let resets = Counter()
    /// Streams that were refused because the peer has too many, or for want of memory; of upstreams those that they have not processed.
    let refused = Counter()
    private let ends = HTTP2End.allCases.map { _ in Counter() }

    init(_ side: Side) { self.side = side }

    /// A stream has begun.
    func beginStream() {
        streams.add()
        openStreams.add()
    }

    /// As many streams have ended.
    func endStreams(_ count: Int) { openStreams.add(-count) }

    /// A connection has ended because its peer has passed a limit (H42).
    func count(_ end: HTTP2End) { ends[HTTP2End.allCases.firstIndex(of: end)!].add() }

    /// The numbers so far for the status.
    var report: HTTP2Report.Side {
        var report = HTTP2Report.Side()
        (report.connections, report.openStreams, report.streams) = (connections.value, openStreams.value, streams.value)
        (report.peerResets, report.refusals) = (resets.value, refused.value)
        for (end, counter) in zip(HTTP2End.allCases, ends) where counter.value > 0 {
            report.limitsPassed[end.rawValue] = counter.value
        }
        return report
    }

    var samples: [MetricSample] {
        let side = MetricSample.Label("side", side.rawValue)
        var samples = [
            MetricSample("lanyard_http2_connections", labels: [side], value: Double(connections.value)),
            MetricSample("lanyard_http2_open_streams", labels: [side], value: Double(openStreams.value)),
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
