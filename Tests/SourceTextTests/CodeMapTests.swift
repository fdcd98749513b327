import Foundation
import TestSupport
import Testing

/// The pages docs/design/code-map*.md against the tree: what they name is there, and what is there is named.
@Suite struct CodeMapTests {
    /// The code map, by path.
    private static func pages() throws -> [String: String] {
        try SourceFiles.texts(below: "docs/design", [".md"]).filter { $0.key.hasPrefix("docs/design/code-map") }
    }

    /// Code spans of a page that are names of files or types, with the line of each.
    private static func names(in page: String) -> [(line: Int, name: String)] {
        let lines = page.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.enumerated().flatMap { index, line in
            spans(of: line).compactMap { span in
                span.wholeMatch(of: /[A-Z]\w*(?:\+\w+)?|main/) == nil ? nil : (index + 1, String(span))
            }
        }
    }

    private static func spans(of line: Substring) -> [Substring] {
        line.split(separator: "`", omittingEmptySubsequences: false).enumerated().compactMap { $0 % 2 == 1 ? $1 : nil }
    }

    /// Names of fields of HTTP and of the tool's words.
    private static let fields: Set<String> = ["Host", "Origin", "Via", "Forwarded", "Connection"]

    @Test("each file, type and folder that the map names exists")
    func folders() throws {
        let texts = try Self.texts()
        let files = Self.files(texts.keys)
        let pages = try Self.pages()
        #expect(pages.count == 3)
        for (path, page) in pages {
            let missing = Self.names(in: page)
                .filter { !files.contains($0.name) && !Self.fields.contains($0.name) && !Self.declares($0.name, texts) }
            #expect(missing.isEmpty, "\(path): \(missing.map { "\($0.line): \($0.name)" })")
        }
    }

    @Test("no code span of the map is divided by a line break")
    func spansAreWhole() throws {
        for (path, page) in try Self.pages() {
            for (number, line) in DocumentPage.lines(outsideCode: page) {
                #expect(line.count { $0 == "`" }.isMultiple(of: 2), "\(path):\(number)")
            }
        }
    }

    // MARK: Folders

    /// A file that the map's item of a folder must name is longer than this.
    private static let linesMax = 150

    /// The names in the items of each folder, by its path. The first spans of an item, in bold, are its folders: below `Sources`, below the
    /// request path, or beside the first one.
    private static func namesByFolder(_ pages: some Sequence<String>, _ folders: Set<String>) -> [String: Set<String>] {
        var names: [String: Set<String>] = [:]
        for page in pages {
            var present: [String] = []
            for line in page.split(separator: "\n") {
                if line.hasPrefix("#") { present = [] }
                if line.hasPrefix("- ") {
                    present = []
                    let label = line.prefixMatch(of: /- \*\*(.+?)\*\*/)?.1 ?? ""
                    for span in spans(of: label) {
                        let beside = present.first.map { $0.split(separator: "/").dropLast().joined(separator: "/") }
                        let places = ["\(span)", "Sources/\(span)", "Sources/LanyardRequestPath/\(span)"]
                        let found = (places + (beside.map { ["\($0)/\(span)"] } ?? [])).first(where: folders.contains)
                        if let found { present.append(found) }
                    }
                }
                for span in spans(of: line) {
                    let name = String((span.split(separator: "/").last ?? "").prefix { $0 != "." })
                    for folder in present { names[folder, default: []].insert(name) }
                }
            }
        }
        return names
    }

    /// Source files of more than `linesMax` lines that no item of their folder, or of a folder above it, names.
    private static func unnamed(_ texts: [String: String], in pages: some Sequence<String>) -> [String] {
        func parents(of path: String) -> [String] {
            let parts = path.split(separator: "/").dropLast()
            return parts.indices.map { parts[...$0].joined(separator: "/") }
        }
        let names = namesByFolder(pages, Set(texts.keys.flatMap(parents)))
        return texts.filter { path, text in
            let stem = String((path.split(separator: "/").last ?? "").prefix { $0 != "." })
            return text.count { $0 == "\n" } > linesMax
                && !parents(of: path).contains { names[$0]?.contains(stem) == true }
        }.keys.sorted()
    }

