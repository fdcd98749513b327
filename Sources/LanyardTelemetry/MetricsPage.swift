import LanyardFoundations

/// Writes `/metrics` from the samples of all modules.
///
/// Samples with the same name and labels are added up, because each shard returns its own counters. Each family is one block, and so is
/// each set of labels in it, as OpenMetrics requires.
package struct MetricsPage {
    /// One line of the page.
    private struct Line: Hashable {
        var suffix: String
        var labels: [MetricSample.Label]

        /// The metric's identity: the labels without a bucket's bound.
        var metric: [MetricSample.Label] { suffix == "_bucket" ? labels.filter { $0.name != "le" } : labels }
    }

    private struct Family {
        var order: [Line] = []
        var values: [Line: Double] = [:]

        mutating func add(_ sample: MetricSample) {
            let line = Line(suffix: sample.suffix, labels: sample.labels)
            if let value = values[line] {
                // An info's value is 1, however many samples state it.
                values[line] = sample.suffix == "_info" ? value : value + sample.value
            } else {
                order.append(line)
                values[line] = sample.value
            }
        }

        /// The lines grouped by metric, in the order of first mention.
        var grouped: [Line] {
            var places: [[MetricSample.Label]: Int] = [:]
            var groups: [[Line]] = []
            for line in order {
                let place = places[line.metric, default: groups.count]
                if place == groups.count {
                    places[line.metric] = place
                    groups.append([])
                }
                groups[place].append(line)
            }
            return groups.flatMap(\.self)
        }
    }

    private let format: MetricsFormat
    private var bytes: [UInt8] = []

    private init(format: MetricsFormat) { self.format = format }

    /// For a page that leaves nothing out: a step from nothing to 1 would be no growth. What is left out is added to it.
    package static let nothingLeftOut = MetricSample(
        "lanyard_metrics_series_left_out", labels: [.init("family", "lanyard_requests")], value: 0)

    /// Series of users and routes on one page. More are left out, and counted by their family: a page has some megabytes at most.
    package static let seriesMax = 50_000

    /// The whole page.
    package static func write(
        _ samples: [MetricSample], as format: MetricsFormat, seriesMax: Int = MetricsPage.seriesMax
    ) -> [UInt8] {
        var families: [String: Family] = [:]
        var leftOut: [String: Int] = [:]
        var count = 0
        for sample in samples {
            if sample.isOfUserOrRoute {
                count += 1
                guard count <= seriesMax else {
                    leftOut[sample.name, default: 0] += 1
                    continue
                }
            }
            families[sample.name, default: Family()].add(sample)
        }
        for (name, count) in leftOut.sorted(by: { $0.key < $1.key }) {
            let sample = MetricSample(
                "lanyard_metrics_series_left_out", labels: [.init("family", name)], value: Double(count))
            families[sample.name, default: Family()].add(sample)
        }
        var page = MetricsPage(format: format)
        page.bytes.reserveCapacity(samples.count * 96 + 4_096)
        for family in MetricFamily.all {
            if let found = families.removeValue(forKey: family.name) { page.write(family, found) }
        }
        for (name, found) in families.sorted(by: { $0.key < $1.key }) {
            page.write(Self.unlisted(name, found.order[0].suffix), found)
        }
        if format == .openMetrics { page.append("# EOF\n") }
        return page.bytes
    }

    /// A family that the table lacks is still written correctly.
    private static func unlisted(_ name: String, _ suffix: String) -> MetricFamily {
        switch suffix {
        case "_total": MetricFamily(name, .counter, "")
        case "_bucket", "_sum", "_count": MetricFamily(name, .histogram, "")
        case "_info": MetricFamily(name, .info, "")
        default: MetricFamily(name, .gauge, "")
        }
    }

    private mutating func write(_ family: MetricFamily, _ found: Family) {
        let (name, kind) = declared(family)
        append("# TYPE \(name) \(kind)\n")
        if format == .openMetrics, let unit = family.unit { append("# UNIT \(name) \(unit)\n") }
        if !family.help.isEmpty {
            append("# HELP \(name) ")
            escape(family.help, quotes: format == .openMetrics)
            append("\n")
        }
        for line in found.grouped { write(line, of: family.name, found.values[line]!) }
    }

    /// The older format writes the full names of counters and infos, and has no type info.
    private func declared(_ family: MetricFamily) -> (name: String, kind: String) {
        switch (format, family.kind) {
        case (.openMetrics, _), (.text, .gauge), (.text, .histogram): (family.name, family.kind.rawValue)
        case (.text, .counter): (family.name + "_total", "counter")
        case (.text, .info): (family.name + "_info", "gauge")
        }
    }

    private mutating func write(_ line: Line, of family: String, _ value: Double) {
        append(family)
        append(line.suffix)
        var separator: UInt8 = UInt8(ascii: "{")
        for label in line.labels {
            bytes.append(separator)
            append(label.name)
            append("=\"")
            escape(label.value, quotes: true)
            append("\"")
            separator = UInt8(ascii: ",")
        }
        if !line.labels.isEmpty { append("}") }
        append(" ")
        append(Self.text(of: value))
        append("\n")
    }

    private mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

    private mutating func escape(_ text: String, quotes: Bool) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\\"): append("\\\\")
            case UInt8(ascii: "\n"): append("\\n")
            case UInt8(ascii: "\"") where quotes: append("\\\"")
            default: bytes.append(byte)
            }
        }
    }

    /// Whole numbers are written without a point.
    private static func text(of value: Double) -> String {
        if let whole = Int64(exactly: value) { return String(whole) }
        if value.isNaN { return "NaN" }
        return value.isInfinite ? (value < 0 ? "-Inf" : "+Inf") : value.description
    }
}

extension MetricSample {
    /// There may be thousands of it.
    fileprivate var isOfUserOrRoute: Bool { labels.contains { $0.name == "user" || $0.name == "route" } }
}
