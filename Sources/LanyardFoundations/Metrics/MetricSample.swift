/// One number for `/metrics`: each module returns its counters as samples, and Telemetry writes them.
package struct MetricSample: Equatable, Sendable {
    /// A label of bounded values: alias, route, reason; never a path or an upstream's id.
    package struct Label: Hashable, Sendable {
        package var name: String
        package var value: String
        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The family's full name without `_total`, such as `lanyard_requests`.
    package var name: String
    /// In the order in which they are written.
    package var labels: [Label]
    package var value: Double
    /// OpenMetrics' suffix of this sample: `_total`, `_bucket`, `_sum`, `_count`, `_info`, or empty.
    package var suffix: String

    package init(_ name: String, suffix: String = "", labels: [Label] = [], value: Double) {
        self.name = name
        self.suffix = suffix
        self.labels = labels
        self.value = value
    }
}
