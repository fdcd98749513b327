import LanyardFoundations

/// Writes the effective configuration as YAML that can be loaded again: all given values, and the defaults of other keys that a file can
/// express.
struct ConfigurationPrinter {
    private var lines: [String] = []
    /// Lines above a key, by its path; nil: the defaults are written, too, and no comments.
    private let comments: [String: [String]]?

    private init(comments: [String: [String]]?) { self.comments = comments }

    static func print(_ tree: ConfigurationNode) -> String {
        var printer = ConfigurationPrinter(comments: nil)
        printer.keys(in: "", of: tree, indent: "")
        return printer.lines.map { $0 + "\n" }.joined()
    }

    /// Writes the given values alone, for a reader: a blank line before each section, and comments.
    ///
    /// - Parameter comments: the lines above a key, by its path.
    static func print(_ tree: ConfigurationNode, comments: [String: [String]]) -> String {
        var printer = ConfigurationPrinter(comments: comments)
        printer.keys(in: "", of: tree, indent: "")
        return printer.lines.map { $0 + "\n" }.joined()
    }

    private mutating func keys(in section: String, of node: ConfigurationNode?, indent: String) {
        for key in ConfigurationKeys.keys(in: section) { print(key, node?[key.name], indent: indent) }
    }

    private mutating func print(_ key: ConfigurationKey, _ node: ConfigurationNode?, indent: String) {
        guard let node else { return comments == nil ? printDefault(key, indent: indent) : () }
        if let comments {
            if indent.isEmpty { lines.append("") }
            lines += (comments[key.path] ?? []).map { "\(indent)# \($0)" }
        }
        switch node.content {
        case .scalar(let text): lines.append("\(indent)\(key.name): \(Self.scalar(text, of: key.kind))")
        case .sequence(let elements):
            if key.kind.isList {
                let texts = elements.compactMap(\.text).map { Self.scalar($0, of: key.kind) }
                lines.append("\(indent)\(key.name): [\(texts.joined(separator: ", "))]")
            } else {
                header(key.name, indent, isEmpty: elements.isEmpty, empty: "[]")
                for element in elements { list(element, below: key.below, indent: indent) }
            }
        case .mapping(let entries):
            let before = lines.count
            lines.append("\(indent)\(key.name):")
            switch key.kind {
            case .section: keys(in: key.below, of: node, indent: indent + "  ")
            case .fields, .parameters:
                for entry in entries {
                    lines.append("\(indent)  \(Self.scalar(entry.key)): \(Self.flow(entry.value))")
                }
            default:
                for entry in entries {
                    lines.append("\(indent)  \(Self.scalar(entry.key)):")
                    keys(in: key.below, of: entry.value, indent: indent + "    ")
                }
            }
            if lines.count == before + 1 { lines[before] += " {}" }
        case .invalid: break
        }
    }

    private mutating func header(_ name: String, _ indent: String, isEmpty: Bool, empty: String) {
        lines.append("\(indent)\(name):\(isEmpty ? " " + empty : "")")
    }

    /// Writes one element of a list of mappings. Its first line has the dash.
    private mutating func list(_ element: ConfigurationNode, below section: String, indent: String) {
        let first = lines.count
        keys(in: section, of: element, indent: indent + "    ")
        guard lines.count > first else { return }
        // A comment may stand above the first key.
        guard let key = lines[first...].firstIndex(where: { $0.drop { $0 == " " }.first != "#" }) else { return }
        lines[key] = indent + "  - " + lines[key].drop { $0 == " " }
    }

    /// Writes the default of a key that was not given. A section is written if it has no required key.
    private mutating func printDefault(_ key: ConfigurationKey, indent: String) {
        if let defaultValue = key.defaultValue {
            let isUnsupported =
                UnsupportedSetting.matching(.init(.scalar(defaultValue), at: .commandLine), at: key.path) != nil
            // A written default of an unsupported setting would cause a warning.
            if isUnsupported { return }
            if key.kind.isList {
                lines.append("\(indent)\(key.name): \(defaultValue)")
            } else {
                lines.append("\(indent)\(key.name): \(Self.scalar(defaultValue, of: key.kind))")
            }
            return
        }
        let below = ConfigurationKeys.keys(in: key.below)
        let isUnsupported = UnsupportedSetting.all.contains { $0.path == key.path && $0.values == .any }
        guard key.kind == .section, !isUnsupported, !below.contains(where: \.isRequired),
            below.contains(where: { $0.defaultValue != nil })
        else { return }
        lines.append("\(indent)\(key.name):")
        keys(in: key.below, of: nil, indent: indent + "  ")
    }

    /// A value on one line.
    static func flow(_ node: ConfigurationNode) -> String {
        switch node.content {
        case .scalar(let text): scalar(text)
        case .sequence(let elements): "[\(elements.map(flow).joined(separator: ", "))]"
        case .mapping(let entries):
            "{\(entries.map { "\(scalar($0.key)): \(flow($0.value))" }.joined(separator: ", "))}"
        case .invalid: scalar("")
        }
    }

    /// The value of a key. A number or a truth value that the key wants has no quotes.
    private static func scalar(_ text: String, of kind: ConfigurationKey.Kind) -> String {
        switch kind {
        case .value(let value) where !value.isText, .values(let value) where !value.isText,
            .oneOrMore(let value) where !value.isText:
            scalar(text, keeps: true)
        default: scalar(text)
        }
    }

    /// A plain scalar if every YAML reader takes it as this text, else one in double quotes.
    ///
    /// - Parameter keeps: a number or a truth value has no quotes.
    static func scalar(_ text: String, keeps: Bool = false) -> String {
        let isPlain =
            text.utf8.first.map {
                (65...90).contains($0) || (97...122).contains($0) || (49...57).contains($0) || $0 == 47
            }
            ?? false
        let rest = text.utf8.allSatisfy {
            (48...57).contains($0) || (65...90).contains($0) || (97...122).contains($0) || "._/:%-@+".utf8.contains($0)
        }
        let isSame =
            switch PlainScalar(text) {
            case .text, .number: true
            case .boolean: keeps && ["true", "false"].contains(text)
            case .nothing, .changedNumber, .writtenNumber, .date: keeps
            }
        if isPlain, rest, isSame, text.utf8.last != UInt8(ascii: ":") { return text }
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            case _ where scalar.value < 32 || scalar.value == 127:
                quoted += "\\x" + Hex.text(scalar.value, count: 2)
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
