/// A range of bytes in a buffer that another object owns. The owner's comment says how long it is valid.
package typealias Bytes = UnsafeBufferPointer<UInt8>

extension UnsafeBufferPointer where Element == UInt8 {
    /// The bytes of `range`.
    @inline(__always)
    package subscript(run range: Range<Int>) -> Bytes {
        Bytes(start: baseAddress.unsafelyUnwrapped + range.lowerBound, count: range.count)
    }

    /// Equality without regard to ASCII case. `lowered` is already lower case.
    @inline(__always)
    package func equals(lowered: StaticString) -> Bool {
        guard count == lowered.utf8CodeUnitCount else { return false }
        let other = lowered.utf8Start
        for index in 0..<count where ByteClass.lower(self[index]) != other[index] { return false }
        return true
    }

    /// Equality without regard to ASCII case.
    package func equalsIgnoringCase(_ other: Bytes) -> Bool {
        guard count == other.count else { return false }
        for index in 0..<count where ByteClass.lower(self[index]) != ByteClass.lower(other[index]) { return false }
        return true
    }

    /// Equality without regard to ASCII case when each byte that is no letter or digit is read as `-`
    /// (http-rules.md 10.4).
    func resembles(_ other: Bytes) -> Bool {
        guard count == other.count else { return false }
        for index in 0..<count where ByteClass.canonical(self[index]) != ByteClass.canonical(other[index]) {
            return false
        }
        return true
    }

    /// Begins with these letters, without regard to ASCII case.
    package func hasPrefix(lowered: StaticString) -> Bool {
        guard count >= lowered.utf8CodeUnitCount else { return false }
        return self[run: 0..<lowered.utf8CodeUnitCount].equals(lowered: lowered)
    }

    /// The place of the first byte from `start` on that is none of `ByteClass.isPlainName`, or `count`.
    @inline(__always)
    func endOfPlainName(from start: Int) -> Int {
        guard let base = baseAddress else { return start }
        var index = start
        while index &+ 8 <= count {
            let word = UnsafeRawPointer(base).loadUnaligned(fromByteOffset: index, as: UInt64.self)
            let others = Self.notPlainName(in: UInt64(littleEndian: word))
            guard others == 0 else { return index &+ others.trailingZeroBitCount >> 3 }
            index &+= 8
        }
        while index < count, ByteClass.isPlainName(base[index]) { index &+= 1 }
        return index
    }

    /// Marks bytes that are no letter, digit or `-` by their highest bit. A sum stays within its byte: seven bits are added to seven.
    @inline(__always)
    private static func notPlainName(in word: UInt64) -> UInt64 {
        let (ones, highest) = (UInt64(0x0101_0101_0101_0101), UInt64(0x8080_8080_8080_8080))
        let ascii = word & ~highest
        let lower = ascii | ones &* 0x20
        // The highest bit is set where a byte is at least the first and below the second.
        let letters = (lower &+ ones &* (0x80 - 0x61)) ^ (lower &+ ones &* (0x80 - 0x7b))
        let digits = (ascii &+ ones &* (0x80 - 0x30)) ^ (ascii &+ ones &* (0x80 - 0x3a))
        let hyphens = ~((ascii ^ ones &* 0x2d) &+ ones &* 0x7f)
        return (~(letters | digits | hyphens) | word) & highest
    }

    /// The place of the first byte from `start` on that no field value may hold (`ByteClass.isValue`), or `count`.
    ///
    /// Most bytes of a head are values, so eight of them are looked at together.
    @inline(__always)
    func endOfValue(from start: Int) -> Int {
        var index = start
        while index + 8 <= count {
            let word = UnsafeRawPointer(baseAddress.unsafelyUnwrapped).loadUnaligned(
                fromByteOffset: index, as: UInt64.self)
            let controls = Self.controls(in: UInt64(littleEndian: word))
            if controls == 0 {
                index += 8
                continue
            }
            index += controls.trailingZeroBitCount >> 3
            guard self[index] == 0x09 else { return index }
            index += 1
        }
        while index < count, ByteClass.isValue(self[index]) { index += 1 }
        return index
    }

    /// Marks bytes below 0x20 and bytes 0x7f by their highest bit. A mark may be wrong only above a right one, because a subtraction
    /// borrows from the byte above.
    @inline(__always)
    private static func controls(in word: UInt64) -> UInt64 {
        let (ones, highest) = (UInt64(0x0101_0101_0101_0101), UInt64(0x8080_8080_8080_8080))
        let delete = word ^ (ones &* 0x7f)
        return ((word &- ones &* 0x20) & ~word | (delete &- ones) & ~delete) & highest
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

    /// The byte as a look-alike's reader has it: lower case, and `-` for each byte that is no letter or digit
    /// (http-rules.md 10.4).
    @inline(__always)
    static func canonical(_ byte: UInt8) -> UInt8 { isAlphanumeric(byte) ? lower(byte) : UInt8(ascii: "-") }

    /// SP and HTAB.
    @inline(__always)
    package static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}
