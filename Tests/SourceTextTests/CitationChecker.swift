import Glibc

/// A page of the documentation, as far as citations and links refer to it.
struct DocumentPage {
    /// Numbers that a citation may name: of headings, list items and first table cells.
    private(set) var numbers: Set<String> = []
    /// Anchors of headings, as GitHub makes them.
    private(set) var anchors: Set<String> = []

    init(_ text: String) {
        let numbered = [
            // `### 4.2 Title`, `## 8. Limits`
            #/^#{1,6} (?<number>[A-Z]?\d+(?:\.\d+)*)[.:]?(?: |$)/#,
            // `- **4.2** Text`
            #/^ *[-*] \*\*(?<number>[A-Z]?\d+(?:\.\d+)*)[.:]?(?:\*\*| )/#,
            // `4. **Text**`
            #/^ *(?<number>\d+)\. \*\*/#,
            // `| T18 | text |`
            #/^\| *[*`]*(?<number>[A-Z]?\d+(?:\.\d+)*)[*`]* *\|/#,
        ]
        var uses: [String: Int] = [:]
        for line in DocumentPage.lines(outsideCode: text).map(\.text) {
            for pattern in numbered {
                if let match = line.prefixMatch(of: pattern) { numbers.insert(String(match.number)) }
            }
            guard let heading = line.wholeMatch(of: #/#{1,6} +(.+)/#)?.1 else { continue }
            let anchor = Self.anchor(of: String(heading))
            let count = uses[anchor, default: 0]
            uses[anchor] = count + 1
            anchors.insert(count == 0 ? anchor : "\(anchor)-\(count)")
        }
    }

    /// Lines of a Markdown text that stand in no fenced code block, with their numbers from 1.
    static func lines(outsideCode text: String) -> [(number: Int, text: Substring)] {
        var isCode = false
        var kept: [(Int, Substring)] = []
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            if line.drop(while: { $0 == " " }).hasPrefix("```") {
                isCode.toggle()
            } else if !isCode {
                kept.append((index + 1, line))
            }
        }
        return kept
    }

    private static func anchor(of heading: String) -> String {
        let text = heading.replacing(#/\[([^\]]*)\]\([^)]*\)/#) { $0.1 }
        return String(
            text.lowercased().compactMap { character in
                switch character {
                case " ": "-"
                case "-", "_": character
                default: character.isLetter || character.isNumber ? character : nil
                }
            })
    }
}

/// Finds citations and links that lead to nothing.
///
/// A citation is a page of docs/, a blank and a number: `http-connections.md 9.3`. More numbers may follow: `6.5, 6.6`, `3
/// and 8`, `20.3 to 20.5`. A comment may break the line in front of a number.
struct CitationChecker {
    /// By path from the package's root: `docs/use/admin.md`, `README.md`.
    let pages: [String: DocumentPage]
    /// By name, as citations have it: `admin.md`. Names that several pages have are left out.
    private let named: [String: DocumentPage]

    init(pages: [String: DocumentPage]) {
        self.pages = pages
        let byName = Dictionary(grouping: pages.filter { $0.key.hasPrefix("docs/") }) { page in
            String(page.key[page.key.index(after: page.key.lastIndex(of: "/") ?? page.key.startIndex)...])
        }
        named = byName.compactMapValues { $0.count == 1 ? $0[0].value : nil }
    }

