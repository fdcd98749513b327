import TestSupport
import Testing

/// `deploy/tidy`: what it wraps and what it finds.
@Suite struct TidyTests {
    /// What an expression of Python says in the script's module `tidy`.
    private func value(_ expression: String) async throws -> String {
        let process = try ServerProcess(
            "/usr/bin/python3",
            [
                "-Bc",
                """
                import importlib.machinery, importlib.util
                loader = importlib.machinery.SourceFileLoader("tidy", "\(Products.root)/deploy/tidy")
                tidy = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
                loader.exec_module(tidy)
                print(\(expression), end="")
                """,
            ])
        #expect(try await process.waitForExit() == .code(0), "\(process.log)")
        return process.output
    }

    @Test(
        "prose that is too long is wrapped at blanks outside of code and links, and a list item keeps its indentation")
    func wrapped() async throws {
        let item = "- " + String(repeating: "word ", count: 22) + "`code with blanks` [a link](page.md) end."
        let lines = try await value("repr(tidy.wrap(['\(item)', '', '| a | table |', 'Short,', 'stays.']))")
        let first = "- " + Array(repeating: "word", count: 22).joined(separator: " ")
        #expect(
            lines
                == "['\(first)', '  `code with blanks` [a link](page.md) end.', '', '| a | table |', 'Short,', 'stays.']"
        )
    }

    @Test("code and tables stay as they are, however long", arguments: ["    ", "| ", "```\\n", "# "])
    func unwrapped(mark: String) async throws {
        let text = mark + String(repeating: "word ", count: 40)
        #expect(try await value("tidy.wrap('\(text)'.split('\\n')) == '\(text)'.split('\\n')") == "True")
    }

    @Test(
        "a retired word is found wherever it is, and another one is not",
        arguments: [
            ("Whoever", true), ("desk", true), ("SessionDesk", true), ("operator", false), ("noBody", false),
            ("cancelled", false),
        ])
    func retired(word: String, isFound: Bool) async throws {
        #expect(try await value("tidy.is_retired('\(word)')") == (isFound ? "True" : "False"))
    }

    @Test("a suite or test that a page names and that does not exist is found")
    func namedTests() async throws {
        let swift = "['@Suite struct ATests {', '    struct Part {}', '    func first() {}']"
        let page = "['`ATests`, `ATests/first`, `FirstTests`', '`ATests/second`']"
        let files = "lambda *patterns: [('a.swift', \(swift))] if 'Tests' in patterns[0] else [('docs/a.md', \(page))]"
        #expect(
            try await value("(setattr(tidy, 'files', \(files)), list(tidy.named_tests()))[1]")
                == "['docs/a.md:1: no suite FirstTests', 'docs/a.md:2: no test ATests/second']")
    }
}
