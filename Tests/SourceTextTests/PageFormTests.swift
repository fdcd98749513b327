import Foundation
import TestSupport
import Testing

/// The form of the pages of docs/: short enough to be read at once, in items that one breath can hold, and none that docs/README.md does
/// not lead to.
@Suite struct PageFormTests {
    private static let bytesMax = 25_000
    private static let itemWordsMax = 60

    /// The words of each list item, by the number of its first line. Nested items count for themselves, and tables and code count for
    /// nothing.
    private static func items(of page: String) -> [(line: Int, words: Int)] {
        var items: [(line: Int, words: Int)] = []
        /// Columns at which the texts of the open items begin, and their places in `items`.
        var open: [(column: Int, place: Int)] = []
        for (number, line) in DocumentPage.lines(outsideCode: page) {
            let column = line.prefix { $0 == " " }.count
            let text = line.dropFirst(column)
            guard !text.isEmpty, !text.hasPrefix("|") else { continue }
            open.removeAll { column < $0.column }
            let words = text.split { $0 == " " }.count
            if let mark = text.prefixMatch(of: #/(?:[-*+]|\d+\.) +/#), mark.0.count < text.count {
                open.append((column + mark.0.count, items.count))
                items.append((number, words - 1))
            } else if let item = open.last {
                items[item.place].words += words
            }
        }
        return items
    }

    private static func pages() throws -> [String: String] { try SourceFiles.texts(below: "docs", [".md"]) }

    @Test("no page of docs/ has more than 25 KB")
    func size() throws {
        let pages = try Self.pages()
        #expect(pages.count > 40)
        let long = pages.mapValues(\.utf8.count).filter { $0.value > Self.bytesMax }
        #expect(long.isEmpty, "split them by subject: \(long)")
    }

    @Test("no list item of docs/ has more than 60 words")
    func listItems() throws {
        let pages = try Self.pages()
        #expect(pages.values.map { Self.items(of: $0).count }.reduce(0, +) > 1_000)
        for (path, text) in pages.sorted(by: { $0.key < $1.key }) {
            for item in Self.items(of: text) where item.words > Self.itemWordsMax {
                Issue.record("\(path):\(item.line): \(item.words) words: split it into items of its own")
            }
        }
    }

    @Test("docs/README.md leads to each page once")
    func overview() throws {
        let overview = try SourceFiles.text(of: "docs/README.md")
        for path in try Self.pages().keys.sorted() where path != "docs/README.md" {
            let link = "](\(path.dropFirst("docs/".count)))"
            #expect(overview.components(separatedBy: link).count == 2, "\(path)")
        }
    }

    @Test("the words of an item are those of all its paragraphs, without its tables, code and nested items")
    func words() {
        let page = """
            Five words are no item.

            - one two
              three

              four

              | five | six |
              - one `two
                three`
            1. one
               ```
               two
               ```
            Not an item.
            10. **one** two
            """
        #expect(Self.items(of: page).map(\.words) == [4, 3, 1, 2])
        #expect(Self.items(of: page).map(\.line) == [3, 9, 11, 16])
    }
}
