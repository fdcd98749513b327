/// A switch over a tuple: the patterns of its cases.
struct TupleSwitch {
    /// A part of a pattern.
    enum Part: Equatable {
        /// `_`, or a new name.
        case wildcard
        /// A case of an enumeration.
        case named(String)
        /// `nil`, or a value that is not nil.
        case optional(isSome: Bool)
        /// A number, a text, an expression: the compiler demands a wildcard beside them.
        case value(String)
    }

    /// A pattern.
    struct Row {
        let line: Int
        let parts: [Part]
    }

    private(set) var rows: [Row] = []
    private(set) var hasDefault = false

    /// Those of a Swift text.
    static func all(in text: String) -> [TupleSwitch] {
        let tokens = SwiftTokens.all(of: text).filter { $0.kind != .comment && $0.kind != .directive }
        return tokens.indices.compactMap { index in
            guard tokens[index].text == "switch", tokens[index].kind == .word,
                index == 0 || tokens[index - 1].text != "."
            else { return nil }
            let found = TupleSwitch(tokens, at: index)
            return found.rows.isEmpty ? nil : found
        }
    }

    private init(_ tokens: [SwiftToken], at start: Int) {
        var (index, depth) = (start + 1, 0)
        while index < tokens.count, depth > 0 || tokens[index].text != "{" {
            depth += Self.step(tokens[index])
            index += 1
        }
        repeat {
            guard index < tokens.count else { return }
            if depth == 1, tokens[index].kind == .word, index + 1 < tokens.count {
                if tokens[index].text == "default", tokens[index + 1].text == ":" { hasDefault = true }
                if tokens[index].text == "case", !Self.wordsBeforeCondition.contains(tokens[index - 1].text) {
                    index = readPatterns(tokens, from: index + 1)
                }
            }
            depth += Self.step(tokens[index])
            index += 1
        } while depth > 0
    }

    /// Behind them a `case` is a condition.
    private static let wordsBeforeCondition: Set<String> = [",", "if", "guard", "while", "for"]

    private static func step(_ token: SwiftToken) -> Int { token.isOpening ? 1 : token.isClosing ? -1 : 0 }

    /// The place of the colon behind them.
    private mutating func readPatterns(_ tokens: [SwiftToken], from start: Int) -> Int {
        var pattern: [SwiftToken] = []
        var (index, depth) = (start, 0)
        while index < tokens.count - 1 {
            let token = tokens[index]
            if depth == 0, token.text == ":" || token.text == "," {
                add(pattern)
                pattern = []
                if token.text == ":" { return index }
            } else {
                depth += Self.step(token)
                pattern.append(token)
            }
            index += 1
        }
        return index
    }

    private mutating func add(_ pattern: [SwiftToken]) {
        guard let first = pattern.first else { return }
        let isBinding = Self.bindings.contains(first.text)
        let tuple = isBinding ? pattern.dropFirst() : pattern[...]
        guard tuple.first?.text == "(" else { return }
        var parts: [[SwiftToken]] = [[]]
        var depth = 0
        for token in tuple {
            depth += Self.step(token)
            if depth == 0 { break }
            if depth == 1, token.text == "," {
                parts.append([])
            } else if depth > 1 || !token.isOpening {
                parts[parts.count - 1].append(token)
            }
        }
        guard parts.count > 1 else { return }
        rows.append(Row(line: first.line, parts: parts.map { Self.part($0, isBinding: isBinding) }))
    }

    private static let bindings: Set<String> = ["let", "var"]

    private static func part(_ tokens: [SwiftToken], isBinding: Bool) -> Part {
        let isOwnBinding = tokens.first.map { bindings.contains($0.text) } ?? false
        let words = (isOwnBinding ? tokens.dropFirst() : tokens[...]).map(\.text)
        if words == ["_"] || words.count == 1 && (isBinding || isOwnBinding) { return .wildcard }
        if words.first == ".", words.count > 1 {
            return words[1] == "some" ? .optional(isSome: true) : .named(words[1])
        }
        if words == ["nil"] { return .optional(isSome: false) }
        return words.last == "?" ? .optional(isSome: true) : .value(words.joined())
    }

    // MARK: Wildcards

    /// The lines of wildcards that stand for the remaining cases of an enumeration: see `ExhaustiveSwitchTests`.
    var remainders: [Int] {
        guard !hasDefault else { return [] }
        let lines = rows.indices.filter { row in
            rows[row].parts.indices.contains { isRemainder(at: $0, row) }
        }.map { rows[$0].line }
        return Set(lines).sorted()
    }

    /// An earlier row names a case where this one has a wildcard, and can match the same values elsewhere.
    private func isRemainder(at position: Int, _ row: Int) -> Bool {
        let parts = rows[row].parts
        guard parts[position] == .wildcard, canGrow(at: position) else { return false }
        return rows[..<row].contains { earlier in
            guard earlier.parts.count == parts.count, case .named = earlier.parts[position] else { return false }
            return parts.indices.allSatisfy { other in
                let (first, second) = (earlier.parts[other], parts[other])
                return other == position || first == second || first == .wildcard || second == .wildcard
            }
        }
    }

    /// The values there are of an enumeration of ours.
    private func canGrow(at position: Int) -> Bool {
        var hasCase = false
        for row in rows where row.parts.indices.contains(position) {
            switch row.parts[position] {
            case .named("success"), .named("failure"), .wildcard, .optional: break
            case .named: hasCase = true
            case .value: return false
            }
        }
        return hasCase
    }
}
