/// The two formats of `/metrics`.
package enum MetricsFormat: Equatable, Sendable {
    /// OpenMetrics 1.0.0.
    case openMetrics
    /// Prometheus text 0.0.4: the default.
    case text

    /// The `Content-Type` of the page.
    package var contentType: String {
        switch self {
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        case .text: "text/plain; version=0.0.4; charset=utf-8"
        }
    }

    /// The format that a request's `Accept` fields prefer (RFC 9110 §12.5.1). Equal weights select OpenMetrics if it was named.
    ///
    /// Never refuses: a client that accepts neither gets text, as curl and browsers expect.
    package init(accept values: [String]) {
        var openMetrics = 0.0
        var text = 0.0
        for range in values.joined(separator: ",").split(separator: ",") {
            var parts = range.split(separator: ";").map { Self.trimmed($0).lowercased() }
            guard !parts.isEmpty else { continue }
            let type = parts.removeFirst()
            let weight = parts.first { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 } ?? 1
            switch type {
            case "application/openmetrics-text":
                let version = parts.first { $0.hasPrefix("version=") }?.dropFirst(8)
                if version == nil || version == "1.0.0" || version == "\"1.0.0\"" {
                    openMetrics = max(openMetrics, weight)
                }
            case "text/plain": text = max(text, weight)
            default: break
            }
        }
        self = openMetrics > 0 && openMetrics >= text ? .openMetrics : .text
    }

    private static func trimmed(_ text: Substring) -> Substring {
        let start = text.drop { $0 == " " || $0 == "\t" }
        let trailing = start.reversed().prefix { $0 == " " || $0 == "\t" }.count
        return start.dropLast(trailing)
    }
}
