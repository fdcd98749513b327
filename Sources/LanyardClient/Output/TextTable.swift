import LanyardConfiguration

/// A table for operators: columns as wide as their widest entry, two spaces between them.
package struct TextTable: Equatable, Sendable {
    /// One entry of a row.
    package struct Entry: Equatable, Sendable, ExpressibleByStringLiteral {
        package let text: String
        package let style: TextStyle

        package init(_ text: String, _ style: TextStyle = .plain) {
            self.text = ConfigurationText.line(text)
            self.style = style
        }

        package init(stringLiteral text: String) { self.init(text) }
    }

    private let header: [String]
    private var rows: [[Entry]] = []

    /// - Parameter header: the columns' names.
    package init(_ header: [String]) { self.header = header }

    /// Adds a row with an entry for each column.
    package mutating func add(_ row: [Entry]) { rows.append(row) }

    /// The header and the rows. No line ends in spaces.
    package func text(usesColour: Bool) -> OperatorText {
        let all = [header.map { Entry($0, .header) }] + rows
        let widths = header.indices.map { column in all.map { $0[column].text.count }.max() ?? 0 }
        let lines = all.map { row in
            let last = row.lastIndex { !$0.text.isEmpty } ?? 0
            return row.prefix(last + 1).enumerated().map { column, entry in
                let text = usesColour ? entry.style.applied(to: entry.text) : entry.text
                let padding = column == last ? 0 : widths[column] + 2 - entry.text.count
                return text + String(repeating: " ", count: padding)
            }.joined()
        }
        return OperatorText(styled: lines)
    }
}

/// How an entry looks on a terminal (ECMA-48 §8.3.117).
package enum TextStyle: Equatable, Sendable {
    case plain, header, good, doubtful, bad, faint, selected

    func applied(to text: String) -> String {
        let code =
            switch self {
            case .plain: ""
            case .header: "1"
            case .good: "32"
            case .doubtful: "33"
            case .bad: "31"
            case .faint: "2"
            case .selected: "7"
            }
        return code.isEmpty || text.isEmpty ? text : "\u{1b}[\(code)m\(text)\u{1b}[0m"
    }
}
