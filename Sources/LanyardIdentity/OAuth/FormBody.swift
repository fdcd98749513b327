import LanyardFoundations

/// A body of `application/x-www-form-urlencoded` (RFC 6749 appendix B), in wiped memory.
struct FormBody: ~Copyable {
    static let contentType = "Content-Type: application/x-www-form-urlencoded"

    private var buffer = SecretBuffer(capacity: 512)
    /// The secret values so far. No error may show one of them.
    private(set) var secrets: [Secret] = []

    /// Adds a field with a value that is not secret.
    mutating func append(_ name: String, _ value: String) {
        begin(name)
        Self.encode(value, into: &buffer)
    }

    /// Adds a field with a secret value.
    mutating func append(_ name: String, _ value: Secret) {
        begin(name)
        secrets.append(value)
        value.withBytes { Self.encode($0, into: &buffer) }
    }

    /// The body.
    consuming func seal() -> Secret { buffer.seal() }

    private mutating func begin(_ name: String) {
        if buffer.count > 0 { buffer.append(UInt8(ascii: "&")) }
        Self.encode(name, into: &buffer)
        buffer.append(UInt8(ascii: "="))
    }

    /// Writes text in the encoding of form fields.
    static func encode(_ text: String, into buffer: inout SecretBuffer) {
        for byte in text.utf8 { encode(byte, into: &buffer) }
    }

    /// Writes bytes in the encoding of form fields.
    static func encode(_ bytes: UnsafeRawBufferPointer, into buffer: inout SecretBuffer) {
        for byte in bytes { encode(byte, into: &buffer) }
    }

    private static func encode(_ byte: UInt8, into buffer: inout SecretBuffer) {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "*"):
            buffer.append(byte)
        case 0x20: buffer.append(UInt8(ascii: "+"))
        default:
            buffer.append(UInt8(ascii: "%"))
            for digit in [byte >> 4, byte & 15] { buffer.append(digit < 10 ? 0x30 + digit : 0x37 + digit) }
        }
    }
}
