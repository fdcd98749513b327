import TestSupport
import Testing

/// Words of earlier versions that docs/glossary.md has replaced.
@Suite(.offPool) struct RetiredWordTests {
    private static let words: Set<Substring> = [
        "answer", "answered", "answers", "anybody", "appetite", "astray", "bear", "bears", "cell", "cells", "clerk",
        "clerks", "desk", "desks", "errand", "errands",
        "farewell",
        "farewells", "gift", "gifts", "heed", "heeds", "hopeless", "homes", "hindrance", "hindrances", "hoarder",
        "hoarders", "ledger",
        "ledgers",
        "newcomer", "newcomers", "nobody", "people", "person", "persons", "somebody", "stillborn", "stranger",
        "strangers",
        "unanswered", "untidy", "whereabouts", "whoever", "wish", "wishes",
    ]
    /// Compounds in names of types and functions: `SessionDesk`, `atStranger`.
    private static let parts = [
        "Appetite", "Astray", "Cell", "Clerk", "Desk", "Errand", "Farewell", "Gift", "Hindrance", "Hoarder", "Ledger",
        "NameBook", "Newcomer", "Outlet", "RevocationBook", "SessionHome", "SessionMark", "Stillborn", "Stranger",
        "TokenBoard",
        "Untidy", "Whereabouts",
    ]
    /// A path of the emulator, and cells of Markdown tables.
    private static let allowed = [
        "GET /ledger", "/emulator/ledger", #""answer": "#, "`answer` (`sent`", "first table cell", "table cells",
    ]

    private static func faults(in text: String, path: String) -> [String] {
        // Most lines have no retired word even within another one.
        let lowered = text.lowercased()
        let candidates = (words.map(String.init) + parts.map { $0.lowercased() })
            .filter { SourceFiles.holds(lowered, $0) }
        guard !candidates.isEmpty else { return [] }
        return text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().compactMap { index, line in
            let lowered = line.lowercased()
            guard candidates.contains(where: { SourceFiles.holds(lowered, $0) }) else { return nil }
            guard !allowed.contains(where: line.contains) else { return nil }
            let found = SourceFiles.words(of: line).first { word in
                // `noBody` is two words.
                let isOneWord = !word.dropFirst().contains(where: \.isUppercase)
                return isOneWord && words.contains(Substring(word.lowercased())) || parts.contains(where: word.contains)
            }
            return found.map { "\(path):\(index + 1): \($0)" }
        }
    }

    @Test("no retired word is left in the source, the pages and the README")
    func retired() throws {
        var texts = try SourceFiles.texts(below: "Sources", [".swift", ".c", ".h"])
        texts.merge(try SourceFiles.texts(below: "docs", [".md"])) { text, _ in text }
        texts["README.md"] = try SourceFiles.text(of: "README.md")
        #expect(texts.count > 250)
        let faults = texts.flatMap { Self.faults(in: $0.value, path: $0.key) }.sorted()
        #expect(faults.isEmpty, "\(faults.count):\n\(faults.joined(separator: "\n"))")
    }

    @Test(
        "a retired word is found wherever it stands, and another one is not",
        arguments: [
            ("/// Whoever asks", true), ("let desk = 1", true), ("final class SessionDesk {", true),
            ("| people |", true),
            ("/// An operator asks", false), ("func noBody() {", false), ("let cancelled = true", false),
            ("POST /emulator/ledger", false),
        ])
    func planted(line: String, isFound: Bool) {
        #expect(Self.faults(in: line, path: "a").isEmpty != isFound)
    }
}
