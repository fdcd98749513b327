import TestSupport
import Testing

/// The table of docs/reference/security-defences.md against the threats. `deploy/tidy` looks for the tests that they name.
@Suite struct SecurityTableTests {
    /// Whether a text names a suite in a code span: `UnixListenerTests`, `CallerRuleTests/requiredField`.
    private static func namesTest(_ text: Substring) -> Bool { text.contains(/`[A-Z][A-Za-z0-9]*Tests[`\/]/) }

    /// Threat, title with what is to come, and tests of each row.
    private static func rows() throws -> [(number: String, title: String, tests: Substring)] {
        try SourceFiles.text(of: "docs/reference/security-defences.md").split(separator: "\n").compactMap { line in
            guard let match = line.wholeMatch(of: /\| (T\d+) \| (.+) \| (.+) \|/) else { return nil }
            return (String(match.1), String(match.2), match.3)
        }
    }

    @Test("the table has every threat of the page once, in order, with its title and a test")
    func everyThreat() throws {
        let threats = try SourceFiles.section("Threats", of: "docs/reference/security.md").split(separator: "\n")
            .compactMap { $0.wholeMatch(of: #/#### (T\d+) (.+)/#) }
        let rows = try Self.rows()
        #expect(rows.map(\.number) == threats.map { String($0.1) } && threats.count == 22)
        for (row, threat) in zip(rows, threats) {
            #expect(row.title.hasPrefix(threat.2), "\(row.number)")
            #expect(Self.namesTest(row.tests), "\(row.number)")
            #expect(["T5", "T14"].contains(row.number) == row.title.contains("needed yet"), "\(row.number)")
            #expect(["T12", "T20"].contains(row.number) == row.title.contains("Still to come"), "\(row.number)")
        }
    }
}