    /// Made anew for each file: a `Regex` is not `Sendable`.
    private struct Patterns {
        let citation =
            #/
            (?<page> [a-z][a-z0-9-]*\.md )
            [)`]? \x20
            (?<numbers>
                [A-Z]?\d+(?:\.\d+)* (?![\w%])
                # More of them, if no unit or other word follows: `8.2, 64 KiB` is one number.
                (?: (?: ,\x20 | \x20and\x20 | \x20to\x20 )
                    [A-Z]?\d+(?:\.\d+)* (?= [),.;:] | \x20*$ | \x20and\x20 | \x20to\x20 ) )*
            )
            /#
        let number = #/[A-Z]?\d+(?:\.\d+)*/#
        let link = #/\]\((?<path>[^)\s#]*)(?:#(?<anchor>[^)\s]+))?\)/#

        /// Pages that are not part of the project, and section signs where a number belongs.
        let retired =
            #/
            http-requirements | refresh-policy | appservices-protocol | identity-servers | what-users-ask-for
            | perf-prototypes | perf-peers | threat-model (?: \.md | \x20§ | \x20T\d )
            | (?: conventions | foundations | design ) \.md | (?: design | protocol ) \x20§
            | threat\x20T\d | \.\./shared | \.md\x20§
            /#.ignoresCase()
    }

    /// - Parameter path: of the file from the package's root. Links are read in Markdown files only.
    /// - Returns: one line for each dead citation or link: `path:line: what`.
    func faults(in text: String, path: String) -> [String] {
        guard Self.mayCite(text[...]) else { return [] }
        let patterns = Patterns()
        var found: [(line: Int, what: String)] = []
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() where Self.mayCite(line) {
            if let match = line.firstMatch(of: patterns.retired) { found.append((index + 1, "retired: \(match.0)")) }
            let next = index + 1 < lines.count ? Self.words(of: lines[index + 1]) : ""
            found += deadNumbers(in: Self.words(of: line), continuing: next, patterns).map { (index + 1, $0) }
        }
        if path.hasSuffix(".md") {
            for line in DocumentPage.lines(outsideCode: text) {
                found += deadLinks(in: line.text, path: path, patterns).map { (line.number, $0) }
            }
        }
        return found.map { "\(path):\($0.line): \($0.what)" }
    }

    /// Whether some pattern can match in `text`. Most lines cite nothing, and a regex takes a hundred times as long.
    private static func mayCite(_ text: Substring) -> Bool {
        text.withCString { start in hints.contains { strstr(start, $0) != nil } }
    }

    private static let hints = [
        ".md", " §", "threat", "../shared", "http-requirements", "refresh-policy", "appservices-protocol",
        "identity-servers", "what-users-ask-for", "perf-prototypes", "perf-peers",
    ]

    /// A line without its indentation and the mark of a comment.
    private static func words(of line: Substring) -> Substring {
        let text = line.drop { $0 == " " }
        for mark in ["/// ", "// ", "# ", "* "] where text.hasPrefix(mark) { return text.dropFirst(mark.count) }
        return text
    }

    /// Citations that begin in `line` and may end in the next one.
    private func deadNumbers(
        in line: Substring, continuing next: Substring, _ patterns: Patterns
    ) -> [String] {
        // Most lines cite nothing, and matching costs.
        guard line.contains(".md") else { return [] }
        let joined = line + " " + next
        return joined.matches(of: patterns.citation).flatMap { match -> [String] in
            guard joined.distance(from: joined.startIndex, to: match.range.lowerBound) < line.count else { return [] }
            guard let page = named[String(match.page)] else { return ["no page \(match.page)"] }
            return match.numbers.matches(of: patterns.number).map { String($0.0) }
                .filter { !page.numbers.contains($0) }
                .map { "no number \($0) in \(match.page)" }
        }
    }

    private func deadLinks(in line: Substring, path: String, _ patterns: Patterns) -> [String] {
        guard line.contains("](") else { return [] }
        return line.matches(of: patterns.link).compactMap { match in
            let target = String(match.path)
            guard target.isEmpty || target.hasSuffix(".md"), !target.contains("://") else { return nil }
            let place = target.isEmpty ? path : Self.join(folder: path, target)
            guard let page = pages[place] else { return "no page \(place)" }
            guard let anchor = match.anchor, !page.anchors.contains(String(anchor)) else { return nil }
            return "no heading #\(anchor) in \(place)"
        }
    }

    /// `target` as seen from the file at `path`, without `..`.
    private static func join(folder path: String, _ target: String) -> String {
        var parts = path.split(separator: "/").dropLast().map(String.init)
        for part in target.split(separator: "/").map(String.init) {
            if part == ".." { _ = parts.popLast() } else if part != "." { parts.append(part) }
        }
        return parts.joined(separator: "/")
    }
}
