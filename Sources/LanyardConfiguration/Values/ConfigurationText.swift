/// Reads and writes the single values of a configuration: numbers with units, portions, modes.
///
/// One number and one unit, digits only: no sign, no fraction, no blank. A reader returns nil for any other text.
package enum ConfigurationText {
    private static let durationUnits: [(suffix: String, factor: Int64)] = [
        ("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
    ]
    private static let sizeUnits: [(suffix: String, factor: Int64)] = [
        ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("B", 1),
    ]

    /// `500ms`, `90s`, `30m`, `12h`, `60d`.
    package static func duration(_ text: String) -> Duration? {
        number(text, durationUnits).map { .milliseconds($0) }
    }

    /// `100B`, `64KiB`, `10MiB`, `1GiB`.
    package static func size(_ text: String) -> Int64? { number(text, sizeUnits) }

    /// Decimal digits.
    package static func integer(_ text: String) -> Int? { digits(text).flatMap { Int(exactly: $0) } }

    /// `65-75%` or `70%`, as parts of 1.
    package static func portion(_ text: String) -> ClosedRange<Double>? {
        guard text.hasSuffix("%") else { return nil }
        let ends = text.dropLast().split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = integer(String(ends[0])), let last = integer(String(ends[ends.count - 1])),
            (1...99).contains(first), (first...99).contains(last)
        else { return nil }
        return Double(first) / 100...Double(last) / 100
    }

    /// Permissions as a zero and three octal digits: `0600`. Without the zero it may be the number that another program has read: Helm
    /// makes 432 of 0660, which would let every user of the machine write.
    package static func mode(_ text: String) -> UInt16? {
        guard text.utf8.count == 4, text.utf8.first == 48, text.utf8.allSatisfy({ (48...55).contains($0) }) else {
            return nil
        }
        return UInt16(text, radix: 8)
    }

    /// The permissions that YAML 1.1 makes this number of, as text; nil: none.
    static func modeReadAsNumber(_ text: String) -> String? {
        guard text.utf8.first != 48, let number = integer(text), 1...0o777 ~= number else { return nil }
        let digits = String(number, radix: 8)
        return String(repeating: "0", count: 4 - digits.utf8.count) + digits
    }

    /// `true` or `false`.
    package static func boolean(_ text: String) -> Bool? {
        switch text {
        case "true": true
        case "false": false
        default: nil
        }
    }

    /// A duration in the largest unit that needs no fraction.
    package static func formatted(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        guard !overflow else { return "\(seconds / 86400)d" }
        return formatted(product + attoseconds / 1_000_000_000_000_000, durationUnits)
    }

    /// A size in the largest unit that needs no fraction.
    package static func formatted(bytes: Int64) -> String { formatted(bytes, [sizeUnits[4]] + sizeUnits[0..<4]) }

    /// Text for a message: quoted, shortened, without control characters.
    package static func quoted(_ text: String) -> String {
        let plain = line(String(text.unicodeScalars.prefix(60))).unicodeScalars.map { $0 == "\"" ? "?" : $0 }
        let shown = String(String.UnicodeScalarView(plain))
        return "\"\(shown)\(text.unicodeScalars.count > 60 ? "…" : "")\""
    }

    /// Text as one line, with `?` for each character that is not printable, so that no terminal executes it.
    package static func line(_ text: String) -> String {
        var shown = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { shown.append(isPrintable(scalar) ? scalar : "?") }
        return String(shown)
    }

    /// False for control characters, line ends, and what changes the order of a line or is not seen in it: bidirectional controls, tags.
    package static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .surrogate: false
        // Several scripts need the two joiners.
        case .format: scalar == "\u{200c}" || scalar == "\u{200d}"
        default: true
        }
    }

    private static func formatted(_ value: Int64, _ units: [(suffix: String, factor: Int64)]) -> String {
        let unit = units.last { value != 0 && value % $0.factor == 0 } ?? units[value == 0 && units.count > 1 ? 1 : 0]
        return "\(value / unit.factor)\(unit.suffix)"
    }

    private static func number(_ text: String, _ units: [(suffix: String, factor: Int64)]) -> Int64? {
        for unit in units where text.hasSuffix(unit.suffix) {
            guard let value = digits(text.dropLast(unit.suffix.count)) else { continue }
            let (product, overflow) = value.multipliedReportingOverflow(by: unit.factor)
            return overflow ? nil : product
        }
        return nil
    }

    private static func digits(_ text: some StringProtocol) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int64(text)
    }
}
