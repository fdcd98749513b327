import TestSupport
import Testing

@testable import LanyardConfiguration

/// What the YAML reader takes and refuses, before any key is known.
@Suite struct ConfigurationDocumentTests {
    private func diagnostics(_ text: [UInt8]) -> [String] {
        ConfigurationDocument.read(text, path: "f").diagnostics.map { "\($0)" }
    }

    @Test("a node knows its line and column, and plain scalars stay text")
    func places() throws {
        let text = "a: yes\nb:\n  - 0600\n  - {c: 1:30}\n\"d\": ~\n"
        let tree = try #require(ConfigurationDocument.read(Array(text.utf8), path: "f").tree)
        #expect(tree["a"] == ConfigurationNode(.scalar("yes"), at: .file(path: "f", line: 1, column: 4), isPlain: true))
        let list = try #require(tree["b"]).elements
        #expect(list[0] == ConfigurationNode(.scalar("0600"), at: .file(path: "f", line: 3, column: 5), isPlain: true))
        #expect(
            list[1]["c"] == ConfigurationNode(.scalar("1:30"), at: .file(path: "f", line: 4, column: 9), isPlain: true))
        #expect(tree.entries[2].key == "d")
        #expect(tree["d"]?.text == "~")
    }

    @Test(
        "what has two meanings is refused where it stands",
        arguments: [
            ("a: 1\nb: 2\na: 3\n", "f:3:1: duplicate key \"a\", first on line 1; keep one of them"),
            ("a: {b: 1, b: 2}\n", "f:1:11: duplicate key \"b\", first on line 1; keep one of them"),
            ("a: &x 1\n", "f:1:4: an anchor (&); write the value out where it is used"),
            ("a: *x\n", "f:1:4: an alias (*); write the value out, or quote a text that begins with *"),
            ("a: !!int 1\n", "f:1:4: a tag (!); remove it; each key knows its type"),
            ("a: ! 1\n", "f:1:4: a tag (!); remove it; each key knows its type"),
            ("a: 1\n---\nb: 2\n", "f:2:1: a second document; keep one document and remove the line with ---"),
            ("%YAML 1.1\n---\na: 1\n", "f:1:1: a YAML directive; remove the line with %"),
            ("a:\n\t- 1\n", "f:2:1: a tab; use spaces (inside double quotes \\t stands for one)"),
            ("a:\t1\n", "f:1:3: a tab; use spaces (inside double quotes \\t stands for one)"),
            ("a: 1\nb: \u{1}\n", "f:2:4: a control character; remove it"),
            ("[a]: 1\n", "f:1:1: a key that is a list; use a plain name"),
            ("{a: 1}: 2\n", "f:1:1: a key that is a mapping; use a plain name"),
        ] as [(String, String)])
    func refused(_ text: String, _ expected: String) {
        #expect(diagnostics(Array(text.utf8)) == [expected])
    }

    @Test(
        "what is not YAML is one fault with libyaml's words and the line",
        arguments: [
            ("a: [1, 2\nb: 3\n", "f:2:2: not YAML: "), ("a: 'x\n", "f:2:1: not YAML: "),
            ("a: b: c\n", "f:1:5: not YAML: "),
            ("a: 1\n  b: 2\n", "f:2:4: not YAML: "), ("- a\nb: 1\n", "f:2:1: not YAML: "),
            ("a: @x\n", "f:1:4: not YAML: "),
        ] as [(String, String)])
    func notYAML(_ text: String, _ expected: String) throws {
        let all = diagnostics(Array(text.utf8))
        #expect(all.count == 1)
        #expect(try #require(all.first).hasPrefix(expected))
    }

    @Test("bytes that are not UTF-8 are told by line and column, whatever stands before them")
    func encoding() {
        let text = Array("a: äöü€😀\nb: ".utf8) + [0xc3, 0x28]
        #expect(diagnostics(text) == ["f:2:4: not UTF-8; save the file as UTF-8"])
        #expect(diagnostics([0xff, 0xfe, 97, 0]) == ["f:1:1: UTF-16, not UTF-8; save the file as UTF-8"])
        #expect(diagnostics([97, 0xff, 0xfe]) == ["f:1:2: not UTF-8; save the file as UTF-8"])
        #expect(diagnostics(Array("a: 1".utf8) + [0xe2, 0x82]) == ["f:1:5: not UTF-8; save the file as UTF-8"])
    }

    @Test("a byte order mark, carriage returns, comments and an empty text are nothing special")
    func harmless() {
        let marked = ConfigurationDocument.read([0xef, 0xbb, 0xbf] + Array("a: 1\r\n# b\r\nb: 2\r\n".utf8), path: "f")
        #expect(marked.diagnostics == [])
        #expect(marked.tree?["a"]?.place == .file(path: "f", line: 1, column: 4))
        #expect(marked.tree?["b"]?.text == "2")
        #expect(ConfigurationDocument.read([], path: "f").tree?.entries == [])
        #expect(diagnostics(Array("--- \na: 1\n...\n".utf8)) == [])
    }

    @Test("nesting ends at 16, however it is written", arguments: ["[", "{a: ", "- "])
    func depth(_ opening: String) {
        let text = String(repeating: opening, count: 5000)
        let all = diagnostics(Array(text.utf8))
        #expect(all.count == 1)
        #expect(all[0].contains("nested more than 16 deep"), "\(all)")
    }
}
