import TestSupport
import Testing

/// The tests that docs/security.md and docs/threats.md name.
@Suite struct SecurityTableTests {
    /// A suite, and one of its tests.
    private struct Name: Hashable {
        let suite: Substring
        let test: Substring?
    }

    /// Names of suites in code spans: `UnixListenerTests`, `CallerRuleTests/requiredField`.
    private static func names(in text: Substring) -> [Name] {
        text.matches(of: /`([A-Z][A-Za-z0-9]*Tests)(?:\/([a-z][A-Za-z0-9]*))?`/).map { Name(suite: $0.1, test: $0.2) }
    }

    /// Threat, answer and tests of each row.
    private static func rows() throws -> [(number: String, answer: String, tests: Substring)] {
        try SourceFiles.text(of: "docs/security.md").split(separator: "\n").compactMap { line in
            guard let match = line.wholeMatch(of: /\| (T\d+) \| (.+) \| (.+) \|/) else { return nil }
            return (String(match.1), String(match.2), match.3)
        }
    }

    @Test("the table has every threat of docs/threats.md once, in order, with a test or the reason why there is none")
    func everyThreat() throws {
        let threats = try SourceFiles.text(of: "docs/threats.md").split(separator: "\n")
            .compactMap { $0.prefixMatch(of: #/### (T\d+) /#)?.1 }.map(String.init)
        let rows = try Self.rows()
        #expect(rows.map(\.number) == threats && threats.count == 22)
        for row in rows {
            #expect(Self.names(in: row.tests).isEmpty == (row.number == "T21"), "\(row.number)")
            #expect(["T5", "T14", "T21"].contains(row.number) == row.answer.contains("needed yet"), "\(row.number)")
            #expect(["T12", "T20"].contains(row.number) == row.answer.contains("Still to come"), "\(row.number)")
        }
    }

    @Test("every test that the two pages name exists")
    func existence() throws {
        let sources = try SourceFiles.texts(below: "Tests").values
        for page in ["docs/security.md", "docs/threats.md"] {
            let names = Set(Self.names(in: try SourceFiles.text(of: page)[...]))
            #expect(names.count > 40, "\(page)")
            for name in names {
                let source = sources.filter { SourceFiles.holds($0, " \(name.suite) {") }
                #expect(!source.isEmpty, "\(page): \(name.suite)")
                guard let test = name.test else { continue }
                #expect(source.contains { SourceFiles.holds($0, "func \(test)(") }, "\(page): \(name.suite)/\(test)")
            }
        }
    }
}
