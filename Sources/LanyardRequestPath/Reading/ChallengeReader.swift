/// Reads the value of one `WWW-Authenticate` field: a list of challenges, each a scheme with a token68 or with parameters
/// (RFC 9110 §§11.2, 11.3, 11.6.1). Allocates nothing; its results are ranges of the value.
///
/// Commas separate challenges as well as parameters. So only what follows a word tells its kind: `=` makes it the name
/// of a parameter, anything else a scheme. Any other syntax is an error, which says nothing about the response: the
/// caller ignores the field.
package struct ChallengeReader {
    package enum Element {
        /// A challenge begins.
        case scheme(Bytes)
        /// The token68 of the challenge, which then has no parameters.
        case token68(Bytes)
        case parameter(name: Bytes, ChallengeValue)
    }

    private enum State {
        /// No challenge was read: a parameter would belong to none.
        case nothing
        /// A scheme and one space were read: a token68 or the first parameter may follow directly.
        case afterScheme
        /// In a challenge that takes parameters.
        case parameters
        /// Behind a token68, which stands alone.
        case complete
    }

    private let value: Bytes
    private var position = 0
    private var state: State

    /// - Parameter continued: a field of that name came before, and its last challenge may continue: several fields are
    ///   one list (RFC 9110 §5.3).
    package init(_ value: Bytes, continued: Bool = false) {
        self.value = value
        state = continued ? .parameters : .nothing
    }

    /// The next element, nil at the end.
    ///
    /// - Throws: `malformed`: the field is no list of challenges, by the upstream's fault. The caller ignores the rest of the field.
    package mutating func next() throws(HeadError) -> Element? {
        if state == .afterScheme, let element = try readAfterScheme() { return element }
        // Empty members are skipped (RFC 9110 §5.6.1).
        while let byte = current, byte == UInt8(ascii: ",") || ByteClass.isSpace(byte) { position += 1 }
        guard current != nil else { return nil }
        let start = position
        let word = readToken()
        guard word.count > 0 else { throw Self.malformedError }
        let end = position
        skipSpace()
        if current == UInt8(ascii: "=") {
            position = start
            return try readParameter()
        }
        let hasSpace = position > end
        if isAtMemberEnd {
            state = .parameters
        } else {
            guard hasSpace else { throw Self.malformedError }
            state = .afterScheme
        }
        return .scheme(word)
    }

    private static let malformedError = HeadError.malformed("a WWW-Authenticate field that is not a list of challenges")

    private var current: UInt8? { position < value.count ? value[position] : nil }

    private var isAtMemberEnd: Bool { current == nil || current == UInt8(ascii: ",") }

    private mutating func skipSpace() {
        while let byte = current, ByteClass.isSpace(byte) { position += 1 }
    }

    private mutating func readToken() -> Bytes {
        let start = position
        while let byte = current, ByteClass.isToken(byte) { position += 1 }
        return value[run: start..<position]
    }

    /// Reads a token68 if the whole member is one, else the first parameter.
    private mutating func readAfterScheme() throws(HeadError) -> Element? {
        state = .parameters
        let start = position
        while let byte = current, Self.isToken68(byte) { position += 1 }
        let letters = position
        while current == UInt8(ascii: "=") { position += 1 }
        let end = position
        skipSpace()
        guard letters > start, isAtMemberEnd else {
            position = start
            return try readParameter()
        }
        state = .complete
        return .token68(value[run: start..<end])
    }

    private static func isToken68(_ byte: UInt8) -> Bool {
        ByteClass.isAlphanumeric(byte) || "-._~+/".utf8.contains(byte)
    }

    private mutating func readParameter() throws(HeadError) -> Element {
        guard state == .parameters else { throw Self.malformedError }
        let name = readToken()
        skipSpace()
        guard name.count > 0, current == UInt8(ascii: "=") else { throw Self.malformedError }
        position += 1
        skipSpace()
        let content: ChallengeValue
        if current == UInt8(ascii: "\"") {
            content = try readQuotedString()
        } else {
            content = ChallengeValue(raw: readToken(), isQuoted: false)
            guard content.raw.count > 0 else { throw Self.malformedError }
        }
        skipSpace()
        guard isAtMemberEnd else { throw Self.malformedError }
        return .parameter(name: name, content)
    }

    /// Reads a quoted string (RFC 9110 §5.6.4), in which commas and escaped quotes are text.
    private mutating func readQuotedString() throws(HeadError) -> ChallengeValue {
        position += 1
        let start = position
        while let byte = current {
            if byte == UInt8(ascii: "\"") {
                position += 1
                return ChallengeValue(raw: value[run: start..<position - 1], isQuoted: true)
            }
            if byte == UInt8(ascii: "\\") { position += 1 }
            guard let text = current, ByteClass.isValue(text) else { throw Self.malformedError }
            position += 1
        }
        throw Self.malformedError
    }
}

/// The value of a challenge's parameter: a token, or the content of a quoted string with its escapes.
package struct ChallengeValue {
    /// As received, without the quotes.
    package let raw: Bytes
    package let isQuoted: Bool

    package init(raw: Bytes, isQuoted: Bool) {
        self.raw = raw
        self.isQuoted = isQuoted
    }

    /// Whether the value is this text, without regard to ASCII case; `lowered` is already lower case.
    package func equals(lowered text: StaticString) -> Bool {
        guard isQuoted else { return raw.equals(lowered: text) }
        var position = 0
        for index in 0..<text.utf8CodeUnitCount {
            if position < raw.count, raw[position] == UInt8(ascii: "\\") { position += 1 }
            guard position < raw.count, ByteClass.lower(raw[position]) == text.utf8Start[index] else { return false }
            position += 1
        }
        return position == raw.count
    }
}
