import Foundation
import Testing

/// The table of rules in docs/reference/http-tests.md. `deploy/tidy` compares it with the tests.
@Suite struct RuleTableTests {
    /// Rules in each section, from section 1 on; section 8 has a table of limits besides.
    private static let counts = [10, 4, 6, 6, 8, 7, 3, 2, 9, 7, 6, 6, 5, 2, 5, 9, 6, 2, 5, 5]

    private static func rows() throws -> [(number: String, words: String)] {
        try SourceFiles.section("The tests of each rule", of: "docs/reference/http-tests.md").split(separator: "\n")
            .compactMap { line in
                let cells = line.split(separator: "|", omittingEmptySubsequences: false)
                    .map { $0.trimmingCharacters(in: .whitespaces) }
                guard cells.count == 5, cells[1].first?.isNumber == true else { return nil }
                return (cells[1], cells[2])
            }
    }

    @Test("the table has every rule once, in order, and says something of each")
    func everyRule() throws {
        let expected = Self.counts.enumerated().flatMap { section, count in
            (section == 7 ? ["8"] : []) + (1...count).map { "\(section + 1).\($0)" }
        }
        let rows = try Self.rows()
        #expect(rows.map(\.number) == expected)
        #expect(rows.filter { $0.words.isEmpty }.map(\.number) == [])
    }
}
