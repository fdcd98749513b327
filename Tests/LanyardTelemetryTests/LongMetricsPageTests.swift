import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardTelemetry

/// What a page costs, compared with one look-up of each line in a dictionary, which the page needs anyway.
@Suite struct LongMetricsPageTests {
    private struct Line: Hashable { let suffix: String, labels: [MetricSample.Label] }

    /// CPU time of this thread, the least of ten runs.
    private static func cost(_ work: () -> Int) -> Double {
        (0..<10).map { _ in
            let start = ProcessorTime.usedByThread
            let count = work()
            precondition(count > 0)
            return (ProcessorTime.usedByThread - start) / .nanoseconds(1)
        }.min() ?? 0
    }

    @Test("the lines of a large page are grouped without a comparison of labels for each pair of lines")
    func cost() {
        // Each bound's lines of all routes, then the next bound's: the lines of one route lie far apart.
        let samples = (0..<16).flatMap { bound in
            (0..<250).map { route in
                MetricSample(
                    "lanyard_request_duration_seconds", suffix: "_bucket",
                    labels: [.init("route", "route\(route)"), .init("le", "\(bound)")], value: 1)
            }
        }
        let control = Self.cost {
            var values: [Line: Double] = [:]
            for sample in samples { values[Line(suffix: sample.suffix, labels: sample.labels), default: 0] += 1 }
            return values.count
        }
        let page = Self.cost { MetricsPage.write(samples, as: .openMetrics).count }
        #expect(page / control < 8, "\(page / control)")
    }
}
