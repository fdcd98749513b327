/// A strict reader of OpenMetrics 1.0.0 and Prometheus text 0.0.4, for Lanyard's metrics.
///
/// It refuses text that Prometheus accepts: samples without a declared family, families in two places, interleaved metrics, a suffix that
/// does not fit the type, a repeated sample, a missing `# EOF`, buckets that decrease or do not end in `+Inf`.
package struct ExpositionReader {
    /// One line that is not a comment.
    package struct Sample: Equatable {
        package var name: String
        package var labels: [String: String]
        package var value: Double
    }

    package private(set) var samples: [Sample] = []
    /// Types of the declared families, by name.
    package private(set) var types: [String: String] = [:]
    private var family = ""
    private var metric: [String: String]?
    private var metrics: Set<[String: String]> = []
    private let isOpenMetrics: Bool

    /// - Parameter openMetrics: false: Prometheus text 0.0.4.
    /// - Throws: `TestFailure` that names the first broken rule.
    package init(_ page: [UInt8], openMetrics: Bool) throws {
        isOpenMetrics = openMetrics
        let text = String(decoding: page, as: UTF8.self)
        guard Array(text.utf8) == page else { throw TestFailure("the page is not UTF-8") }
        guard text.hasSuffix("\n") else { throw TestFailure("the last line does not end") }
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        if openMetrics, lines.popLast() != "# EOF" { throw TestFailure("no # EOF") }
        for line in lines { try read(line) }
        try checkHistograms()
    }

    /// The value of the sample with exactly these labels.
    package subscript(name: String, labels: [String: String]) -> Double? {
        samples.first { $0.name == name && $0.labels == labels }?.value
    }

    private mutating func read(_ line: Substring) throws {
        guard line.hasPrefix("#") else { return try readSample(line) }
        let words = line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
        guard words.count == 4, words[0] == "#" else { throw TestFailure("odd comment: \(line)") }
        let name = String(words[2])
        switch words[1] {
        case "TYPE":
            guard types[name] == nil else { throw TestFailure("\(name) is declared twice") }
            types[name] = String(words[3])
            family = name
            metric = nil
            metrics = []
        case "UNIT" where isOpenMetrics:
            guard name == family, name.hasSuffix("_" + words[3]) else { throw TestFailure("odd unit: \(line)") }
        case "HELP":
            guard name == family, !words[3].isEmpty else { throw TestFailure("odd help: \(line)") }
        default: throw TestFailure("odd comment: \(line)")
        }
    }

    private mutating func readSample(_ line: Substring) throws {
        var rest = line
        let name = String(rest.prefix { $0.isLetter || $0.isNumber || $0 == "_" })
        rest = rest.dropFirst(name.count)
        var labels: [String: String] = [:]
        if rest.first == "{" { (labels, rest) = try Self.labels(rest.dropFirst()) }
        guard rest.first == " ", let value = Double(Self.number(rest.dropFirst())) else {
            throw TestFailure("no value: \(line)")
        }
        let suffix = String(name.dropFirst(family.count))
        guard !family.isEmpty, name.hasPrefix(family), suffixes(of: types[family]).contains(suffix) else {
            throw TestFailure("\(name) stands in \(family), a \(types[family] ?? "nothing")")
        }
        guard self[name, labels] == nil else { throw TestFailure("twice: \(line)") }
        var metric = labels
        if suffix == "_bucket", metric.removeValue(forKey: "le") == nil { throw TestFailure("no le: \(line)") }
        if metric != self.metric, !metrics.insert(metric).inserted { throw TestFailure("interleaved: \(line)") }
        self.metric = metric
        samples.append(Sample(name: name, labels: labels, value: value))
    }

    private func suffixes(of type: String?) -> [String] {
        switch type {
        case "counter": isOpenMetrics ? ["_total"] : [""]
        case "histogram": ["_bucket", "_sum", "_count"]
        case "info" where isOpenMetrics: ["_info"]
        case "gauge": [""]
        default: []
        }
    }

    private static func number(_ text: Substring) -> String {
        switch text {
        case "+Inf": "inf"
        case "-Inf": "-inf"
        default: text.contains(" ") ? "no" : String(text)
        }
    }

    /// The labels up to the closing brace, and the text after it.
    private static func labels(_ text: Substring) throws -> ([String: String], Substring) {
        var labels: [String: String] = [:]
        var rest = text
        while true {
            let name = String(rest.prefix { $0.isLetter || $0 == "_" })
            rest = rest.dropFirst(name.count)
            guard !name.isEmpty, rest.hasPrefix("=\"") else { throw TestFailure("odd labels: \(text)") }
            rest = rest.dropFirst(2)
            var value = ""
            while let character = rest.popFirst(), character != "\"" {
                guard character == "\\" else {
                    value.append(character)
                    continue
                }
                switch rest.popFirst() {
                case "n": value.append("\n")
                case "\\": value.append("\\")
                case "\"": value.append("\"")
                default: throw TestFailure("odd escape: \(text)")
                }
            }
            guard labels.updateValue(value, forKey: name) == nil else { throw TestFailure("label twice: \(text)") }
            switch rest.popFirst() {
            case ",": continue
            case "}": return (labels, rest)
            default: throw TestFailure("odd labels: \(text)")
            }
        }
    }

    private func checkHistograms() throws {
        for (name, type) in types where type == "histogram" {
            var last: [[String: String]: (bound: Double, count: Double)] = [:]
            for sample in samples where sample.name == name + "_bucket" {
                var metric = sample.labels
                let bound = Double(Self.number(Substring(metric.removeValue(forKey: "le")!))) ?? .nan
                if let before = last[metric], before.bound >= bound || before.count > sample.value {
                    throw TestFailure("buckets of \(name) fall")
                }
                last[metric] = (bound, sample.value)
            }
            for (metric, last) in last {
                guard last.bound == .infinity, self[name + "_count", metric] == last.count,
                    self[name + "_sum", metric] != nil
                else { throw TestFailure("the histogram \(name) is not whole") }
            }
        }
    }
}
