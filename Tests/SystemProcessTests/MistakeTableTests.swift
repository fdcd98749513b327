import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The tables of mistakes in docs/use/configuration-mistakes.md: the built program says exactly what they have.
@Suite struct MistakeTableTests {
    /// A row of a table: the mistake, and the lines that the program writes.
    struct Row: Sendable, CustomTestStringConvertible {
        let mistake: [String]
        let code: Int?
        let lines: [String]

        var testDescription: String { mistake.joined(separator: " ") }
    }

    /// What every configuration of the table has, unless a line of the mistake has the same key.
    private static let base = [
        "identities: {demo: {static: {token_file: token}}}", "users: {alice: {identity: demo}}",
        "routes: [{upstream: \"http://127.0.0.1:9000\"}]",
    ]

    /// The rows of the table whose head begins so.
    private static func rows(_ head: String) -> [Row] {
        let path = "\(Products.root)/docs/use/configuration-mistakes.md"
        guard let page = try? String(contentsOfFile: path, encoding: .utf8) else { return [] }
        let lines = page.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        guard let start = lines.firstIndex(where: { $0.hasPrefix(head) }) else { return [] }
        return lines[(start + 2)...].prefix { $0.hasPrefix("|") }.map { line in
            // An escaped bar is no end of a cell.
            let cells = line.replacing("\\|", with: "\u{0}").split(separator: "|")
                .map { $0.replacing("\u{0}", with: "|").trimmingCharacters(in: .whitespaces) }
            return Row(mistake: spans(cells[0]), code: Int(cells[1]), lines: spans(cells[cells.count - 1]))
        }
    }

    /// The texts in code of a cell.
    private static func spans(_ cell: String) -> [String] {
        cell.split(separator: "`", omittingEmptySubsequences: false).enumerated().compactMap {
            $0.offset % 2 == 1 ? String($0.element) : nil
        }
    }

    private static let configurations = rows("| in `lanyard.yaml` |")
    private static let commands = rows("| command | code |")

    @Test("the pages have at least 25 wrong configurations, and wrong commands")
    func enough() {
        #expect(Self.configurations.count >= 25 && Self.commands.count >= 10)
        #expect((Self.configurations + Self.commands).allSatisfy { !$0.lines.isEmpty })
    }

    /// Runs the program in a folder that has the configuration and the files that it names.
    private func run(_ arguments: [String], _ configuration: [String]) async throws -> (Int?, [String]) {
        let folder = try TemporaryFolder()
        try folder.write("token", "t\n")
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("lanyard.yaml", configuration.joined(separator: "\n") + "\n")
        let command = ["/bin/sh", "-c", "cd '\(folder.path)' && exec \"$@\"", "sh", try Products.path("lanyard")]
        let process = try ServerProcess(command[0], Array(command.dropFirst()) + arguments)
        let exit = try await process.waitForExit()
        guard case .code(let code) = exit else { return (nil, process.lines.map(\.text)) }
        return (Int(code), process.lines.map(\.text))
    }

    @Test("a wrong configuration: check has the place, what is wrong and what to do", arguments: configurations)
    func configuration(_ row: Row) async throws {
        var lines = Self.base
        for line in row.mistake {
            let key = line.prefix { $0 != ":" }
            if let place = lines.firstIndex(where: { $0.prefix { $0 != ":" } == key }) {
                lines[place] = line
            } else {
                lines.append(line)
            }
        }
        let (code, errors) = try await run(["check", "--config", "lanyard.yaml"], lines)
        #expect(errors == row.lines)
        #expect(code == (row.lines.contains { $0.hasPrefix("error: ") } ? 78 : 0))
    }

    @Test("a wrong command: the exit code, what is wrong and what to do", arguments: commands)
    func command(_ row: Row) async throws {
        let words = row.mistake[0].split(separator: " ").map(String.init)
        let (code, errors) = try await run(Array(words.dropFirst()), Self.base)
        #expect(errors == row.lines && code == row.code)
    }
}
