import Foundation
import TestSupport
import Testing

/// The table of rules in docs/http.md. That each of its tests passed is looked at by `deploy/rules.py`, after the tests.
@Suite struct RuleTableTests {
    private struct Row {
        let number: String
        let words: String
        let cell: String
    }

    /// Rules in each section, from section 1 on; section 8 has a table of limits besides.
    private static let counts = [10, 4, 6, 5, 8, 7, 3, 2, 9, 6, 5, 5, 5, 2, 5, 7, 5, 2, 4, 5]
    private static let later: [String: String] = [:]

    private static func rows() throws -> [Row] {
        try String(contentsOfFile: "\(Products.root)/docs/http.md", encoding: .utf8).split(separator: "\n")
            .compactMap { line in
                let cells = line.split(separator: "|", omittingEmptySubsequences: false)
                    .map { $0.trimmingCharacters(in: .whitespaces) }
                guard cells.count == 5, cells[1].first?.isNumber == true else { return nil }
                return Row(number: cells[1], words: cells[2], cell: cells[3])
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

    @Test("only what comes with later issues says later, and every named test exists under the rule's number")
    func cells() throws {
        let folder = "\(Products.root)/Tests/SystemTests"
        let files = try #require(FileManager.default.enumerator(atPath: folder)).compactMap { $0 as? String }
        let sources = try files.filter { $0.hasSuffix(".swift") }
            .map { try String(contentsOfFile: "\(folder)/\($0)", encoding: .utf8) }
        for row in try Self.rows() {
            for member in row.cell.split(separator: ", ").map(String.init) {
                if member.hasPrefix("later") {
                    #expect(member == Self.later[row.number], "rule \(row.number)")
                    continue
                }
                let names = member.trimmingCharacters(in: ["`"]).split(separator: "/").map(String.init)
                try #require(names.count == 2, "rule \(row.number): \(member)")
                let source = try #require(
                    sources.first { SourceFiles.holds($0, " \(names[0]) {") }, "rule \(row.number): \(member)")
                #expect(
                    SourceFiles.holds(source, "\"\(row.number) ") && SourceFiles.holds(source, "func \(names[1])("),
                    "rule \(row.number): \(member)")
            }
        }
    }
}
