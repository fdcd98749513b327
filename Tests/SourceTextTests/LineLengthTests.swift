import TestSupport
import Testing

/// Swift lines, texts included. `swift format` breaks no string and no comment.
@Suite(.offPool) struct LineLengthTests {
    private static let columnsMax = 140

    @Test("no line of Swift has more than 140 columns")
    func columns() throws {
        var texts = try SourceFiles.texts(below: "Sources")
        texts.merge(try SourceFiles.texts(below: "Tests")) { text, _ in text }
        texts["Package.swift"] = try SourceFiles.text(of: "Package.swift")
        #expect(texts.count > 400)
        let long = texts.flatMap { path, text in
            text.split(separator: "\n", omittingEmptySubsequences: false).enumerated()
                // Columns are at most bytes, which are counted faster.
                .filter { $0.element.utf8.count > Self.columnsMax && $0.element.count > Self.columnsMax }
                .map { "\(path):\($0.offset + 1)" }
        }
        #expect(long.sorted() == [])
    }
}
