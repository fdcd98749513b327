/// The characters of JSON strings: their escapes and their UTF-8, read and written on bytes.
package enum JSONText {
    /// Passes the bytes that a checked string stands for to `emit`, one by one.
    package static func decode(_ text: JSONReader.Text, of bytes: UnsafeRawBufferPointer, _ emit: (UInt8) -> Void) {
        var offset = text.range.lowerBound
        while offset < text.range.upperBound {
            let byte = bytes[offset]
            guard byte == UInt8(ascii: "\\") else {
                emit(byte)
                offset += 1
                continue
            }
            guard let (scalar, length) = escape(at: offset, of: bytes) else { return }
            encode(scalar, emit)
            offset += length
        }
    }

    /// A copy of the bytes that a checked string stands for; nil if there are more than `countMax`.
    package static func secret(_ text: JSONReader.Text, of bytes: UnsafeRawBufferPointer, countMax: Int) -> Secret? {
        guard text.range.count <= countMax || text.hasEscapes else { return nil }
        var buffer = SecretBuffer(capacity: min(text.range.count, countMax))
        var count = 0
        decode(text, of: bytes) { byte in
            count += 1
            if count <= countMax { buffer.append(byte) }
        }
        return count <= countMax ? buffer.seal() : nil
    }

    /// Whether a checked string equals this word.
    package static func matches(_ text: JSONReader.Text, of bytes: UnsafeRawBufferPointer, _ word: StaticString) -> Bool
    {
        var (count, same) = (0, true)
        let length = word.utf8CodeUnitCount
        decode(text, of: bytes) { byte in
            if count >= length || word.utf8Start[count] != byte { same = false }
            count += 1
        }
        return same && count == length
    }

    /// Writes a string with its quotes. False, with `buffer` unusable, if the bytes are not UTF-8.
    package static func write(_ bytes: UnsafeRawBufferPointer, into buffer: inout SecretBuffer) -> Bool {
        buffer.append(UInt8(ascii: "\""))
        var offset = 0
        while offset < bytes.count {
            let byte = bytes[offset]
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                buffer.append(UInt8(ascii: "\\"))
                buffer.append(byte)
            case 0..<0x20:
                buffer.append("\\u00")
                buffer.append(Hex.digit(byte >> 4))
                buffer.append(Hex.digit(byte & 15))
            case 0x20..<0x80: buffer.append(byte)
            default:
                let length = sequenceLength(at: offset, of: bytes)
                guard length > 0 else { return false }
                for index in offset..<(offset + length) { buffer.append(bytes[index]) }
                offset += length - 1
            }
            offset += 1
        }
        buffer.append(UInt8(ascii: "\""))
        return true
    }

    /// Writes text that is not secret, with its quotes.
    package static func write(_ text: String, into buffer: inout SecretBuffer) {
        var text = text
        text.withUTF8 { _ = write(UnsafeRawBufferPointer($0), into: &buffer) }
    }

    // MARK: Checking

    /// Bytes of the escape at `offset`; a surrogate pair is one escape of 12.
    static func escapeLength(at offset: Int, of bytes: UnsafeRawBufferPointer) throws(JSONError) -> Int {
        if let (_, length) = escape(at: offset, of: bytes) { return length }
        // The longest escape has twelve bytes. With fewer left, more text could have completed it.
        guard offset + 2 <= bytes.count else { throw JSONError(.endsEarly, at: offset) }
        throw JSONError(bytes[offset + 1] == UInt8(ascii: "u") ? .characters : .grammar, at: offset)
    }

    /// Bytes of the well-formed UTF-8 sequence at `offset` (Unicode table 3-7), 0 if there is none. For bytes from 0x80.
    static func sequenceLength(at offset: Int, of bytes: UnsafeRawBufferPointer) -> Int {
        let length: Int
        let second: ClosedRange<UInt8>
        switch bytes[offset] {
        case 0xc2...0xdf: (length, second) = (2, 0x80...0xbf)
        case 0xe0: (length, second) = (3, 0xa0...0xbf)
        case 0xed: (length, second) = (3, 0x80...0x9f)
        case 0xe1...0xef: (length, second) = (3, 0x80...0xbf)
        case 0xf0: (length, second) = (4, 0x90...0xbf)
        case 0xf1...0xf3: (length, second) = (4, 0x80...0xbf)
        case 0xf4: (length, second) = (4, 0x80...0x8f)
        default: return 0
        }
        guard offset + length <= bytes.count, second.contains(bytes[offset + 1]) else { return 0 }
        for index in (offset + 2)..<max(offset + length, offset + 2) where bytes[index] & 0xc0 != 0x80 { return 0 }
        return length
    }

    /// The scalar and the length of the escape at `offset`, nil if there is none.
    private static func escape(at offset: Int, of bytes: UnsafeRawBufferPointer) -> (scalar: UInt32, length: Int)? {
        guard offset + 1 < bytes.count else { return nil }
        switch bytes[offset + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return (UInt32(bytes[offset + 1]), 2)
        case UInt8(ascii: "b"): return (0x08, 2)
        case UInt8(ascii: "f"): return (0x0c, 2)
        case UInt8(ascii: "n"): return (0x0a, 2)
        case UInt8(ascii: "r"): return (0x0d, 2)
        case UInt8(ascii: "t"): return (0x09, 2)
        case UInt8(ascii: "u"): break
        default: return nil
        }
        guard let first = hex(at: offset + 2, of: bytes) else { return nil }
        switch first {
        case 0xdc00...0xdfff: return nil
        case 0xd800...0xdbff:
            guard offset + 7 < bytes.count, bytes[offset + 6] == UInt8(ascii: "\\"),
                bytes[offset + 7] == UInt8(ascii: "u"),
                let second = hex(at: offset + 8, of: bytes), (0xdc00...0xdfff).contains(second)
            else { return nil }
            return (0x10000 + (first - 0xd800) << 10 + (second - 0xdc00), 12)
        default: return (first, 6)
        }
    }

    private static func hex(at offset: Int, of bytes: UnsafeRawBufferPointer) -> UInt32? {
        guard offset + 4 <= bytes.count else { return nil }
        var value: UInt32 = 0
        for index in offset..<(offset + 4) {
            let byte = bytes[index]
            switch byte {
            case 0x30...0x39: value = value << 4 | UInt32(byte - 0x30)
            case 0x41...0x46, 0x61...0x66: value = value << 4 | UInt32((byte | 0x20) - 0x57)
            default: return nil
            }
        }
        return value
    }

    private static func encode(_ scalar: UInt32, _ emit: (UInt8) -> Void) {
        switch scalar {
        case 0..<0x80: emit(UInt8(scalar))
        case 0x80..<0x800:
            emit(UInt8(0xc0 | scalar >> 6))
            emit(UInt8(0x80 | scalar & 0x3f))
        case 0x800..<0x10000:
            emit(UInt8(0xe0 | scalar >> 12))
            emit(UInt8(0x80 | scalar >> 6 & 0x3f))
            emit(UInt8(0x80 | scalar & 0x3f))
        default:
            emit(UInt8(0xf0 | scalar >> 18 & 0x07))
            emit(UInt8(0x80 | scalar >> 12 & 0x3f))
            emit(UInt8(0x80 | scalar >> 6 & 0x3f))
            emit(UInt8(0x80 | scalar & 0x3f))
        }
    }
}

