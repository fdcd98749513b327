/// A text as lines of a terminal that end between words.
enum WrappedLine {
    /// One word with its style.
    struct Word: Equatable {
        var text: String
        var style: TextStyle = .plain
    }

    /// Lines of at most `columns` characters. A word that no line holds is divided.
    ///
    /// - Parameter indent: blanks before all lines but the first one.
    static func lines(of text: String, columns: Int, indent: Int = 2) -> [String] {
        lines(
            of: text.split(separator: " ").map { Word(text: String($0)) }, columns: columns, indent: indent,
            usesColour: false)
    }

    /// The same with styles, which have no width.
    ///
    /// - Parameter first: blanks before the first line.
    static func lines(of words: [Word], columns: Int, first: Int = 0, indent: Int, usesColour: Bool) -> [String] {
        var lines: [String] = []
        var line = String(repeating: " ", count: first)
        var width = first
        var isEmpty = true
        func styled(_ text: some StringProtocol, _ style: TextStyle) -> String {
            usesColour ? style.applied(to: String(text)) : String(text)
        }
        func end() {
            lines.append(line)
            line = String(repeating: " ", count: indent)
            (width, isEmpty) = (indent, true)
        }
        for word in words {
            if !isEmpty, width + 1 + word.text.count > columns { end() }
            if !isEmpty {
                line += " "
                width += 1
            }
            var rest = word.text[...]
            // Only at the beginning of a line.
            while rest.count > max(columns - width, 1) {
                let part = rest.prefix(max(columns - width, 1))
                line += styled(part, word.style)
                rest = rest.dropFirst(part.count)
                end()
            }
            line += styled(rest, word.style)
            (width, isEmpty) = (width + rest.count, false)
        }
        if !isEmpty || lines.isEmpty { lines.append(line) }
        return lines
    }
}
