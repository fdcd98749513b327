import LanyardFoundations

/// Writes a JSON text anew, without white space and with every string escaped in one way only: two texts that mean the same are then
/// the same bytes.
final class JSONRewriter {
    private var text = SecretBuffer(capacity: 1 << 10)
    private var needsComma = false

    /// The text that `rewrite` made.
    func withBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
        try text.withBytes(body)
    }

    /// - Returns: why `bytes` are no JSON, or nil.
    func rewrite(_ bytes: UnsafeRawBufferPointer) -> JSONError? {
        text.removeAll()
        needsComma = false
        var reader = JSONReader(bytes)
        do throws(JSONError) {
            while true {
                let token = try reader.next()
                if token == .end { return nil }
                write(token, of: bytes)
            }
        } catch {
            return error
        }
    }

    /// Why `bytes` are no JSON, or nil.
    static func error(in bytes: UnsafeRawBufferPointer) -> JSONError? {
        var reader = JSONReader(bytes)
        do throws(JSONError) {
            while try reader.next() != .end {}
            return nil
        } catch {
            return error
        }
    }

    private func write(_ token: JSONReader.Token, of bytes: UnsafeRawBufferPointer) {
        switch token {
        case .objectStart: open(UInt8(ascii: "{"))
        case .arrayStart: open(UInt8(ascii: "["))
        case .objectEnd: close(UInt8(ascii: "}"))
        case .arrayEnd: close(UInt8(ascii: "]"))
        case .name(let name):
            string(name, of: bytes)
            text.append(UInt8(ascii: ":"))
            needsComma = false
        case .string(let value): string(value, of: bytes)
        case .number(let range):
            comma()
            text.append(UnsafeRawBufferPointer(rebasing: bytes[range]))
        case .bool(let value):
            comma()
            text.append(value ? "true" : "false")
        case .null:
            comma()
            text.append("null")
        case .end: break
        }
    }

    private func open(_ bracket: UInt8) {
        comma()
        text.append(bracket)
        needsComma = false
    }

    private func close(_ bracket: UInt8) {
        text.append(bracket)
        needsComma = true
    }

    private func comma() {
        if needsComma { text.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private func string(_ value: JSONReader.Text, of bytes: UnsafeRawBufferPointer) {
        comma()
        var decoded = SecretBuffer(capacity: value.range.count)
        JSONText.decode(value, of: bytes) { decoded.append($0) }
        let isText = decoded.withBytes { JSONText.write($0, into: &text) }
        if !isText { fatalError("a string was accepted that is no UTF-8") }
    }
}