/// Whole numbers from JSON's number grammar.
package enum JSONNumber {
    /// The whole part of a number, towards zero; nil if it is no number. One beyond 64 bits is the end of their range.
    package static func integer(_ text: Slice<UnsafeRawBufferPointer>) -> Int64? {
        let isNegative = text.first == UInt8(ascii: "-")
        let magnitude = isNegative ? text.dropFirst() : text
        let whole = magnitude.prefix(while: isDigit)
        guard !whole.isEmpty else { return nil }
        var rest = magnitude.dropFirst(whole.count)
        var fraction = rest.prefix(0)
        if rest.first == UInt8(ascii: ".") {
            fraction = rest.dropFirst().prefix(while: isDigit)
            guard !fraction.isEmpty else { return nil }
            rest = rest.dropFirst(1 + fraction.count)
        }
        guard let exponent = exponent(rest) else { return nil }
        // Digits before the decimal point, once it has been moved by the exponent.
        let places = whole.count.clampedSum(exponent)
        var value: Int64 = 0
        func append(_ digit: Int64) {
            value = value.clampedProduct(10).clampedSum(isNegative ? -digit : digit)
        }
        for (place, byte) in [whole, fraction].joined().enumerated() where place < places { append(Int64(byte - 0x30)) }
        // 19 digits reach the end of the range.
        let missing = places.clampedDifference(whole.count + fraction.count)
        for _ in 0..<min(max(missing, 0), 19) { append(0) }
        return value
    }

    /// What follows the digits: nothing, or an exponent; nil: something else.
    private static func exponent(_ text: Slice<UnsafeRawBufferPointer>) -> Int? {
        guard let mark = text.first else { return 0 }
        var digits = text.dropFirst()
        let isNegative = digits.first == UInt8(ascii: "-")
        if isNegative || digits.first == UInt8(ascii: "+") { digits = digits.dropFirst() }
        guard mark | 0x20 == UInt8(ascii: "e"), !digits.isEmpty, digits.allSatisfy(isDigit) else { return nil }
        let value = digits.reduce(0) { $0.clampedProduct(10).clampedSum(Int($1 - 0x30)) }
        return isNegative ? -value : value
    }

    private static func isDigit(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte }
}
