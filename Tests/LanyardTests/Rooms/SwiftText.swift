/// The words of a Swift file, without comments and strings, as far as the room test needs them.
///
/// Code inside an interpolation stays: `"\(Fault.client)"` mentions `Fault`.
struct SwiftText {
    struct Word: Equatable {
        var text: Substring
        var line: Int
        /// How many braces, parentheses and brackets stand open before it.
        var depth: Int
        /// Follows a dot: a member, not a name looked up in the module.
        var isMember: Bool
    }

    private(set) var words: [Word] = []
    /// False if the brackets do not close: the file was misread, and the room test must not trust it.
    private(set) var isBalanced = true

    init(_ source: String) {
        let code = Self.withoutCommentsAndStrings(Array(source.utf8))
        var line = 1
        var depth = 0
        var afterDot = false
        var index = 0
        while index < code.count {
            let byte = code[index]
            if Self.startsWord(byte) {
                let start = index
                while index < code.count, Self.startsWord(code[index]) || Self.isDigit(code[index]) { index += 1 }
                let text = Substring(decoding: code[start..<index], as: UTF8.self)
                words.append(Word(text: text, line: line, depth: depth, isMember: afterDot))
                afterDot = false
                continue
            }
            switch byte {
            case UInt8(ascii: "\n"): line += 1
            case UInt8(ascii: "{"), UInt8(ascii: "("), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: ")"), UInt8(ascii: "]"): depth -= 1
            default: break
            }
            if byte > UInt8(ascii: " ") { afterDot = byte == UInt8(ascii: ".") }
            index += 1
            // A number's letters (0xff, 1e9) are no word.
            if Self.isDigit(byte) { while index < code.count, Self.startsWord(code[index]) { index += 1 } }
            if depth < 0 { isBalanced = false }
        }
        if depth != 0 { isBalanced = false }
    }

    private static func startsWord(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "_") || byte >= 0x80
            || (byte | 0x20 >= UInt8(ascii: "a") && byte | 0x20 <= UInt8(ascii: "z"))
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }

    /// The same number of lines, with comments and the text of strings left out.
    private static func withoutCommentsAndStrings(_ source: [UInt8]) -> [UInt8] {
        var scanner = Scanner(source: source)
        scanner.code(until: nil)
        return scanner.kept
    }

    private struct Scanner {
        let source: [UInt8]
        var kept: [UInt8] = []
        var index = 0

        init(source: [UInt8]) { self.source = source }

        private func has(_ text: String, at place: Int) -> Bool { source[place...].starts(with: text.utf8) }

        private mutating func skip() {
            if source[index] == UInt8(ascii: "\n") { kept.append(source[index]) }
            index += 1
        }

        /// Copies code up to the end, or up to the parenthesis that closes an interpolation.
        mutating func code(until closing: UInt8?) {
            var open = 0
            while index < source.count {
                if has("//", at: index) {
                    while index < source.count, source[index] != UInt8(ascii: "\n") { index += 1 }
                } else if has("/*", at: index) {
                    comment()
                } else if source[index] == UInt8(ascii: "\"") || has("#\"", at: index) || has("##\"", at: index) {
                    string()
                } else {
                    if closing != nil, source[index] == UInt8(ascii: "(") { open += 1 }
                    if source[index] == closing {
                        if open == 0 { return }
                        open -= 1
                    }
                    kept.append(source[index])
                    index += 1
                }
            }
        }

        /// Block comments nest in Swift.
        private mutating func comment() {
            var open = 0
            repeat {
                if has("/*", at: index) {
                    open += 1
                    index += 2
                } else if has("*/", at: index) {
                    open -= 1
                    index += 2
                } else {
                    skip()
                }
            } while open > 0 && index < source.count
        }

        private mutating func string() {
            var pounds = 0
            while source[index] == UInt8(ascii: "#") {
                pounds += 1
                index += 1
            }
            let marks = String(repeating: "#", count: pounds)
            let quotes = has("\"\"\"", at: index) ? "\"\"\"" : "\""
            index += quotes.utf8.count
            kept.append(UInt8(ascii: " "))
            while index < source.count, !has(quotes + marks, at: index) {
                if has("\\" + marks + "(", at: index) {
                    index += 1 + pounds
                    kept.append(UInt8(ascii: "("))
                    index += 1
                    code(until: UInt8(ascii: ")"))
                    kept.append(UInt8(ascii: ")"))
                    index += 1
                } else if has("\\" + marks, at: index) {
                    index += 1 + pounds
                    if index < source.count { skip() }
                } else {
                    skip()
                }
            }
            index = min(index + quotes.utf8.count + pounds, source.count)
        }
    }
}
