/// The stored properties of the types in a Swift text.
enum StoredProperties {
    private static let modifiers: Set<Substring> = [
        "private", "set", "package", "public", "internal", "fileprivate", "unowned", "unsafe", "nonisolated", "weak",
        "lazy",
    ]

    /// The number of each type, by its name. A property's line begins four columns behind its type's.
    static func counts(in text: String) -> [String: Int] {
        var types: [(name: String, indent: Int)] = []
        var counts: [String: Int] = [:]
        let lines = SourceFiles.codeLines(of: text)
        for (index, (_, line)) in lines.enumerated() where !line.isEmpty {
            let indent = line.prefix { $0 == " " }.count
            while let last = types.last, indent <= last.indent, line.drop(while: { $0 == " " }) != "}" {
                types.removeLast()
            }
            let words = SourceFiles.words(of: line)
            if let kind = words.firstIndex(where: { ["struct", "class", "enum"].contains($0) }), line.hasSuffix("{"),
                kind + 1 < words.count, !words[..<kind].contains("func")
            {
                types.append((String(words[kind + 1]), indent))
                continue
            }
            guard let type = types.last, indent == type.indent + 4,
                let first = words.first(where: { !modifiers.contains($0) }),
                first == "let" || first == "var", !words.contains("static")
            else { continue }
            let next = index + 1 < lines.count ? lines[index + 1].text.drop { $0 == " " } : ""
            let isObserved = next.hasPrefix("didSet") || next.hasPrefix("willSet")
            // A brace opens what computes the property, unless a value comes before it.
            guard !line.contains("{") || isObserved || isAssigned(line) else { continue }
            counts[type.name, default: 0] += 1
        }
        return counts
    }

    /// Whether a value is given before the first brace.
    private static func isAssigned(_ line: Substring) -> Bool { line.prefix { $0 != "{" }.contains("=") }
}
