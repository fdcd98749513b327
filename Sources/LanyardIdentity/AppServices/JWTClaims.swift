import LanyardFoundations

/// The two instants of a JSON Web Token's payload, in seconds since 1970 by the issuer's clock (RFC 7519 §4.1).
///
/// The signature is not verified: only the service can verify it, and nothing here relies on it. Servers differ in all other claims, so
/// none is required.
package struct JWTClaims: Equatable, Sendable {
    /// `exp`.
    package var expiry: Int64?
    /// `iat`.
    package var issuedAt: Int64?

    /// nil if the token does not have three parts, the second of which decodes to a JSON object.
    package init?(of token: Secret) {
        let payload = token.withBytes { Self.payload($0) }
        guard let payload, let claims = payload.withBytes({ Self.read($0) }) else { return nil }
        self = claims
    }

    private init() {}

    /// The custom data that an access token of App Services carries (app-services.md 4.2), `{}` if there is none. It is in
    /// `user_data`, in a compatible server's token in `custom_data`.
    ///
    /// - Returns: nil if the token is not a JWT, or the data is not an object.
    static func customData(in token: Secret) -> Secret? {
        guard let payload = token.withBytes({ Self.payload($0) }) else { return nil }
        return payload.withBytes { readCustomData($0) }
    }

    private static func readCustomData(_ bytes: UnsafeRawBufferPointer) -> Secret? {
        var found: (data: Secret, isCustom: Bool)?
        do throws(JSONError) {
            var reader = JSONReader(bytes, depthMax: 128)
            guard try reader.next() == .objectStart else { return nil }
            while case .name(let name) = try reader.next() {
                let isCustom = JSONText.matches(name, of: bytes, "custom_data")
                guard isCustom || JSONText.matches(name, of: bytes, "user_data") else {
                    try reader.skipValue()
                    continue
                }
                var copy = JSONCopy(of: bytes)
                let first = try copy.appendValue(of: &reader)
                guard first != .null else { continue }
                guard first == .objectStart else { return nil }
                if found?.isCustom != true { found = (copy.seal(), isCustom) }
            }
        } catch {
            return nil
        }
        return found?.data ?? emptyObject()
    }

    private static func emptyObject() -> Secret {
        var text = SecretBuffer()
        text.append("{}")
        return text.seal()
    }

    /// The decoded middle part.
    private static func payload(_ token: UnsafeRawBufferPointer) -> Secret? {
        let parts = token.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[0].isEmpty, !parts[2].isEmpty else { return nil }
        return Base64.decode(parts[1])
    }

    private static func read(_ bytes: UnsafeRawBufferPointer) -> JWTClaims? {
        do {
            var reader = JSONReader(bytes, depthMax: 64)
            var claims = JWTClaims()
            guard try reader.next() == .objectStart else { return nil }
            while case .name(let name) = try reader.next() {
                let isExpiry = JSONText.matches(name, of: bytes, "exp")
                guard isExpiry || JSONText.matches(name, of: bytes, "iat") else {
                    try reader.skipValue()
                    continue
                }
                guard case .number(let range) = try reader.next() else { return nil }
                if isExpiry {
                    claims.expiry = JSONNumber.integer(bytes[range])
                } else {
                    claims.issuedAt = JSONNumber.integer(bytes[range])
                }
            }
            _ = try reader.next()
            return claims
        } catch {
            return nil
        }
    }
}

/// Base64 in both alphabets, padding optional (RFC 4648 §4, §5): existing tokens use either.
enum Base64 {
    /// The decoded bytes in wiped memory; nil for other characters, a single last character, or empty input.
    static func decode(_ text: Slice<UnsafeRawBufferPointer>) -> Secret? {
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
