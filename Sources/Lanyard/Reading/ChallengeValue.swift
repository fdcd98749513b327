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
