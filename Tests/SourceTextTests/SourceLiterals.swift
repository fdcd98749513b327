/// The string literals of a piece of Swift. Literals that a plus joins are one, and an interpolation is the word `VALUE`.
struct SourceLiterals {
    private let bytes: [UInt8]
    private var index = 0

    /// Without those of comments.
    static func all(of text: String) -> [String] {
        let code = SourceFiles.codeLines(of: text).map(\.text).joined(separator: "\n")
        var reader = SourceLiterals(bytes: Array(code.utf8))
        return reader.readAll()
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    private static let quote = UInt8(ascii: "\"")

    private mutating func readAll() -> [String] {
        var literals: [String] = []
        while index < bytes.count {
            if bytes[index] == Self.quote {
                var literal: [UInt8] = []
                repeat { literal += readLiteral() } while skipPlus()
                literals.append(String(decoding: literal, as: UTF8.self))
            } else {
                index += 1
            }
        }
        return literals
    }

    private func starts(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard index + count <= bytes.count else { return false }
        return (0..<count).allSatisfy { bytes[index + $0] == text.utf8Start[$0] }
    }

    /// From an opening quote to behind the closing one.
    private mutating func readLiteral() -> [UInt8] {
        let isPage = starts("\"\"\"")
        index += isPage ? 3 : 1
        var literal: [UInt8] = []
        while index < bytes.count {
            if isPage ? starts("\"\"\"") : bytes[index] == Self.quote {
                index += isPage ? 3 : 1
                return literal
            }
            if starts("\\(") {
                skipInterpolation()
                literal += "VALUE".utf8
            } else if starts("\\\n") {
                index += 2
                while index < bytes.count, bytes[index] == UInt8(ascii: " ") { index += 1 }
            } else if bytes[index] == UInt8(ascii: "\\"), index + 1 < bytes.count {
                literal.append(bytes[index + 1])
                index += 2
            } else {
                literal.append(bytes[index])
                index += 1
            }
        }
        return literal
    }

    private mutating func skipInterpolation() {
        index += 2
        var depth = 1
        while index < bytes.count, depth > 0 {
            switch bytes[index] {
            case UInt8(ascii: "("): depth += 1
            case UInt8(ascii: ")"): depth -= 1
            case Self.quote:
                _ = readLiteral()
                continue
            default: break
            }
            index += 1
        }
    }

    /// Whether a plus and another literal follow; it is then at its quote.
    private mutating func skipPlus() -> Bool {
        let start = index
        var hasPlus = false
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: " "), UInt8(ascii: "\n"): index += 1
            case UInt8(ascii: "+") where !hasPlus:
                hasPlus = true
                index += 1
            case Self.quote where hasPlus: return true
            default:
                index = start
                return false
            }
        }
        return false
    }
}
