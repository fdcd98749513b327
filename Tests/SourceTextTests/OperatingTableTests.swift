import LanyardClient
import LanyardSessions
import TestSupport
import Testing

@testable import LanyardAdmin
@testable import LanyardRequestPath

/// The pages about operating go by what an operator sees. Each problem, readiness reason, exit code and alert of the program has a row
/// there that says what to do, and no row is about something else.
@Suite struct OperatingTableTests {
    /// The rows of the table below the line that begins with `head`, as cells without backticks.
    private static func rows(_ head: String) throws -> [[String]] {
        let lines = try ["monitoring", "operating", "troubleshooting"].flatMap { name in
            try SourceFiles.text(of: "docs/use/\(name).md").split(separator: "\n", omittingEmptySubsequences: false)
        }
        let table = lines.drop { !$0.hasPrefix(head) }.prefix { $0.hasPrefix("|") }
        return table.dropFirst(2).map { line in
            line.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false).map { cell in
                cell.split(separator: " ").joined(separator: " ").replacing("`", with: "")
            }
        }
    }

    /// The names in a column, each of which must have one row, against those of the program.
    private static func compare(_ head: String, column: Int = 0, with names: some Sequence<String>) throws {
        let rows = try rows(head)
        let listed = rows.map { $0[column] }
        #expect(Set(names).subtracting(listed).sorted() == [], "rows are missing below \(head)")
        #expect(Set(listed).subtracting(names).sorted() == [], "nothing in the program has these names")
        #expect(Set(listed).count == listed.count, "a row is there twice: \(listed)")
        for row in rows { #expect(row.last?.isEmpty == false, "\(row[column]): the row does not say what to do") }
    }

    /// What the groups of a pattern match in the code of these files, without comments.
    private static func found(_ pattern: Regex<AnyRegexOutput>, below folder: String, in name: String = "") throws
        -> [String]
    {
        let texts = try SourceFiles.texts(below: folder).filter { name.isEmpty || $0.key.hasSuffix("/\(name).swift") }
        #expect(!texts.isEmpty, "\(folder) has no \(name)")
        return texts.values.flatMap { text in
            let code = SourceFiles.codeLines(of: text).map(\.text).joined(separator: "\n")
            return code.matches(of: pattern).flatMap { match in
                match.output.dropFirst().compactMap { $0.substring.map(String.init) }
            }
        }
    }

    @Test("each problem of the request path and of the admin API")
    func problems() throws {
        let health = try Self.found(
            Regex(#"\(\s*\d{3},\s*"([a-z]+(?:-[a-z]+)*)","#), below: "Sources/LanyardAdmin")
        #expect(Set(health).count > 5)
        let admin = AdminProblem.allCases.map(\.rawValue)
        try Self.compare("| problem | side |", with: Set(Problem.names + admin + health))
    }

    @Test("each reason of the health pages")
    func reasons() throws {
        let checks = try Self.found(
            Regex(#"reason: (?:\w+(?:\.\w+)* \? )?"(\w+)"(?: : "(\w+)")?"#), below: "Sources/LanyardAdmin/Health",
            in: "HealthReport")
        #expect(checks.count == 7)
        let store = try Self.found(
            Regex(#"case (stored|\w+ = "\w+")"#), below: "Sources/LanyardAdmin/Health", in: "HealthSnapshot"
        ).map { $0.split(separator: "\"").dropFirst().first.map(String.init) ?? $0 }
        #expect(store.count == 3)
        let sessions = SessionReason.allCases.map(\.rawValue)
        try Self.compare("| check | reason |", column: 1, with: Set(checks + store + sessions))
    }

    @Test("a command says what to do about each problem of the admin API")
    func problemRemedies() throws {
        let rows = try Self.rows("| problem | side |")
        #expect(Set(rows.map { $0[1] }) == ["admin", "both", "requests"])
        for row in rows {
            let remedy = ReceivedProblem.remedy(row[0], user: "NAME")
            #expect((remedy != nil) == (row[1] != "requests"), "\(row[0]): \(remedy ?? "no remedy")")
        }
    }

    @Test("a command says what to do about each reason of the health pages that needs an action")
    func reasonRemedies() throws {
        for row in try Self.rows("| check | reason |") {
            let remedy = ReadinessRemedy.text(row[1], user: "NAME")
            #expect((remedy == nil) == (row.last == "nothing"), "\(row[1]): \(remedy ?? "no remedy")")
        }
    }

    @Test("each exit code")
    func exitCodes() throws {
        var codes: [String] = ["0"]
        // A call with a code, a code in place of another one, and what main() returns.
        for pattern in [
            #"[eE]xitCode\((?:\w+\.exitCode \?\? )?(\d+)\)"#, #"exitCode: (\d+)\)"#, #"Report\.exit\((\d+)\)"#,
            #"[eE]xitCode: Int32\??\s*\{[^}]*?\? (\d+) : (\d+)"#, #"outputFailed: Int32 = (\d+)"#,
            #"\breturn (6\d|7\d)\b"#,
            #"\bonFailure\(unreachable == 0 \? (\d+) : (\d+)"#, #"SIGINT \? (\d+) : [\w.]+ \? (\d+) : (\d+)"#,
        ] {
            let found = try [
                "Lanyard", "LanyardTool", "LanyardClient", "LanyardVault", "LanyardConfiguration", "LanyardSessions",
            ]
            .flatMap { try Self.found(Regex(pattern), below: "Sources/\($0)") }
            #expect(!found.isEmpty, "\(pattern) finds nothing")
            codes += found
        }
        try Self.compare("| code | meaning |", with: Set(codes))
    }

    @Test("each alert")
    func alerts() throws {
        let rules = try SourceFiles.text(of: "deploy/prometheus/alerts.yaml")
        let names = rules.matches(of: /- alert: (?<name>\w+)/).map { String($0.name) }
        #expect(names.count > 15)
        try Self.compare("| alert | severity |", with: names)
    }
}
