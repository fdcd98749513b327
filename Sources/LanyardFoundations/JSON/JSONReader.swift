/// A pull parser for one JSON text on bytes that the caller owns (RFC 8259).
///
/// For responses that hold secrets: it returns ranges, makes no `String`, and keeps nothing of the text except a keyed hash of each member
/// name.
///
/// Strict: UTF-8 only, no byte-order mark, no duplicate names in one object, nothing after the value, bounded depth. It takes time linear
/// in the text and never traps, for any bytes. Valid only while the bytes are.
package struct JSONReader: ~Copyable {
    /// One step through the text.
    package enum Token: Equatable, Sendable {
        case objectStart, objectEnd, arrayStart, arrayEnd
        /// A member's name; its value comes next.
        case name(Text)
        case string(Text)
        /// The characters of a number, in the grammar of RFC 8259 §6.
        case number(Range<Int>)
        case bool(Bool)
        case null
        /// The value is complete and nothing follows.
        case end
    }

    /// A string without its quotes, already checked.
    package struct Text: Equatable, Sendable {
        /// Its bytes in the text.
        package let range: Range<Int>
        /// False: the bytes stand for themselves.
        package let hasEscapes: Bool
    }

    private enum Expectation { case value, valueOrArrayEnd, nameOrObjectEnd, name, commaOrEnd, end }

    private let bytes: UnsafeRawBufferPointer
    private let depthMax: Int
    private var offset = 0
    private var expectation = Expectation.value
    /// One entry for each open container: the hashes of the names so far, or nil for an array. `Hasher` has a random key per process, so a
    /// sender cannot construct two names with one hash.
    private var open: [Set<Int>?] = []

    /// - Parameter depthMax: containers open at once.
    package init(_ bytes: UnsafeRawBufferPointer, depthMax: Int = 32) {
        self.bytes = bytes
        self.depthMax = depthMax
    }

    /// Bytes of the text that have been read: the end of the latest token, except for a name, whose colon is read as well.
    package var position: Int { offset }

    /// The next token. After `.end` every further call returns `.end`.
    ///
    /// - Throws: the rule that the text breaks, with the position: the sender is at fault. The reader cannot be used after it.
    package mutating func next() throws(JSONError) -> Token {
        skipSpace()
        if expectation == .commaOrEnd { if let closed = try separator() { return closed } }
        guard let byte = peek() else {
            guard expectation == .end else { throw error(.endsEarly) }
            return .end
        }
        switch (expectation, byte) {
        case (.end, _): throw error(.grammar)
        case (.nameOrObjectEnd, UInt8(ascii: "}")), (.valueOrArrayEnd, UInt8(ascii: "]")): return close()
        case (.nameOrObjectEnd, UInt8(ascii: "\"")), (.name, UInt8(ascii: "\"")): return try name()
        case (.value, _), (.valueOrArrayEnd, _): return try value(byte)
        default: throw error(.grammar)
        }
    }

    /// Skips the next value, whatever it holds.
    ///
    /// - Throws: as `next` does.
    package mutating func skipValue() throws(JSONError) {
        let depth = open.count
        repeat {
            if try next() == .end { return }
        } while open.count > depth
    }

    // MARK: Structure

    /// Between two members: skips the comma, or closes the container.
    private mutating func separator() throws(JSONError) -> Token? {
        guard let byte = peek() else { throw error(.endsEarly) }
        let isObject = open.last.map { $0 != nil } ?? false
        switch byte {
        case UInt8(ascii: ","):
            offset += 1
            skipSpace()
            expectation = isObject ? .name : .value
            return nil
        case UInt8(ascii: "}") where isObject, UInt8(ascii: "]") where !isObject: return close()
        default: throw error(.grammar)
        }
    }

    private mutating func close() -> Token {
        offset += 1
        let wasObject = (open.popLast() ?? nil) != nil
        expectation = open.isEmpty ? .end : .commaOrEnd
        return wasObject ? .objectEnd : .arrayEnd
    }

    private mutating func name() throws(JSONError) -> Token {
        let start = offset
        let text = try string()
        var hasher = Hasher()
        JSONText.decode(text, of: bytes) { hasher.combine($0) }
        let hash = hasher.finalize()
        guard open[open.count - 1]?.insert(hash).inserted == true else { throw JSONError(.duplicateKey, at: start) }
        skipSpace()
        guard let colon = peek() else { throw error(.endsEarly) }
        guard colon == UInt8(ascii: ":") else { throw error(.grammar) }
        offset += 1
        expectation = .value
        return .name(text)
    }

    private mutating func value(_ first: UInt8) throws(JSONError) -> Token {
        switch first {
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            guard open.count < depthMax else { throw error(.tooDeep) }
            offset += 1
            let isObject = first == UInt8(ascii: "{")
            open.append(isObject ? [] : nil)
            expectation = isObject ? .nameOrObjectEnd : .valueOrArrayEnd
            return isObject ? .objectStart : .arrayStart
        case UInt8(ascii: "\""): return valueDone(.string(try string()))
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return valueDone(.number(try number()))
        default: throw error(.grammar)
        }
    }

    private mutating func valueDone(_ token: Token) -> Token {
        expectation = open.isEmpty ? .end : .commaOrEnd
        return token
    }

    // MARK: Scalars

    private mutating func word(_ word: StaticString, _ token: Token) throws(JSONError) -> Token {
        for index in 0..<word.utf8CodeUnitCount {
            guard let byte = peek() else { throw error(.endsEarly) }
            guard byte == word.utf8Start[index] else { throw error(.grammar) }
            offset += 1
        }
        return valueDone(token)
    }

    private mutating func number() throws(JSONError) -> Range<Int> {
        let start = offset
        if peek() == UInt8(ascii: "-") { offset += 1 }
        if peek() == UInt8(ascii: "0") { offset += 1 } else { try digits() }
        if peek() == UInt8(ascii: ".") {
            offset += 1
            try digits()
        }
        if let byte = peek(), byte | 0x20 == UInt8(ascii: "e") {
            offset += 1
            if let sign = peek(), sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { offset += 1 }
            try digits()
        }
        return start..<offset
    }

    /// One digit or more.
    private mutating func digits() throws(JSONError) {
        let start = offset
        while let byte = peek(), byte >= 0x30, byte <= 0x39 { offset += 1 }
        guard offset > start else { throw error(offset < bytes.count ? .grammar : .endsEarly) }
    }

    /// A string; its opening quote is the current byte.
    private mutating func string() throws(JSONError) -> Text {
        offset += 1
        let start = offset
        var hasEscapes = false
        while let byte = peek() {
            switch byte {
            case UInt8(ascii: "\""):
                offset += 1
                return Text(range: start..<(offset - 1), hasEscapes: hasEscapes)
            case UInt8(ascii: "\\"):
                hasEscapes = true
                offset += try JSONText.escapeLength(at: offset, of: bytes)
            case 0x00..<0x20: throw error(.characters)
            case 0x20..<0x80: offset += 1
            default:
                let length = JSONText.sequenceLength(at: offset, of: bytes)
                guard length > 0 else { throw error(.characters) }
                offset += length
            }
        }
        throw error(.endsEarly)
    }

    // MARK: Bytes

    private func peek() -> UInt8? { offset < bytes.count ? bytes[offset] : nil }

    private mutating func skipSpace() {
        while let byte = peek(), byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { offset += 1 }
    }

    private func error(_ kind: JSONError.Kind) -> JSONError { JSONError(kind, at: offset) }
}

/// Why bytes are not JSON that `JSONReader` accepts (RFC 8259, read strictly). Carries a position, never a byte of the text.
///
/// A type of its own, because its users read different formats: each adds what the text was.
package struct JSONError: Error, Equatable, Sendable {
    /// The rule that the text breaks.
    package enum Kind: Equatable, Sendable {
        /// The bytes break the grammar, or something follows the value.
        case grammar
        /// The text ends inside the value.
        case endsEarly
        /// A string holds bytes that are not UTF-8, a bare control character, or half of a surrogate pair.
        case characters
        /// Objects and arrays nested deeper than the limit.
        case tooDeep
        /// An object names a member twice.
        case duplicateKey
    }

    /// The rule that the text breaks.
    package let kind: Kind
    /// Bytes before the position.
    package let offset: Int

    package init(_ kind: Kind, at offset: Int) {
        self.kind = kind
        self.offset = offset
    }
}

extension JSONError.Kind {
    /// The rule in words, for a message that adds the position.
    package var message: String {
        switch self {
        case .grammar: "a syntax error"
        case .endsEarly: "an unexpected end"
        case .characters: "a character that JSON does not allow"
        case .tooDeep: "too many nested levels"
        case .duplicateKey: "a duplicate key"
        }
    }
}