    @Test("each source file of more than 150 lines is named in the item of its folder")
    func longFiles() throws {
        let texts = try SourceFiles.texts(below: "Sources", [".swift", ".c"])
        #expect(texts.count > 500)
        let missing = Self.unnamed(texts, in: try Self.pages().values)
        #expect(missing.isEmpty, "\(missing)")
    }

    @Test("a long file counts as named in an item of its own folder or one above, not in another folder's")
    func longFilesByFolder() {
        let long = String(repeating: "\n", count: 151)
        let texts = [
            "Sources/A/One/First.swift": long, "Sources/A/Two/Second.swift": long, "Sources/C/c.c": long,
            "Sources/A/Two/Short.swift": "\n", "Sources/LanyardRequestPath/Reading/Reader.swift": long,
        ]
        let page = """
            - **`A/One`, `Two`**: `Second`.
              - `First+More`.
            - **`Reading`**: reads.
              `Reader`
            - **`C`**: `C/c.c`

            ## Others
            `First`
            """
        #expect(Self.unnamed(texts, in: [page]) == ["Sources/A/One/First.swift"])
        #expect(
            Self.unnamed(texts, in: ["- **`A`**: `First`, `Second`", "- **`C`**: `Reader`"]) == [
                "Sources/C/c.c", "Sources/LanyardRequestPath/Reading/Reader.swift",
            ])
    }

    // MARK: Pairs

    @Test("what decides and what performs it stand in one line, each by its file's name")
    func pairs() throws {
        let files = Self.files(try Self.texts().keys)
        let page = try SourceFiles.text(of: "docs/design/code-map.md")
        let rows = page.split(separator: "\n").drop { $0 != "| decides | performs | what |" }.dropFirst(2)
            .prefix { $0.hasPrefix("|") }
        #expect(rows.count > 10)
        for row in rows {
            let cells = row.split(separator: "|").map { Self.spans(of: $0).map(String.init) }
            #expect(cells.prefix(2).allSatisfy { $0.count == 1 && files.contains($0[0]) }, "\(row)")
        }
        for (path, page) in try Self.pages() {
            let halves = page.split(separator: "\n").filter { !$0.hasPrefix("|") && $0.contains("` decides") }
            #expect(halves.isEmpty, "\(path): as a row of the table: \(halves)")
        }
    }

    // MARK: Behaviours

    @Test("each row that follows a behaviour names at least three files, and nothing but files")
    func behaviours() throws {
        let files = Self.files(try Self.texts().keys)
        let page = try SourceFiles.text(of: "docs/design/code-map-behaviours.md")
        let rows = page.split(separator: "\n").drop { $0 != "| behaviour | files, in order |" }.dropFirst(2)
        #expect(rows.count > 35)
        for row in rows {
            let names = Self.names(in: String(row)).map(\.name)
            #expect(names.count >= 3, "\(row)")
            let missing = names.filter { !files.contains($0) }
            #expect(missing.isEmpty, "\(missing): no such file, \(row)")
        }
    }
    @Test("a name of an earlier version is neither a file nor a type")
    func planted() throws {
        let texts = try Self.texts()
        let names = Self.names(in: "`UpstreamLeg` and `keys.of`\n`Session+Schedule`, `main`, `UserName`").map(\.name)
        #expect(names == ["UpstreamLeg", "Session+Schedule", "main", "UserName"])
        let files = Self.files(texts.keys)
        #expect(names.filter { !files.contains($0) && !Self.declares($0, texts) } == ["UpstreamLeg", "UserName"])
    }

    /// The source below Sources and Tests, by path.
    private static func texts() throws -> [String: String] {
        try SourceFiles.texts(below: "Sources", [".swift", ".c", ".h"])
            .merging(SourceFiles.texts(below: "Tests", [".swift", ".c"])) { first, _ in first }
    }

    /// Names of the files without their endings, and of their folders.
    private static func files(_ paths: some Sequence<String>) -> Set<String> {
        var names: Set<String> = []
        for path in paths {
            let parts = path.split(separator: "/")
            names.formUnion(parts.dropLast().map(String.init))
            names.insert(String(parts[parts.count - 1].prefix { $0 != "." }))
        }
        return names
    }

    private static func declares(_ name: String, _ texts: [String: String]) -> Bool {
        ["struct", "class", "enum", "protocol", "actor"].contains { kind in
            [" ", ":", "<"].contains { end in texts.values.contains { SourceFiles.holds($0, "\(kind) \(name)\(end)") } }
        }
    }
}
