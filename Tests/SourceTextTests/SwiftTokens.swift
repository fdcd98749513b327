/// A word, a sign or a literal of a Swift text.
struct SwiftToken {
    enum Kind { case word, sign, literal, comment, directive, end }

    let kind: Kind
    /// Of a literal the quote alone, of a comment what is behind `///`.
    let text: String
    /// From 1.
    let line: Int
    /// It is the first of its line.
    let isFirst: Bool

    /// Behind the last one.
    static let end = SwiftToken(kind: .end, text: "", line: 0, isFirst: true)

    var isOpening: Bool { kind == .sign && ["{", "(", "["].contains(text) }
    var isClosing: Bool { kind == .sign && ["}", ")", "]"].contains(text) }
}

/// Reads the tokens of a Swift text. Of comments only those of declarations (`///`) are there. An interpolation is a part of its literal.
struct SwiftTokens {
    private let bytes: [UInt8]
    private var index = 0
    private var line = 1
    private var isFirst = true
    private var tokens: [SwiftToken] = []

    static func all(of text: String) -> [SwiftToken] {
        var reader = SwiftTokens(bytes: Array(text.utf8))
        reader.readAll()
        return reader.tokens
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    private static let newline = UInt8(ascii: "\n")
    private static let quote = UInt8(ascii: "\"")
    private static let hash = UInt8(ascii: "#")
    private static let slash = UInt8(ascii: "/")
    /// Of letters, digits and the underscore.
    private static let isOfWord: [Bool] = (0...255).map { code in
        let byte = UInt8(code)
        let isLetter = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
        return isLetter || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || byte == UInt8(ascii: "_")
            || byte > 0x7f
    }
    private static let signs: [String] = (0...127).map { String(UnicodeScalar(UInt8($0))) }

    private func byte(_ offset: Int = 0) -> UInt8 { index + offset < bytes.count ? bytes[index + offset] : 0 }

    private mutating func append(_ kind: SwiftToken.Kind, _ text: String) {
        tokens.append(SwiftToken(kind: kind, text: text, line: line, isFirst: isFirst))
        isFirst = kind == .comment || kind == .directive ? isFirst : false
    }

    private mutating func readAll() {
        while index < bytes.count {
            let first = bytes[index]
            if Self.isOfWord[Int(first)] || first == UInt8(ascii: "`") {
                readWord()
            } else if first == UInt8(ascii: " ") {
                index += 1
            } else if first == Self.newline {
                (index, line, isFirst) = (index + 1, line + 1, true)
            } else if first == Self.slash, byte(1) == Self.slash {
                readComment()
            } else if first == Self.slash, byte(1) == UInt8(ascii: "*") {
                skipBlockComment()
            } else if first == Self.quote || first == Self.hash && isLiteral {
                let start = index
                append(.literal, "\"")
                skipLiteral()
                for byte in bytes[start..<min(index, bytes.count)] where byte == Self.newline { line += 1 }
            } else if first == Self.hash, isFirst, startsDirective {
                append(.directive, "#")
                skipLine()
            } else if first == UInt8(ascii: "-"), byte(1) == UInt8(ascii: ">") {
                append(.sign, "->")
                index += 2
            } else {
                append(.sign, Self.signs[Int(first)])
                index += 1
            }
        }
    }

    private mutating func readWord() {
        let start = index
        repeat {
            index += 1
        } while index < bytes.count && (Self.isOfWord[Int(bytes[index])] || bytes[index] == UInt8(ascii: "`"))
        append(.word, String(decoding: bytes[start..<index], as: UTF8.self))
    }

    private mutating func skipLine() {
        while index < bytes.count, bytes[index] != Self.newline { index += 1 }
    }

    private mutating func readComment() {
        let start = index
        skipLine()
        if start + 2 < index, bytes[start + 2] == Self.slash {
            append(.comment, String(decoding: bytes[(start + 3)..<index], as: UTF8.self))
        }
    }

    private mutating func skipBlockComment() {
        index += 2
        while index < bytes.count, !(byte() == UInt8(ascii: "*") && byte(1) == Self.slash) {
            if bytes[index] == Self.newline { line += 1 }
            index += 1
        }
        index += 2
    }

    /// `#if`, `#elseif`, `#else` and `#endif`.
    private var startsDirective: Bool {
        let rest = bytes[(index + 1)...].prefix { Self.isOfWord[Int($0)] }
        return ["if", "elseif", "else", "endif"].contains(String(decoding: rest, as: UTF8.self))
    }

    /// At the hashes of a raw literal.
    private var isLiteral: Bool { bytes[index...].first { $0 != Self.hash } == Self.quote }

    private func starts(with count: Int, _ byte: UInt8, at offset: Int) -> Bool {
        (0..<count).allSatisfy { self.byte(offset + $0) == byte }
    }

    /// From the first hash or quote to behind the last one.
    private mutating func skipLiteral() {
        let hashes = bytes[index...].prefix { $0 == Self.hash }.count
        index += hashes
        let quotes = starts(with: 3, Self.quote, at: 0) ? 3 : 1
        index += quotes
        while index < bytes.count {
            if bytes[index] == Self.quote, starts(with: quotes, Self.quote, at: 0),
                starts(with: hashes, Self.hash, at: quotes)
            {
                index += quotes + hashes
                return
            }
            guard bytes[index] == UInt8(ascii: "\\"), starts(with: hashes, Self.hash, at: 1) else {
                index += 1
                continue
            }
            index += 1 + hashes
            if byte() == UInt8(ascii: "(") { skipInterpolation() } else { index += 1 }
        }
    }

    private mutating func skipInterpolation() {
        var depth = 0
        repeat {
            if bytes[index] == Self.quote || bytes[index] == Self.hash && isLiteral {
                skipLiteral()
                continue
            }
            if bytes[index] == UInt8(ascii: "(") { depth += 1 }
            if bytes[index] == UInt8(ascii: ")") { depth -= 1 }
            index += 1
        } while index < bytes.count && depth > 0
    }
}
