import Foundation
import TestSupport
import Testing

/// The table in docs/life-of-a-session.md of the rules of docs/refresh.md, against the tests that it names.
@Suite struct SessionRuleTableTests {
    private static func rows() throws -> [(rule: String, tests: [String])] {
        try String(contentsOfFile: "\(Products.root)/docs/life-of-a-session.md", encoding: .utf8).split(separator: "\n")
            .compactMap { line in
                let cells = line.split(separator: "|", omittingEmptySubsequences: false)
                    .map { $0.trimmingCharacters(in: .whitespaces) }
                guard cells.count == 5, Int(cells[1]) != nil else { return nil }
                return (cells[1], cells[3].split(separator: ", ").map { $0.trimmingCharacters(in: ["`"]) })
            }
    }

    /// Every test of the sessions whose name begins with a rule's number.
    private static func tests() throws -> Set<String> {
        var found: Set<String> = []
        let texts = try ["LanyardSessionsTests", "SessionPathTests"].flatMap {
            try SourceFiles.texts(below: "Tests/\($0)").values
        }
        for text in texts {
            guard let suite = text.firstMatch(of: /struct (\w+) \{/)?.1 else { continue }
            for match in text.matches(of: /"Rule (\d+): [^"]*"/) {
                guard let name = text[match.range.upperBound...].firstMatch(of: /func (\w+)\(/)?.1 else { continue }
                found.insert("\(match.1) \(suite)/\(name)")
            }
        }
        return found
    }

    @Test("each of the 16 rules is in the table, with tests that have its number")
    func table() throws {
        let rows = try Self.rows()
        #expect(rows.map(\.rule) == (1...16).map(String.init))
        #expect(rows.allSatisfy { !$0.tests.isEmpty })
        let listed = rows.flatMap { row in row.tests.map { "\(row.rule) \($0)" } }
        #expect(Set(listed).count == listed.count)
        #expect(Set(listed).subtracting(try Self.tests()).sorted() == [])
    }
}
