/// A range of bytes in a buffer that another object owns. The owner's comment says how long it is valid.
package typealias Bytes = UnsafeBufferPointer<UInt8>

extension UnsafeBufferPointer where Element == UInt8 {
    /// The bytes of `range`.
    @inline(__always)
    package subscript(run range: Range<Int>) -> Bytes {
        Bytes(start: baseAddress.unsafelyUnwrapped + range.lowerBound, count: range.count)
    }

    /// Equality byte for byte.
    @inline(__always)
    package func isEqual(to text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        return count == 0 || Word.areEqual(baseAddress.unsafelyUnwrapped, text.utf8Start, count)
    }

    /// Equality byte for byte.
    @inline(__always)
    func isEqual(to bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBufferPointer { other in
            guard count == other.count else { return false }
            guard count > 0 else { return true }
            return Word.areEqual(baseAddress.unsafelyUnwrapped, other.baseAddress.unsafelyUnwrapped, count)
        }
    }

    /// Equality without regard to ASCII case. `lowered` is already lower case.
    @inline(__always)
    package func equals(lowered: StaticString) -> Bool {
        guard count == lowered.utf8CodeUnitCount else { return false }
        return count == 0 || Word.areSame(baseAddress.unsafelyUnwrapped, lowered.utf8Start, count)
    }

    /// Equality without regard to ASCII case.
    @inline(__always)
    package func equalsIgnoringCase(_ other: Bytes) -> Bool {
        guard count == other.count else { return false }
        return count == 0 || Word.areSame(baseAddress.unsafelyUnwrapped, other.baseAddress.unsafelyUnwrapped, count)
    }

    /// Equality without regard to ASCII case when each byte that is no letter or digit is read as `-`
    /// (http-forwarding.md 10.4).
    func resembles(_ other: Bytes) -> Bool {
        guard count == other.count else { return false }
        for index in 0..<count where ByteClass.canonical(self[index]) != ByteClass.canonical(other[index]) {
            return false
        }
        return true
    }

    /// Begins with these letters, without regard to ASCII case.
    @inline(__always)
    package func hasPrefix(lowered: StaticString) -> Bool {
        guard count >= lowered.utf8CodeUnitCount else { return false }
        return self[run: 0..<lowered.utf8CodeUnitCount].equals(lowered: lowered)
    }

    /// Without SP and HTAB at both ends.
    package var trimmed: Bytes {
        var (start, end) = (0, count)
        while start < end, ByteClass.isSpace(self[start]) { start += 1 }
        while end > start, ByteClass.isSpace(self[end - 1]) { end -= 1 }
        return self[run: start..<end]
    }

    /// A decimal number of ASCII digits only, at most `Int.max`: no sign, separator or empty text (RFC 9110 §8.6).
    package var decimal: Int? {
        guard count > 0 else { return nil }
        var value = 0
        for byte in self {
            guard ByteClass.isDigit(byte) else { return nil }
            let (tens, first) = value.multipliedReportingOverflow(by: 10)
            let (sum, second) = tens.addingReportingOverflow(Int(byte - 0x30))
            guard !first, !second else { return nil }
            value = sum
        }
        return value
    }
}

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

    /// Letters, digits and `-`: what ordinary field names have.
    @inline(__always)
    static func isPlainName(_ byte: UInt8) -> Bool {
        let low: UInt64 = 0x03ff_2000_0000_0000
        let high: UInt64 = 0x07ff_fffe_07ff_fffe
        return byte < 128 && (byte < 64 ? low : high) >> UInt64(byte & 63) & 1 == 1
    }

    /// Bytes of a request target (http-requests.md 1.5): visible ASCII except `#`.
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

    /// The byte as a look-alike's reader has it: lower case, and `-` for each byte that is no letter or digit
    /// (http-forwarding.md 10.4).
    @inline(__always)
    static func canonical(_ byte: UInt8) -> UInt8 { isAlphanumeric(byte) ? lower(byte) : UInt8(ascii: "-") }

    /// SP and HTAB.
    @inline(__always)
    package static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}
