/// Reads JSON (RFC 8259) strictly.
struct JSONReader {
    /// Why bytes are no JSON. A type of its own, because the response and the configuration have their own words for it.
    struct ReadError: Error, Equatable {
        /// The byte at which reading ended.
        var position: Int
    }

    /// Arrays and objects inside each other.
    static let depthMax = 100

    private let bytes: [UInt8]
    private var position = 0
    private var depth = 0

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Reads one document. Only white space may follow it.
    static func read(_ bytes: [UInt8]) throws(ReadError) -> JSONValue {
        var reader = JSONReader(bytes)
        let value = try reader.value()
        reader.skipSpace()
        guard reader.position == bytes.count else { throw reader.failure }
        return value
    }

    private var failure: ReadError { ReadError(position: position) }
    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    private mutating func accept(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        position += 1
        return true
    }

    private mutating func value() throws(ReadError) -> JSONValue {
        skipSpace()
        switch next {
        case UInt8(ascii: "{"): return try nested { reader throws(ReadError) in .object(try reader.object()) }
        case UInt8(ascii: "["): return try nested { reader throws(ReadError) in .array(try reader.array()) }
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try literal("true", .boolean(true))
        case UInt8(ascii: "f"): return try literal("false", .boolean(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        default: return .number(try number())
        }
    }

    private mutating func nested(
        _ read: (inout JSONReader) throws(ReadError) -> JSONValue
    ) throws(ReadError) -> JSONValue {
        guard depth < Self.depthMax else { throw failure }
        depth += 1
        position += 1
        let value = try read(&self)
        depth -= 1
        return value
    }

    private mutating func literal(_ text: StaticString, _ value: JSONValue) throws(ReadError) -> JSONValue {
        for index in 0..<text.utf8CodeUnitCount {
            guard accept(text.utf8Start[index]) else { throw failure }
        }
        return value
    }

    private mutating func object() throws(ReadError) -> JSONObject {
        var object = JSONObject()
        skipSpace()
        if accept(UInt8(ascii: "}")) { return object }
        while true {
            skipSpace()
            guard next == UInt8(ascii: "\"") else { throw failure }
            let key = try string()
            skipSpace()
            guard accept(UInt8(ascii: ":")) else { throw failure }
            object[key] = try value()
            skipSpace()
            if accept(UInt8(ascii: "}")) { return object }
            guard accept(UInt8(ascii: ",")) else { throw failure }
        }
    }

    private mutating func array() throws(ReadError) -> [JSONValue] {
        var elements: [JSONValue] = []
        skipSpace()
        if accept(UInt8(ascii: "]")) { return elements }
        while true {
            elements.append(try value())
            skipSpace()
            if accept(UInt8(ascii: "]")) { return elements }
            guard accept(UInt8(ascii: ",")) else { throw failure }
        }
    }

    private mutating func string() throws(ReadError) -> String {
        position += 1
        var text: [UInt8] = []
        while let byte = next {
            position += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let string = String(validating: text, as: UTF8.self) else { throw failure }
                return string
            case UInt8(ascii: "\\"): text += Array(String(try escape()).utf8)
            case 0..<0x20: throw failure
            default: text.append(byte)
            }
        }
        throw failure
    }

    /// The character after a backslash. Half of a surrogate pair becomes U+FFFD.
    private mutating func escape() throws(ReadError) -> Character {
        guard let byte = next else { throw failure }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Character(Unicode.Scalar(byte))
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            let unit = try codeUnit()
            if UTF16.isLeadSurrogate(unit), position + 1 < bytes.count, bytes[position] == UInt8(ascii: "\\"),
                bytes[position + 1] == UInt8(ascii: "u")
            {
                let start = position
                position += 2
                let second = try codeUnit()
                if UTF16.isTrailSurrogate(second) {
                    return Character(String(decoding: [unit, second], as: UTF16.self))
                }
                position = start
            }
            return Character(Unicode.Scalar(unit) ?? "\u{FFFD}")
        default: throw failure
        }
    }

    private mutating func codeUnit() throws(ReadError) -> UInt16 {
        guard position + 4 <= bytes.count,
            bytes[position..<position + 4].allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
            let unit = UInt16(String(decoding: bytes[position..<position + 4], as: UTF8.self), radix: 16)
        else { throw failure }
        position += 4
        return unit
    }

    private mutating func number() throws(ReadError) -> String {
        let start = position
        _ = accept(UInt8(ascii: "-"))
        if !accept(UInt8(ascii: "0")) { try digits() }
        if accept(UInt8(ascii: ".")) { try digits() }
        if accept(UInt8(ascii: "e")) || accept(UInt8(ascii: "E")) {
            if !accept(UInt8(ascii: "+")) { _ = accept(UInt8(ascii: "-")) }
            try digits()
        }
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }

    /// At least one digit.
    private mutating func digits() throws(ReadError) {
        let start = position
        while let byte = next, (0x30...0x39).contains(byte) { position += 1 }
        guard position > start else { throw failure }
    }
}
