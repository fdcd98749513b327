/// Which bytes HTTP allows where (RFC 9110 §5.6), as bit masks: no table is loaded, no bounds are checked.
package enum ByteClass {
    /// `tchar`: bytes of methods, field names, list words.
    @inline(__always)
    package static func isToken(_ byte: UInt8) -> Bool {
        // ! # $ % & ' * + - . 0-9 below 64; A-Z ^ _ ` a-z | ~ from 64 on.
        let low: UInt64 = 0x03ff_6cfa_0000_0000
        let high: UInt64 = 0x57ff_ffff_c7ff_fffe
        guard byte < 128 else { return false }
        return (byte < 64 ? low : high) >> UInt64(byte & 63) & 1 == 1
    }

    /// Bytes of a request target (http-rules.md 1.5): visible ASCII except `#`.
    @inline(__always)
    package static func isTarget(_ byte: UInt8) -> Bool {
        byte > 0x20 && byte < 0x7f && byte != UInt8(ascii: "#")
    }

    /// Bytes of a field value or reason phrase (RFC 9110 §5.5): HTAB, SP, visible ASCII, and from 0x80 on.
    @inline(__always)
    package static func isValue(_ byte: UInt8) -> Bool {
        (byte >= 0x20 && byte != 0x7f) || byte == 0x09
    }

    @inline(__always)
    package static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }

    @inline(__always)
    package static func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- 0x61 < 26 }

    @inline(__always)
    package static func isAlphanumeric(_ byte: UInt8) -> Bool { isDigit(byte) || isLetter(byte) }

    /// The value of a hex digit in any case, or nil.
    @inline(__always)
    package static func hexValue(_ byte: UInt8) -> UInt8? {
        if isDigit(byte) { return byte - 0x30 }
        let letter = (byte | 0x20) &- 0x61
        return letter < 6 ? letter + 10 : nil
    }

    /// ASCII lower case; other bytes as they are.
    @inline(__always)
    package static func lower(_ byte: UInt8) -> UInt8 { byte &- 0x41 < 26 ? byte | 0x20 : byte }

    /// SP and HTAB.
    @inline(__always)
    package static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}
