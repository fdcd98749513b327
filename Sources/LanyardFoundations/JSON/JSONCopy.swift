/// JSON text that is put together from the tokens of another one, in wiped memory and without white space.
package struct JSONCopy: ~Copyable {
    private let bytes: UnsafeRawBufferPointer
    private var buffer = SecretBuffer(capacity: 1024)
    private var needsComma = false

    /// - Parameter bytes: the text that the tokens refer to.
    package init(of bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// A member's name.
    package mutating func append(key: StaticString) {
        comma()
        buffer.append("\"\(key)\":")
        needsComma = false
    }

    /// One token. A container is complete with its end.
    package mutating func append(_ token: JSONReader.Token) {
        switch token {
        case .objectEnd: close("}")
        case .arrayEnd: close("]")
        case .end: break
        default:
            comma()
            write(token)
        }
    }

    private mutating func write(_ token: JSONReader.Token) {
        needsComma = true
        switch token {
        case .objectStart: open("{")
        case .arrayStart: open("[")
        case .name(let text):
            quote(text)
            buffer.append(":")
            needsComma = false
        case .string(let text): quote(text)
        case .number(let range): buffer.append(UnsafeRawBufferPointer(rebasing: bytes[range]))
        case .bool(let value): buffer.append(value ? "true" : "false")
        case .null: buffer.append("null")
        case .objectEnd, .arrayEnd, .end: break
        }
    }

    private mutating func comma() {
        if needsComma { buffer.append(",") }
    }

    private mutating func open(_ bracket: String) {
        buffer.append(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: String) {
        buffer.append(bracket)
        needsComma = true
    }

    /// With its escapes as they came.
    private mutating func quote(_ text: JSONReader.Text) {
        buffer.append("\"")
        buffer.append(UnsafeRawBufferPointer(rebasing: bytes[text.range]))
        buffer.append("\"")
    }

    /// The next value of `reader`, whatever it holds.
    ///
    /// - Returns: its first token.
    /// - Throws: the reader's error: the text is not JSON. A part of the value may have been appended.
    @discardableResult
    package mutating func appendValue(of reader: inout JSONReader) throws(JSONError) -> JSONReader.Token {
        let first = try reader.next()
        append(first)
        guard first == .objectStart || first == .arrayStart else { return first }
        var depth = 1
        while depth > 0 {
            let token = try reader.next()
            append(token)
            switch token {
            case .objectStart, .arrayStart: depth += 1
            case .objectEnd, .arrayEnd: depth -= 1
            case .end: return first
            default: break
            }
        }
        return first
    }

    /// The text so far.
    package consuming func seal() -> Secret { buffer.seal() }
}
