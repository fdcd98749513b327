/// Base64 in both alphabets, padding optional (RFC 4648 §4, §5): existing tokens use either.
package enum Base64 {
    /// The decoded bytes in wiped memory; nil for other characters, a single last character, or empty input.
    package static func decode(_ text: Slice<UnsafeRawBufferPointer>) -> Secret? {
        var digits = text
        while digits.last == UInt8(ascii: "="), text.count - digits.count < 2 { digits.removeLast() }
        guard !digits.isEmpty, digits.count % 4 != 1 else { return nil }
        var buffer = SecretBuffer(capacity: digits.count / 4 * 3 + 3)
        var bits: UInt32 = 0
        var held: UInt32 = 0
        for byte in digits {
            guard let value = value(of: byte) else { return nil }
            bits = bits << 6 | value
            held += 6
            if held >= 8 {
                held -= 8
                buffer.append(UInt8(truncatingIfNeeded: bits >> held))
            }
        }
        return buffer.seal()
    }

    /// Of either alphabet.
    package static func isDigit(_ byte: UInt8) -> Bool { value(of: byte) != nil }

    /// The decoded bytes of digits that may be cut: a last one that stands for no whole byte is left out. nil: there is no whole byte.
    package static func decoded(_ digits: Slice<UnsafeRawBufferPointer>) -> Secret? {
        decode(digits.count % 4 == 1 ? digits.dropLast() : digits)
    }

    private static func value(of byte: UInt8) -> UInt32? {
        switch byte {
        case 0x41...0x5a: UInt32(byte) - 0x41
        case 0x61...0x7a: UInt32(byte) - 0x61 + 26
        case 0x30...0x39: UInt32(byte) - 0x30 + 52
        case UInt8(ascii: "-"), UInt8(ascii: "+"): 62
        case UInt8(ascii: "_"), UInt8(ascii: "/"): 63
        default: nil
        }
    }
}

extension Base64 {
    /// Text of bytes that are not secret, in the alphabet for URLs.
    package static func urlText(_ bytes: UnsafeRawBufferPointer) -> String {
        var buffer = SecretBuffer(capacity: bytes.count * 4 / 3 + 4)
        encodeURL(bytes, into: &buffer)
        return buffer.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    /// Appends the digits of the alphabet for URLs, without padding (RFC 7515 §2).
    package static func encodeURL(_ bytes: UnsafeRawBufferPointer, into buffer: inout SecretBuffer) {
        encode(bytes, alphabet, into: &buffer)
    }

    /// Appends the digits of RFC 4648 §4, with padding, as Basic authentication has them (RFC 7617 §2).
    package static func encode(_ bytes: UnsafeRawBufferPointer, into buffer: inout SecretBuffer) {
        encode(bytes, basicAlphabet, into: &buffer)
        for _ in 0..<(3 - bytes.count % 3) % 3 { buffer.append(UInt8(ascii: "=")) }
    }

    private static let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    private static let alphabet = Array((letters + "-_").utf8)
    private static let basicAlphabet = Array((letters + "+/").utf8)

    private static func encode(_ bytes: UnsafeRawBufferPointer, _ digits: [UInt8], into buffer: inout SecretBuffer) {
        var (bits, held): (UInt32, UInt32) = (0, 0)
        for byte in bytes {
            (bits, held) = (bits << 8 | UInt32(byte), held + 8)
            while held >= 6 {
                held -= 6
                buffer.append(digits[Int(bits >> held & 63)])
            }
        }
        if held > 0 { buffer.append(digits[Int(bits << (6 - held) & 63)]) }
    }
}
