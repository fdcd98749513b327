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

    /// A last column that is narrower is no column any more.
    private static let lastColumnMin = 20

    /// The header and the rows. No line ends in spaces.
    ///
    /// - Parameter columns: of the terminal; nil: there is no limit. Entries of the last column that are too long continue below one
    ///   another. Where that does not do, each row becomes a paragraph.
    package func text(usesColour: Bool, columns: Int? = nil) -> OperatorText {
        let all = [header.map { Entry($0, .header) }] + rows
        let widths = header.indices.map { column in all.map { $0[column].text.count }.max() ?? 0 }
        let beforeLast = widths.dropLast().reduce(0) { $0 + $1 + 2 }
        guard let columns, beforeLast + (widths.last ?? 0) > columns else {
            return OperatorText(styled: all.flatMap { lines(of: $0, widths, room: nil, usesColour) })
        }
        guard beforeLast + Self.lastColumnMin <= columns else {
            return OperatorText(styled: rows.flatMap { paragraph(of: $0, columns, usesColour) })
        }
        return OperatorText(styled: all.flatMap { lines(of: $0, widths, room: columns - beforeLast, usesColour) })
    }

    /// - Parameter room: columns of the last column; nil: as many as it needs.
    private func lines(of row: [Entry], _ widths: [Int], room: Int?, _ usesColour: Bool) -> [String] {
        let last = row.lastIndex { !$0.text.isEmpty } ?? 0
        var line = ""
        for (column, entry) in row.prefix(last).enumerated() {
            line += usesColour ? entry.style.applied(to: entry.text) : entry.text
            line += String(repeating: " ", count: widths[column] + 2 - entry.text.count)
        }
        let entry = row[last]
        let isWrapped = last == header.count - 1 && room.map { $0 < entry.text.count } == true
        let parts = isWrapped ? WrappedLine.lines(of: entry.text, columns: room ?? .max, indent: 0) : [entry.text]
        let shift = String(repeating: " ", count: widths.dropLast().reduce(0) { $0 + $1 + 2 })
        return parts.enumerated().map { index, part in
            (index == 0 ? line : shift) + (usesColour ? entry.style.applied(to: part) : part)
        }
    }

    /// The first entry on a line, and the others with their columns' names below it. `-` stands for nothing.
    private func paragraph(of row: [Entry], _ columns: Int, _ usesColour: Bool) -> [String] {
        let head = [WrappedLine.Word(text: header[0], style: .header)] + Self.words(row[0])
        let shown = row.indices.dropFirst().filter { !row[$0].text.isEmpty && row[$0].text != "-" }
        let rest = shown.flatMap { column -> [WrappedLine.Word] in
            var words = Self.words(row[column])
            if column != shown.last, !words.isEmpty { words[words.count - 1].text += ";" }
            return [WrappedLine.Word(text: header[column].lowercased(), style: .faint)] + words
        }
        return WrappedLine.lines(of: head, columns: columns, indent: 4, usesColour: usesColour)
            + (rest.isEmpty
                ? [] : WrappedLine.lines(of: rest, columns: columns, first: 2, indent: 2, usesColour: usesColour))
    }

    private static func words(_ entry: Entry) -> [WrappedLine.Word] {
        entry.text.split(separator: " ").map { WrappedLine.Word(text: String($0), style: entry.style) }
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
