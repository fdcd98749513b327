import LanyardFoundations
import Testing

@testable import LanyardRequestPath

/// HTTP/2 in the status and the metrics: what a shard has counted.
@Suite struct HTTP2ReportTests {
    private static func value(_ name: String, of counters: HTTP2Counters, _ reason: String? = nil) -> Double? {
        counters.samples.first { sample in
            sample.name == name && (reason == nil || sample.labels.contains { $0.value == reason })
        }?.value
    }

    @Test("streams are open until they end; only limits that were passed have a number")
    func counters() {
        let counters = HTTP2Counters(.upstream)
        #expect(counters.report == HTTP2Report.Side())
        counters.connections.add()
        for _ in 0..<5 { counters.beginStream() }
        counters.endStreams(1)
        counters.endStreams(2)
        counters.resets.add(3)
        counters.refused.add()
        counters.count(.controlFrames)
        var expected = HTTP2Report.Side()
        (expected.connections, expected.openStreams, expected.streams) = (1, 2, 5)
        (expected.peerResets, expected.refusals) = (3, 1)
        expected.limitsPassed = ["control_frames": 1]
        #expect(counters.report == expected)
        #expect(Self.value("lanyard_http2_open_streams", of: counters, "upstream") == 2)
        #expect(Self.value("lanyard_http2_streams", of: counters, "upstream") == 5)
        #expect(Self.value("lanyard_http2_limits_passed", of: counters, "resets") == 0)
    }

    @Test("the report has the sums of all shards")
    func sums() {
        let shards = (0..<3).map { _ in HTTP2Counters(.client) }
        for shard in shards { shard.beginStream() }
        shards[0].count(.resets)
        shards[2].count(.resets)
        shards[2].count(.malformed)
        var sum = HTTP2Report.Side()
        for shard in shards { sum.add(shard.report) }
        #expect(sum.streams == 3 && sum.openStreams == 3 && sum.connections == 0)
        #expect(sum.limitsPassed == ["resets": 2, "malformed": 1])
    }
}
