import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardTelemetry

@Suite struct MetricsPageTests {
    @Test("the page is OpenMetrics, byte for byte")
    func openMetrics() {
        let samples = [
            MetricSample("lanyard_requests", suffix: "_total", labels: [.init("route", "a\\b\"c\nd")], value: 2),
            MetricSample("lanyard_build", suffix: "_info", labels: [.init("version", "1")], value: 1),
            MetricSample("lanyard_clock_skew_seconds", value: -0.5),
        ]
        let expected = #"""
            # TYPE lanyard_build info
            # HELP lanyard_build Version and commit of this build.
            lanyard_build_info{version="1"} 1
            # TYPE lanyard_clock_skew_seconds gauge
            # UNIT lanyard_clock_skew_seconds seconds
            # HELP lanyard_clock_skew_seconds How far the identity service's clock is ahead of ours.
            lanyard_clock_skew_seconds -0.5
            # TYPE lanyard_requests counter
            # HELP lanyard_requests Requests, by route, class of status and source of the response.
            lanyard_requests_total{route="a\\b\"c\nd"} 2
            # EOF

            """#
        #expect(String(decoding: MetricsPage.write(samples, as: .openMetrics), as: UTF8.self) == expected)
    }

    @Test("the older format names counters and infos in full")
    func text() throws {
        let samples = [
            MetricSample("lanyard_requests", suffix: "_total", value: 2),
            MetricSample("lanyard_build", suffix: "_info", labels: [.init("version", "1")], value: 1),
        ]
        let page = MetricsPage.write(samples, as: .text)
        let read = try ExpositionReader(page, openMetrics: false)
        #expect(read.types == ["lanyard_requests_total": "counter", "lanyard_build_info": "gauge"])
        #expect(!String(decoding: page, as: UTF8.self).contains("EOF"))
    }

    @Test("every family, interleaved as shards hand them over, reads back strictly", arguments: [true, false])
    func everything(openMetrics: Bool) throws {
        let page = MetricsPage.write(Self.everySample, as: openMetrics ? .openMetrics : .text)
        let read = try ExpositionReader(page, openMetrics: openMetrics)
        #expect(read.types.count == MetricFamily.all.count + 1)
    }

    @Test("what several shards count of one thing is added up")
    func sum() throws {
        let histogram = Histogram(bounds: [0.1, 1])
        histogram.observe(.milliseconds(50))
        histogram.observe(.seconds(2))
        let shard =
            [MetricSample("lanyard_requests", suffix: "_total", labels: [.init("route", "a")], value: 2)]
            + histogram.samples("lanyard_request_duration_seconds")
        let read = try ExpositionReader(MetricsPage.write(shard + shard, as: .openMetrics), openMetrics: true)
        #expect(read["lanyard_requests_total", ["route": "a"]] == 4)
        #expect(read["lanyard_request_duration_seconds_bucket", ["le": "0.1"]] == 2)
        #expect(read["lanyard_request_duration_seconds_bucket", ["le": "+Inf"]] == 4)
        #expect(abs(read["lanyard_request_duration_seconds_sum", [:]]! - 4.1) < 1e-9)
    }

    @Test("series of users and routes beyond the limit are left out and counted by family; others never are")
    func leftOut() throws {
        let seriesMax = 20
        let routes = (0..<seriesMax + 3).map { place in
            MetricSample("lanyard_route_breaker_open", labels: [.init("route", "r\(place)")], value: 0)
        }
        let user = MetricSample("lanyard_session_state", labels: [.init("user", "alice")], value: 1)
        let other = MetricSample("lanyard_buffer_bytes", value: 7)
        let page = MetricsPage.write(routes + [user, other], as: .openMetrics, seriesMax: seriesMax)
        let read = try ExpositionReader(page, openMetrics: true)
        let last = seriesMax - 1
        #expect(read["lanyard_route_breaker_open", ["route": "r\(last)"]] == 0)
        #expect(read["lanyard_route_breaker_open", ["route": "r\(last + 1)"]] == nil)
        #expect(read["lanyard_metrics_series_left_out", ["family": "lanyard_route_breaker_open"]] == 3)
        #expect(read["lanyard_metrics_series_left_out", ["family": "lanyard_session_state"]] == 1)
        #expect(read["lanyard_buffer_bytes", [:]] == 7)
        let whole = MetricsPage.write(Array(routes.prefix(seriesMax)), as: .openMetrics, seriesMax: seriesMax)
        #expect(!String(decoding: whole, as: UTF8.self).contains("left_out{"))
    }

    @Test("an empty page is a page")
    func empty() throws {
        #expect(MetricsPage.write([], as: .openMetrics) == Array("# EOF\n".utf8))
        #expect(MetricsPage.write([], as: .text) == [])
    }

    @Test("numbers that are none are written as OpenMetrics wants them")
    func numbers() {
        let values = [Double.nan, .infinity, -.infinity, 1e300, 0.1, 1e15]
        let samples = values.enumerated().map {
            MetricSample("x", labels: [.init("n", "\($0.offset)")], value: $0.element)
        }
        let lines = String(decoding: MetricsPage.write(samples, as: .text), as: UTF8.self).split(separator: "\n")
            .dropFirst()
        #expect(
            lines.map { $0.split(separator: " ")[1] } == ["NaN", "+Inf", "-Inf", "1e+300", "0.1", "1000000000000000"])
    }

    @Test("the table holds the names once, without suffixes that the writer adds")
    func table() {
        #expect(Set(MetricFamily.all.map(\.name)).count == MetricFamily.all.count)
        for family in MetricFamily.all {
            #expect(!family.name.hasSuffix("_total") && !family.name.hasSuffix("_info"))
            #expect(family.help.hasSuffix("."))
        }
    }

    @Test("the process tells about itself what the kernel tells")
    func process() throws {
        let page = MetricsPage.write(ProcessMetrics.samples(version: "1", commit: "abc"), as: .openMetrics)
        let read = try ExpositionReader(page, openMetrics: true)
        #expect(read["lanyard_build_info", ["version": "1", "commit": "abc"]] == 1)
        let names = MetricFamily.all.map(\.name).filter { $0.hasPrefix("process_") }
        for name in names { #expect((read[name, [:]] ?? read[name + "_total", [:]] ?? 0) > 0, "\(name)") }
        let age = Double(time(nil)) - read["process_start_time_seconds", [:]]!
        #expect(age > -2 && age < 86_400)
        #expect(read["process_proportional_memory_bytes", [:]]! <= read["process_resident_memory_bytes", [:]]!)
    }

    @Test(
        "the format follows Accept",
        arguments: [
            ([], .text), (["*/*"], .text), (["text/html, */*;q=0.1"], .text),
            (["application/openmetrics-text"], .openMetrics),
            (["application/openmetrics-text; version=1.0.0; charset=utf-8"], .openMetrics),
            (["application/openmetrics-text;version=2.0.0"], .text), (["application/openmetrics-text;q=0"], .text),
            (["text/plain;version=0.0.4;q=0.5", "APPLICATION/OpenMetrics-Text ; Version=1.0.0 ; Q=0.6"], .openMetrics),
            (["text/plain, application/openmetrics-text;q=0.9"], .text),
            (
                [
                    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
                        + "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
                ], .openMetrics
            ), ([";;,,;q=x"], .text),
        ] as [([String], MetricsFormat)])
    func negotiation(accept: [String], expected: MetricsFormat) {
        #expect(MetricsFormat(accept: accept) == expected)
    }

    /// Two metrics of every family, mixed up, and one that the table does not know.
    static var everySample: [MetricSample] {
        let labels: [[MetricSample.Label]] = [[.init("user", "a\"b")], [.init("user", "c\\d\ne")]]
        let histogram = Histogram()
        histogram.observe(.milliseconds(3))
        let rounds = labels.map { labels in
            MetricFamily.all.flatMap { family -> [MetricSample] in
                switch family.kind {
                case .counter: [MetricSample(family.name, suffix: "_total", labels: labels, value: 1)]
                case .gauge: [MetricSample(family.name, labels: labels, value: 1.5)]
                case .info: [MetricSample(family.name, suffix: "_info", labels: labels, value: 1)]
                case .histogram: histogram.samples(family.name, labels: labels)
                }
            } + [MetricSample("lanyard_unlisted", suffix: "_total", labels: labels, value: 1)]
        }
        return rounds.flatMap { $0 } + rounds.flatMap { $0.reversed() }
    }
}
