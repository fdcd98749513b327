import Foundation
import TestSupport
import Testing

/// Citations of this project's pages in its source, tests, scripts and pages.
@Suite struct CitationTests {
    @Test("every citation and every link between pages leads to a page and a number or heading of it")
    func resolved() throws {
        let files = try Self.files()
        let checker = CitationChecker(
            pages: files.filter { Self.isPage($0.key) }.mapValues { DocumentPage($0) })
        #expect(files.count > 300)
        #expect(checker.pages.count > 10)
        let faults = files.sorted { $0.key < $1.key }.flatMap { checker.faults(in: $0.value, path: $0.key) }
        #expect(faults.isEmpty, "\(faults.count):\n\(faults.joined(separator: "\n"))")
    }

    @Test("every HTTP rule whose tests are listed is stated")
    func statedRules() throws {
        let listed = DocumentPage(try SourceFiles.section("The tests of each rule", of: "docs/reference/http-tests.md"))
            .numbers
        let stated = try ["requests", "forwarding", "connections"].reduce(into: Set<String>()) { numbers, name in
            numbers.formUnion(DocumentPage(try Self.text(of: "docs/reference/http-\(name).md")).numbers)
        }
        #expect(listed.count > 100)
        #expect(listed.subtracting(stated).sorted() == [])
    }

    @Test(
        "a planted dead citation or link is found",
        arguments: [
            ("a.swift", "/// Reads it (rules.md 1.3).", ["1: no number 1.3 in rules.md"]),
            ("a.swift", "let a = 1\n    // See rules.md\n    // 1.3 for that.", ["2: no number 1.3 in rules.md"]),
            (
                "a.swift", "// rules.md 1.1, 1.3,\n// 1.4",
                ["1: no number 1.3 in rules.md", "1: no number 1.4 in rules.md"]
            ),
            ("a.swift", "// rules.md 1.1 to 1.4, T1", ["1: no number 1.4 in rules.md", "1: no number T1 in rules.md"]),
            ("a.swift", "// (threats.md T18)", ["1: no page threats.md"]),
            ("deploy/a", "# rules.md 7", ["1: no number 7 in rules.md"]),
            ("a.swift", "// (twice.md 1)", ["1: no page twice.md"]),
            ("docs/a.md", "See `rules.md` 9.", ["1: no number 9 in rules.md"]),
            ("docs/a.md", "See [the rule](rules.md#third).", ["1: no heading #third in docs/rules.md"]),
            ("docs/a.md", "[Rules](../rules.md), [top](#top)", ["1: no page rules.md", "1: no page docs/a.md"]),
            ("README.md", "\n[Rules](docs/rule.md)", ["2: no page docs/rule.md"]),
            ("a.swift", "// Design §4.", ["1: retired: Design §"]),
            ("a.swift", "// http-requirements 4.2", ["1: retired: http-requirements"]),
            ("a.swift", "// rules.md §1.1", ["1: retired: .md §"]),
        ])
    func planted(path: String, text: String, expected: [String]) {
        #expect(Self.small.faults(in: text, path: path) == expected.map { "\(path):\($0)" })
    }

    @Test(
        "what leads somewhere is no fault",
        arguments: [
            ("a.swift", "/// Reads it (RFC 9112 §6.1; rules.md 1.1, 1.2, 64 KiB)."),
            ("a.swift", "// rules.md 1 to 3 and T18 hold; rules.md has 5 more, docs/rules.md too."),
            ("a.swift", "let page = \"README.md 3\""),
            ("docs/a.md", "[One](rules.md#1-first-things), [two](rules.md#first-1), [three](https://a.example/x.md#y)"),
            ("docs/a.md", "```\n[One](none.md)\n```"),
            ("README.md", "[One](docs/rules.md) and [an image](a.png#b)"),
        ])
    func found(path: String, text: String) {
        #expect(Self.small.faults(in: text, path: path) == [])
    }

    /// One page with a number in each place that a page may have one, and two of one name.
    private static let small = CitationChecker(pages: [
        "docs/a/twice.md": DocumentPage("# 1 One"), "docs/b/twice.md": DocumentPage("# 1 One"),
        "docs/rules.md": DocumentPage(
            """
            # Rules
            ## 1. First things
            - **1.1** A rule.
            - **1.2. A rule.** More.
            ### First
            ### First
            3. **A step.**
            4. No step.
            | T18 | a threat |
            ```
            ## 7 In a code block
            ```
            """),
    ])

    private static func isPage(_ path: String) -> Bool {
        path.hasSuffix(".md") && (path.hasPrefix("docs/") || !path.contains("/"))
    }

    private static func text(of path: String) throws -> String {
        try String(contentsOfFile: "\(Products.root)/\(path)", encoding: .utf8)
    }

    /// Texts by path from the package's root. Not this file, which has dead citations, and no fuzz corpora.
    private static func files() throws -> [String: String] {
        var files: [String: String] = [:]
        for name in ["Package.swift", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"] {
            files[name] = try text(of: name)
        }
        for folder in ["Sources", "Tests", "deploy", "docs"] {
            let root = "\(Products.root)/\(folder)"
            for name in try FileManager.default.subpathsOfDirectory(atPath: root) {
                let path = "\(folder)/\(name)"
                let isLeftOut = path.contains("/Corpora/") || path.contains("/__pycache__/")
                var isFolder: ObjCBool = false
                guard !isLeftOut, !path.hasSuffix("/CitationTests.swift"), !path.hasSuffix("/CitationChecker.swift"),
                    FileManager.default.fileExists(atPath: "\(Products.root)/\(path)", isDirectory: &isFolder),
                    !isFolder.boolValue
                else { continue }
                files[path] = try? text(of: path)
            }
        }
        return files
    }
}
