import Foundation
import TestSupport
import Testing

/// docs/design/code-map.md against the tree: what it names is there.
@Suite struct CodeMapTests {
    /// Code spans of a page that are names of files or types, with the line of each.
    private static func names(in page: String) -> [(line: Int, name: String)] {
        let lines = page.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.enumerated().flatMap { index, line in
            line.split(separator: "`", omittingEmptySubsequences: false).enumerated().compactMap { position, part in
                guard position % 2 == 1, part.wholeMatch(of: /[A-Z]\w*(?:\+\w+)?|main/) != nil else { return nil }
                return (index + 1, String(part))
            }
        }
    }

    /// Names of fields of HTTP and of the tool's words.
    private static let fields: Set<String> = ["Host", "Origin", "Via", "Forwarded", "Connection"]

    @Test("each file, type and folder that the map names exists")
    func folders() throws {
        let texts = try Self.texts()
        let files = Self.files(texts.keys)
        let missing = Self.names(in: try SourceFiles.text(of: "docs/design/code-map.md"))
            .filter { !files.contains($0.name) && !Self.fields.contains($0.name) && !Self.declares($0.name, texts) }
        #expect(missing.isEmpty, "\(missing.map { "\($0.line): \($0.name)" })")
    }

    @Test("each row that follows a behaviour names at least three files, and nothing but files")
    func behaviours() throws {
        let files = Self.files(try Self.texts().keys)
        let page = try SourceFiles.text(of: "docs/design/code-map.md")
        let rows = page.split(separator: "\n").drop { $0 != "| behaviour | files, in order |" }.dropFirst(2)
        #expect(rows.count > 20)
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
